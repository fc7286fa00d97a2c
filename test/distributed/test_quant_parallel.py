"""Products of quantised matrices beside a collective: each equals the product of what they stand for and torch.distributed's."""

import pytest
import torch
import torch.distributed as dist

import torch_npu
from torch_npu._cpu_ops._blocks import unscaled

E4M3 = torch.float8_e4m3fn
CLOSE = dict(rtol=1e-3, atol=1e-3)


def name_of(rank):
    return dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)


def eight(rank, *shape, low=-9):
    return torch.randint(low, 10, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(rank))


def uniform(rank, *shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(100 + rank)) / 10 + 0.01


def microscaled(rank, *shape, axis=-1):
    """(float8, MX scales in pairs, what they stand for)."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(rank))
    y, scales = torch_npu.npu_dynamic_mx_quant(x, axis=axis, dst_type=24)
    return y, scales, unscaled(y, scales, axis, "e4m3")


def gather_and_scatter(rank, world):
    hcom = name_of(rank)
    w, columns, bias = eight(77, 6, 8), uniform(77, 8), torch.arange(8.0)
    x, rows = eight(rank, 4, 6), uniform(rank, 4)
    out, gathered, amax = torch_npu.npu_all_gather_quant_mm(
        x.npu(), w.npu(), hcom, world, bias=bias.npu(), x1_scale=rows.npu(), x2_scale=columns.npu(), y_dtype=6)
    expected = torch.cat([eight(r, 4, 6).float() * uniform(r, 4).unsqueeze(1) for r in range(world)]) @ (w.float() * columns) + bias
    torch.testing.assert_close(out.cpu(), expected, **CLOSE)
    assert torch.equal(gathered.cpu(), torch.cat([eight(r, 4, 6) for r in range(world)])) and amax.numel() == 0
    total = sum((eight(r, 4, 6).float() * uniform(r, 4).unsqueeze(1)) @ (w.float() * columns) for r in range(world))
    found, _ = torch_npu.npu_quant_mm_reduce_scatter(
        x.npu(), w.npu(), hcom, world, x1_scale=rows.npu(), x2_scale=columns.npu(), quant_scale=torch.tensor([2.0]).npu(), y_dtype=5)
    # Each rank's part is rounded to float16, and so is each sum of them.
    torch.testing.assert_close(found.cpu(), (2 * total.chunk(world)[rank]).half(), rtol=2e-3, atol=1e-2)
    wide, blocks = torch.randn(256, 130).to(E4M3), uniform(3, 2, 2)
    tall, own = torch.randn(256, 256, generator=torch.Generator().manual_seed(rank)).to(E4M3), uniform(rank, 2, 2)
    found, none, _ = torch_npu.npu_all_gather_quant_mm(
        tall.npu(), wide.npu(), hcom, world, x1_scale=own.npu(), x2_scale=blocks.npu(), gather_output=False, y_dtype=6, group_sizes=[128] * 3)
    spread = lambda s, shape: s.repeat_interleave(128, 0)[: shape[0]].repeat_interleave(128, 1)[:, : shape[1]]
    expected = (tall.float() * spread(own, (256, 256))) @ (wide.float() * spread(blocks, (256, 130)))
    # Sums of 256 products, added up block by block here and in one there.
    torch.testing.assert_close(found[rank * 256 : rank * 256 + 256].cpu(), expected, rtol=1e-3, atol=1e-2)
    assert none.numel() == 0
    meta = torch_npu.npu_quant_mm_reduce_scatter(x.to("meta"), w.to("meta"), hcom, world, y_dtype=15)
    assert meta[0].shape == (4 // world, 8) and meta[0].dtype == torch.bfloat16
    with pytest.raises(ValueError, match="cannot be split"):
        torch_npu.npu_quant_mm_reduce_scatter(x[:3].npu(), w.npu(), hcom, world)
    with pytest.raises(NotImplementedError, match="amax_output"):
        torch_npu.npu_all_gather_quant_mm(x.npu(), w.npu(), hcom, world, amax_output=True)


def exchanges(rank, world):
    hcom = name_of(rank)
    own = [torch.randn(4, 64, generator=torch.Generator().manual_seed(r)).half() for r in range(world)]
    w, columns = eight(5, 64 * world, 6), uniform(5, 6)
    size = 4 // world
    rows = torch.cat([x[rank * size : (rank + 1) * size] for x in own], 1)
    out, exchanged = torch_npu.npu_all_to_all_quant_matmul(
        own[rank].npu(), w.npu(), hcom, world, x2_scale=columns.npu(), x1_quant_mode=7, x2_quant_mode=2, x1_quant_dtype=1, y_dtype=5)
    assert torch.equal(exchanged.cpu(), rows)
    codes, scale = torch_npu.npu_dynamic_quant(rows)
    expected = (codes.float() @ w.float()) * scale.unsqueeze(1) * columns
    torch.testing.assert_close(out.cpu(), expected.half(), rtol=2e-2, atol=5e-2)
    tokens = [microscaled(r, 4, 64) for r in range(world)]
    weight, weight_scale, plain = microscaled(50, 64 * world, 6, axis=0)
    out, exchanged = torch_npu.npu_all_to_all_quant_matmul(
        tokens[rank][0].npu(), weight.npu(), hcom, world, x1_scale=tokens[rank][1].npu(), x2_scale=weight_scale.npu())
    assert exchanged.dtype == E4M3 and out.dtype == torch.float32
    expected = torch.cat([t[2][rank * size : (rank + 1) * size] for t in tokens], 1) @ plain
    torch.testing.assert_close(out.cpu(), expected, **CLOSE)
    x, right = eight(rank, 3, 6), eight(9, 6, 4 * world)
    found = torch_npu.npu_quant_matmul_all_to_all(
        x.npu(), right.npu(), hcom, world, x1_scale=uniform(rank, 3).npu(), x2_scale=torch.tensor([0.5]).npu())
    expected = torch.cat([
        (0.5 * (eight(r, 3, 6).float() * uniform(r, 3).unsqueeze(1)) @ right.float()).chunk(world, 1)[rank] for r in range(world)])
    torch.testing.assert_close(found.cpu(), expected, **CLOSE)
    with pytest.raises(NotImplementedError, match="several ranks"):
        torch_npu.npu_all_to_all_quant_matmul(
            eight(rank, 4, 6).npu(), eight(1, 6 * world, 4).npu(), hcom, world, x1_scale=uniform(rank, 4).npu())


def experts(rank, world):
    hcom, count = name_of(rank), 2
    table = [[[1 + (r + s + e) % 3 for e in range(count)] for s in range(world)] for r in range(world)]  # [from][to][expert]
    send = [n for to in table[rank] for n in to]
    recv = [n for source in range(world) for n in table[source][rank]]
    tokens = [microscaled(r, sum(sum(to) for to in table[r]), 64) for r in range(world)]
    matrices = [microscaled(60 + 10 * rank + e, 64, 5, axis=0) for e in range(count)]
    weight, weight_scale = (torch.stack([m[i].view(torch.uint8) for m in matrices]) for i in range(2))
    shared = eight(3, 2, 6), eight(4, 6, 5)
    out, other, permuted = torch_npu.npu_alltoallv_quant_gmm(
        tokens[rank][0].npu(), weight.view(E4M3).npu(), tokens[rank][1].npu(), weight_scale.npu(), hcom, world, send, recv, 6,
        mm_x=shared[0].npu(), mm_weight=shared[1].npu(), mm_x_scale=torch.tensor([0.5]).npu(), mm_weight_scale=torch.tensor([0.1]).npu(),
        mm_y_dtype=6, gmm_x_quant_mode=6, gmm_weight_quant_mode=6, permute_out_flag=True)
    torch.testing.assert_close(other.cpu(), 0.05 * (shared[0].float() @ shared[1].float()), **CLOSE)
    arrived, expected = [], []
    for expert in range(count):
        for source in range(world):
            first = sum(n for to in range(rank) for n in table[source][to]) + sum(table[source][rank][:expert])
            places = slice(first, first + table[source][rank][expert])
            arrived.append(tokens[source][0][places])
            expected.append(tokens[source][2][places] @ matrices[expert][2])
    assert torch.equal(permuted.cpu().view(torch.uint8), torch.cat([t.view(torch.uint8) for t in arrived]))
    torch.testing.assert_close(out.cpu(), torch.cat(expected), **CLOSE)
    identity = torch.eye(64, dtype=torch.int8).expand(count, 64, 64).contiguous()
    codes, one = (permuted.float().cpu() / 8).round().clamp(-127, 127).to(torch.int8), torch.tensor([1.0]).npu()
    back, nothing = torch_npu.npu_quant_gmm_alltoallv(codes.npu(), identity.npu(), one, one, hcom, world, recv, send, 6)
    assert nothing is None
    assert torch.equal(back.cpu(), (tokens[rank][0].float() / 8).round().clamp(-127, 127))


@pytest.mark.parametrize("check", [gather_and_scatter, exchanges, experts], ids=lambda check: check.__name__)
def test_quantised_products_beside_collectives(two, check):
    two.run(check)
