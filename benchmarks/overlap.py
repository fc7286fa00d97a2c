"""Products beside a collective on 2 ranks: one after the other, as softcann's fused operators compute them, against slices.

Sliced: the product is cut into slices of rows; while the product of one is computed on the caller's stream, the collective of the
one before runs on the communicator's. Time is a call's on the slower rank, the least of many short bursts; processor time is that of
all threads of both ranks, which tells how much of the wall clock the processors stood idle: that is all that overlap can save.
"""
import os
import time
import warnings

os.environ.update(OMP_NUM_THREADS="1", SOFTCANN_THREADS="1")

import collectives
import common

SHAPES = [(256, 512, 512), (512, 1024, 1024), (2048, 512, 512)]   # rows, depth, columns
SLICES = [2, 4]
KINDS = ["matmul_all_reduce", "matmul_reduce_scatter", "all_gather_matmul"]


def make_calls(kind, shape, rank, world):
    """The fused operator, and the sliced forms by number of slices. Each returns its result."""
    import torch
    import torch.distributed as dist

    import torch_npu

    rows, depth, columns = shape
    torch.manual_seed(rank)
    x, w = torch.randn(rows, depth, device="npu"), torch.randn(depth, columns, device="npu")
    hcom = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)

    def all_reduce(slices):
        out = torch.empty(rows, columns, device="npu")
        works = []
        for part, result in zip(x.chunk(slices), out.chunk(slices)):
            torch.mm(part, w, out=result)
            works.append(dist.all_reduce(result, async_op=True))
        for work in works:
            work.wait()
        return out

    def reduce_scatter(slices):
        # Slice i has the i-th part of what each rank is to get.
        step = rows // world // slices
        parts, out = x.view(world, slices, step, depth), torch.empty(slices, step, columns, device="npu")
        works = []
        for i in range(slices):
            product = torch.mm(parts[:, i].reshape(-1, depth), w)
            works.append(dist.reduce_scatter_tensor(out[i], product, async_op=True))
        for work in works:
            work.wait()
        return out.view(-1, columns)

    def all_gather(slices):
        step = rows // slices
        gathered = [torch.empty(world, step, depth, device="npu") for _ in range(slices)]
        works = [dist.all_gather_into_tensor(whole.view(-1, depth), part, async_op=True)
                 for whole, part in zip(gathered, x.chunk(slices))]
        out = torch.empty(world, slices, step, columns, device="npu")
        for i, (work, whole) in enumerate(zip(works, gathered)):
            work.wait()
            out[:, i] = torch.matmul(whole, w)
        return out.view(-1, columns)

    fused, sliced = {
        "matmul_all_reduce": (lambda: torch_npu.npu_mm_all_reduce_base(x, w, hcom), all_reduce),
        "matmul_reduce_scatter": (lambda: torch_npu.npu_mm_reduce_scatter_base(x, w, hcom, world), reduce_scatter),
        "all_gather_matmul": (lambda: torch_npu.npu_all_gather_base_mm(x, w, hcom, world)[0], all_gather),
    }[kind]
    return [fused] + [lambda slices=slices: sliced(slices) for slices in SLICES]


def rank_main(rank, world, path, rounds, answer):
    import torch
    import torch.distributed as dist

    import torch_npu  # noqa: F401

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", store=dist.FileStore(path, world), rank=rank, world_size=world)
    one = torch.zeros(1, device="npu")

    def burst(call, calls):
        dist.all_reduce(one)
        one.item()
        wall, busy = time.perf_counter(), time.process_time()
        for _ in range(calls):
            call()
        torch.npu.synchronize()
        return (time.perf_counter() - wall) / calls, (time.process_time() - busy) / calls

    for kind in KINDS:
        for shape in SHAPES:
            calls = make_calls(kind, shape, rank, world)
            expected = calls[0]()
            for call in calls[1:]:
                torch.testing.assert_close(call(), expected, rtol=1e-4, atol=1e-3)
            measured = [[] for _ in calls]
            for _ in range(rounds):
                for call, results in zip(calls, measured):
                    results.append(burst(call, 2))
            least = [[min(times) for times in zip(*results)] for results in measured]
            both = [None] * world
            dist.all_gather_object(both, least)
            if rank == 0:
                answer.put((kind, shape, [[max(own[way][0] for own in both), sum(own[way][1] for own in both)]
                                          for way in range(len(calls))]))
    if rank == 0:
        answer.put(None)
    dist.barrier()
    dist.destroy_process_group()


def main():
    options = common.arguments("overlap", __doc__)
    queue, processes = collectives.start(rank_main, 2, options.rounds)
    rows, results = [], {}
    for kind, shape, ways in iter(queue.get, None):
        (wall, busy), sliced = ways[0], ways[1:]
        rows.append([kind, "x".join(map(str, shape)), wall * 1e3, busy / 2 / wall] + [other[0] / wall for other in sliced]
                    + [other[1] / busy for other in sliced])
        results[f"{kind} {shape}"] = ways
    for process in processes:
        process.join()
    common.print_table("Two ranks, the fused operator and the sliced form",
                       ["operator", "rows x depth x columns", "fused ms", "processors busy"] +
                       [f"time, {n} slices" for n in SLICES] + [f"processor time, {n} slices" for n in SLICES], rows)
    common.write_json(options.json, results)


if __name__ == "__main__":
    main()
