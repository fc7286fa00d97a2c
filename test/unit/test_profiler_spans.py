"""Arithmetic of torch_npu.profiler, and of softcann's msprof, with spans of time and steps, against counting."""
import random

import pytest

from torch_npu.profiler import _communication, _files, _spans
from torch_npu.profiler._trace import Kernel, Operator, Trace
from torch_npu.softcann import _msprof_spans


def points(spans):
    return {at for begin, end in spans for at in range(begin, end)}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("module", [_spans, _msprof_spans], ids=["adapter", "softcann"])
def test_union_and_without(module, seed):
    draw = random.Random(seed)
    one, two = ([(at, at + draw.randrange(1, 6)) for at in (draw.randrange(40) for _ in range(draw.randrange(8)))] for _ in range(2))
    a, b = module.union(one), module.union(two)
    assert points(a) == points(one) and _spans.length(a) == len(points(one))
    left = module.without(a, b)
    assert points(left) == points(a) - points(b) and _spans.length(left) == len(points(left))


def kernel(name, begin, end, launched=None, stream=0):
    return Kernel(name, begin, end - begin, 0, stream, None, False, launched=launched)


def test_activity_parts_add_up():
    kernels = [kernel("aclnnMm", 0, 10), kernel("HcclAllReduce", 5, 20, stream=1), kernel("HcclRecv", 25, 30, stream=1)]
    activity = _spans.activity(kernels, 0, 40)
    assert activity.computing == [(0, 10)] and activity.exposed == [(10, 20), (25, 30)] and activity.free == [(20, 25), (30, 40)]
    assert activity.receiving == [(25, 30)]


def test_a_kernel_belongs_to_the_step_that_launched_it():
    """The device is behind the host: step 1's kernel runs while the host is in step 2."""
    kernels = [kernel("aclnnMm", 15, 22, launched=5), kernel("aclnnMm", 22, 30, launched=12)]
    trace = Trace([], [], kernels, [], [(1, 0.0, 10.0), (2, 10.0, 20.0)], [])
    assert [trace.step_of(one) for one in kernels] == [1, 2]
    assert trace.device_steps(0) == [(1, 0.0, 22), (2, 22, 30)]


def test_hash_of_a_group():
    """Two of 32 bits; by hand for two characters: 97 * 29 + 98 and 97 * 131 + 98."""
    assert _communication.hashed("ab") == str((97 * 29 + 98) << 32 | 97 * 131 + 98)


def test_links_of_what_roots_give_are_not_made_up():
    one = _communication.Collective(kernel("HcclBroadcast", 0, 1), "Broadcast", "hcom_broadcast__0_0_1", "1", [0, 1], 0, None, 8.0, 8.0)
    assert one.links() == {0: 0.0}


@pytest.mark.parametrize("seed", range(10))
def test_memory_belongs_to_the_innermost_operator(seed):
    draw = random.Random(seed)
    operators = sorted((Operator(str(i), draw.randrange(30), draw.randrange(1, 12), "", None) for i in range(12)), key=lambda one: one.begin)
    times = [float(draw.randrange(45)) for _ in range(30)]
    owners = _files._owners(operators, times)
    for time in times:
        inside = [(one.duration, one.name) for one in operators if one.begin <= time <= one.begin + one.duration]
        assert owners.get(time) == (min(inside)[1] if inside else None)
