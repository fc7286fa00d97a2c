"""Ways to train on four ranks, each against one process: pipeline schedules, hybrid sharding, checkpointed activations, uneven
inputs, sharded losses; and operators of DTensor over all pairs of placements."""
import itertools

import pytest
import torch
import torch.distributed as dist
from test_training import (
    BATCH,
    GPT,
    Block,
    agree,
    batches,
    loss_of,
    make_model,
    optimizer_of,
    reference as reference,  # a fixture
    shard_by_tensor,
    train,
    train_on_whole_batches,
)
from torch import nn


def chain(layers):
    """One block after the other, of one shape: what pipelines cut where they like."""
    torch.manual_seed(3)
    return nn.Sequential(*(Block(16, 2) for _ in range(layers))).npu()


def chain_batch():
    generator = torch.Generator().manual_seed(4)
    return torch.randn(8, 6, 16, generator=generator).npu(), torch.randn(8, 6, 16, generator=generator).npu()


def scheduled(rank, world, name):
    """Gradients of this rank's layers after one step of a schedule: {parameter: its gradient}, and the loss."""
    from torch.distributed import pipelining

    per_rank = 1 if name in ("ScheduleGPipe", "Schedule1F1B") else 2
    total = per_rank * world
    layers = chain(total)
    mine = [rank] if per_rank == 1 else [rank, total - 1 - rank] if "ZBV" in name or "DualPipe" in name else [rank, rank + world]
    device = torch.device("npu", rank)
    stages = [pipelining.PipelineStage(layers[i], i, total, device) for i in mine]
    schedule = getattr(pipelining.schedules, name)(stages[0] if per_rank == 1 else stages, 8, loss_fn=nn.functional.mse_loss)
    inputs, targets = chain_batch()
    losses = []
    for _ in range(2):   # buffers of the first step serve in the second
        losses.clear()
        for layer in layers:
            layer.zero_grad()
        arguments = (inputs,) if 0 in mine else ()
        last = {"target": targets, "losses": losses} if total - 1 in mine else {}
        schedule.step(*arguments, **last)
    gradients = {f"{i}.{n}": p.grad.cpu() for i in mine for n, p in layers[i].named_parameters()}
    return gradients, torch.stack(losses).mean().item() if losses else None


@pytest.mark.parametrize("name", ["ScheduleGPipe", "Schedule1F1B", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS",
                                  "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble"])
def test_pipeline_schedules(four, name):
    results = four.run(scheduled, name)
    layers = chain(4 if name in ("ScheduleGPipe", "Schedule1F1B") else 8)
    inputs, targets = chain_batch()
    loss = nn.functional.mse_loss(layers(inputs), targets)
    loss.backward()
    found = {}
    for gradients, mean in results:
        found.update(gradients)
        assert mean is None or abs(mean - loss.item()) < 1e-5 * abs(loss.item())
    expected = {n: p.grad.cpu() for n, p in layers.named_parameters()}
    assert found.keys() == expected.keys()
    for n, gradient in expected.items():
        torch.testing.assert_close(found[n], gradient, rtol=1e-4, atol=1e-6)


def hybrid(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("npu", (2, world // 2), mesh_dim_names=("replicas", "shards"))
    model = make_model()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return train(model, optimizer_of(model.parameters()), rank, world)


def checkpointed(rank, world):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = make_model()
    mesh = init_device_mesh("npu", (world,))
    for i, block in enumerate(model.blocks):
        model.blocks[i] = fully_shard(checkpoint_wrapper(block), mesh=mesh)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    return train(model, optimizer_of(model.parameters()), rank, world)


def original_fsdp(rank, world):
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    model = FullyShardedDataParallel(make_model(), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=rank, use_orig_params=True)
    return train(model, optimizer_of(model.parameters()), rank, world)


def static_graph(rank, world):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.nn.parallel import DistributedDataParallel

    model = make_model()
    for i, block in enumerate(model.blocks):
        model.blocks[i] = checkpoint_wrapper(block)
    model = DistributedDataParallel(model, static_graph=True, gradient_as_bucket_view=True, bucket_cap_mb=0.05)
    return train(model, optimizer_of(model.parameters()), rank, world)


class WithABranch(GPT):
    """Has parameters that no loss comes from."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Linear(3, 3)


def unused(rank, world):
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = DistributedDataParallel(WithABranch().npu(), find_unused_parameters=True)
    losses = train(model, optimizer_of(model.parameters()), rank, world)
    assert model.module.unused.weight.grad is None
    return losses


def accumulated(rank, world):
    """Two halves of each rank's share, the gradients of the first of which are not exchanged."""
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(make_model())
    optimizer = optimizer_of(model.parameters())
    half = BATCH // world // 2
    losses = []
    for tokens, targets in batches():
        optimizer.zero_grad()
        total = torch.zeros((), device="npu")
        for part in range(2):
            mine = slice((2 * rank + part) * half, (2 * rank + part + 1) * half)
            if part == 0:
                with model.no_sync():
                    loss = loss_of(model(tokens[mine]), targets[mine]) / 2
                    loss.backward()
            else:
                loss = loss_of(model(tokens[mine]), targets[mine]) / 2
                loss.backward()
            total += loss.detach()
        optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        losses.append(total.item())
    return losses


@pytest.mark.parametrize("way", [hybrid, checkpointed, original_fsdp, static_graph, unused, accumulated], ids=lambda way: way.__name__)
def test_losses_are_those_of_one_process(way, four, reference):
    agree(four.run(way), reference)


def parallel_loss(rank, world):
    """The head is sharded along the vocabulary, and so is the loss."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, loss_parallel, parallelize_module

    mesh = init_device_mesh("npu", (world,))
    model = shard_by_tensor(make_model(), mesh)
    parallelize_module(model, mesh, {"head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    with loss_parallel():
        losses = train_on_whole_batches(model, optimizer)
    return losses


def sequence_parallel(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("npu", (world,))
    model = make_model()
    for block in model.blocks:
        # Between the projections the sequence is sharded; what comes in and goes out is whole.
        plan = {"norm1": SequenceParallel(), "norm2": SequenceParallel(),
                "q": ColwiseParallel(input_layouts=Shard(1)), "k": ColwiseParallel(input_layouts=Shard(1)),
                "v": ColwiseParallel(input_layouts=Shard(1)), "o": RowwiseParallel(output_layouts=Shard(1)),
                "up": ColwiseParallel(input_layouts=Shard(1)), "down": RowwiseParallel(output_layouts=Shard(1))}
        parallelize_module(block, mesh, plan)
    plan = {"blocks.0": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1), use_local_output=True),
            "norm": SequenceParallel(), "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())}
    parallelize_module(model, mesh, plan)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    return train_on_whole_batches(model, optimizer)


@pytest.mark.parametrize("way", [parallel_loss, sequence_parallel], ids=lambda way: way.__name__)
def test_sharded_activations(way, four, reference):
    agree(four.run(way), reference)


def uneven(rank, world):
    """Rank r has r + 1 batches; those that have none left join in without, and get the weights of the last."""
    from torch.distributed.algorithms.join import Join
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Linear(5, 3).npu())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with Join([model], divide_by_initial_world_size=True):
        for step in range(rank + 1):
            optimizer.zero_grad()
            model(torch.full((2, 5), 1.0 + rank + step, device="npu")).square().sum().backward()
            optimizer.step()
    return model.module.weight.detach().cpu()


def test_uneven_inputs(four):
    torch.manual_seed(1)
    model = nn.Linear(5, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(4):
        optimizer.zero_grad()
        for rank in range(step, 4):
            (model(torch.full((2, 5), 1.0 + rank + step)).square().sum() / 4).backward()
        optimizer.step()
    for weight in four.run(uneven):
        torch.testing.assert_close(weight, model.weight.detach(), rtol=1e-4, atol=1e-5)


UNARY = {
    "sum": lambda x: x.sum(), "sum0": lambda x: x.sum(0), "mean1": lambda x: x.mean(1), "amax": lambda x: x.amax(1), "softmax": lambda x: x.softmax(-1),
    "log_softmax0": lambda x: x.log_softmax(0), "relu": torch.relu, "transpose": lambda x: x.t(), "view": lambda x: x.reshape(-1),
    "unflatten": lambda x: x.unflatten(0, (2, -1)), "norm": lambda x: x.norm(), "layer_norm": lambda x: nn.functional.layer_norm(x, x.shape[1:]),
    "clone": torch.clone, "to": lambda x: x.to(torch.float64), "slice": lambda x: x[:, 2:5], "split": lambda x: x.split(3, 0)[1],
    "cat": lambda x: torch.cat([x, x], 1), "stack": lambda x: torch.stack([x, x]), "topk": lambda x: x.topk(2, 1)[0], "sort": lambda x: x.sort(1)[0],
    "argmax": lambda x: x.argmax(1), "cumsum": lambda x: x.cumsum(0), "where": lambda x: torch.where(x > 0, x, -x), "triu": lambda x: x.triu(),
    "var": lambda x: x.var(1), "permute": lambda x: x.unsqueeze(0).permute(2, 0, 1), "all": lambda x: (x > -9).all(), "gelu": nn.functional.gelu,
    "flip": lambda x: x.flip(0), "pad": lambda x: nn.functional.pad(x, (1, 1)), "repeat": lambda x: x.repeat(2, 1),
}
# Not mse_loss: PyTorch's own mean over uneven shards is wrong, on CPUs as well.
BINARY = {
    "add": torch.add, "mul": torch.mul, "div": lambda x, y: x / (y.abs() + 1), "matmul": lambda x, y: x @ y.t(), "maximum": torch.maximum,
    "eq": torch.eq, "lerp": lambda x, y: torch.lerp(x, y, 0.3), "addmm": lambda x, y: torch.addmm(x @ y.t(), x, y.t()),
    "bmm": lambda x, y: torch.bmm(x[None], y.t()[None]), "linear": nn.functional.linear, "atan2": torch.atan2,
}


def over_placements(rank, world):
    """What differs from the whole tensor's result: (operator, placements, what). Operators that DTensor does not know are left out."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    torch.manual_seed(8)
    x, y = torch.randn(6, 7), torch.randn(6, 7)   # no dimension divides by the ranks
    flat, square = init_device_mesh("npu", (world,)), init_device_mesh("npu", (2, world // 2))
    one = [[Replicate()], [Shard(0)], [Shard(1)], [Partial()]]
    two = [[a, b] for a, b in itertools.product([Replicate(), Shard(0), Shard(1), Partial()], repeat=2)]

    def place(tensor, mesh, placements):
        whole = distribute_tensor(tensor.npu(), mesh, [Replicate() if p.is_partial() else p for p in placements])
        if not any(p.is_partial() for p in placements):
            return whole
        local = whole.to_local()
        for dim, p in enumerate(placements):
            if p.is_partial():
                local = local * (1.0 if mesh.get_local_rank(dim) == 0 else 0.0)
        return DTensor.from_local(local, mesh, placements, shape=tensor.shape, stride=tensor.stride())

    wrong, served, unserved = [], 0, set()

    def compare(name, call, tensors, mesh, placements):
        nonlocal served
        expected = call(*tensors)
        try:
            found = call(*(place(t, mesh, p) for t, p in zip(tensors, placements))).full_tensor().cpu()
        except (NotImplementedError, RuntimeError) as error:
            unserved.add((name, str(error).splitlines()[0][:150]))
            return
        served += 1
        try:
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        except AssertionError as error:
            wrong.append((name, str(placements), str(error).splitlines()[0]))

    for mesh, placements in ((flat, one), (square, two)):
        for name, call in UNARY.items():
            for placement in placements:
                compare(name, call, [x], mesh, [placement])
    for name, call in BINARY.items():
        for pair in itertools.product(one, repeat=2):
            compare(name, call, [x, y], flat, pair)
    return wrong, served, sorted(unserved)


def test_placements(four):
    for wrong, served, _ in four.run(over_placements):
        assert not wrong
        assert served > 500
