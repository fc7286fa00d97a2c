"""A pool of processes, one a rank, in which tests run functions together.

The processes come from a fork server that has imported torch_npu already, so starting them costs little; one pool
serves all tests of a world size.
"""
import multiprocessing
import os
import tempfile
import time
import traceback

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["torch_npu", "torch.distributed", "numpy"])


# How long anything may take before it counts as hanging: much longer than on a loaded machine.
PATIENCE = 300


class RankError(AssertionError):
    """What went wrong on which rank."""


def _serve(rank, world, dumps, environment, pipe):
    os.environ.update(environment)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world))
    import torch

    import torch_npu

    torch_npu._C._set_option("hccl_debug_info_file", dumps)  # the fork server has read the environment before

    torch.set_num_threads(1)
    while True:
        task = pipe.recv()
        if task is None:
            break
        function, arguments = task
        try:
            pipe.send(("ok", function(rank, world, *arguments)))
        except BaseException:
            pipe.send(("error", traceback.format_exc()))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def join_world(rank, world, store_path):
    """init_process_group("hccl") on npu:<rank>."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    torch.npu.set_device(rank)
    store = dist.FileStore(store_path, world)
    dist.init_process_group("hccl", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=PATIENCE))


class Ranks:
    """`world` processes. ``run(f, *args)`` calls ``f(rank, world, *args)`` on all of them and returns the results.

    A failure on any rank is a RankError with every rank's traceback. Flight recorders are written to ``dumps``<rank>.
    """

    def __init__(self, world, join=True, dumps=None, **environment):
        self.world = world
        self.folder = tempfile.TemporaryDirectory()
        environment = {"SOFTCANN_DEVICE_COUNT": str(max(world, 4)), "OMP_NUM_THREADS": "1", **environment}
        dumps = dumps or os.path.join(self.folder.name, "trace_")
        self.pipes, self.processes = [], []
        path = os.path.join(self.folder.name, "store")
        for rank in range(world):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(rank, world, dumps, environment, theirs), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
        if join:
            self.run(join_world, path)

    def start(self, function, *arguments, ranks=None):
        for rank in range(self.world) if ranks is None else ranks:
            self.pipes[rank].send((function, arguments))

    def collect(self, timeout=PATIENCE, ranks=None):
        """Of each rank ("ok", value), ("error", traceback) or ("lost", None): ended or did not answer in time."""
        until = time.monotonic() + timeout
        results = []
        for rank in range(self.world) if ranks is None else ranks:
            try:
                answered = self.pipes[rank].poll(max(0.0, until - time.monotonic()))
                results.append(self.pipes[rank].recv() if answered else ("lost", None))
            except (EOFError, ConnectionResetError):
                results.append(("lost", None))
        return results

    def run(self, function, *arguments, timeout=PATIENCE):
        self.start(function, *arguments)
        results = self.collect(timeout)
        failed = [f"--- rank {rank}: {kind}\n{text}" for rank, (kind, text) in enumerate(results) if kind != "ok"]
        if failed:
            raise RankError("\n".join(failed))
        return [value for _, value in results]

    def close(self):
        for pipe, process in zip(self.pipes, self.processes):
            if process.is_alive():
                try:
                    pipe.send(None)
                except OSError:
                    pass
        for process in self.processes:
            process.join(60)
            if process.is_alive():
                process.kill()
                process.join()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
