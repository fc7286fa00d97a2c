"""float4 as the published client describes it, on a chip that has it (SOFTCANN_SOC=Ascend950): values against formulas on the CPU."""
import torch

import torch_npu

LEVELS = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
FP4, E8M0 = torch_npu.float4_e2m1fn_x2, torch_npu.float8_e8m0fnu


def decoded(y, scales):
    """[rows, size / 2] of two numbers each, and exponents in pairs."""
    y, scales = y.cpu(), scales.cpu()
    codes = torch.stack([y & 15, y >> 4], -1).flatten(-2).long()
    numbers = LEVELS[codes & 7] * torch.where(codes > 7, -1.0, 1.0)
    return numbers * (2.0 ** (scales.flatten(-2).float() - 127)).repeat_interleave(32, -1)[..., :numbers.shape[-1]]


def near(found, x):
    """What is left of x in float4: numbers of a block are multiples of at least a quarter of its greatest."""
    top = x.unflatten(-1, (-1, 32)).abs().amax(-1).repeat_interleave(32, -1)
    assert ((found - x).abs() <= top / 4).all()
    assert (found - x).abs().mean() < 0.15 * x.abs().mean()


def blocks():
    x = torch.randn(4, 128)
    y, scales = torch_npu.npu_dynamic_mx_quant(x.half().npu(), dst_type=FP4)
    near(decoded(y, scales), x)
    back = torch_npu.npu_anti_mx_quant(y, scales, src_type=FP4)
    torch.testing.assert_close(back.cpu().float(), decoded(y, scales), rtol=1e-2, atol=0)
    first, pairs, second, others = torch_npu.npu_dynamic_mx_quant_with_dual_axis(x.half().npu(), dst_type=FP4)
    assert torch.equal(first, y) and torch.equal(pairs, scales) and others.shape == (1, 128, 2) and second.shape == (4, 64)


def products():
    x, w = torch.randn(4, 128), torch.randn(16, 128)
    (a, a_scale), (b, b_scale) = (torch_npu.npu_dynamic_mx_quant(t.half().npu(), dst_type=FP4) for t in (x, w))
    out = torch_npu.npu_quant_matmul(a, b.t(), b_scale.transpose(0, 1), pertoken_scale=a_scale, output_dtype=torch.bfloat16, x1_dtype=FP4,
                                     x2_dtype=FP4, scale_dtype=E8M0, pertoken_scale_dtype=E8M0, group_sizes=[1, 1, 32])
    wanted = decoded(a, a_scale) @ decoded(b, b_scale).t()
    torch.testing.assert_close(out.cpu().float(), wanted, rtol=1e-2, atol=1e-2)


def two_levels():
    x = torch.randn(4, 1024) * 100
    y, first, second = torch_npu.npu_dynamic_dual_level_mx_quant(x.half().npu())
    torch.testing.assert_close(first.cpu(), x.half().float().unflatten(1, (2, 512)).abs().amax(-1) / 6)
    near(decoded(y, second) * first.cpu().repeat_interleave(512, 1), x)


def compression():
    x = torch.randn(64, 32)
    pdf, mantissa, fixed, var = (torch.zeros(*size, dtype=dtype).npu() for size, dtype in
                                 (((1, 256), torch.int32), ((1536,), x.dtype), ((512,), x.dtype), ((2048,), x.dtype)))
    torch_npu.npu_hans_encode(x.npu(), True, False, out=[pdf, mantissa, fixed, var])
    assert pdf.sum().item() == x.numel()
    back = torch.zeros(64, 32).npu()
    torch_npu.npu_hans_decode(mantissa, fixed, var, pdf, False, out=back)
    assert torch.equal(back.cpu(), x)


if __name__ == "__main__":
    for case in (blocks, products, two_levels, compression):
        print("case", case.__name__, flush=True)
        torch.manual_seed(0)
        case()
    print("passed")
