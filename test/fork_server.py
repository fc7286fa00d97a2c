"""A process that has imported torch, and forks for each program that a test runs in a process of its own.

The import takes longer than most of these programs. A child differs from `python -c` in that torch was imported before its own
environment was set; run_python starts a new interpreter where that could matter.
"""
import builtins
import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading


class ForkServer:
    """Client side, for one thread at a time (`idle`)."""

    def __init__(self):
        self.environment = self.process = None
        self.idle = threading.Lock()

    def start(self, environment):
        """Anew where the environment is another one: torch may have read it at its import."""
        if environment == self.environment:
            return
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
        self.environment = environment
        self.process = subprocess.Popen([sys.executable, __file__], env={**environment, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, code, environment, timeout):
        """subprocess.run for a program's text."""
        with tempfile.TemporaryDirectory() as folder:
            out, err = (os.path.join(folder, name) for name in ("out", "err"))
            self.process.stdin.write(json.dumps([code, environment, os.getcwd(), out, err, timeout]) + "\n")
            self.process.stdin.flush()
            status = json.loads(self.process.stdout.readline())
            written = []
            for path in (out, err):
                with open(path, errors="surrogateescape") as file:
                    written.append(file.read())
        if status is None:
            raise subprocess.TimeoutExpired(code, timeout, *written)
        return subprocess.CompletedProcess(code, status, *written)


# What is read by libraries of ours, which a forked process loads after it has its environment; and what tells of the test.
OURS = ("SOFTCANN_", "TORCH_NPU_", "ASCEND_", "HCCL_", "PYTORCH_NPU_", "PYTEST_")
SERVER = ForkServer()


def run_python(code, timeout=1200, fresh=False, **environment):
    """Runs Python code in a process of its own; the completed process, with text output.

    None as a value removes the variable. What breaks a process (a failed stream, a fork, an import) is tested so. `fresh` says that
    nothing may have been imported before; else torch has been, where all variables that are given are ours.
    """
    env = dict(os.environ)
    for name, value in environment.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = str(value)
    if not fresh and all(name.startswith(OURS) for name in environment) and SERVER.idle.acquire(blocking=False):
        try:
            SERVER.start({name: value for name, value in os.environ.items() if not name.startswith(OURS)})
            return SERVER.run(code, env, timeout)
        finally:
            SERVER.idle.release()
    return subprocess.run(
        [sys.executable, "-c", code], env=env, timeout=timeout, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def serve():
    """Returns in each child, with what it is to run."""
    for line in sys.stdin:
        code, environment, folder, out, err, timeout = json.loads(line)
        child = os.fork()
        if child == 0:
            become(environment, folder, out, err)
            return code
        descriptor = os.pidfd_open(child)
        ended = select.select([descriptor], [], [], timeout)[0]
        os.close(descriptor)
        if not ended:
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps(status if ended else None), flush=True)
    return None


def become(environment, folder, out, err):
    """This process gets the program's environment, folder and streams."""
    os.chdir(folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), os.open(out, flags), os.open(err, flags))):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = open(0, closefd=False)
    sys.argv, sys.path[0] = ["-c"], ""
    if torch._is_device_backend_autoload_enabled():
        torch.__spec__._initializing = True   # backends are loaded at the end of torch's import, and see that by this
        torch._import_device_backends()
        torch.__spec__._initializing = False


def main():
    program = serve()
    if program is None:
        return
    # With the rest of this file's names goes what multiprocessing would import the main module by.
    names, fresh = vars(sys.modules["__main__"]), {"__name__": "__main__", "__builtins__": builtins}
    names.clear()
    names.update(fresh)
    exec(compile(program, "<string>", "exec"), names)


if __name__ == "__main__":
    import torch

    gc.freeze()   # children need not walk through torch's objects, nor copy them
    main()
