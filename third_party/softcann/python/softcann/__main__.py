"""python -m softcann COMMAND; -h lists them."""
import importlib
import os
import shlex
import sys

import softcann


def print_environment():
    problem = softcann.torch_problem()
    if problem:
        sys.exit(f"softcann: {problem}")
    for name, value in softcann.environment().items():
        print(f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}")


def print_options():
    for name, default, text in softcann.options():
        print(f"{name} (default: {default or 'empty'})\n    {text}")


# Commands without arguments.
PLAIN = {
    "env": (print_environment, 'shell lines that point a process to softcann: eval "$(python -m softcann env)"'),
    "options": (print_options, "the environment variables softcann reads"),
    "path": (lambda: print(softcann.library_path()), "the folder of its libraries"),
}
# Commands with a command line of their own: the module whose main(arguments) serves them, imported when they are called.
MODULES = {
    "aipp": ("softcann.atc.aipp_config", "prints an AIPP config from a mean and a standard deviation"),
    "atc": ("softcann.atc.cli", "converts an ONNX model to an .om"),
    "bench": ("softcann.bench", "runs an .om and says how long it takes"),
    "bundle": ("softcann.atc.bundle", "several .om files in one, for aclmdlBundle*"),
    "msprof": ("softcann.msprof", "profiles a program, and makes Ascend's tables of it"),
    "quantize": ("softcann.quantize", "an int8 ONNX model from a float one and examples"),
    "sdk": ("softcann.sdk", "headers and libraries in the places of an installation of CANN, to build programs with"),
    "replay": ("softcann.replay", "does again what SOFTCANN_RECORD recorded, and compares the results"),
    "smi": ("softcann.smi", "npu-smi: the devices, their load, and the processes that use them"),
    "trace": ("softcann.trace", "what SOFTCANN_TRACE wrote: counts of calls, or the differences of two files"),
    "validate": ("softcann.validate", "compares an .om with the ONNX model it came from"),
}


def usage():
    rows = [(name, text) for name, (_, text) in {**PLAIN, **MODULES}.items()]
    return "\n".join(["usage: python -m softcann COMMAND ...", "", "A software CANN for the CPU.", "",
                      *(f"  {name:10}{text}" for name, text in sorted(rows))])


def main():
    name, arguments = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if name in ("-h", "--help"):
        print(usage())
        return 0
    if name not in PLAIN and name not in MODULES or name in PLAIN and arguments:
        print(usage(), file=sys.stderr)
        return 2
    try:
        status = importlib.import_module(MODULES[name][0]).main(arguments) if name in MODULES else PLAIN[name][0]()
        sys.stdout.flush()
        problem = softcann.torch_problem() if status and name in MODULES else None
        if problem:
            print(f"softcann: {problem}", file=sys.stderr)
        return status
    except FileNotFoundError as error:
        return str(error)
    except ModuleNotFoundError as error:
        package = {"google": "protobuf", "numpy": "numpy", "onnx": "onnx"}.get((error.name or "").split(".")[0])
        if package is None:
            raise
        return f"softcann {name}: the Python package {package} is not installed: pip install onnx"   # which brings the other two
    except BrokenPipeError:   # who reads has enough, as head: nothing more is written, at the end of the process neither
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
