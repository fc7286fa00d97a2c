"""Products beside a collective: each equals the product and the collective of torch.distributed."""

import pytest
import torch
import torch.distributed as dist

import torch_npu


def name_of(rank, group=None):
    return (group or dist.group.WORLD)._get_backend(torch.device("npu")).get_hccl_comm_name(rank)


def tensors(rank, *shapes):
    generator = torch.Generator().manual_seed(rank)
    return [torch.randn(shape, generator=generator).npu() for shape in shapes]


def dense(rank, world):
    hcom = name_of(rank)
    x, w, bias = tensors(rank, (4, 6), (6, 8), (8,))
    found = torch_npu.npu_mm_all_reduce_base(x, w, hcom, bias=bias, x3=x[:, :1])
    expected = x @ w + bias + x[:, :1]
    dist.all_reduce(expected)
    torch.testing.assert_close(found, expected)
    scattered = torch_npu.npu_mm_reduce_scatter_base(x, w, hcom, world)
    expected = x @ w
    dist.all_reduce(expected)
    torch.testing.assert_close(scattered, expected.chunk(world)[rank])
    out, gathered = torch_npu.npu_all_gather_base_mm(x, w, hcom, world)
    whole = torch.cat([tensors(r, (4, 6))[0] for r in range(world)])
    assert torch.equal(gathered, whole)
    torch.testing.assert_close(out, whole @ w)
    meta = torch_npu.npu_all_gather_base_mm(x.to("meta"), w.to("meta"), hcom, world)
    assert [t.shape for t in meta] == [out.shape, gathered.shape]
    (wide,) = tensors(9, (6 * world, 5))
    out, exchanged = torch_npu.npu_all_to_all_matmul(x, wide, hcom, world)
    rows = 4 // world
    assert torch.equal(exchanged, torch.cat([tensors(r, (4, 6))[0][rank * rows : (rank + 1) * rows] for r in range(world)], 1))
    torch.testing.assert_close(out, exchanged @ wide)
    back = torch_npu.npu_matmul_all_to_all(x, w, hcom, world)
    expected = torch.cat([(torch.mm(*tensors(r, (4, 6), (6, 8)))).chunk(world, 1)[rank] for r in range(world)])
    torch.testing.assert_close(back, expected)
    with pytest.raises(RuntimeError, match="communicator called 'nobody'"):
        torch_npu.npu_mm_all_reduce_base(x, w, "nobody")
    with pytest.raises(RuntimeError, match="reduceOp 'max'"):
        torch_npu.npu_mm_all_reduce_base(x, w, hcom, reduce_op="max")
    with pytest.raises(NotImplementedError, match="npu_mm_all_reduce_base"):
        torch_npu.npu_mm_all_reduce_base(x.requires_grad_(), w, hcom).sum().backward()


def int8(rank, world):
    hcom = name_of(rank)
    generator = torch.Generator().manual_seed(rank)
    x, w = (torch.randint(-99, 99, shape, dtype=torch.int8, generator=generator).npu() for shape in ((4, 6), (6, 8)))
    scale, rows = torch.rand(1, 8, generator=generator).npu(), torch.rand(4, 1, generator=generator).npu()
    plain = (x.float() @ w.float()) * scale * rows
    found = torch_npu.npu_mm_reduce_scatter_base(x, w, hcom, world, x1_scale=rows, x2_scale=scale, output_dtype=torch.float16)
    expected = plain.half()
    dist.all_reduce(expected)
    torch.testing.assert_close(found, expected.chunk(world)[rank], rtol=2e-3, atol=1e-2)
    out, _ = torch_npu.npu_all_gather_base_mm(x, w, hcom, world, x1_scale=rows, x2_scale=scale)
    torch.testing.assert_close(out[rank * 4 : rank * 4 + 4], plain.bfloat16(), rtol=1e-2, atol=1e-2)
    half, anti = torch.randn(4, 6, generator=generator).npu().half(), torch.full((8,), 0.01).npu().half()
    found = torch_npu.npu_mm_all_reduce_base(half, w, hcom, antiquant_scale=anti)
    expected = half @ (w.float() * 0.01).half()
    dist.all_reduce(expected)
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)


def weights_in_blocks(rank, world):
    hcom, generator, before = name_of(rank), torch.Generator().manual_seed(rank), torch.npu.config.allow_internal_format
    x, w = (torch.randint(-9, 9, shape, dtype=torch.int8, generator=generator).npu() for shape in ((4, 6), (6, 8)))
    half, scale = torch.randn(4, 6, generator=generator).npu().half(), torch.full((8,), 0.01).npu()
    torch.npu.config.allow_internal_format = True
    try:
        blocks = torch_npu.npu_format_cast(w, torch_npu.Format.FRACTAL_NZ)
        assert torch_npu.get_npu_format(blocks) == torch_npu.Format.FRACTAL_NZ
        for left, more in ((x, {"dequant_scale": scale.bfloat16()}), (half, {"antiquant_scale": scale.half()})):
            assert torch.equal(torch_npu.npu_mm_all_reduce_base(left, blocks, hcom, **more),
                               torch_npu.npu_mm_all_reduce_base(left, w, hcom, **more))
    finally:
        torch.npu.config.allow_internal_format = before


def groups_that_come_and_go(rank, world):
    """A later communicator takes the place of one that was destroyed."""
    x, w = tensors(rank, (4, 6), (6, 8))
    for _ in range(3):
        group = dist.new_group(list(range(world)))
        expected = x @ w
        dist.all_reduce(expected, group=group)
        torch.testing.assert_close(torch_npu.npu_mm_all_reduce_base(x, w, name_of(rank, group)), expected)
        torch.npu.synchronize()
        dist.destroy_process_group(group)


def experts(rank, world):
    hcom, count = name_of(rank), 2
    table = [[[1 + (r + s + e) % 3 for e in range(count)] for s in range(world)] for r in range(world)]  # [from][to][expert]
    send = [n for to in table[rank] for n in to]
    recv = [n for source in range(world) for n in table[source][rank]]
    (weights,) = tensors(50 + rank, (count, 3, 4))
    x = torch.arange(sum(send) * 3.0).view(-1, 3).npu() + 1000 * rank
    mm_x, mm_weight = tensors(7, (2, 3), (3, 5))
    out, shared, permuted = torch_npu.npu_alltoallv_gmm(
        x, weights, hcom, world, send, recv, mm_x=mm_x, mm_weight=mm_weight, permute_out_flag=True
    )
    torch.testing.assert_close(shared, mm_x @ mm_weight)
    rows = []
    for expert in range(count):
        for source in range(world):
            before = sum(n for to in range(rank) for n in table[source][to]) + sum(table[source][rank][:expert])
            number = table[source][rank][expert]
            rows.append(torch.arange(before * 3.0, (before + number) * 3.0).view(-1, 3) + 1000 * source)
    assert torch.equal(permuted.cpu(), torch.cat(rows))
    sizes = [sum(table[s][rank][e] for s in range(world)) for e in range(count)]
    torch.testing.assert_close(out, torch.cat([p @ w for p, w in zip(permuted.split(sizes), weights)]))
    identity = torch.eye(3).expand(count, 3, 3).npu()
    back, nothing = torch_npu.npu_gmm_alltoallv(permuted, identity, hcom, world, recv, send)
    assert torch.equal(back, x) and nothing is None


@pytest.mark.parametrize("check", [dense, int8, weights_in_blocks, experts, groups_that_come_and_go], ids=lambda check: check.__name__)
def test_products_beside_collectives(two, check):
    two.run(check)
