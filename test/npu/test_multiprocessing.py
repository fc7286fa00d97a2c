"""NPU tensors between spawned processes, by handle."""

import pytest
import torch
import torch.multiprocessing as mp
from torch.multiprocessing import reductions as torch_reductions

from torch_npu.multiprocessing import reductions

context = mp.get_context("spawn")
TIMEOUT = 1000


def _add_one_in_place(inbox, outbox):
    x = inbox.get(timeout=TIMEOUT)
    x += 1
    torch.npu.synchronize()
    outbox.put((x.device.type, x.sum().item()))
    inbox.get(timeout=TIMEOUT)  # the parent looked


def _echo(inbox, outbox):
    while True:
        value = inbox.get(timeout=TIMEOUT)
        if value is None:
            return
        outbox.put(value)
        outbox.put(float(value.sum()))
        del value


def _make(outbox, done):
    parameter = torch.nn.Parameter(torch.arange(4.0, device="npu"))
    half = torch.arange(12, device="npu", dtype=torch.float16).view(3, 4)[1:, ::2]
    outbox.put((parameter, half, torch.empty(0, device="npu")))
    done.get(timeout=TIMEOUT)


def _wait_event(inbox, outbox):
    event, x = inbox.get(timeout=TIMEOUT)
    event.wait()
    outbox.put((x.sum().item(), event.query()))


def _start(target, *queues):
    process = context.Process(target=target, args=queues)
    process.start()
    return process


def test_child_writes_into_the_parents_memory():
    inbox, outbox = context.Queue(), context.Queue()
    process = _start(_add_one_in_place, inbox, outbox)
    x = torch.arange(1000.0, device="npu")
    y = x[10:]  # the same storage, seen from elsewhere
    inbox.put(x)
    assert outbox.get(timeout=TIMEOUT) == ("npu", 500500.0)
    assert x.sum().item() == 500500.0
    assert y[0].item() == 11.0
    inbox.put("seen")
    process.join(TIMEOUT)
    assert process.exitcode == 0


def test_child_sends_to_parent():
    outbox, done = context.Queue(), context.Queue()
    process = _start(_make, outbox, done)
    parameter, half, empty = outbox.get(timeout=TIMEOUT)
    assert isinstance(parameter, torch.nn.Parameter) and parameter.requires_grad and parameter.is_npu
    assert parameter.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert half.tolist() == [[4.0, 6.0], [8.0, 10.0]] and half.dtype == torch.float16
    assert half.stride() == (4, 2)
    assert empty.is_npu and empty.numel() == 0
    with pytest.raises(RuntimeError):
        half.untyped_storage().resize_(1 << 20)
    del parameter, half
    done.put(None)
    process.join(TIMEOUT)
    assert process.exitcode == 0


def test_memory_is_kept_until_it_comes_back():
    inbox, outbox = context.Queue(), context.Queue()
    process = _start(_echo, inbox, outbox)
    torch.npu.ipc_collect()
    assert reductions.collect() == 0
    before = torch.npu.memory_allocated()
    for round_number in range(5):
        x = torch.full((1 << 18,), float(round_number), device="npu")
        inbox.put(x)
        del x
        back = outbox.get(timeout=TIMEOUT)  # forwarded by the child: the same memory
        assert outbox.get(timeout=TIMEOUT) == round_number * (1 << 18)
        assert back[0].item() == round_number
        del back
    inbox.put(None)
    process.join(TIMEOUT)
    assert process.exitcode == 0
    assert reductions.collect() == 0
    assert torch.npu.memory_allocated() == before


def test_event_between_processes():
    inbox, outbox = context.Queue(), context.Queue()
    process = _start(_wait_event, inbox, outbox)
    event = torch.npu.Event(interprocess=True)
    x = torch.ones(1000, device="npu") * 2
    event.record()
    inbox.put((event, x))
    assert outbox.get(timeout=TIMEOUT) == (2000.0, True)
    process.join(TIMEOUT)
    assert process.exitcode == 0


def test_result_with_gradients_is_refused():
    x = torch.ones(2, device="npu", requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="detach"):
        reductions._reduce_tensor(x)


def test_cpu_tensors_go_on_as_before():
    inbox, outbox = context.Queue(), context.Queue()
    process = _start(_echo, inbox, outbox)
    inbox.put(torch.ones(3))
    assert outbox.get(timeout=TIMEOUT).tolist() == [1.0] * 3
    outbox.get(timeout=TIMEOUT)
    inbox.put(None)
    process.join(TIMEOUT)
    assert process.exitcode == 0


def _add_to_described(inbox, outbox):
    fields = list(inbox.get(timeout=TIMEOUT))
    fields[6] = 0  # receivers put their own number of the device there
    x = reductions.rebuild_npu_tensor(*fields)
    x += 1
    torch.npu.synchronize()
    outbox.put((type(x).__name__, tuple(x.shape), x.stride(), x.storage_offset(), x.requires_grad))
    del x
    inbox.get(timeout=TIMEOUT)  # the parent looked


def test_described_tensor_is_the_lenders_memory():
    inbox, outbox = context.Queue(), context.Queue()
    process = _start(_add_to_described, inbox, outbox)
    whole = torch.zeros(4, 6, device="npu")
    rebuild, fields = torch.multiprocessing.reductions.reduce_tensor(whole[1:, ::2])
    assert rebuild is reductions.rebuild_npu_tensor
    assert fields[6] == whole.device.index
    inbox.put(fields)
    assert outbox.get(timeout=TIMEOUT) == ("Tensor", (3, 3), (6, 2), 6, False)
    assert whole.sum().item() == 9 and whole[1:, ::2].sum().item() == 9
    inbox.put("seen")
    process.join(TIMEOUT)
    assert process.exitcode == 0
    assert reductions.collect() == 0


def test_described_in_one_process():
    reduce_tensor = torch.multiprocessing.reductions.reduce_tensor
    empty, fields = reduce_tensor(torch.empty(0, 3, device="npu", dtype=torch.float16))
    assert empty(*fields).shape == (0, 3) and empty(*fields).is_npu
    parameter = torch.nn.Parameter(torch.ones(3, device="npu"))
    rebuild, fields = reduce_tensor(parameter)
    again = rebuild(*fields)
    assert isinstance(again, torch.nn.Parameter) and again.requires_grad and again.data_ptr() == parameter.data_ptr()
    with pytest.raises(ValueError, match="no events"):
        rebuild(*fields[:-1], True)
    with pytest.raises(RuntimeError, match="detach"):
        reduce_tensor(parameter * 2)
    assert reduce_tensor(torch.ones(2))[0] is torch_reductions.rebuild_tensor
    del again
    reductions.collect()
