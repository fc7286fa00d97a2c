"""msprof on softcann: runs a program with the runtime's collector on, and makes Ascend's tables of what it recorded.

    msprof [--output=DIR] --application="python train.py"      or      msprof [--output=DIR] python train.py
    msprof --export=on --output=DIR                            makes the tables again

Where the driver of real NPUs is loaded, the toolkit's own msprof is run instead.
"""
import argparse
import os
import shlex
import subprocess
import sys
from typing import List, NoReturn, Optional, Sequence, Tuple

from . import environment
from ._msprof_tables import TABLES, NoProfile, export
from ._real import hand_over

# Options of Ascend's that choose among what is recorded; all take on or off.
SWITCHES = {
    "ascendcl": "on", "ai-core": "on", "runtime-api": "off", "task-time": "on", "aicpu": "off", "hccl": "off",
    "msproftx": "off", "ai-vector-core": "on", "task-memory": "on"}
# Of hardware's counters and the host's: taken, so that scripts run, and said to have no effect.
WITHOUT_EFFECT = (
    "aic-mode", "aic-metrics", "aiv-mode", "aiv-metrics", "aic-freq", "aiv-freq", "l2", "llc-profiling", "sys-devices",
    "sys-period", "sys-hardware-mem", "sys-hardware-mem-freq", "sys-cpu-profiling", "sys-cpu-freq", "sys-profiling",
    "sys-sampling-freq", "sys-pid-profiling", "sys-pid-sampling-freq", "sys-io-profiling", "sys-io-sampling-freq",
    "sys-interconnection-profiling", "sys-interconnection-freq", "dvpp-profiling", "dvpp-freq", "instr-profiling",
    "instr-profiling-freq", "host-sys", "host-sys-pid", "host-sys-usage", "host-sys-usage-freq", "ge-api", "storage-limit",
    "python-path", "model-execution", "task-trace", "task-tsfw", "aicore-shape", "sys-lp", "sys-lp-freq", "iteration-id",
    "model-id", "reports", "optype", "npu-events", "task-block", "sys-mem-serviceflow", "mstx-domain-include",
    "mstx-domain-exclude")
REFUSED = {
    "dynamic": "attaching to a running program; use torch_npu.profiler.dynamic_profile, or aclprofStart in the program",
    "pid": "attaching to a running program", "delay": "a delayed start", "duration": "a limited duration",
    "analyze": "--analyze; give the folder to msprof-analyze"}


def _fail(text: str) -> NoReturn:
    print(f"[ERROR] {text}", file=sys.stderr)
    sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="msprof", allow_abbrev=False,
                                     usage="msprof [--option=value ...] (--application=\"PROGRAM ...\" | PROGRAM ...)",
                                     description="Profiles a program on softcann, the software CANN.")
    switch = ("on", "off")
    parser.add_argument("--output", help="folder for PROF_*; by default the current one")
    parser.add_argument("--application", help="the program with its arguments, in one word")
    parser.add_argument("--environment", default="", help="variables for the program: KEY=VALUE;KEY2=VALUE")
    parser.add_argument("--export", choices=switch, help="on: make the tables of what is recorded below --output")
    parser.add_argument("--parse", choices=switch, help="the same")
    parser.add_argument("--query", choices=switch, help="on: list what is recorded below --output")
    parser.add_argument("--clear", choices=switch, default="off", help="on: remove the collector's own files afterwards")
    parser.add_argument("--type", choices=("text", "db"), default="text", help="text: CSV and JSON")
    parser.add_argument("--summary-format", choices=("csv", "json"), default="csv", help="of the tables")
    for name, default in SWITCHES.items():
        values = ("on", "off", "l0", "l1", "l2") if name == "task-time" else switch
        parser.add_argument(f"--{name}", choices=values, default=default, help=f"{', '.join(values)}; {default}")
    for name in (*WITHOUT_EFFECT, *REFUSED):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def parse(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(arguments)
    for name, what in REFUSED.items():
        if getattr(options, name.replace("-", "_")) not in (None, "off"):
            _fail(f"Argument --{name}: softcann does not serve {what}")
    if options.type == "db":
        _fail("Argument --type: softcann makes text (CSV and JSON), no db")
    ignored = [name for name in WITHOUT_EFFECT if getattr(options, name.replace("-", "_")) not in (None, "off")]
    if ignored:
        print(f"[WARNING] no effect on softcann, which has no hardware counters: {', '.join('--' + name for name in ignored)}",
              file=sys.stderr)
    options.command = shlex.split(options.application) if options.application else options.program
    if options.command and options.command[0] == "--":
        options.command = options.command[1:]
    if not options.command and "on" not in (options.export, options.parse, options.query):
        parser.error("a program, or --export=on, --parse=on or --query=on with --output, is expected")
    return options


def profiles_below(folder: str) -> List[str]:
    """The PROF_* folders in a folder, or the folder itself if it is one."""
    if os.path.basename(os.path.normpath(folder)).startswith("PROF_"):
        return [folder]
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(os.path.join(folder, name) for name in names if name.startswith("PROF_"))


def wanted_tables(options: argparse.Namespace) -> List[str]:
    switched = {"api_statistic": options.ascendcl, "op_summary": options.ai_core, "op_statistic": options.ai_core,
                "task_time": options.task_time, "communication_statistic": options.hccl, "msprof_tx": options.msproftx}
    return [name for name in TABLES if switched.get(name, "on") != "off"]


def record(options: argparse.Namespace, output: str) -> Tuple[int, List[str]]:
    """Runs the program; its status, and the folders that its processes left."""
    before = set(profiles_below(output))
    env = dict(os.environ)
    for name, value in environment().items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    env.update(pair.split("=", 1) for pair in options.environment.split(";") if "=" in pair)
    env["SOFTCANN_PROF"] = os.path.abspath(output)
    print("[INFO] Start profiling....", flush=True)
    try:
        status = subprocess.call(options.command, env=env)
    except OSError as error:
        _fail(f"{options.command[0]}: {error.strerror}")
    return status, [folder for folder in profiles_below(output) if folder not in before]


def make_tables(folders: Sequence[str], options: argparse.Namespace) -> None:
    for folder in folders:
        print(f"[INFO] Start export data in {os.path.basename(folder)}.")
        try:
            export(folder, wanted_tables(options), options.summary_format)
        except (NoProfile, OSError) as error:
            _fail(f"{folder}: {error}")
        if options.clear == "on":
            _clear(folder)
        print(f"[INFO] Export all data in {os.path.basename(folder)} done.")


def _clear(folder: str) -> None:
    for base, _, names in os.walk(folder):
        for name in names:
            if name.startswith("softcann."):
                os.unlink(os.path.join(base, name))


def run(options: argparse.Namespace) -> int:
    output, status = options.output or os.getcwd(), 0
    if options.command:
        try:
            os.makedirs(output, exist_ok=True)
        except OSError as error:
            _fail(f"Argument --output: {output}: {error.strerror}")
        if not os.access(output, os.W_OK):
            _fail(f"Argument --output: {output} cannot be written")
        status, folders = record(options, output)
        if not folders:
            _fail(f"{options.command[0]} used no device of softcann: nothing was recorded (it ended with {status})")
    else:
        folders = profiles_below(output)
        if not folders:
            _fail(f"Argument --output: there is no PROF_* in {output}")
    if options.query == "on":
        print("\n".join(folders))
    else:
        make_tables(folders, options)
        print(f"[INFO] Process profiling data complete. Data is saved in {output}")
    return status


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """`python -m softcann msprof`, which is always softcann's."""
    try:
        sys.exit(run(parse(arguments)))
    except KeyboardInterrupt:
        sys.exit(130)


def command() -> None:
    """`msprof`."""
    hand_over("msprof")
    main()
