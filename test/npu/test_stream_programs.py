"""Random programs of streams: what is ordered by events, streams and waits of the host gives what a CPU gives, step by step.

A program has a few tensors of whole numbers and a few streams. Each of its steps takes some of the tensors on a stream: arithmetic in
place, a new tensor, copies from and to the host, a tensor given up while another stream used it. Before a step the stream is made to
come after what others did to these tensors, in one of five ways; after it nothing waits. A wrong order is a wrong number.
The programs run twice: with short tasks in the calling thread, and with each task in its stream's own.
"""
import random
import sys

import pytest
import torch

import torch_npu  # noqa: F401

PROGRAMS, BATCH = 2500, 500
STEPS, TENSORS, STREAMS = 24, 5, 4
SIZES = (1, 100, 5000, 70_000)
PRIME = 10_007


class Place:
    """A tensor, what a CPU would have in it, and who used it since."""

    def __init__(self, npu, cpu):
        self.npu, self.cpu = npu, cpu
        self.written, self.used = None, {}   # the stream that wrote it, and the event of the last use on each stream

    def touched(self, stream, writes):
        event = torch.npu.Event()
        event.record(stream)
        if writes:
            self.written, self.used = stream, {}
        self.used[stream] = event


def come_after(r, stream, place, writes):
    """Orders the stream behind the last writer, and behind the readers if it is to write."""
    for other, event in list(place.used.items()):
        if other == stream or not (writes or other == place.written):
            continue
        way = r.randrange(12)
        if way < 5:
            stream.wait_event(event)
        elif way < 8:
            stream.wait_stream(other)
        elif way < 9:
            event.synchronize()
        elif way < 10:
            other.synchronize()
        elif way < 11:
            while not event.query():
                pass
        else:
            torch.npu.synchronize()


def run(seed):
    r = random.Random(seed)
    streams = [torch.npu.Stream() for _ in range(STREAMS)] + [torch.npu.current_stream()]
    n = r.choice(SIZES)

    def fresh(number):
        cpu = torch.arange(n, dtype=torch.int64) % 97 + number
        stream = r.choice(streams)
        with torch.npu.stream(stream):
            place = Place(cpu.pin_memory().npu(non_blocking=True) if r.random() < 0.3 else cpu.npu(), cpu)
        place.touched(stream, writes=True)
        return place

    places, awaited = [fresh(i) for i in range(TENSORS)], []
    for number in range(STEPS):
        stream, kind = r.choice(streams), r.randrange(10)
        i, j = r.sample(range(TENSORS), 2)
        target, source = places[i], places[j]
        come_after(r, stream, source, writes=False)
        if kind < 6:
            come_after(r, stream, target, writes=True)
        factor = r.randrange(2, 50)
        with torch.npu.stream(stream):
            if kind < 4:
                for x, y in ((target.npu, source.npu), (target.cpu, source.cpu)):
                    x.mul_(factor).add_(y).remainder_(PRIME)
            elif kind < 6:
                target.npu.copy_(source.npu)
                target.cpu.copy_(source.cpu)
            elif kind < 8:   # a new tensor in the place of one that others may still use: the allocator has to wait for them
                target.npu.record_stream(stream)
                for other in target.used:
                    target.npu.record_stream(other)
                target = places[i] = Place(source.npu * factor % PRIME, source.cpu * factor % PRIME)
            elif kind < 9:
                awaited.append((source.npu.to("cpu", non_blocking=True), source.cpu.clone(), number))
            else:
                assert torch.equal(source.npu.cpu(), source.cpu), f"seed {seed}, step {number}: read at once"
        source.touched(stream, writes=False)
        if kind < 8:
            target.touched(stream, writes=True)
    torch.npu.synchronize()
    for number, place in enumerate(places):
        assert torch.equal(place.npu.cpu(), place.cpu), f"seed {seed}: tensor {number} at the end"
    for found, expected, number in awaited:
        assert torch.equal(found, expected), f"seed {seed}, step {number}: copied to the host"


BATCHES = [pytest.param(first, marks=[pytest.mark.slow] if first else []) for first in range(0, PROGRAMS, BATCH)]


@pytest.mark.parametrize("first", BATCHES)
def test_stream_programs(first):
    for seed in range(first, first + BATCH):
        run(seed)


@pytest.mark.parametrize("first", BATCHES)
def test_stream_programs_of_workers(python, first):
    done = python(f"import sys; sys.argv = ['', '{first}', '{first + BATCH}']; exec(open({__file__!r}).read())",
                  SOFTCANN_INLINE_NS="0")
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":   # python test/npu/test_stream_programs.py FIRST END
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        run(number)
    print(f"programs {sys.argv[1]} to {int(sys.argv[2]) - 1}: right")
