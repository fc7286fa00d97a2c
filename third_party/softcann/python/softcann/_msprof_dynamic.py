"""Starting and stopping profiles of programs that run: those that were started with PROFILING_MODE=dynamic."""
import os
import select
import socket
import subprocess
import sys
from typing import Callable, Dict, List, Optional

_PREFIX = "@softcann-profile-"
_PATIENCE = 10.0  # seconds; a process answers at once, unless another msprof is attached to it
_COMMANDS = "start, stop or quit"


class Refused(Exception):
    """What a process said, or why it could not be asked."""


class Session:
    """The way to one process. What it records ends with the session."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_PATIENCE)
        try:
            self._socket.connect("\0" + _PREFIX[1:] + str(pid))
        except OSError:
            self._socket.close()
            raise Refused(f"process {pid} cannot be attached to; it must run with PROFILING_MODE=dynamic in its environment and "
                          f"have opened a device of softcann {listening()}") from None

    def ask(self, line: str) -> None:
        """Sends a command; Refused where it was not done."""
        try:
            self._socket.sendall(line.encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                part = self._socket.recv(4096)
                if not part:
                    raise Refused(f"process {self.pid} has ended, or refuses this user")
                answer += part
        except socket.timeout:
            raise Refused(f"process {self.pid} does not answer; another msprof may be attached to it") from None
        except OSError as error:
            raise Refused(f"process {self.pid}: {error.strerror}") from None
        text = answer.decode(errors="replace").strip()
        if text != "ok":
            raise Refused(f"process {self.pid}: {text.partition('error: ')[2] or text}")

    def close(self) -> None:
        self._socket.close()


def listeners() -> List[int]:
    """Processes that can be attached to."""
    with open("/proc/net/unix", encoding="utf-8") as file:
        names = {line.split()[-1] for line in file}
    return sorted(int(name[len(_PREFIX):]) for name in names if name.startswith(_PREFIX) and name[len(_PREFIX):].isdigit())


def listening() -> str:
    found = listeners()
    return f"(those that can be: {', '.join(map(str, found))})" if found else "(no process can be)"


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def descendants(root: int) -> List[int]:
    """Of the processes that can be attached to, ``root`` and those that it or its children started."""
    found = []
    for pid in listeners():
        ancestor = pid
        while ancestor not in (root, 0):
            ancestor = _parent(ancestor)
        if ancestor == root:
            found.append(pid)
    return found


class Interaction:
    """Commands from the standard input for some processes. ``targets``: which they are now."""

    def __init__(self, targets: Callable[[], List[int]], folder: str) -> None:
        self._targets = targets
        self._folder = folder
        self._sessions: Dict[int, Session] = {}

    def _start(self) -> None:
        if self._sessions:
            raise Refused("a profile is being recorded already; stop comes first")
        pids = self._targets()
        if not pids:
            raise Refused("no process has opened a device of softcann yet")
        try:
            for pid in pids:
                self._sessions[pid] = Session(pid)
                self._sessions[pid].ask(f"start {self._folder}")
        except Refused:
            self.end()
            raise

    def _stop(self) -> None:
        if not self._sessions:
            raise Refused("no profile is being recorded; start comes first")
        sessions, self._sessions = self._sessions, {}
        errors = []
        for session in sessions.values():
            try:
                session.ask("stop")
            except Refused as error:
                errors.append(str(error))
            session.close()
        if errors:
            raise Refused("; ".join(errors))

    def end(self) -> None:
        """Processes stop where their session ends."""
        for session in self._sessions.values():
            try:
                session.ask("stop")
            except Refused:
                pass  # it had not started, or has ended
            session.close()
        self._sessions = {}

    def run(self, program: Optional["subprocess.Popen[bytes]"] = None) -> None:
        """Obeys the lines of the standard input until quit, its end, or the end of the program."""
        commands = {"start": self._start, "stop": self._stop}
        try:
            while True:
                sys.stdout.write("> ")
                sys.stdout.flush()
                line = _line(program)
                if line is None or line == "quit":
                    return
                if line not in commands:
                    if line:
                        print(f"[ERROR] {line!r}: expected {_COMMANDS}", flush=True)
                    continue
                try:
                    commands[line]()
                    print(f"[INFO] {line}: done", flush=True)
                except Refused as error:
                    print(f"[ERROR] {error}", flush=True)
        finally:
            self.end()


_pending = b""


def _line(program: Optional["subprocess.Popen[bytes]"]) -> Optional[str]:
    """The next line of the standard input; None where it or the program has ended."""
    global _pending
    while b"\n" not in _pending:
        if program is not None and program.poll() is not None:
            return None
        if select.select([0], [], [], 0.1)[0]:
            part = os.read(0, 4096)
            if not part:
                return None
            _pending += part
    line, _, _pending = _pending.partition(b"\n")
    return line.decode(errors="replace").strip()
