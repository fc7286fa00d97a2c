"""Custom operators on distributed tensors: they stay sharded, and values and gradients are those of whole tensors."""
import pytest
import torch

import torch_npu


def normal(*shape):
    return torch.randn(*shape)


def angles(*shape):
    return torch.rand(*shape)


# name: (arguments, how each tensor among them is sharded along `dim` (True), dimensions that can be)
CASES = {
    "npu_fast_gelu": (lambda: [normal(4, 5, 6)], [True], [0, 1, 2]),
    "npu_swiglu": (lambda: [normal(4, 6, 5), 1], [True], [0, 2]),
    "npu_geglu": (lambda: [normal(4, 5, 6), -1, 0], [True], [0, 1]),
    "npu_gelu_mul": (lambda: [normal(4, 5, 6)], [True], [0, 1]),
    "npu_rms_norm": (lambda: [normal(4, 5, 6), normal(6)], [True, False], [0, 1]),
    "npu_gemma_rms_norm": (lambda: [normal(4, 5, 6), normal(6)], [True, False], [0, 1]),
    "npu_add_rms_norm": (lambda: [normal(4, 5, 6), normal(4, 5, 6), normal(6)], [True, True, False], [0, 1]),
    "npu_add_rms_norm_cast": (lambda: [normal(4, 5, 6), normal(4, 5, 6), normal(6)], [True, True, False], [0, 1]),
    "npu_deep_norm": (lambda: [normal(4, 5, 6), normal(4, 5, 6), normal(6), normal(6), 0.5], [True, True, False, False], [0, 1]),
    # The angles are the same for all heads; those of each position are sharded with it.
    "npu_rotary_mul": (lambda: [normal(2, 4, 3, 8), angles(1, 4, 1, 8), angles(1, 4, 1, 8)], [True, None, None], [0, 1, 2]),
    "npu_scaled_masked_softmax": (lambda: [normal(2, 4, 3, 8), torch.rand(2, 1, 3, 8) < 0.3, 0.5], [True, None], [0, 1]),
    "npu_moe_token_permute": (lambda: [normal(4, 6), torch.tensor([[0, 2], [1, 0], [2, 1], [0, 1]])], [True, False], [1]),
    "npu_moe_token_unpermute": (lambda: [normal(8, 6), torch.randperm(8).int(), normal(4, 2)], [True, False, False], [1]),
    "npu_fusion_attention": (lambda: [normal(3, 6, 2, 8), normal(3, 6, 2, 8), normal(3, 6, 2, 8), 2, "BSND", None, None,
                                      torch.ones(6, 6, dtype=torch.bool).triu(1), 0.35], [True, True, True, False], [0]),
}
def attention(rank, world, dim):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.nn.functional import scaled_dot_product_attention

    mesh = init_device_mesh("npu", (world,))
    torch.manual_seed(0)
    plain = [torch.randn(2, 4, 6, 8).npu().requires_grad_() for _ in range(3)]
    placed = [distribute_tensor(x.detach(), mesh, [Shard(dim)]).requires_grad_() for x in plain]
    for causal in (False, True):
        expected, found = (scaled_dot_product_attention(*given, is_causal=causal) for given in (plain, placed))
        assert found.placements == ((Shard(dim),) if dim < 2 else (Replicate(),))
        # The same kernel on a part of the batch or of the heads.
        torch.testing.assert_close(found.full_tensor(), expected, rtol=1e-6, atol=1e-6)
        for one, other in zip(torch.autograd.grad(expected.square().sum(), plain), torch.autograd.grad(found.square().sum(), placed)):
            torch.testing.assert_close(other.full_tensor(), one, rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="not distributed is given with distributed ones"):
        scaled_dot_product_attention(placed[0], *plain[1:])


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scaled_dot_product_attention(two, dim):
    two.run(attention, dim)


WITHOUT_GRADIENT = {"npu_gelu_mul", "npu_gemma_rms_norm", "npu_add_rms_norm", "npu_add_rms_norm_cast"}


def floats(values):
    values = values if isinstance(values, (tuple, list)) else [values]
    return [value for value in values if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel()]


def sharded(rank, world, name, dim):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("npu", (world,))
    make, along, _ = CASES[name]
    torch.manual_seed(0)
    plain = [value.npu() if isinstance(value, torch.Tensor) else value for value in make()]
    gradient = name not in WITHOUT_GRADIENT
    placed, kinds = [], iter(along)
    for value in plain:
        if isinstance(value, torch.Tensor):
            kind = next(kinds)
            kind = value.shape[dim] > 1 if kind is None else kind
            value.requires_grad_(gradient and value.is_floating_point())
            value = distribute_tensor(value.detach(), mesh, [Shard(dim) if kind else Replicate()]).requires_grad_(value.requires_grad)
        placed.append(value)

    expected, found = (floats(getattr(torch_npu, name)(*arguments)) for arguments in (plain, placed))
    for one, other in zip(expected, found):
        assert other.placements == (Shard(dim),), f"{name} was brought together: {other.placements}"
        torch.testing.assert_close(other.full_tensor(), one)
    if not gradient:
        return
    torch.manual_seed(1)
    main = next(i for i, value in enumerate(expected) if value.requires_grad and value.shape[:1] == expected[-1].shape[:1]) \
        if name != "npu_deep_norm" else 2
    weight = torch.randn_like(expected[main])
    (expected[main] * weight).sum().backward()
    (found[main] * distribute_tensor(weight, mesh, [Shard(dim)])).sum().backward()
    for one, other in zip(plain, placed):
        if isinstance(one, torch.Tensor) and one.requires_grad:
            torch.testing.assert_close(other.grad.full_tensor(), one.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name, dim", [(name, dim) for name, case in CASES.items() for dim in case[2]])
def test_stays_sharded(two, name, dim):
    two.run(sharded, name, dim)


def attention_of_heads(rank, world):
    """What a rule does not allow is brought together first: right, if slow."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("npu", (world,))
    torch.manual_seed(0)
    q = normal(2, 6, 4, 8).npu()
    out = torch_npu.npu_fusion_attention(*[distribute_tensor(q, mesh, [Shard(2)])] * 3, 4, "BSND", scale=0.35)[0]
    torch.testing.assert_close(out.full_tensor(), torch_npu.npu_fusion_attention(q, q, q, 4, "BSND", scale=0.35)[0])


def test_other_placements(two):
    two.run(attention_of_heads)


def unknown(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    x = distribute_tensor(torch.rand(4, 8, device="npu"), init_device_mesh("npu", (world,)), [Shard(0)])
    with pytest.raises(NotImplementedError, match="npu_dynamic_quant.*does not have a sharding strategy"):
        torch_npu.npu_dynamic_quant(x)


def test_an_operator_without_a_rule_is_named(two):
    two.run(unknown)


def one_hot(rank, world, dim):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    classes = torch.arange(8).view(2, 4) % 3
    result = torch.nn.functional.one_hot(distribute_tensor(classes.npu(), init_device_mesh("npu", (world,)), [Shard(dim)]), 5)
    assert result.placements == (Shard(dim),)
    assert result.full_tensor().cpu().equal(torch.nn.functional.one_hot(classes, 5))


@pytest.mark.parametrize("dim", [0, 1])
def test_one_hot_stays_sharded(two, dim):
    two.run(one_hot, dim)
