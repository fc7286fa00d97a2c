"""Helpers of tests with several processes."""

import functools
import os
import unittest
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, NamedTuple

import torch
import torch.distributed as dist

__all__ = ["TEST_SKIPS", "TestSkip", "init_pg", "skipIfUnsupportMultiNPU", "with_comms"]


class TestSkip(NamedTuple):
    """How a process of a test says that it skips it."""

    exit_code: int
    message: str


TestSkip.__test__ = False  # no test, whatever its name says to pytest
TEST_SKIPS: Dict[str, TestSkip] = {
    "multi-npu": TestSkip(75, "several NPUs are needed"),
    **{f"multi-npu-{count}": TestSkip(75, f"{count} NPUs are needed") for count in range(1, 9)},
    "hccl": TestSkip(76, "there is no backend hccl"),
    "known_issues": TestSkip(77, "a known issue"),
}


def skipIfUnsupportMultiNPU(npu_number_needed: Any) -> Any:
    """Skips a test where there are fewer NPUs."""

    def decorate(fn: Callable[..., Any]) -> Any:
        @functools.wraps(fn)
        def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
            count = torch.npu.device_count() if torch.npu.is_available() else 0
            if count < npu_number_needed:
                raise unittest.SkipTest(f"needs {npu_number_needed} NPUs; there are {count}")
            return fn(self, *args, **kwargs)

        return checked

    return decorate


def init_pg(backend: str = "hccl", world_size: int = 1, rank: int = 0, file_name: str = "file://") -> None:
    """Starts the default process group over a file. With "hccl", the rank's NPU becomes current.

    Raises RuntimeError for a backend other than "hccl" and "gloo", and when "hccl" lacks NPUs.
    """
    if backend not in ("hccl", "gloo"):
        raise RuntimeError(f"backend {backend!r}: expected 'hccl' or 'gloo'")
    if backend == "hccl":
        if torch.npu.device_count() < world_size:
            raise RuntimeError(f"{world_size} ranks need as many NPUs; there are {torch.npu.device_count()}")
        torch.npu.set_device(rank)
    dist.init_process_group(backend=backend, world_size=world_size, rank=rank, init_method=f"file://{file_name}")


def with_comms(func: Any) -> Any:
    """Runs a test of a MultiProcessTestCase inside a process group: "hccl" where each rank has an NPU, else "gloo".

    The test case gives ``world_size``, ``rank`` and ``file_name``. The group ends with the test, by the test case's
    ``destroy_pg()`` where it has one.
    """
    if func is None:
        raise RuntimeError("with_comms: there is no test function")

    @functools.wraps(func)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        on_npu = torch.npu.is_available() and torch.npu.device_count() >= self.world_size
        init_pg("hccl" if on_npu else "gloo", self.world_size, self.rank, self.file_name)
        torch.npu.manual_seed(0)
        try:
            return func(self, *args, **kwargs)
        finally:
            if hasattr(self, "destroy_pg"):
                self.destroy_pg()
            elif dist.is_initialized():
                dist.destroy_process_group()

    return wrapped


@contextmanager
def _dynamo_dist_per_rank_init(rank: int, world_size: int, init_pg_: bool = True) -> Iterator[None]:
    """Dynamo without what it has compiled, on the rank's NPU, in a process group with "hccl" if ``init_pg_``."""
    import torch._dynamo

    torch.npu.set_device(rank)
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "6789"
    if init_pg_:
        dist.init_process_group("hccl", rank=rank, world_size=world_size)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    try:
        yield
    finally:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        if init_pg_:
            dist.destroy_process_group()
