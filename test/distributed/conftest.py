"""torch.distributed on the backend hccl: several processes, each with a device of its own."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
os.environ.setdefault("SOFTCANN_DEVICE_COUNT", "4")

from rank_pool import Ranks


class Pools:
    def __init__(self):
        self.open = {}

    def get(self, world):
        pool = self.open.get(world)
        if pool is not None and not all(process.is_alive() for process in pool.processes):
            pool.close()
            pool = None
        if pool is None:
            pool = self.open[world] = Ranks(world)
        return pool


@pytest.fixture(scope="session")
def _pools():
    pools = Pools()
    yield pools
    for pool in pools.open.values():
        pool.close()


@pytest.fixture
def two(_pools):
    yield from _guarded(_pools, 2)


@pytest.fixture
def four(_pools):
    yield from _guarded(_pools, 4)


@pytest.fixture(params=[1, 2, 4], ids=lambda world: f"{world}ranks")
def ranks(_pools, request):
    yield from _guarded(_pools, request.param)


def _guarded(pools, world):
    """A pool; after a failure it is thrown away, for its ranks may have parted."""
    pool = pools.get(world)
    run = pool.run

    def run_or_drop(*arguments, **options):
        try:
            return run(*arguments, **options)
        except BaseException:
            pools.open.pop(world, None)
            for process in pool.processes:
                process.kill()
            raise

    pool.run = run_or_drop
    yield pool
    pool.run = run
