"""The stream sanitizer: planted races are found, right programs are silent."""
import random
import re
import threading

import pytest
import torch

from torch_npu.npu import _sanitizer


@pytest.fixture(scope="module", autouse=True)
def _quick():
    torch.zeros(1, device="npu")


def new(*sizes):
    return torch.ones(*(sizes or (8,)), device="npu")


def streams():
    return torch.npu.Stream(), torch.npu.Stream()


def on(stream, function, *args, **kwargs):
    with torch.npu.stream(stream):
        return function(*args, **kwargs)


# Programs that race, each at its last operator but for those that say so.
def read_after_write(a, b):
    x = new()
    on(a, x.sin)


def write_after_read(a, b):
    x = new()
    torch.npu.synchronize()
    on(a, x.sin)
    x.add_(1)


def write_after_write(a, b):
    x = new()
    torch.npu.synchronize()
    on(a, x.add_, 1)
    on(b, x.mul_, 2)


def result_of_another_stream(a, b):
    y = on(a, new)
    y + 1


def event_recorded_too_early(a, b):
    x = new()
    event = torch.npu.Event()
    event.record()
    x.add_(1)
    a.wait_event(event)
    on(a, x.sin)


def event_waited_by_the_wrong_stream(a, b):
    x = new()
    b.wait_stream(torch.npu.current_stream())
    on(a, x.sin)


def event_that_was_never_recorded(a, b):
    x = new()
    torch.npu.Event().wait(a)
    on(a, x.sin)


def the_wrong_stream_was_waited_for(a, b):
    x = new()
    torch.npu.synchronize()
    on(a, x.add_, 1)
    b.synchronize()
    x.sin()


def wait_in_the_wrong_direction(a, b):
    x = new()
    torch.npu.current_stream().wait_stream(a)
    on(a, x.sin)


def through_a_view(a, b):
    x = new(4, 8)
    torch.npu.synchronize()
    on(a, x[1].zero_)
    x.view(-1)[10:12].sin()


def overlapping_slices(a, b):
    x = new(16)
    torch.npu.synchronize()
    on(a, x[:9].zero_)
    on(b, x[8:].add_, 1)


def crossing_columns(a, b):
    x = new(4, 8)
    torch.npu.synchronize()
    on(a, x[:, ::2].zero_)
    on(b, x[:, 1:3].add_, 1)


def an_out_argument(a, b):
    x, out = new(), new()
    torch.npu.synchronize()
    on(a, torch.add, x, 1, out=out)
    on(b, torch.mul, out, 2)


def one_of_a_list(a, b):
    tensors = [new(), new()]
    torch.npu.synchronize()
    on(a, torch._foreach_add_, tensors, 1.0)
    tensors[1].sin()


def two_readers_one_waited_for(a, b):
    x = new()
    torch.npu.synchronize()
    on(a, x.sin)
    on(b, x.cos)
    torch.npu.current_stream().wait_stream(a)
    x.add_(1)


def a_copy_that_does_not_wait(a, b):
    x, host = new(), torch.empty(8, pin_memory=True)
    torch.npu.synchronize()
    on(a, host.copy_, x, non_blocking=True)
    x.add_(1)


def gradient_used_on_another_stream(a, b):
    x = new().requires_grad_()
    torch.npu.synchronize()
    with torch.npu.stream(a):
        (x * 2).sum().backward()
    x.grad + 1


def memory_freed_while_another_stream_reads(a, b):
    x = new(512)
    a.wait_stream(torch.npu.current_stream())
    on(a, x.sin)
    del x
    new(512).zero_()


def memory_of_a_side_stream_freed_while_the_main_one_reads(a, b):
    with torch.npu.stream(a):
        x = new(512)
    torch.npu.current_stream().wait_stream(a)
    x.sin()
    del x
    on(a, new, 512)


def another_thread(a, b):
    x = new()
    failures = []

    def run():
        try:
            on(a, x.sin)
        except _sanitizer.NPUSanitizerErrors as error:
            failures.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    raise failures[0]


RACES = [read_after_write, write_after_read, write_after_write, result_of_another_stream, event_recorded_too_early,
         event_waited_by_the_wrong_stream, event_that_was_never_recorded, the_wrong_stream_was_waited_for,
         wait_in_the_wrong_direction, through_a_view, overlapping_slices, crossing_columns, an_out_argument, one_of_a_list,
         two_readers_one_waited_for, a_copy_that_does_not_wait, gradient_used_on_another_stream,
         memory_freed_while_another_stream_reads, memory_of_a_side_stream_freed_while_the_main_one_reads, another_thread]


@pytest.mark.parametrize("program", RACES, ids=lambda program: program.__name__)
def test_a_planted_race_is_found(program, capfd):
    torch.npu.synchronize()
    torch.npu.empty_cache()
    with _sanitizer.sanitized(), pytest.raises(_sanitizer.NPUSanitizerErrors) as caught:
        program(*streams())
    races = [error.race for error in caught.value.errors]
    assert all(race.now.stream != race.before.stream for race in races)
    assert any(race.freed for race in races) == program.__name__.startswith("memory_")
    text = str(caught.value)
    # Both stacks; a node of the backward that ran in autograd's own thread has a line instead.
    stack, line = rf'"{re.escape(__file__)}", line \d+, in (?:{program.__name__}|run)\n', rf"at {re.escape(__file__)}:\d+ \(backward\)"
    assert len(re.findall(stack, text)) + len(re.findall(line, text)) >= 2, text
    assert "operator aten." in capfd.readouterr().err
    assert len(RACES) == 20


# Programs that do not.
def reads_side_by_side(a, b):
    x = new()
    torch.npu.synchronize()
    on(a, x.sin), on(b, x.cos), x.tan()


def other_elements(a, b):
    x = new(4, 8)
    torch.npu.synchronize()
    on(a, x[:2].zero_), on(b, x[2:].zero_)
    torch.npu.synchronize()
    on(a, x[:, ::2].zero_), on(b, x[:, 1::2].zero_)


def memory_that_was_recorded(a, b):
    x = new(512)
    a.wait_stream(torch.npu.current_stream())
    on(a, x.sin)
    x.record_stream(a)
    del x
    new(512).zero_()


def shapes_alone(a, b):
    x = new()
    torch.npu.synchronize()
    on(a, x.add_, 1)
    torch.zeros_like(x), x.new_zeros(3), x.view(2, 4), torch.empty_like(x)


def a_value_on_the_host(a, b):
    y = on(a, new)
    on(a, lambda: y.sum().item())
    y + 1


def blocking_copies(a, b):
    y = on(a, lambda: new().cpu() + 1)
    x = on(a, y.npu)
    x + 1


def autograd_across_streams(a, b):
    """Autograd orders the nodes of a backward pass, and backward() before what follows."""
    w = new().requires_grad_()
    torch.npu.synchronize()
    with torch.npu.stream(a):
        y = (w * 2).sin()
    b.wait_stream(a)
    with torch.npu.stream(b):
        z = (y * w).sum()
    torch.npu.current_stream().wait_stream(b)
    (z * z).backward()
    w.grad + 1
    w.grad.zero_()


def training(a, b):
    """A batch is brought by one stream while another computes."""
    model = torch.nn.Linear(8, 8).npu()
    optimizer = torch.optim.Adam(model.parameters())
    main = torch.npu.current_stream()
    batches = [torch.ones(4, 8).pin_memory() for _ in range(3)]
    for batch in batches:
        with torch.npu.stream(a):
            x = batch.npu(non_blocking=True)
        main.wait_stream(a)
        x.record_stream(main)
        model(x).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def two_events(a, b):
    x = new()
    first, second = torch.npu.Event(), torch.npu.Event()
    first.record()
    first.wait(a)
    on(a, x.add_, 1)
    second.record(a)
    b.wait_event(second)
    on(b, x.mul_, 2)
    b.synchronize()
    assert b.query() and second.query()
    x.sin()


def events_and_streams_of_torch(a, b):
    """torch.Event and torch.Stream, which reach the device through c10 alone."""
    x = new()
    first = torch.Event("npu")
    first.record(torch.npu.current_stream())
    first.wait(a)
    on(a, x.add_, 1)
    plain = torch.Stream(device="npu")
    torch.Stream.wait_stream(plain, torch.Stream(stream_id=a.stream_id, device_index=a.device_index, device_type=a.device_type))
    with plain:
        x.mul_(2)
    second = plain.record_event()
    second.synchronize()
    on(b, x.add_, 1)
    torch.accelerator.synchronize()
    x.sin()


RIGHT = [events_and_streams_of_torch, reads_side_by_side, other_elements, memory_that_was_recorded, shapes_alone, a_value_on_the_host, blocking_copies,
         autograd_across_streams, training, two_events]


@pytest.mark.parametrize("program", RIGHT, ids=lambda program: program.__name__)
def test_a_right_program_is_silent(program):
    torch.npu.synchronize()
    with _sanitizer.sanitized():
        program(*streams())


class Order:
    """What must come before what, as sets of all operators before: slow, and nothing like the sanitizer's clocks."""

    def __init__(self, count):
        self.before = [set() for _ in range(count)]   # by stream: what its next operator comes after
        self.touched = {index: [] for index in range(4)}   # by tensor: (operator, stream, whether it wrote)
        self.operators = 0

    def conflicts(self, stream, source, target):
        """Streams with an operator that the next one on ``stream`` must come after, and does not."""
        return {other for index, write in ((source, False), (target, True)) for operator, other, wrote in self.touched[index]
                if (write or wrote) and operator not in self.before[stream]}

    def launch(self, stream, source, target):
        self.operators += 1
        self.before[stream].add(self.operators)
        self.touched[source].append((self.operators, stream, False))
        self.touched[target].append((self.operators, stream, True))

    def wait(self, rng, objects, stream, other):
        """Lets one stream wait for another in a random way."""
        way = rng.randrange(5)
        waiters = [stream] if way < 2 else range(len(objects))   # the host waits, and with it all
        if way == 0:
            objects[stream].wait_stream(objects[other])
        elif way == 1:
            objects[stream].wait_event(objects[other].record_event())
        elif way == 2:
            objects[other].synchronize()
        elif way == 3:
            event = torch.npu.Event()
            event.record(objects[other])
            event.synchronize()
        else:
            torch.npu.synchronize()
        known = set().union(*self.before) if way == 4 else set(self.before[other])
        for waiter in waiters:
            self.before[waiter] |= known


def generated(seed, careful):
    """Random operators on random streams. careful: each waits for what it has to; else for anything, or not at all.

    Whether the last operator, with which the program ends, races.
    """
    rng = random.Random(seed)
    objects = [torch.npu.current_stream(), *streams()]
    tensors = [new(32) for _ in range(4)]
    torch.npu.synchronize()
    order = Order(len(objects))
    for _ in range(rng.randint(6, 12)):
        stream = rng.randrange(len(objects))
        source, target = rng.sample(range(4), 2)
        if careful:
            while needed := order.conflicts(stream, source, target):
                order.wait(rng, objects, stream, rng.choice(sorted(needed)))
        else:
            for _ in range(rng.randrange(3)):
                order.wait(rng, objects, *rng.sample(range(len(objects)), 2))
        races = bool(order.conflicts(stream, source, target))
        try:
            on(objects[stream], tensors[target].add_, tensors[source])
        except _sanitizer.NPUSanitizerErrors:
            assert races, f"program {seed}"
            break
        assert not races, f"program {seed}"
        order.launch(stream, source, target)
    torch.npu.synchronize()
    return races


def test_two_hundred_generated_programs_are_silent():
    with _sanitizer.sanitized():
        assert not any(generated(seed, careful=True) for seed in range(200))


def test_generated_programs_race_where_the_order_says_so(capfd):
    with _sanitizer.sanitized():
        racing = sum(generated(seed, careful=False) for seed in range(100))
    assert 20 < racing < 100


COLLECTIVES = """if True:
    import torch, torch_npu, torch.distributed as dist
    from torch_npu.npu import _sanitizer
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).npu())
    x, side = torch.ones(4, device="npu"), torch.npu.Stream()
    dist.all_reduce(x)
    torch.npu.synchronize()

    def right():
        dist.all_reduce(x)
        x.add_(1)
        work = dist.all_reduce(x, async_op=True)
        torch.zeros(3, device="npu").add_(1)
        work.wait()
        x.add_(1)
        dist.broadcast(x, 0, async_op=True).get_future().wait()
        x.add_(1)
        dist.all_reduce(x, async_op=True)
        torch.npu.synchronize()
        x.add_(1)
        for _ in range(2):
            model(x.view(1, 4)).sum().backward()
            model.zero_grad()
        out = [torch.empty(4, device="npu")]
        dist.all_gather(out, x)
        out[0] + 1

    def never_waited_for():
        dist.all_reduce(x, async_op=True)
        x.add_(1)

    def waited_for_by_another_stream():
        work = dist.all_reduce(x, async_op=True)
        with torch.npu.stream(side):
            work.wait()
        x.add_(1)

    def input_overwritten():
        out = [torch.empty(4, device="npu")]
        dist.all_gather(out, x, async_op=True)
        x.zero_()

    for program in (right, never_waited_for, waited_for_by_another_stream, input_overwritten):
        torch.npu.synchronize()
        with _sanitizer.sanitized():
            try:
                program()
                print(program.__name__, "silent")
            except _sanitizer.NPUSanitizerErrors as error:
                print(program.__name__, error.errors[0].race.before.operator, "group's collectives" in str(error))
    dist.destroy_process_group()
"""


def test_collectives_run_beside_the_current_stream_until_they_are_waited_for(python):
    process = python(COLLECTIVES)
    assert process.stdout.splitlines() == [
        "right silent", "never_waited_for c10d.allreduce_.default True",
        "waited_for_by_another_stream c10d.allreduce_.default True", "input_overwritten c10d.allgather_.default True"], process.stderr


def test_the_error_names_both_operators_and_the_environment_switches_it_on(python):
    process = python("""if True:
        import torch, torch_npu
        side = torch.npu.Stream()
        x = torch.zeros(4, device="npu")
        with torch.npu.stream(side):
            x.add_(1)""", TORCH_NPU_SANITIZER="1")
    assert process.returncode == 1
    for text in ("NPUSanitizerErrors", "possible data race", "operator aten.add_.Tensor writes self on stream",
                 "earlier operator aten.zeros.default writes out on stream 0 of npu:0, at <string>:4", "allocated at <string>:4"):
        assert text in process.stderr, process.stderr


def an_event_of_before(a, b):
    x, event = new(), torch.Event("npu")
    event.record(torch.npu.current_stream())
    x.add_(1)
    event.wait(a)
    on(a, x.mul_, 2)


def an_event_of_another_stream(a, b):
    x, event = new(), torch.Event("npu")
    torch.npu.synchronize()
    on(a, x.add_, 1)
    event.record(b)
    event.synchronize()
    x.mul_(2)


@pytest.mark.parametrize("program", [an_event_of_before, an_event_of_another_stream])
def test_events_of_torch_order_no_more_than_they_should(program):
    torch.npu.synchronize()
    with _sanitizer.sanitized(), pytest.raises(_sanitizer.NPUSanitizerErrors) as caught:
        program(*streams())
    assert caught.value.errors[0].race.before.operator == "aten.add_.Tensor"


def test_switching_on_and_off():
    _sanitizer.enable_npu_sanitizer()
    assert _sanitizer.npu_sanitizer.enabled
    _sanitizer.npu_sanitizer.disable()
    assert not _sanitizer.npu_sanitizer.enabled
    read_after_write(*streams())
    with pytest.raises(NotImplementedError, match="mssanitizer"):
        _sanitizer.npu_sanitizer.enable(_sanitizer.SanitizerMode.KERNEL)
