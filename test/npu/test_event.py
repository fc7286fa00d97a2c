"""Events: record, query, wait, elapsed time."""

import time

import pytest
import torch
from held_stream import held


def test_not_recorded():
    event = torch.npu.Event()
    assert event.query()
    assert event.npu_event == 0 and "uninitialized" in repr(event)
    event.synchronize()


def test_its_device_is_where_it_was_recorded():
    event = torch.npu.Event()
    assert event.device is None
    event.record()
    assert event.device == torch.device("npu", torch.npu.current_device())


def test_sleep_keeps_the_stream_busy_and_not_the_host():
    done, side = torch.npu.Event(), torch.npu.Stream()
    with torch.npu.stream(side):
        torch.npu._sleep(300_000_000)  # 0.3 s
        done.record()
    assert not done.query() and torch.ones(2, device="npu").sum().item() == 2  # another stream goes on
    began = time.monotonic()
    done.synchronize()
    assert done.query() and time.monotonic() - began < 10
    with pytest.raises(ValueError):
        torch.npu._sleep(-1)
    with pytest.raises(ValueError, match="nan cycles"):
        torch.npu._sleep(float("nan"))


def test_elapsed_time_orders():
    start, middle, end = (torch.npu.Event(enable_timing=True) for _ in range(3))
    x = torch.full((512, 512), 1e-3, device="npu")
    start.record()
    for _ in range(8):
        x = x @ x
    middle.record()
    end.record()
    end.synchronize()
    assert start.elapsed_time(middle) > 0
    assert start.elapsed_time(end) >= start.elapsed_time(middle)
    assert isinstance(start.elapsed_time(end), float)


def test_elapsed_time_needs_timing_and_records():
    plain, timed = torch.npu.Event(), torch.npu.Event(enable_timing=True)
    with pytest.raises((RuntimeError, ValueError)):
        timed.elapsed_time(torch.npu.Event(enable_timing=True))
    plain.record()
    timed.record()
    torch.npu.synchronize()
    with pytest.raises((RuntimeError, ValueError)):
        timed.elapsed_time(plain)


def test_query_becomes_true():
    x = torch.full((256, 256), 1e-3, device="npu")
    event = torch.npu.Event()
    with held(torch.npu.current_stream()) as let_go:
        x = x @ x
        event.record()
        assert not event.query()
        let_go()
        event.synchronize()
        assert event.query() and torch.npu.current_stream().query()


def test_wait_orders_streams():
    producer, consumer = torch.npu.Stream(), torch.npu.Stream()
    x = torch.full((256, 256), 1.0 / 256, device="npu")
    torch.npu.synchronize()
    with held(producer) as let_go:
        with torch.npu.stream(producer):
            x = x @ (x * 2)
            event = producer.record_event()
        assert isinstance(event, torch.npu.Event)
        consumer.wait_event(event)
        del event  # the wait is queued: the event may go
        with torch.npu.stream(consumer):
            y = x.sum()
        assert not consumer.query()
        let_go()
        consumer.synchronize()
        assert y.item() == pytest.approx(512.0, rel=1e-3)


def test_generic_event_and_stream():
    event = torch.Event("npu")
    with torch.Stream("npu") as stream:
        torch.ones(1, device="npu")
        event.record(stream)
    event.synchronize()
    assert event.query() and stream.query()
    npu_event = torch.npu.Event()
    npu_event.record(torch.accelerator.current_stream())
    npu_event.wait(torch.Stream("npu"))
    npu_event.synchronize()


def test_what_does_not_exist():
    with pytest.raises(NotImplementedError):
        torch.npu.Event(external=True)
    with pytest.raises(ValueError):
        torch.npu.Event(enable_timing=True, interprocess=True)
    with pytest.raises(RuntimeError, match="interprocess"):
        torch.npu.Event().ipc_handle()


def test_a_record_outlives_its_interprocess_event():
    """What was recorded on an event that is gone must not complete the one that took its place."""
    first, second = torch.npu.Stream(), torch.npu.Stream()
    with held(second) as let_second_go:
        with held(first, settle=False) as let_first_go:
            gone = torch.npu.Event(interprocess=True)
            gone.record(first)
            del gone
            event = torch.npu.Event(interprocess=True)
            event.record(second)
            let_first_go()
            first.synchronize()
            assert not event.query()
        let_second_go()
    event.synchronize()
    assert event.query()


def test_recorded_time_counts_microseconds():
    first, second = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    first.record()
    time.sleep(0.05)
    second.record()
    passed = second.recorded_time() - first.recorded_time()
    assert isinstance(passed, int) and 50_000 <= passed < 5_000_000
    assert abs(passed / 1000 - first.elapsed_time(second)) < 1
    plain = torch.npu.Event()
    plain.record()
    with pytest.raises(RuntimeError, match="enable_timing"):
        plain.recorded_time()
    with pytest.raises(RuntimeError, match="never recorded"):
        torch.npu.Event(enable_timing=True).recorded_time()


def test_reset_takes_a_record_back():
    event = torch.npu.Event()
    event.reset()   # nothing to take back
    event.record()
    event.reset()
    torch.npu.synchronize()
    assert event.query() is False
    event.record()
    event.synchronize()
    assert event.query()


def test_external_event_is_for_streams_alone():
    event = torch.npu.ExternalEvent()
    assert isinstance(event, torch.Event) and event.event_id == 0
    assert event.npu_event == 0 and event.device == torch.device("npu", torch.npu.current_device())
    event.record()
    assert event.npu_event != 0 and hex(event.npu_event) in repr(event)
    for ask in (event.query, event.synchronize, event.recorded_time, event.ipc_handle, lambda: event.elapsed_time(event),
                lambda: torch.npu.ExternalEvent.from_ipc_handle(0, b"")):
        with pytest.raises(RuntimeError, match="for streams alone"):
            ask()
    event.wait()
    event.reset()
    torch.npu.synchronize()
