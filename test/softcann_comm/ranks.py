"""Runs functions in several processes, one a rank. A call is [module, function, arguments...], of a module of this folder:
`python ranks.py rank size folder calls`. Starting processes is what costs, so a test gives them all it has."""
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent
PATIENCE = 300   # seconds after which something hangs: much longer than it takes on a loaded machine


class Place:
    """Where a rank is, and how ranks exchange root infos: through files, as a client would through its store."""

    def __init__(self, rank, size, folder):
        self.rank, self.size, self.folder, self.count = rank, size, pathlib.Path(folder), 0

    def put(self, name, data=b"."):
        path = self.folder / name
        part = self.folder / f"{name}.{self.rank}.part"   # several ranks may put one name
        part.write_bytes(data)
        part.rename(path)

    def get(self, name, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while not (self.folder / name).exists():
            assert time.monotonic() < end, f"rank {self.rank}: no {name} within {seconds} s"
            time.sleep(0.002)
        return (self.folder / name).read_bytes()

    def connect(self, ranks=None):
        """A communicator of all ranks, or of some."""
        import hccl
        ranks = list(range(self.size)) if ranks is None else ranks
        self.count += 1
        name = f"root-{self.count}-{'-'.join(map(str, ranks))}"
        if self.rank == ranks[0]:
            self.put(name, hccl.root_info())
        return hccl.Comm.connect(len(ranks), self.get(name), ranks.index(self.rank))


def start(size, *calls, folder, last=(), **environment):
    """One process a rank, which makes the calls one after the other; `last` is put before the command of the last one."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("SOFTCANN_")}
    settings.update(SOFTCANN_MEMORY="1G", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", **environment)
    command = [sys.executable, str(FOLDER / "ranks.py")]
    return [subprocess.Popen((list(last) if rank == size - 1 else []) + command + [str(rank), str(size), str(folder), json.dumps(calls)],
                             env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
            for rank in range(size)]


def finish(processes, seconds=2 * PATIENCE):
    """The output of each; kills those that do not end in time."""
    end = time.monotonic() + seconds
    outputs = []
    try:
        for process in processes:
            outputs.append(process.communicate(timeout=max(0.1, end - time.monotonic()))[0])
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
    return outputs


def run(size, *calls, last=(), **environment):
    """Makes the calls, function(place, arguments...), in `size` processes; all have to succeed."""
    with tempfile.TemporaryDirectory() as folder:
        processes = start(size, *calls, folder=folder, last=last, **environment)
        outputs = finish(processes)
    failed = [f"rank {rank} of {size} ended with {process.returncode}:\n{output[-4000:]}"   # one's failure is often another's cause
              for rank, (process, output) in enumerate(zip(processes, outputs)) if process.returncode != 0]
    assert not failed, "\n".join(failed)
    return outputs


def main(rank, size, folder, calls):
    import hccl
    hccl.open_device()
    place = Place(int(rank), int(size), folder)
    for module, function, *arguments in json.loads(calls):
        getattr(importlib.import_module(module), function)(place, *arguments)


if __name__ == "__main__":
    sys.path.insert(0, str(FOLDER))
    main(*sys.argv[1:])
