"""Collectives on NPU tensors (hccl) against gloo on CPU tensors, and a DDP step against two independent ones.

Both backends run in the same processes, in turn, round by round. Sizes are of one rank's input in bytes. Bus
bandwidth counts what each rank must send over a ring: size * 2(n-1)/n for all_reduce, size * (n-1) for all_gather,
size * (n-1)/n for reduce_scatter and all_to_all, size for broadcast and send/recv. The floor of a small call is the same
call of torch.distributed on a group that does nothing (PyTorch's backend "fake").
"""
import os
import sys
import tempfile
import time
import warnings

os.environ.update(OMP_NUM_THREADS="1", SOFTCANN_THREADS="1")

import common

sys.path.insert(0, str(common.ROOT / "examples"))

SMALL = 1 << 10
SIZES = [4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
BUS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather_into_tensor": lambda n: n - 1,
    "reduce_scatter_tensor": lambda n: (n - 1) / n,
    "all_to_all_single": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1,
    "send_recv": lambda n: 1,
}


def make_call(name, size, device, group, rank, world):
    import torch
    import torch.distributed as dist

    count = max(1, size // 4)
    part = max(1, count // world)
    x = torch.ones(count, device=device)
    if name == "all_reduce":
        x.zero_()  # stays finite however often it is summed
        return lambda: dist.all_reduce(x, group=group)
    if name == "broadcast":
        return lambda: dist.broadcast(x, 0, group=group)
    if name == "all_gather_into_tensor":
        out = torch.empty(count * world, device=device)
        return lambda: dist.all_gather_into_tensor(out, x, group=group)
    if name == "reduce_scatter_tensor":
        out, whole = torch.empty(part, device=device), torch.ones(part * world, device=device)
        return lambda: dist.reduce_scatter_tensor(out, whole, group=group)
    if name == "all_to_all_single":
        whole = torch.ones(part * world, device=device)
        out = torch.empty_like(whole)
        return lambda: dist.all_to_all_single(out, whole, group=group)
    # send_recv: to the next of a pair and back, so a call is half of it.
    peer = rank ^ 1

    def ping():
        if rank < peer:
            dist.send(x, peer, group=group)
            dist.recv(x, peer, group=group)
        else:
            dist.recv(x, peer, group=group)
            dist.send(x, peer, group=group)
    return ping


def seconds_of(call, calls, synchronize, barrier, halves):
    barrier()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    synchronize()
    return (time.perf_counter() - start) / calls / (2 if halves else 1)


def rank_main(rank, world, path, rounds, sizes, answer):
    import torch
    import torch.distributed as dist
    import torch.testing._internal.distributed.fake_pg

    import torch_npu  # noqa: F401

    warnings.simplefilter("ignore")  # newer torch has other names for some collectives
    torch.set_num_threads(1)
    torch.npu.set_device(rank)
    dist.init_process_group("cpu:gloo,npu:hccl", store=dist.FileStore(path, world), rank=rank, world_size=world)
    npu, cpu, fake = torch.device("npu", rank), torch.device("cpu"), dist.new_group(backend="cpu:fake,npu:fake")
    one = torch.zeros(1, device="npu")

    def barrier():
        dist.all_reduce(one)
        one.item()

    for name in BUS:
        for size in sizes:
            ways = []
            for device, group in [(npu, None), (cpu, None), (npu, fake)][:3 if size <= SMALL else 2]:
                synchronize = torch.npu.synchronize if device is npu else lambda: None
                call = make_call(name, size, device, group, rank, world)
                call()
                synchronize()
                # Bursts that are shorter than a time slice: among several one is left alone by other processes.
                fast = 200 if size <= 64 << 10 else 40 if size <= 1 << 20 else 4
                calls = fast if device is npu else max(1, fast // 20)
                if name == "send_recv" and size <= 64 << 10:
                    calls = max(1, calls // 4)
                bursts = 30 if size <= SMALL and device is npu else 3
                ways.append(lambda call=call, calls=calls, sync=synchronize, bursts=bursts: min(
                    seconds_of(call, calls, sync, barrier, name == "send_recv") for _ in range(bursts)))
            times = common.interleave(ways, rounds)
            if rank == 0:
                answer.put((name, size, times))
            del ways, call
            torch.npu.empty_cache()
    if rank == 0:
        answer.put(None)
    dist.barrier()
    dist.destroy_process_group()


def memcpy_speed(size=64 << 20):
    """GB/s of one thread's memcpy between buffers of this size."""
    import ctypes

    import torch

    a, b = (torch.ones(size, dtype=torch.uint8) for _ in range(2))
    return size / common.best(lambda: common.seconds(lambda: ctypes.memmove(a.data_ptr(), b.data_ptr(), size)), 5) / 1e9


def step_main(rank, world, path, rounds, results):
    """Seconds of a DDP step on hccl, of one on gloo with CPU tensors, and of an independent step on the NPU."""
    import torch
    import torch.distributed as dist
    from models.gpt import GPT
    from torch.nn import functional as F
    from torch.nn.parallel import DistributedDataParallel

    import torch_npu  # noqa: F401

    torch.set_num_threads(1)
    torch.npu.set_device(rank)
    dist.init_process_group("cpu:gloo,npu:hccl", store=dist.FileStore(path, world), rank=rank, world_size=world)
    one = torch.zeros(1, device="npu")

    def make(device, distributed):
        torch.manual_seed(0)
        model = GPT(256, 64, layers=4, width=256, heads=4).to(device)
        trained = DistributedDataParallel(model) if distributed else model
        optimizer = torch.optim.AdamW(model.parameters())
        tokens = torch.randint(0, 256, (8, 65)).to(device)

        def step():
            loss = F.cross_entropy(trained(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.item()

        step(), step()

        def measure():
            dist.all_reduce(one)
            one.item()
            return common.seconds(step, 3)
        return measure

    npu, cpu = torch.device("npu", rank), torch.device("cpu")
    times = common.interleave([make(npu, True), make(npu, False), make(cpu, True)], rounds)
    gathered = [None] * world
    dist.all_gather_object(gathered, times)
    if rank == 0:
        # The slower rank counts.
        results.put([[max(pair) for pair in zip(*(g[way] for g in gathered))] for way in range(3)])
    dist.barrier()
    dist.destroy_process_group()


def start(target, world, *arguments):
    import multiprocessing

    os.environ["SOFTCANN_DEVICE_COUNT"] = str(world)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    folder = tempfile.mkdtemp()
    processes = [context.Process(target=target, args=(rank, world, os.path.join(folder, "store"), *arguments, queue))
                 for rank in range(world)]
    for process in processes:
        process.start()
    return queue, processes


def collectives(world, options, results):
    queue, processes = start(rank_main, world, options.rounds, options.sizes)
    rows = []
    while (answer := queue.get(timeout=900)) is not None:
        name, size, (ours, theirs, *floor) = answer
        bus = size * BUS[name](world) / 1e9
        row = {"hccl_us": common.median(ours) * 1e6, "gloo_us": common.median(theirs) * 1e6,
               "hccl_GBs": bus / common.median(ours), "gloo_GBs": bus / common.median(theirs),
               "times_gloo": 1 / common.ratio(ours, theirs)}
        if floor:
            row["floor_us"] = common.median(floor[0]) * 1e6
        results[f"{world} ranks, {name}, {common.label(size)}"] = row
        rows.append([name, common.label(size), *row.values(), *([] if floor else [""])])
    for process in processes:
        process.join()
    common.print_table(f"{world} ranks: microseconds a call, bus bandwidth, how many times gloo's, and the floor",
                       ["collective", "size", "hccl us", "gloo us", "hccl GB/s", "gloo GB/s", "times gloo", "floor us"], rows)


def ddp_step(options, results):
    queue, processes = start(step_main, 2, options.rounds)
    ours, independent, gloo = queue.get(timeout=900)
    for process in processes:
        process.join()
    row = {"ddp_ms": common.median(ours) * 1e3, "to_independent": common.ratio(ours, independent), "to_gloo_ddp": common.ratio(ours, gloo)}
    results["DDP step, 2 ranks"] = row
    common.print_table("GPT d256 L4 T64 b8, DDP on 2 ranks of one thread: a step in ms; over two independent steps at once; "
                       "over gloo's on the CPU", ["", "ms", "to independent", "to gloo"], [["DDP", *row.values()]])


def main():
    options = common.arguments("collectives", __doc__, lambda parser: (
        parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4]),
        parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, metavar="BYTES"),
        parser.add_argument("--no-step", action="store_true", help="leave the DDP step out")))
    results = {"memcpy_GBs": memcpy_speed()}
    print(f"memcpy of 64 MiB: {results['memcpy_GBs']:.1f} GB/s")
    for world in options.ranks:
        collectives(world, options, results)
    if not options.no_step:
        ddp_step(options, results)
    common.write_json(options.json, results)


if __name__ == "__main__":
    main()
