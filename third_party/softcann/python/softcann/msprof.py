"""msprof on softcann: runs a program with the runtime's collector on, and makes Ascend's tables of what it recorded.

    msprof [--output=DIR] --application="python train.py"      or      msprof [--output=DIR] python train.py
    msprof --export=on --output=DIR                            makes the tables again; --type=db a database
    msprof --analyze=on --output=DIR                           times and links of collectives
    msprof --dynamic=on [--output=DIR] (--pid=PID | python train.py)   start, stop or quit on the standard input

Where the driver of real NPUs is loaded, the toolkit's own msprof is run instead.
"""
import argparse
import os
import shlex
import subprocess
import sys
import time
from typing import Dict, List, NoReturn, Optional, Sequence, Tuple

from . import environment
from ._msprof_communication import RULES, analyze
from ._msprof_database import export_database
from ._msprof_dynamic import Interaction, descendants
from ._msprof_export import export
from ._msprof_tables import TABLES, NoProfile
from ._real import hand_over

__all__ = [
    "SWITCHES", "WITHOUT_EFFECT", "command", "main", "make_analysis", "make_tables", "parse", "profiles_below", "record",
    "run", "wanted_tables",
]

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
    "model-id", "reports", "optype", "npu-events", "task-block", "sys-mem-serviceflow")

# Seconds. The published profiler looks for a table every 0.1 s while this program runs, and takes the export for failed where it
# ends before that look. CANN's own takes seconds.
_POLLED = 0.3


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
    parser.add_argument("--analyze", choices=switch, help="on: times and links of the collectives recorded below --output")
    parser.add_argument("--rule", default=",".join(RULES), help=f"what --analyze makes: {', '.join(RULES)}")
    parser.add_argument("--dynamic", choices=switch, default="off",
                        help="on: start, stop and quit are read from the standard input")
    parser.add_argument("--pid", help="processes to attach to, by commas; they run with PROFILING_MODE=dynamic")
    parser.add_argument("--delay", type=int, help="seconds from a process's first device to the begin of its profile")
    parser.add_argument("--duration", type=int, help="seconds that is recorded")
    parser.add_argument("--clear", choices=switch, default="off", help="on: remove the collector's own files afterwards")
    parser.add_argument("--type", choices=("text", "db"), default="text", help="text: CSV and JSON; db: SQLite")
    parser.add_argument("--summary-format", choices=("csv", "json"), default="csv", help="of the tables")
    for name, default in SWITCHES.items():
        values = ("on", "off", "l0", "l1", "l2") if name == "task-time" else switch
        parser.add_argument(f"--{name}", choices=values, default=default, help=f"{', '.join(values)}; {default}")
    parser.add_argument("--mstx-domain-include", default="", help="domains of mstx marks, by commas: no others")
    parser.add_argument("--mstx-domain-exclude", default="", help="domains of mstx marks, by commas: all others")
    for name in WITHOUT_EFFECT:
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def parse(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(arguments)
    ignored = [name for name in WITHOUT_EFFECT if getattr(options, name.replace("-", "_")) not in (None, "off")]
    if ignored:
        print(f"[WARNING] no effect on softcann, which has no hardware counters: {', '.join('--' + name for name in ignored)}",
              file=sys.stderr)
    try:
        options.command = shlex.split(options.application) if options.application else options.program
    except ValueError as error:
        parser.error(f"Argument --application: {options.application}: {error}")
    if options.command and options.command[0] == "--":
        options.command = options.command[1:]
    _check(options, parser)
    return options


def _check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Ends with an error where options contradict each other."""
    options.rules = options.rule.split(",")
    if not set(options.rules) <= set(RULES):
        parser.error(f"Argument --rule: invalid value {options.rule!r}, expected {', '.join(RULES)}")
    for name in ("delay", "duration"):
        value = getattr(options, name)
        if value is not None and not 0 < value < 1 << 31:
            parser.error(f"Argument --{name}: invalid value {value}, expected seconds from 1 on")
        if value is not None and (options.dynamic == "on" or not options.command):
            parser.error(f"Argument --{name}: it is for a program that is started, and not for --dynamic=on")
    if options.mstx_domain_include and options.mstx_domain_exclude:
        parser.error("Argument --mstx-domain-exclude: not together with --mstx-domain-include")
    options.pids = []
    if options.pid is not None:
        if options.dynamic != "on" or options.command:
            parser.error("Argument --pid: it is for --dynamic=on, without a program")
        if not all(word.isdecimal() for word in options.pid.split(",")):
            parser.error(f"Argument --pid: invalid value {options.pid!r}, expected numbers of processes, by commas")
        options.pids = [int(word) for word in options.pid.split(",")]
    if not options.command and not options.pids and "on" not in (options.export, options.parse, options.query, options.analyze):
        parser.error("a program, or --export=on, --parse=on, --query=on or --analyze=on with --output, is expected")


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


def _environment(options: argparse.Namespace, output: str) -> Dict[str, str]:
    """Of the program, so that it records as the options say."""
    env = dict(os.environ)
    for name, value in environment().items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    env.update(pair.split("=", 1) for pair in options.environment.split(";") if "=" in pair)
    if options.dynamic == "on":
        env["PROFILING_MODE"] = "dynamic"
        return env
    env["SOFTCANN_PROF"] = os.path.abspath(output)
    for name, value in (("SOFTCANN_PROF_DELAY", options.delay), ("SOFTCANN_PROF_DURATION", options.duration)):
        if value is not None:
            env[name] = str(value)
    return env


def record(options: argparse.Namespace, output: str) -> Tuple[int, List[str]]:
    """Runs the program, or attaches to those that run; the program's status, and the folders of what was recorded."""
    before = set(profiles_below(output))
    print("[INFO] Start profiling....", flush=True)
    status = 0
    if options.pids:
        Interaction(lambda: options.pids, os.path.abspath(output)).run()
    else:
        dynamic = options.dynamic == "on"
        try:
            # The commands are msprof's, not the program's.
            program = subprocess.Popen(options.command, env=_environment(options, output),
                                       stdin=subprocess.DEVNULL if dynamic else None)
        except OSError as error:
            _fail(f"{options.command[0]}: {error.strerror}")
        if dynamic:
            Interaction(lambda: descendants(program.pid), os.path.abspath(output)).run(program)
        status = program.wait()
    return status, [folder for folder in profiles_below(output) if folder not in before]


def make_tables(folders: Sequence[str], options: argparse.Namespace) -> None:
    for folder in folders:
        print(f"[INFO] Start export data in {os.path.basename(folder)}.")
        try:
            if options.type == "db":
                export_database(folder)
            else:
                include, exclude = ([name for name in text.split(",") if name]
                                    for text in (options.mstx_domain_include, options.mstx_domain_exclude))
                export(folder, wanted_tables(options), options.summary_format, include, exclude)
        except (NoProfile, OSError) as error:
            _fail(f"{folder}: {error}")
        if options.clear == "on":
            _clear(folder)
        print(f"[INFO] Export all data in {os.path.basename(folder)} done.")
    time.sleep(_POLLED)


def make_analysis(folders: Sequence[str], options: argparse.Namespace) -> None:
    for folder in folders:
        try:
            print(f"[INFO] Analysis of {os.path.basename(folder)} is in {analyze(folder, options.rules, options.type)}")
        except (NoProfile, OSError) as error:
            _fail(f"{folder}: {error}")


def _clear(folder: str) -> None:
    for base, _, names in os.walk(folder):
        for name in names:
            if name.startswith("softcann."):
                os.unlink(os.path.join(base, name))


def _nothing(options: argparse.Namespace, status: int) -> str:
    """Why there is no profile."""
    if options.dynamic == "on":
        return "nothing was recorded: no profile was started"
    program = options.command[0]
    if options.delay is not None:
        return f"nothing was recorded: {program} ended ({status}) within --delay={options.delay}, or used no device of softcann"
    return f"{program} used no device of softcann: nothing was recorded (it ended with {status})"


def run(options: argparse.Namespace) -> int:
    output, status = options.output or os.getcwd(), 0
    if options.command or options.pids:
        try:
            os.makedirs(output, exist_ok=True)
        except OSError as error:
            _fail(f"Argument --output: {output}: {error.strerror}")
        if not os.access(output, os.W_OK):
            _fail(f"Argument --output: {output} cannot be written")
        status, folders = record(options, output)
        if not folders:
            _fail(_nothing(options, status))
    else:
        folders = profiles_below(output)
        if not folders:
            _fail(f"Argument --output: there is no PROF_* in {output}")
    if options.query == "on":
        print("\n".join(folders))
    else:
        if options.command or options.pids or "on" in (options.export, options.parse):
            make_tables(folders, options)
        if options.analyze == "on":
            make_analysis(folders, options)
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
