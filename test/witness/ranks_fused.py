"""Two ranks of the published client: operators that communicate themselves: python ranks_fused.py. Run by test_published_client.py."""
import os
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import torch_npu

RANKS = 2


def of(rank, *shape, dtype=torch.float16):
    """The same numbers at all ranks for a rank and a shape."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(10 * rank + len(shape) + shape[-1])).to(dtype)


def near(actual, expected):
    torch.testing.assert_close(actual.cpu().float(), expected.float(), rtol=4e-3, atol=4e-2)


def products(rank, name):
    x, w, bias = of(rank, 8, 16), of(7 + rank, 16, 32), of(9, 32)
    every = [(of(r, 8, 16).float(), of(7 + r, 16, 32).float()) for r in range(RANKS)]
    total = sum(a @ b + bias.float() for a, b in every)
    near(torch_npu.npu_mm_all_reduce_base(x.npu(), w.npu(), name, bias=bias.npu()), total)
    plain = sum(a @ b for a, b in every)
    near(torch_npu.npu_mm_reduce_scatter_base(x.npu(), w.npu(), name, RANKS), plain.chunk(RANKS)[rank])
    out, gathered = torch_npu.npu_all_gather_base_mm(x.npu(), w.npu(), name, RANKS)
    whole = torch.cat([a for a, _ in every])
    near(gathered, whole)
    near(out, whole @ w.float())
    # a view that is not contiguous
    near(torch_npu.npu_mm_all_reduce_base(x.npu(), w.t().contiguous().npu().t(), name), plain)


def tokens(rank, name):
    """Each rank has two experts, of which each gets other numbers of tokens."""
    sends = [[1, 2, 3, 4], [2, 0, 1, 5]][rank]
    receives = [[1, 2, 2, 0], [3, 4, 1, 5]][rank]
    rows, weights = [of(r, n, 8) for r, n in ((0, 10), (1, 8))], of(3 + rank, 2, 8, 16)
    parts = [rows[r].split([[1, 2, 3, 4], [2, 0, 1, 5]][r]) for r in range(RANKS)]
    mine = [torch.cat([parts[r][2 * rank + expert] for r in range(RANKS)]) for expert in range(2)]
    out, _, arrived = torch_npu.npu_alltoallv_gmm(rows[rank].npu(), weights.npu(), name, RANKS, sends, receives, permute_out_flag=True)
    near(arrived, torch.cat(mine))
    near(out, torch.cat([a.float() @ b.float() for a, b in zip(mine, weights)]))
    back, _ = torch_npu.npu_gmm_alltoallv(arrived, weights.npu(), name, RANKS, receives, sends)
    everybody = [of(3 + r, 2, 8, 16) for r in range(RANKS)]
    near(back, torch.cat([parts[rank][2 * r + e].float() @ everybody[r][e].float() for r in range(RANKS) for e in range(2)]))


def experts(rank, name):
    tokens, k, size, count = 6, 2, 32, 4
    ids = [torch.stack([torch.randperm(count, generator=torch.Generator().manual_seed(100 * r + i))[:k] for i in range(tokens)]).int()
           for r in range(RANKS)]
    x = [of(r, tokens, size) for r in range(RANKS)]
    weights = torch.rand(tokens, k, generator=torch.Generator().manual_seed(rank))
    rows, _, index, counts, ends, tp, _ = torch_npu.npu_moe_distribute_dispatch_v2(
        x[rank].npu(), ids[rank].npu(), name, RANKS, rank, count)
    mine = [(e, [x[r][t] for r in range(RANKS) for t in range(tokens) if (ids[r][t] == e).any()])
            for e in range(2 * rank, 2 * rank + 2)]
    arrived = torch.stack([row for _, found in mine for row in found])
    near(rows[:len(arrived)], arrived)
    assert counts.tolist() == [len(found) for _, found in mine]
    assert ends[:count].tolist()[-1] == len(arrived)
    done = rows.clone()
    done[:len(arrived)] = torch.cat([torch.stack(found) * (e + 1) for e, found in mine]).npu()
    out = torch_npu.npu_moe_distribute_combine_v2(done, ids[rank].npu(), index, ends, weights.npu(), name, RANKS, rank, count,
                                                  tp_send_counts=tp)
    near(out, x[rank].float() * (weights * (ids[rank] + 1)).sum(1, keepdim=True))


def one(rank, path):
    warnings.filterwarnings("ignore")
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", store=dist.FileStore(path, RANKS), rank=rank, world_size=RANKS)
    dist.all_reduce(torch.ones(1, device="npu"))
    name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
    for test in (products, tokens, experts):
        test(rank, name)
    torch.npu.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(one, args=(os.path.join(folder, "store"),), nprocs=RANKS)
    print("passed")
