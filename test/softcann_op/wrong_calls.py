"""Does calls of operators (call_cases.py) again with arguments that are wrong, and looks whether the process lives: `wrong_calls.py CASES...`.

One thing of a call is wrong at a time: a tensor is smaller or larger in a dimension, has one dimension more, none, or no elements, has
another dtype, is absent, holds indices that lead elsewhere; all tensors of one shape are smaller; a number is negative, 0 or huge; a list
has an element less or more. Such a call may be refused, may fail, or may compute something; the process may not die, stand still, or read
and write what is not of the tensors, which lie at the end of pages that pages without access follow, as what kernels allocate does
(guarded_heap.cpp). With a build under AddressSanitizer (TEST_LIBRARIES, and it in LD_PRELOAD), its heap is used instead, and what lies
before the tensors is guarded as well.

A process of its own does the calls, and is started anew behind one that ends it. Prints a line for each finding, and last the counts.
"""
import argparse
import collections
import ctypes
import fnmatch
import mmap
import os
import pathlib
import pickle
import re
import select
import signal
import subprocess
import sys
import tempfile
import traceback

if __name__ == "__main__":   # as call_cases.py
    os.environ.pop("SOFTCANN_RECORD", None)
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

from call_cases import _replay_calls  # it finds softcann, and loads torch
from guarded_heap import built_heap
from wrong_arguments import wrong

HANG = float(os.environ.get("WRONG_CALLS_HANG", "20"))   # s
MEMORY = 6 << 30   # bytes of a worker
ENOUGH = 6         # findings of an operator
PAGE = mmap.PAGESIZE
SLOTS, SLOT = 512, 1 << 23


class Guarded:
    """Memory for tensors: each at the end of pages that are followed by one without access."""

    def __init__(self):
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        self._begin = libc.mmap(None, ctypes.c_size_t(SLOTS * SLOT), 3, 0x4022, -1, ctypes.c_long(0))   # private, anonymous, not reserved
        for i in range(SLOTS):
            assert libc.mprotect(ctypes.c_void_p(self._begin + (i + 1) * SLOT - PAGE), ctypes.c_size_t(PAGE), 0) == 0
        self._poison, self._unpoison = (getattr(libc, f"__asan_{name}_memory_region", None) for name in ("poison", "unpoison"))
        self._mark(self._poison, self._begin, SLOTS * SLOT)
        self._used = []

    @staticmethod
    def _mark(function, begin, size):
        if function is not None:
            function(ctypes.c_void_p(begin), ctypes.c_size_t(size))

    def place(self, contents):
        """Its address. What does not end at a multiple of its widest element ends a few bytes before the page does."""
        begin = self._begin + (len(self._used) + 1) * SLOT - PAGE - len(contents)
        begin -= begin % (len(contents) & -len(contents) or 1) % 16
        self._mark(self._unpoison, begin, len(contents))
        ctypes.memmove(begin, contents, len(contents))
        self._used.append((begin, len(contents)))
        return begin

    def clear(self, but=0):
        for begin, size in self._used[but:]:
            self._mark(self._poison, begin - begin % 8, size + 16)
        del self._used[but:]


class Caller:
    """Calls with tensors in that memory."""

    def __init__(self):
        if "TEST_LIBRARIES" in os.environ:
            _replay_calls.library_path = lambda: os.environ["TEST_LIBRARIES"]
        self._guarded, self._failed = Guarded(), _replay_calls.CallFailed

        class Machine(_replay_calls.Machine):
            def address(self, place):
                return place

        self._machine, self._stream = Machine([]), ctypes.c_void_p()
        self._case, self._places = None, []
        self._guard_heap = getattr(ctypes.CDLL(None), "guarded_heap", lambda on: None)
        self._machine._use(0)
        self._acl, self._operators = self._machine._acl, self._machine._operators
        self._acl.aclrtCreateStream(ctypes.byref(self._stream))

    def _placed(self, value):
        if not isinstance(value, dict):
            return value
        if "tensors" in value:
            return {"tensors": [self._placed(one) for one in value["tensors"]]}
        if "shape" not in value:
            return value
        begin = self._guarded.place(value["contents"]) if "contents" in value else self._places[value["in"]] + value["at"]
        return {**value, "at": begin}

    def __call__(self, case, args):
        """taken, refused or failed."""
        if case is not self._case:
            self._guarded.clear()
            self._case, self._places = case, [self._guarded.place(contents) for contents in case["memory"]]
        self._guarded.clear(len(self._places))
        keep = []
        try:
            values = [self._machine._argument(self._placed(value), keep) for value in args.values()]
            self._guard_heap(1)
            return self._run(case["op"], values)
        except self._failed:
            return "refused"   # by aclCreateTensor
        finally:
            self._guard_heap(0)
            for destroy, handle in keep:
                if destroy is not None:
                    getattr(self._operators, destroy)(handle)

    def _run(self, op, values):
        size, executor, workspace = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
        if getattr(self._operators, f"{op}GetWorkspaceSize")(*values, ctypes.byref(size), ctypes.byref(executor)):
            return "refused"
        if size.value:
            self._acl.aclrtMalloc(ctypes.byref(workspace), size, 0)
        failed = getattr(self._operators, op)(workspace, size, executor, self._stream) or self._acl.aclrtSynchronizeStream(self._stream)
        if size.value:
            self._acl.aclrtFree(workspace)
        if failed and self._acl.aclrtSynchronizeStream(self._stream):   # it stays so
            self._acl.aclrtDestroyStreamForce(self._stream)
            self._machine._check("aclrtCreateStream", self._acl.aclrtCreateStream(ctypes.byref(self._stream)))
        return "failed" if failed else "taken"


def work(options, first_case, first_call, output):
    """Does all calls from one on. Tells before each where it is, and behind it what became of it."""
    caller = Caller()
    for number in range(first_case, options.count):
        case = pickle.loads(pathlib.Path(options.cases[0], str(number)).read_bytes())
        for index, (label, args) in enumerate([("as recorded", case["args"]), *wrong(case)]):
            if number == first_case and index < first_call:
                continue
            os.write(output, f"{number} {index} {label}\n".encode())
            os.write(output, f"= {caller(case, args)}\n".encode())


def serve(options):
    """For each line, of a case, a call and a file for messages: a process of its own for the calls from there on, and its end."""
    output = options.serve
    for line in sys.stdin:
        case, call, log = line.split()
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            status = 1
            try:
                work(options, int(case), int(call), output)
                status = 0
            except BaseException:
                traceback.print_exc()
            os._exit(status)
        os.write(output, f"pid {pid}\n".encode())
        os.write(output, f"end {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())


def chosen(options):
    """Cases of the files whose operators are meant, so many of each."""
    cases, seen = [case for path in options.cases for case in pickle.loads(pathlib.Path(path).read_bytes())], collections.Counter()
    meant = []
    for case in cases:
        seen[case["op"]] += 1
        if seen[case["op"]] <= options.samples and any(fnmatch.fnmatch(case["op"], one) for one in options.operators.split(",")):
            meant.append(case)
    return meant


class Workers:
    """A process that has loaded everything, and one at a time that it forks."""

    def __init__(self, options):
        self.output, into = os.pipe()
        self.log, self._rest, self.pid = os.path.join(options.folder, "log"), b"", 0
        env = {**os.environ, **({} if "LD_PRELOAD" in os.environ else {"LD_PRELOAD": options.heap}), "SOFTCANN_HOST_TENSORS": "1",
               "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        self._process = subprocess.Popen([sys.executable, __file__, options.folder, "--count", str(options.count), "--serve", str(into)],
                                         pass_fds=(into,), stdin=subprocess.PIPE, env=env, text=True)
        os.close(into)

    def start(self, case, call):
        self._process.stdin.write(f"{case} {call} {self.log}\n")
        self._process.stdin.flush()

    def line(self):
        """The next; "hangs" where the worker says nothing in time or takes too much memory, and it is ended."""
        waited = 0.0
        while b"\n" not in self._rest:
            if not select.select([self.output], [], [], 1)[0]:
                waited += 1
                if self.pid and (waited >= HANG or self._resident() > MEMORY):
                    os.kill(self.pid, signal.SIGKILL)
                    self.pid = 0
                    return "hangs"
                continue
            part = os.read(self.output, 1 << 16)
            if not part:
                raise RuntimeError("the workers' process has ended")
            self._rest += part
        line, self._rest = self._rest.split(b"\n", 1)
        if line.startswith(b"pid "):
            self.pid = int(line[4:])
        return line.decode()

    def _resident(self):
        try:
            return int(pathlib.Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE
        except (OSError, IndexError):
            return 0

    def end(self):
        self._process.stdin.close()
        self._process.wait()


def frames_of(text):
    """The functions nearest to the fault that the guarded heap told of, of ours or of torch."""
    names = []
    for library, symbol, offset in re.findall(r"(\S+/lib(?:opapi|ascendcl|torch_cpu|c10)\.so)\((\S*?)\+(0x\w+)\)", text):
        if len(names) == 3:
            break
        at = ["c++filt", symbol] if symbol else ["addr2line", "-Cfse", library, offset]
        name = subprocess.run(at, stdout=subprocess.PIPE, text=True).stdout.split("\n")[0]
        names.append(re.sub(r"<.*>|\(.*", "", name.replace("(anonymous namespace)::", "").replace("softcann::op::", "")))
    return " < ".join(names)


def reason(log, status):
    """What ended a worker: a sanitizer's first line and where in softcann, or its status."""
    text = pathlib.Path(log).read_text(errors="replace")
    told = re.search(r"ERROR: AddressSanitizer: [\w-]+|runtime error: .*|terminate called.*\n.*|guarded heap: .*|Traceback[\s\S]*", text)
    frames = re.findall(r"#\d+ 0x\w+ in .* \S*softcann/src/(\S+:\d+)", text[told.start():] if told else "")
    return f"{status}: {told[0][-300:] if told else ''} {' < '.join(frames[:3]) or frames_of(text)}".rstrip()


class Attack:
    """All calls, and what was found."""

    def __init__(self, options):
        self.names = []
        for number, case in enumerate(chosen(options)):
            pathlib.Path(options.folder, str(number)).write_bytes(pickle.dumps(case))   # of a file each: workers start often
            self.names.append(case["op"])
        options.count = len(self.names)
        self.counts, self.findings, self.strange, self._taken = collections.Counter(), collections.Counter(), [], options.taken
        self.workers = Workers(options)

    def run(self):
        case, call = 0, 0
        while case < len(self.names):
            self.workers.start(case, call)
            case, call, label, status = self._follow(case, call)
            if status == "end 0":
                break
            if status == "end 1":   # no fault of the operator's
                raise RuntimeError(pathlib.Path(self.workers.log).read_text(encoding="utf-8"))
            self.findings[self.names[case]] += 1
            print(f"{self.names[case]} #{case}.{call} {label}: {reason(self.workers.log, status)}", flush=True)
            call += 1
            if self.findings[self.names[case]] >= ENOUGH:
                case, call = next((i for i in range(case, len(self.names)) if self.findings[self.names[i]] < ENOUGH), len(self.names)), 0
        self.workers.end()

    def _follow(self, case, call):
        """Where a worker ends, and how."""
        label, hangs = None, False
        while True:
            line = self.workers.line()
            if line == "hangs":
                hangs = True
            elif line.startswith("end "):
                return case, call, label, "hangs" if hangs else line
            elif line.startswith("= "):
                self._note(case, label, line[2:])
                label = None
            elif not line.startswith("pid "):
                number, index, label = line.split(" ", 2)
                case, call = int(number), int(index)
                if call == 0 and sys.stderr.isatty() or os.environ.get("WRONG_CALLS_PROGRESS"):
                    print(f"\r{case} of {len(self.names)} {self.names[case]:60}", end="", file=sys.stderr, flush=True)

    def _note(self, case, label, outcome):
        self.counts[outcome] += 1
        if label == "as recorded" and outcome != "taken":
            self.strange.append(f"{self.names[case]} #{case} as recorded is {outcome}")
        if self._taken and outcome == "taken":
            print(f"taken: {self.names[case]} #{case} {label}")

    def told(self):
        print(*self.strange, sep="\n", end="\n" if self.strange else "")
        counts = self.counts
        print(f"{len(set(self.names))} operators, {sum(counts.values())} calls: {counts['taken']} taken, {counts['refused']} refused, "
              f"{counts['failed']} failed; {sum(self.findings.values())} findings")
        return bool(self.findings)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--operators", default="*", metavar="PATTERN,...")
    parser.add_argument("--samples", type=int, default=1000, help="calls of an operator")
    parser.add_argument("--taken", action="store_true", help="print each wrong call that is taken")
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options)
    with tempfile.TemporaryDirectory() as options.folder:
        options.heap = built_heap(options.folder)
        attack = Attack(options)
        attack.run()
        return attack.told()


if __name__ == "__main__":
    sys.exit(main())
