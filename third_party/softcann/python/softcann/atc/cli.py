"""The command `atc`: what it prints and returns is what scripts look for."""

import json
import os
import sys
import time

from .errors import AtcError
from .options import UsageError, parse, usage

START = "ATC start working now, please wait for a moment."
DONE = "ATC run success, welcome to the next use."
FAILED = "ATC run failed, Please check the detail log, Try 'atc --help' for more information"
LEVELS = ("debug", "info", "warning", "error", "null")
VERSION = "softcann"


class Log:
    """Lines on stderr from a level on; `null` writes none."""

    def __init__(self, level="null"):
        self.level = LEVELS.index(level)

    def write(self, level, text):
        if LEVELS.index(level) >= self.level and self.level < LEVELS.index("null"):
            print(f"[{level.upper()}] ATC({os.getpid()}): {text}", file=sys.stderr)

    def info(self, text):
        self.write("info", text)

    def warning(self, text):
        self.write("warning", text)


def progress(done, total):
    """A line that is written over on a terminal."""
    if sys.stderr.isatty() and (done % 16 == 0 or done + 1 == total):
        end = "\n" if done + 1 == total else ""
        print(f"\r  compiling operator {done + 1} of {total}", end=end, file=sys.stderr, flush=True)


def main(words=None):
    """Runs one command line; 0 on success."""
    words = sys.argv[1:] if words is None else words
    if "--help" in words or "-h" in words:
        print(usage())
        return 0
    print(START, flush=True)
    try:
        run(parse(words), words)
    except UsageError as error:
        print(error, file=sys.stderr)
        print("...\n" + FAILED)
        return 1
    except AtcError as error:
        print("...\n" + FAILED + "\n" + error.block() + "\n")
        return 1
    except ImportError as error:
        if error.name not in ("onnx", "google", "google.protobuf", "numpy"):
            raise
        print("...\n" + FAILED)
        print(
            AtcError("E40000", f"the Python package {error.name} is not installed", solution="pip install onnx").block()
            + "\n"
        )
        return 1
    except (MemoryError, RecursionError, OSError) as error:
        print("...\n" + FAILED + "\n" + AtcError("E19999", f"Inner Error! {type(error).__name__}: {error}").block() + "\n")
        return 1
    print("...\n" + DONE)
    return 0


def run(given, words):
    from . import job

    if not given:
        raise AtcError("E10007", "--framework is required; 5 is ONNX", solution="See atc --help.")
    log = Log(given["log"] if given.get("log") in LEVELS else "null")
    job.check_options(given, log)
    mode = job.value(given, "mode")
    modes = {"0": build, "1": print_json, "3": check, "6": print_info}
    if mode not in modes:
        raise AtcError(
            "E10055",
            f"--mode={mode} is not served",
            solution="Use 0 to convert, 1 for json, 3 to check, 6 for what an .om holds.",
        )
    modes[mode](given, log, words)


def build(given, log, words):
    from . import job

    if given.get("singleop"):
        from . import singleop

        return singleop.build(given, log, command_line(words))
    job.check_build(given)
    if not given.get("output"):
        raise AtcError("E10054", "--output is required", solution="Give the path and name of the .om, without the suffix.")
    return convert(given, log, command_line(words), given["output"])


def convert(given, log, command, output, single_op=None):
    """Compiles and writes one .om; its path. Names in a damaged model may be no text: found where they are read."""
    try:
        return compile_and_write(given, log, command, output, single_op or {})
    except UnicodeDecodeError as error:
        raise AtcError("E13005", f"{given['model']} is damaged: a name in it is no UTF-8", solution="Export it again.") from error


def compile_and_write(given, log, command, output, single_op):
    from . import job

    start = time.monotonic()
    program = job.Job(given, log, progress).compile()
    program.single_op = single_op
    path = write(program, given, log, command, output)
    log.info(f"{path}: compiled in {time.monotonic() - start:.1f} s")
    return path


def write(program, given, log, command, output):
    """The .om of a program; its path."""
    from . import container, job

    path = output if output.endswith(".om") else output + ".om"
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    program.name = os.path.basename(path)[:-3]
    program.attrs.update({"atc_version": VERSION, "atc_cmdline": command})
    sizes = container.write(program, path, given["soc_version"])
    log.info(f"{path}: {sum(len(graph.ops) for graph in program.graphs)} operators, {sizes['file_size']} bytes")
    if job.value(given, "display_model_info") == "1":
        print_block(program.attrs, sizes)
    return path


def command_line(words):
    return "atc " + " ".join(words)


def print_block(attrs, sizes):
    """The block of --display_model_info and --mode=6."""
    print("============ Display Model Info start ============")
    print(f"Original Atc command line: {attrs.get('atc_cmdline', '')}")
    print(
        f"system   info: atc_version[{attrs.get('atc_version', '')}], soc_version[{attrs.get('soc_version', '')}], "
        f"framework_type[{attrs.get('framework_type', '')}]."
    )
    print(
        f"resource info: memory_size[{attrs.get('memory_size', 0)} B], weight_size[{attrs.get('weight_size', 0)} B], "
        f"stream_num[{attrs.get('stream_num', 1)}], event_num[{attrs.get('event_num', 0)}]."
    )
    print(
        f"om       info: modeldef_size[{sizes['modeldef_size']} B], weight_data_size[{sizes['weight_data_size']} B], "
        "tbe_kernels_size[0 B], cust_aicpu_kernel_store_size[0 B], task_info_size[0 B], so_store_size[0 B]."
    )
    print("============ Display Model Info end   ============")


def print_json(given, log, words):
    from . import job, to_json

    source = given.get("om") or given.get("model")
    if not source:
        raise AtcError("E10054", "--om is required with --mode=1", solution="Give the .om or the ONNX model.")
    if not given.get("json"):
        raise AtcError("E10054", "--json is required with --mode=1", solution="Give the file to write.")
    if source.endswith(".onnx"):
        content = to_json.of_program(job.Job({**given, "model": source}, log).compile())
    else:
        content = to_json.of_file(source)
    to_json.write(content, given["json"])


def print_info(given, log, words):
    from . import container
    from .ge_ir import get_attr

    if not given.get("om"):
        raise AtcError("E10054", "--om is required with --mode=6", solution="Give the .om.")
    _, model, weights = container.read_parts(given["om"])
    print_block(
        {name: get_attr(model.attr, name) for name in model.attr},
        {"modeldef_size": model.ByteSize(), "weight_data_size": len(weights)},
    )


def check(given, log, words):
    """Mode 3: every operator is tried, and what is not served is written into the report."""
    from . import job, lower, onnx_file

    job.check_build(given)
    model = onnx_file.read(given["model"])
    unknown = list(onnx_file.unregistered(model))
    if not unknown:
        onnx_file.check(model, given["model"])
    report = []
    local = {(function.domain, function.name) for function in model.functions}
    for node in model.graph.node:
        served = node not in unknown and (lower.of(node) or (node.domain, node.op_type) in local or has_body(node, model))
        cause = [] if served else [{"code": 1, "message": f"operator type {node.op_type} is not served"}]
        report.append({"name": node.name, "type": node.op_type, "result": "failed" if cause else "success", "cause": cause})
    failed = [entry for entry in report if entry["result"] == "failed"]
    content = {
        "name": model.graph.name,
        "result": "failed" if failed else "success",
        "total": len(report),
        "pass": len(report) - len(failed),
        "fail": len(failed),
        "op": report,
    }
    with open(job.value(given, "check_report"), "w") as file:
        json.dump(content, file, indent=2)
    if failed:
        raise AtcError(
            "E19010",
            f"no parser is registered for operator {failed[0]['name']} of type {failed[0]['type']}",
            solution=f"See {job.value(given, 'check_report')} for all of them.",
        )


def has_body(node, model):
    import onnx

    opset = next(
        (entry.version for entry in model.opset_import if entry.domain in (node.domain, "ai.onnx" if not node.domain else "")), 1
    )
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return False
    return schema.has_function or schema.has_context_dependent_function
