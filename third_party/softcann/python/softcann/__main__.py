"""python -m softcann env | options | path | smi | atc | bench"""
import argparse
import importlib
import shlex
import sys

import softcann
from softcann import smi


def print_environment():
    for name, value in softcann.environment().items():
        print(f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}")


def print_options():
    for name, default, text in softcann.options():
        print(f"{name} (default: {default or 'empty'})\n    {text}")


# Commands with a command line of their own, imported when they are called.
OWN = {
    "atc": ("softcann.atc.cli", "converts an ONNX model to an .om; `atc --help`"),
    "bench": ("softcann.bench", "runs an .om and says how long it takes; `bench --help`"),
}


def main():
    if sys.argv[1:2] and sys.argv[1] in OWN:
        return importlib.import_module(OWN[sys.argv[1]][0]).main(sys.argv[2:])
    commands = {
        "env": (print_environment, 'shell lines that point a process to softcann: eval "$(python -m softcann env)"'),
        "options": (print_options, "the environment variables softcann reads"),
        "path": (lambda: print(softcann.library_path()), "the folder of its libraries"),
        "smi": (smi.main, "npu-smi: the devices, their load, and the processes that use them; `smi -h`"),
    }
    if sys.argv[1:2] == ["smi"]:
        return smi.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m softcann", description="A software CANN for the CPU.")
    choices = parser.add_subparsers(dest="command", required=True)
    for name, (_, text) in commands.items():
        choices.add_parser(name, help=text)
    for name, (_, text) in OWN.items():
        choices.add_parser(name, help=text)
    try:
        commands[parser.parse_args().command][0]()
    except FileNotFoundError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    sys.exit(main())
