"""Training on several ranks gives the losses of one process: DDP, FSDP2, ZeRO, tensor parallel, pipelines."""
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

STEPS, BATCH, LENGTH, VOCABULARY = 20, 8, 16, 37


class Block(nn.Module):
    """A transformer block whose projections are separate, as tensor parallelism wants them."""

    def __init__(self, width, heads):
        super().__init__()
        self.size = width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = (p(y).unflatten(-1, (-1, self.size)).transpose(1, 2) for p in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, layers=2, width=32, heads=4):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


def make_model():
    torch.manual_seed(0)
    return GPT().npu()


def batches():
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), generator=generator).npu()
        yield tokens[:, :-1], tokens[:, 1:]


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def optimizer_of(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)


def train(model, optimizer, rank, world, **options):
    """Losses over the whole batch; each rank computes on its share of it."""
    share = BATCH // world
    losses = []
    for tokens, targets in batches():
        mine = slice(rank * share, (rank + 1) * share)
        loss = loss_of(model(tokens[mine]), targets[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total, dist.ReduceOp.AVG, **options)
        losses.append(total.item())
    return losses


def train_on_whole_batches(model, optimizer):
    """Losses of one process, or of ranks that each see the whole batch."""
    losses = []
    for tokens, targets in batches():
        loss = loss_of(model(tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def single_process():
    model = make_model()
    losses = train_on_whole_batches(model, optimizer_of(model.parameters()))
    assert losses[-1] < losses[0]
    return losses


@pytest.fixture(scope="module")
def reference():
    return single_process()


def agree(results, reference, relative=1e-5):
    for losses in results:
        torch.testing.assert_close(torch.tensor(losses), torch.tensor(reference), rtol=relative, atol=0)


def ddp(rank, world):
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(make_model(), device_ids=[rank], bucket_cap_mb=0.05)
    return train(model, optimizer_of(model.parameters()), rank, world)


def ddp_zero(rank, world):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(make_model(), gradient_as_bucket_view=True)
    return train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3), rank, world)


def fsdp(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = make_model()
    mesh = init_device_mesh("npu", (world,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return train(model, optimizer_of(model.parameters()), rank, world)


def shard_by_tensor(model, mesh):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan = {"q": ColwiseParallel(), "k": ColwiseParallel(), "v": ColwiseParallel(), "o": RowwiseParallel(),
            "up": ColwiseParallel(), "down": RowwiseParallel()}
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    return model


def tensor_parallel(rank, world):
    from torch.distributed.device_mesh import init_device_mesh

    model = shard_by_tensor(make_model(), init_device_mesh("npu", (world,)))
    # Not all parameters are distributed tensors, and PyTorch's grouped updates take no mixture.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    return train_on_whole_batches(model, optimizer)


def fsdp_and_tensor_parallel(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("npu", (world // 2, 2), mesh_dim_names=("data", "tensor"))
    model = shard_by_tensor(make_model(), mesh["tensor"])
    for block in model.blocks:
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    return train(model, optimizer_of(model.parameters()), mesh["data"].get_local_rank(), world // 2, group=mesh["data"].get_group())


class Stage(nn.Module):
    """A half of the GPT, by layers."""

    def __init__(self, model, first):
        super().__init__()
        self.first = first
        self.tokens, self.positions = (model.tokens, model.positions) if first else (None, None)
        self.block = model.blocks[0 if first else 1]
        self.norm, self.head = (None, None) if first else (model.norm, model.head)

    def forward(self, x):
        if self.first:
            x = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        x = self.block(x)
        return x if self.first else self.head(self.norm(x))


def pipeline(rank, world):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    stage = Stage(make_model(), rank == 0)
    schedule = ScheduleGPipe(PipelineStage(stage, rank, world, torch.device("npu", rank)), 4, loss_fn=loss_of)
    optimizer = optimizer_of(stage.parameters())
    losses = []
    for tokens, targets in batches():
        optimizer.zero_grad()
        parts = []
        if rank == 0:
            schedule.step(tokens)
        else:
            schedule.step(target=targets, losses=parts)
        optimizer.step()
        if rank:
            losses.append(torch.stack(parts).mean().item())
    return losses


@pytest.mark.parametrize("way", [ddp, ddp_zero, fsdp, tensor_parallel], ids=lambda way: way.__name__)
@pytest.mark.parametrize("world", [2, 4])
def test_losses_are_those_of_one_process(way, world, request, reference):
    agree(request.getfixturevalue("two" if world == 2 else "four").run(way), reference)


def test_two_dimensional_mesh(four, reference):
    agree(four.run(fsdp_and_tensor_parallel), reference)


def test_pipeline(two, reference):
    agree(two.run(pipeline)[1:], reference)


def hooked(rank, world, name):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook, quantization_hooks
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(make_model())
    if name == "power":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif name.startswith("quantization"):
        model.register_comm_hook(None, getattr(quantization_hooks, name))
    else:
        model.register_comm_hook(None, getattr(default_hooks, name))
    return train(model, optimizer_of(model.parameters()), rank, world)


@pytest.mark.parametrize("name, relative", [("fp16_compress_hook", 2e-3), ("bf16_compress_hook", 5e-3), ("power", 3e-2),
                                            ("quantization_pertensor_hook", 3e-2)])
def test_communication_hooks(two, reference, name, relative):
    # Gradients lose bits on the way: AdamW moves a little differently, and the loss goes down all the same.
    results = two.run(hooked, name)
    agree(results, reference, relative)
    assert results[0] == results[1]


def not_a_hook(rank, world):
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(torch.nn.Linear(2, 2).npu())
    with pytest.raises(TypeError, match="must be callable"):
        model.register_comm_hook({}, {})


def test_a_hook_must_be_callable(two):
    two.run(not_a_hook)


def statistics(rank, world):
    """DistributedDataParallel's own measurements of its first iterations."""
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(make_model(), device_ids=[rank])
    for (tokens, targets), _ in zip(batches(), range(4)):
        loss_of(model(tokens), targets).backward()
    found = model._get_ddp_logging_data()
    times = {name: found[name] for name in ("avg_forward_compute_time", "avg_backward_compute_time", "avg_backward_comm_time")}
    assert all(0 < time < 60e9 for time in times.values()), times   # nanoseconds


def test_statistics_of_data_parallel(two):
    two.run(statistics)


def distributed_tensor(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("npu", (world,))
    torch.manual_seed(5)
    a, b = torch.randn(10, 6), torch.randn(6, 7)
    da, db = distribute_tensor(a.npu(), mesh, [Shard(0)]), distribute_tensor(b.npu(), mesh, [Replicate()])
    torch.testing.assert_close((da @ db).full_tensor().cpu(), a @ b)
    torch.testing.assert_close(da.redistribute(mesh, [Shard(1)]).sum(0).full_tensor().cpu(), a.sum(0))
    torch.testing.assert_close((distribute_tensor(a.npu(), mesh, [Shard(1)]) @ distribute_tensor(b.npu(), mesh, [Shard(0)])).full_tensor().cpu(), a @ b)


def test_distributed_tensor(four):
    four.run(distributed_tensor)
