"""PyTorch's own distributed parts on two NPUs: checkpoints, FSDP2, tensor, pipeline and context parallelism."""

from __future__ import annotations

import sys
import tempfile

import torch
import torch.distributed as dist
from harness import case, close, main, on_npu, ranks
from torch import nn
from torch.distributed.device_mesh import init_device_mesh


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))


def inputs(rows: int = 8) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(rows, 16)


def two(part: str, *arguments: str) -> None:
    assert ranks("use_pytorch.py", "worker", part, *arguments).count(f"{part} on npu") == 2


@case("`torch.distributed.checkpoint` of an FSDP2 model: save, async_save, load into another sharding")
def checkpoints() -> None:
    with tempfile.TemporaryDirectory() as folder:
        two("checkpoint", folder)


@case("`parallelize_module`: column and row wise, sequence parallel; results and gradients of the whole model")
def tensor_parallel() -> None:
    two("tensor")


@case("`torch.distributed.pipelining`: GPipe and 1F1B; the loss of the whole model")
def pipelining() -> None:
    two("pipeline")


@case("`context_parallel` around `scaled_dot_product_attention`, causal and not, with gradients")
def context() -> None:
    two("context")


def checkpoint(folder: str) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard

    def build() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = fully_shard(network().npu())
        return model, torch.optim.AdamW(model.parameters(), lr=1e-2)

    model, optimizer = build()
    batch = inputs().npu()
    for _ in range(3):
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    wanted = model(batch).detach().cpu()
    for path in (f"{folder}/a", f"{folder}/b"):
        weights, state = get_state_dict(model, optimizer)
        if path.endswith("a"):
            dcp.save({"model": weights, "optimizer": state}, checkpoint_id=path)
        else:
            dcp.async_save({"model": weights, "optimizer": state}, checkpoint_id=path, process_group=dist.new_group(backend="gloo")).result()
        other, again = build()
        weights, state = get_state_dict(other, again)
        with torch.no_grad():
            for value in weights.values():
                value.zero_()
        dcp.load({"model": weights, "optimizer": state}, checkpoint_id=path)
        set_state_dict(other, again, model_state_dict=weights, optim_state_dict=state)
        close(other(batch), wanted)
    on_npu(other)
    plain = network().npu()
    weights = {"model": plain.state_dict()}
    dcp.load(weights, checkpoint_id=f"{folder}/a")
    close(plain(batch), wanted)


def tensor() -> None:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("npu", (2,))
    whole = network()
    split = parallelize_module(network().npu(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    whole(inputs()).square().mean().backward()
    found = split(inputs().npu())
    close(found, whole(inputs()))
    found.square().mean().backward()
    close(split[0].weight.grad.full_tensor(), whole[0].weight.grad)
    on_npu(split[0].weight.to_local())


def pipeline() -> None:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    rank = dist.get_rank()
    device = torch.device("npu", rank)
    target = inputs().flip(1)
    whole = network()
    wanted = nn.functional.mse_loss(whole(inputs()), target)
    wanted.backward()
    for schedule in (ScheduleGPipe, Schedule1F1B):
        layers = network()
        part = (layers[:2] if rank == 0 else layers[2:]).to(device)
        run = schedule(PipelineStage(part, rank, 2, device), n_microbatches=4, loss_fn=nn.functional.mse_loss)
        losses: list[torch.Tensor] = []
        if rank == 0:
            run.step(inputs().to(device))
        else:
            run.step(target=target.to(device), losses=losses)
            close(torch.stack(losses).mean(), wanted)
        mine = whole[0] if rank == 0 else whole[2]
        close(part[0].weight.grad, mine.weight.grad)


def context_parallelism() -> None:
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import _cp_options, context_parallel_unshard

    mesh = init_device_mesh("npu", (2,))
    torch.manual_seed(2)
    whole = [torch.randn(2, 4, 32, 16, requires_grad=True) for _ in range(3)]
    weight = torch.randn(2, 4, 32, 16)
    for causal, balanced in ((False, False), (True, False), (True, True)):
        _cp_options.enable_load_balance = balanced
        wanted = nn.functional.scaled_dot_product_attention(*whole, is_causal=causal)
        gradients = torch.autograd.grad((wanted * weight).sum(), whole)
        buffers = [*(value.detach().npu() for value in whole), weight.npu()]
        with context_parallel(mesh, buffers=buffers, buffer_seq_dims=[2] * 4):
            parts = [value.detach().clone().requires_grad_() for value in buffers[:3]]
            assert parts[0].shape[2] == 16
            found = nn.functional.scaled_dot_product_attention(*parts, is_causal=causal)
            (found * buffers[3]).sum().backward()
            results = [found.detach(), *(value.grad for value in parts)]
            for here, there in zip(context_parallel_unshard(mesh, results, [2] * 4), [wanted, *gradients]):
                close(here, there, 1e-3)


def worker(part: str, *arguments: str) -> None:
    dist.init_process_group("hccl")
    torch.npu.set_device(dist.get_rank())
    {"checkpoint": checkpoint, "tensor": tensor, "pipeline": pipeline, "context": context_parallelism}[part](*arguments)
    print(f"{part} on npu", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(*sys.argv[2:])
    else:
        main()
