"""Convolutions whose weights are packed when the model is loaded, and products of float16 that are computed in float32."""
import pytest
import torch
import torch.nn.functional as F
from model_client import Loaded
from om_writer import DTYPES, om, operator


def convolution(x, w, b, out, stride=1, groups=1):
    return operator("aten::convolution", [f"t:{x}", f"t:{w}", b, f"I:{stride},{stride}", "I:1,1", "I:1,1", "b:0", "I:0,0", f"i:{groups}"], [out])


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.float16, 1e-2)], ids=["float32", "float16"])
def test_convolutions_with_relu_and_a_shortcut(acl, dtype, tolerance):
    name = DTYPES[dtype]
    x, w1, b1 = torch.randn(2, 4, 9, 9).to(dtype), (torch.randn(8, 4, 3, 3) / 6).to(dtype), torch.randn(8).to(dtype)
    w2, w3 = (torch.randn(8, 1, 3, 3) / 3).to(dtype), (torch.randn(8, 8, 3, 3) / 9).to(dtype)
    ops = [convolution("v0", "w1", "t:b1", "v1", stride=2), operator("aten::relu", ["t:v1"], ["v2"], ["v1"]),
           convolution("v2", "w2", "n", "v3", groups=8), operator("aten::relu", ["t:v3"], ["v4"]),   # v3 is an output too
           convolution("v4", "w3", "n", "v5"), operator("aten::add.Tensor", ["t:v5", "t:v2"], ["v6"]),
           operator("aten::relu", ["t:v6"], ["v7"], ["v6"])]
    model = Loaded(acl, om([dict(inputs=[f"v0 x {name} NCHW 2,4,9,9"], outputs=[f"v7 y {name} NCHW 2,8,5,5", f"v3 z {name} NCHW 2,8,5,5"], ops=ops)],
                           {"w1": w1, "b1": b1, "w2": w2, "w3": w3}))
    y, z = model(x)
    wide = [one.float() for one in (x, w1, b1, w2, w3)]
    first = F.relu(F.conv2d(wide[0], wide[1], wide[2], 2, 1))
    second = F.conv2d(first, wide[3], None, 1, 1, groups=8)
    assert torch.allclose(z.float(), second, atol=tolerance)
    assert torch.allclose(y.float(), F.relu(F.conv2d(F.relu(second), wide[4], None, 1, 1) + first), atol=2 * tolerance)


def test_weights_that_are_given_at_run_time(acl):
    x, w = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)
    data = om([dict(inputs=["v0 x float32 NCHW 1,2,5,5", "v1 w float32 NCHW 3,2,3,3"], outputs=["v2 y float32 NCHW 1,3,5,5"],
                    ops=[convolution("v0", "v1", "n", "v2")])])
    assert torch.allclose(Loaded(acl, data)(x, w), F.conv2d(x, w, padding=1), atol=1e-5)


def test_products_of_float16(acl):
    x, w, b = torch.randn(5, 64).half(), torch.randn(32, 64).half(), torch.randn(32).half()
    data = om([dict(inputs=["v0 x float16 ND 5,64"], outputs=["v1 y float16 ND 5,32", "v3 z float16 ND 32,32"],
                    ops=[operator("aten::linear", ["t:v0", "t:w", "t:b"], ["v1"]),
                         operator("aten::transpose.int", ["t:v1", "i:0", "i:1"], ["v2"]),
                         operator("aten::matmul", ["t:v2", "t:v1"], ["v3"])])], {"w": w, "b": b})
    y, z = Loaded(acl, data)(x)
    assert torch.allclose(y.float(), F.linear(x.float(), w.float(), b.float()), rtol=2e-3, atol=1e-3)
    assert torch.allclose(z.float(), y.t().float() @ y.float(), rtol=2e-3, atol=1e-3)
