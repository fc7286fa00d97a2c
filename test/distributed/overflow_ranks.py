"""One rank of two: an overflow on rank 1 alone must skip the step on both. Run by test_overflow_ranks.py.

    overflow_ranks.py RANK STORE saturating|ieee
"""
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

import torch_npu  # noqa: F401
from torch_npu.contrib.apex import amp
from torch_npu.npu.amp.sharded_grad_scaler import ShardedGradScaler

OPTIONS = {"init_scale": 1024.0, "growth_interval": 2}
# Step by step: None, or the factor of rank 1's loss. A float32 gradient of 1e38 * 1024 is too large.
FACTORS = [1.0, 1e38, 1.0, 1e38, 1.0, 1.0]
SCALES = [1024.0, 512.0, 512.0, 256.0, 256.0, 512.0]


def replicated(model):
    return DistributedDataParallel(model)


def sharded(model):
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)


def sharded_flat(model):
    return FullyShardedDataParallel(model, device_id=torch.npu.current_device(), use_orig_params=True)


def check(wrap, scaler, rank, saturating, fused, unscale):
    torch.manual_seed(0)
    model = wrap(nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 4)).npu())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(rank)).npu()
    local = [getattr(p, "_local_tensor", p) for p in model.parameters()]
    for step, (factor, scale) in enumerate(zip(FACTORS, SCALES)):
        before = [p.detach().clone() for p in local]
        optimizer.zero_grad()
        loss = model(x).square().mean() * (factor if rank == 1 else 1.0)
        scaler.scale(loss).backward()
        gradients = [getattr(p.grad, "_local_tensor", p.grad) for p in model.parameters() if p.grad is not None]
        visible = not all(bool(g.isfinite().all()) for g in gradients)
        assert visible == (factor > 1 and not saturating), (step, visible)
        if unscale:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        same = [torch.equal(p, q) for p, q in zip(before, local) if p.numel()]
        assert all(same) if factor > 1 else not any(same), (rank, step, same)
        assert scaler.get_scale() == scale, (rank, step, scaler.get_scale())


def check_apex(level, rank, saturating):
    """The levels with DistributedDataParallel: initialised before the model is wrapped."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)).npu()
    model, optimizer = amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.1), opt_level=level, verbosity=0)
    wrapped = DistributedDataParallel(model)
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(rank)).npu()
    params = [*model.parameters(), *amp.master_params(optimizer)]
    for step, factor in enumerate((1.0, 1e38, 1.0)):
        before = [p.detach().clone() for p in params]
        optimizer.zero_grad()
        loss = wrapped(x).square().mean() * (factor if rank == 1 else 1.0)
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
            gradients = [p.grad for p in model.parameters()]
            visible = not all(bool(g.isfinite().all()) for g in gradients)
            assert visible == (factor > 1 and not saturating), (step, visible)
        optimizer.step()
        same = [torch.equal(p, q) for p, q in zip(before, params)]
        assert all(same) if factor > 1 else not all(same), (rank, level, step, same)
        assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 65536.0 / (1 if step == 0 else 2), (rank, level, step)
    mine = torch.cat([p.detach().float().flatten() for p in params])
    theirs = [torch.empty_like(mine) for _ in range(2)]
    dist.all_gather(theirs, mine)
    assert torch.equal(*theirs), "the ranks went different ways"


def main(rank, store, kind):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", store=dist.FileStore(store, 2), rank=rank, world_size=2)
    saturating = not torch.npu.is_support_inf_nan()
    assert saturating == (kind == "saturating")
    plain = torch.npu.amp.GradScaler, lambda **options: torch.amp.GradScaler("npu", **options)
    for fused, unscale in ((False, False), (True, False), (True, True)):
        for wrap, scalers in ((replicated, plain), (sharded, (*plain, ShardedGradScaler)), (sharded_flat, (ShardedGradScaler,))):
            for make in scalers:
                check(wrap, make(**OPTIONS), rank, saturating, fused, unscale)
                print(wrap.__name__, getattr(make, "__module__", ""), fused, unscale, flush=True)
    for level in ("O1", "O2"):
        check_apex(level, rank, saturating)
        print("apex", level, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
