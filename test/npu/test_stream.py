"""Streams: contexts, order, queries, priorities, streams from elsewhere."""

import pytest
import torch
from held_stream import held

two_devices = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two NPUs")


def long_work(x, rounds=4):
    """A chain of products; its last result."""
    for _ in range(rounds):
        x = x @ x
    return x


def test_current_and_default():
    assert torch.npu.current_stream() == torch.npu.default_stream()
    s = torch.npu.Stream()
    assert s != torch.npu.default_stream()
    with torch.npu.stream(s):
        assert torch.npu.current_stream() == s
        assert torch.accelerator.current_stream() == s
    assert torch.npu.current_stream() == torch.npu.default_stream()
    assert isinstance(s, torch.Stream)
    assert s.npu_stream != 0 and hex(s.npu_stream) in repr(s)


def test_with_stream_itself():
    s = torch.npu.Stream()
    with s:
        assert torch.npu.current_stream() == s
    assert torch.npu.current_stream() == torch.npu.default_stream()


def test_none_changes_nothing():
    s = torch.npu.Stream()
    with torch.npu.stream(s), torch.npu.stream(None):
        assert torch.npu.current_stream() == s
    torch.npu.set_stream(None)
    assert torch.npu.current_stream() == torch.npu.default_stream()


@two_devices
def test_stream_of_another_device():
    s = torch.npu.Stream("npu:1")
    assert s.device == torch.device("npu:1")
    with torch.npu.stream(s):
        assert torch.npu.current_device() == 1
        assert torch.ones(1, device="npu").device.index == 1
    assert torch.npu.current_device() == 0
    assert torch.npu.current_stream(1) == torch.npu.default_stream(1)


def test_work_on_two_streams_ordered_by_wait_stream():
    a, b = torch.npu.Stream(), torch.npu.Stream()
    with held(a) as let_go:
        with torch.npu.stream(a):
            x = long_work(torch.full((256, 256), 1.0 / 256, device="npu"))
        b.wait_stream(a)
        with torch.npu.stream(b):
            y = x + 1
            x.record_stream(b)
        assert not b.query()
        let_go()
        b.synchronize()
        assert torch.allclose(y.cpu(), x.cpu() + 1)


def test_query_is_false_while_work_runs():
    x = torch.full((256, 256), 1.0 / 256, device="npu")
    torch.npu.synchronize()
    stream = torch.npu.current_stream()
    assert stream.query()
    with held(stream) as let_go:
        long_work(x)
        assert not stream.query()
        let_go()
        stream.synchronize()
        assert stream.query()


def test_host_returns_before_the_work_is_done():
    x = torch.full((256, 256), 1e-3, device="npu")
    expected = (x.cpu() @ x.cpu()).sum().item()
    with held(torch.npu.current_stream()) as let_go:
        y = (x @ x).sum()   # comes back, though nothing can run yet
        assert not torch.npu.current_stream().query()
        let_go()
        assert y.item() == pytest.approx(expected, rel=1e-4)


def test_priorities():
    low, high = torch.npu.Stream.priority_range()
    assert low == 0 and high < 0
    assert torch.npu.Stream().priority == 0
    assert torch.npu.Stream(priority=-1).priority == high


def test_equality_and_hash():
    s = torch.npu.Stream()
    same = torch.npu.Stream(stream_id=s.stream_id, device_index=s.device_index)
    assert s == same and hash(s) == hash(same)
    assert s != torch.npu.Stream()
    assert s != 3 and s is not None


def test_external_stream():
    s = torch.npu.Stream()
    outside = torch.npu.ExternalStream(s.npu_stream)
    assert outside.npu_stream == s.npu_stream
    with torch.npu.stream(outside):
        x = torch.ones(4, device="npu") * 3
    outside.synchronize()
    assert x.tolist() == [3.0] * 4
    with pytest.raises(RuntimeError):
        torch.npu.ExternalStream(3)


def test_numbers_do_not_make_the_host_wait():
    """Python numbers, and CPU tensors without dimensions, go along with the operator."""
    x, half = torch.ones(3, device="npu"), torch.ones((), device="npu", dtype=torch.float16)
    number = torch.tensor(2.0)
    torch.npu.set_sync_debug_mode("error")
    try:
        results = [1 - x, 1.5 - half, 2 ** x, 2 / x, 5 % x, 5 // x, number - x, x - number, torch.atan2(number, x), torch.maximum(x, number),
                   torch.where(x > 0, number, x), torch.rsub(x, 3), torch.lerp(x, x + 1, number), 7 - x.long()]
    finally:
        torch.npu.set_sync_debug_mode("default")
    expected = [1 - 1, 0.5, 2, 2, 0, 5, 1, -1, torch.atan2(number, torch.tensor(1.0)).item(), 2, 2, 2, 3, 6]
    assert [result.flatten()[0].item() for result in results] == pytest.approx(expected, rel=1e-6)


def test_sync_debug_mode():
    x = torch.ones(2, device="npu")
    try:
        torch.npu.set_sync_debug_mode("error")
        assert torch.npu.get_sync_debug_mode() == 2
        with pytest.raises(RuntimeError, match="host wait"):
            x.sum().item()
        torch.npu.set_sync_debug_mode(1)
        with pytest.warns(UserWarning, match="host wait"):
            x.sum().item()
    finally:
        torch.npu.set_sync_debug_mode("default")
    assert x.sum().item() == 2.0
    with pytest.raises(RuntimeError):
        torch.npu.set_sync_debug_mode("loud")


def test_a_known_stream_by_its_address():
    for stream in (torch.npu.Stream(), torch.npu.default_stream()):
        with torch.npu.stream(stream):
            torch.ones(1, device="npu")
        assert torch.npu.ExternalStream(stream.npu_stream) == stream


def test_sync_launch_stream_is_a_stream():
    stream = torch.npu.SyncLaunchStream(priority=-1)
    assert isinstance(stream, torch.npu.Stream) and stream.priority == -1
    with torch.npu.stream(stream):
        x = torch.ones(3, device="npu") + 1
    stream.synchronize()
    assert x.tolist() == [2.0] * 3
