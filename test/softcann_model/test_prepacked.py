"""Convolutions and linear layers whose weights are packed, what is computed with them, attention, and products of float16 in float32."""
import pathlib
import re
import threading

import pytest
import torch
import torch.nn.functional as F
from model_client import Loaded
from om_writer import DTYPES, om, operator


def convolution(x, w, b, out, stride=1, groups=1, padding=1):
    return operator("aten::convolution", [f"t:{x}", f"t:{w}", b, f"I:{stride},{stride}", f"I:{padding},{padding}", "I:1,1", "b:0", "I:0,0",
                                         f"i:{groups}"], [out])


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


@pytest.mark.parametrize("stride", [1, 2])
def test_large_pictures(acl, stride):
    """They are padded strip by strip; the shortcut that is added goes along."""
    height, width = -(-150 // stride), -(-40 // stride)
    x, w, b, v = torch.randn(2, 32, 150, 40), torch.randn(32, 32, 3, 3) / 17, torch.randn(32), torch.randn(32, 32, 1, 1) / 6
    ops = [convolution("v0", "v", "n", "s", stride, padding=0), convolution("v0", "w", "t:b", "v1", stride), operator("aten::add.Tensor", ["t:v1", "t:s"], ["v2"]),
           operator("aten::relu", ["t:v2"], ["v3"], ["v2"])]
    data = om([dict(inputs=["v0 x float32 NCHW 2,32,150,40"], outputs=[f"v3 y float32 NCHW 2,32,{height},{width}"], ops=ops)],
              {"w": w, "b": b, "v": v})
    expected = F.relu(F.conv2d(x, w, b, stride, 1) + F.conv2d(x, v, None, stride))
    assert torch.allclose(Loaded(acl, data)(x), expected, rtol=1e-4, atol=1e-4)


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


ACTIVATIONS = [("aten::relu", [], F.relu), ("aten::sigmoid", [], torch.sigmoid), ("aten::tanh", [], torch.tanh), ("aten::silu", [], F.silu),
               ("aten::hardswish", [], F.hardswish), ("aten::hardsigmoid", [], F.hardsigmoid), ("aten::gelu", [], F.gelu),
               ("aten::gelu", ["s:tanh"], lambda x: F.gelu(x, approximate="tanh")), ("aten::leaky_relu", ["f:0.2"], lambda x: F.leaky_relu(x, 0.2)),
               ("aten::clamp", ["f:-0.5", "f:0.7"], lambda x: x.clamp(-0.5, 0.7)), ("aten::clamp", ["f:0.1", "n"], lambda x: x.clamp(min=0.1)),
               ("aten::clamp", ["f:1", "f:-1"], lambda x: x.clamp(1, -1)), ("aten::hardtanh", [], F.hardtanh)]


@pytest.mark.parametrize("kernel, more, expected", ACTIVATIONS, ids=[f"{kernel[6:]}{''.join(more)}" for kernel, more, _ in ACTIVATIONS])
@pytest.mark.parametrize("added", [False, True], ids=["alone", "added"])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.float16, 2e-2)], ids=["float32", "float16"])
@pytest.mark.parametrize("made", [4, 20])
def test_what_follows_a_product(acl, kernel, more, expected, added, dtype, tolerance, made):
    """Of few channels and of many; in two groups, too. Where the picture is NaN, the results are."""
    name = DTYPES[dtype]
    x, w, b = torch.randn(2, 4, 6, 7), torch.randn(made, 4, 3, 3) / 6, torch.randn(made)
    g, v = torch.randn(made, 2, 3, 3) / 4, torch.randn(made + 1, 7) / 3
    x[1, 1, 0, 0] = torch.nan

    def behind(product, other, last):
        total = [operator("aten::add.Tensor", [f"t:{other}", f"t:{product}"], [f"{product}s"])] if added else []
        return [*total, operator(kernel, [f"t:{product}{'s' if added else ''}", *more], [last])]
    ops = [convolution("v0", "w", "t:b", "v1"), convolution("v0", "w", "n", "o1"), *behind("v1", "o1", "v2"),
           convolution("v0", "g", "t:b", "v5", groups=2), *behind("v5", "o1", "v6"),
           operator("aten::linear", ["t:v2", "t:v"], ["v3"]), operator("aten::linear", ["t:v2", "t:v", "n"], ["o3"]), *behind("v3", "o3", "v4")]
    x, w, b, g, v = (one.to(dtype) for one in (x, w, b, g, v))
    data = om([dict(inputs=[f"v0 x {name} NCHW 2,4,6,7"], outputs=[f"v4 y {name} ND 2,{made},6,{made + 1}", f"v6 z {name} NCHW 2,{made},6,7"],
                    ops=ops)], {"w": w, "b": b, "g": g, "v": v})
    y, z = Loaded(acl, data)(x)
    x, w, b, g, v = (one.float() for one in (x, w, b, g, v))
    other = F.conv2d(x, w, padding=1)
    first, grouped = other + b.view(-1, 1, 1), F.conv2d(x, g, b, padding=1, groups=2)
    second = F.linear(expected(first + other if added else first), v)
    assert torch.allclose(y.float(), expected(2 * second if added else second), rtol=tolerance, atol=tolerance, equal_nan=True)
    assert torch.allclose(z.float(), expected(grouped + other if added else grouped), rtol=tolerance, atol=tolerance, equal_nan=True)


# Input channels, output channels, groups, picture, kernel, stride, padding, dilation: of all channels, then of each alone.
LOOPS = [(17, 24, 1, (13, 9), (1, 1), (1, 1), (0, 0), (1, 1)), (64, 33, 1, (7, 7), (1, 1), (1, 1), (0, 0), (1, 1)),
         (130, 160, 1, (3, 50), (1, 1), (1, 1), (0, 0), (1, 1)), (5, 16, 1, (1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
         (7, 20, 1, (8, 8), (1, 1), (2, 2), (0, 0), (1, 1)), (3, 32, 1, (17, 20), (3, 3), (2, 2), (1, 1), (1, 1)),
         (40, 72, 1, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)), (4, 18, 1, (9, 30), (5, 2), (1, 3), (2, 0), (2, 1)),
         (6, 100, 1, (4, 4), (7, 7), (1, 1), (3, 3), (1, 1)), (8, 16, 1, (9, 9), (3, 3), (2, 1), (0, 2), (1, 1)),
         (24, 24, 24, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)), (96, 96, 96, (20, 31), (3, 3), (2, 2), (1, 1), (1, 1)),
         (33, 33, 33, (15, 15), (5, 5), (2, 2), (2, 2), (1, 1)), (32, 32, 32, (14, 14), (3, 3), (1, 1), (2, 2), (2, 2)),
         (40, 40, 40, (11, 12), (3, 1), (1, 2), (0, 1), (1, 1)), (64, 64, 64, (3, 3), (7, 7), (1, 1), (3, 3), (1, 1)),
         (17, 17, 17, (6, 2), (5, 5), (1, 1), (2, 2), (1, 1))]


@pytest.mark.parametrize("case", LOOPS, ids=lambda case: "-".join(map(str, case[:3])) + f"-{case[3][1]}")
@pytest.mark.parametrize("added, clipped", [(False, False), (False, True), (True, True)], ids=["alone", "clipped", "added"])
def test_convolutions_by_loops(acl, case, added, clipped):
    """With an infinity and a NaN in the picture, which go where they belong."""
    channels, made, groups, picture, kernel, stride, padding, dilation = case
    x, w, b = torch.randn(2, channels, *picture), torch.randn(made, channels // groups, *kernel), torch.randn(made)
    x[1, 0, 0, 0], x[1, 1, -1, -1] = torch.inf, torch.nan
    expected = F.conv2d(x, w, b, stride, padding, dilation, groups)
    shape = ",".join(map(str, expected.shape))
    numbers = [f"I:{a},{b}" for a, b in (stride, padding, dilation)]
    ops, last = [operator("aten::convolution", ["t:v0", "t:w", "t:b", *numbers, "b:0", "I:0,0", f"i:{groups}"], ["v2"])], "v2"
    if added:
        ops.append(operator("aten::add.Tensor", [f"t:{last}", "t:v1"], ["v3"]))
        last = "v3"
    if clipped:
        ops.append(operator("aten::relu", [f"t:{last}"], ["v4"]) if added else operator("aten::clamp", [f"t:{last}", "f:-1", "f:2"], ["v4"]))
        last = "v4"
    data = om([dict(inputs=[f"v0 x float32 NCHW {','.join(map(str, x.shape))}", f"v1 o float32 NCHW {shape}"],
                    outputs=[f"{last} y float32 NCHW {shape}"], ops=ops)], {"w": w, "b": b})
    other = torch.randn_like(expected)
    expected = F.relu(expected + other) if added else expected.clamp(-1, 2) if clipped else expected
    assert torch.allclose(Loaded(acl, data)(x, other), expected, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("rows, columns, made", [(1, 64, 24), (3, 5, 17), (130, 96, 160), (9, 1, 48)])
def test_linear_layers_by_loops(acl, rows, columns, made):
    x, w, b, other = torch.randn(2, rows, columns), torch.randn(made, columns) / 4, torch.randn(made), torch.randn(2, rows, made)
    ops = [operator("aten::linear", ["t:v0", "t:w", "t:b"], ["v2"]), operator("aten::add.Tensor", ["t:v2", "t:v1"], ["v3"]),
           operator("aten::linear", ["t:v0", "t:w", "n"], ["v4"]), operator("aten::relu", ["t:v4"], ["v5"])]
    shape = f"2,{rows},{made}"
    data = om([dict(inputs=[f"v0 x float32 ND 2,{rows},{columns}", f"v1 o float32 ND {shape}"],
                    outputs=[f"v3 y float32 ND {shape}", f"v5 z float32 ND {shape}"], ops=ops)], {"w": w, "b": b})
    y, z = Loaded(acl, data)(x, other)
    assert torch.allclose(y, F.linear(x, w, b) + other, rtol=1e-4, atol=1e-4)
    assert torch.allclose(z, F.relu(F.linear(x, w)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dims", ["2,4,5,5", "1,4,1,1", "5", "1"], ids=["whole", "channels", "rows", "one"])
@pytest.mark.parametrize("alpha", [1, 3])
def test_sums_of_any_shape(acl, dims, alpha):
    x, w = torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3)
    other = torch.randn([int(dim) for dim in dims.split(",")])
    data = om([dict(inputs=["v0 x float32 NCHW 2,3,5,5", f"v1 o float32 ND {dims}"], outputs=["v4 y float32 NCHW 2,4,5,5"],
                    ops=[convolution("v0", "w", "n", "v2"), operator("aten::add.Tensor", ["t:v2", "t:v1", f"i:{alpha}"], ["v3"]),
                         operator("aten::relu", ["t:v3"], ["v4"])])], {"w": w})
    assert torch.allclose(Loaded(acl, data)(x, other), F.relu(F.conv2d(x, w, padding=1) + alpha * other), atol=1e-4)


def test_an_input_that_is_freed_before_the_sum(acl):
    """The shortcut is the last to read x, and runs between the convolution and the sum of both."""
    x, w, s = torch.randn(1, 3, 4, 4), torch.randn(3, 3, 3, 3), torch.randn(3, 3, 3, 3)
    ops = [operator("aten::neg", ["t:v0"], ["v1"]), convolution("v1", "w", "n", "v2"), convolution("v1", "s", "n", "v3"),
           operator("aten::abs", ["t:v1"], ["v4"], ["v1"]), operator("aten::add.Tensor", ["t:v2", "t:v3"], ["v5"], ["v2", "v3"]),
           operator("aten::add.Tensor", ["t:v5", "t:v4"], ["v6"], ["v5", "v4"])]
    data = om([dict(inputs=["v0 x float32 NCHW 1,3,4,4"], outputs=["v6 y float32 NCHW 1,3,4,4"], ops=ops)], {"w": w, "s": s})
    expected = F.conv2d(-x, w, padding=1) + F.conv2d(-x, s, padding=1) + x.abs()
    assert torch.allclose(Loaded(acl, data)(x), expected, atol=1e-4)


def test_images_of_many_sizes(acl):
    w, b = torch.randn(6, 3, 3, 3), torch.randn(6)
    data = om([dict(inputs=["v0 x float32 NCHW -1,3,-1,-1"], outputs=["v2 y float32 NCHW -1,6,-1,-1"], shape_range=["v0 1~9,3~3,1~99,1~99"],
                    ops=[convolution("v0", "w", "t:b", "v1", stride=2), operator("aten::relu", ["t:v1"], ["v2"])])], {"w": w, "b": b})
    model = Loaded(acl, data)
    for size in (8, 9, 20, 31, 8, 20, 1):
        x = torch.randn(1 + size % 3, 3, size, size + 2)
        expected = F.relu(F.conv2d(x, w, b, 2, 1))
        assert torch.allclose(model(x, sizes=[expected.nbytes], described=True), expected, atol=1e-4), size


def test_threads_pack_once(acl, tmp_path):
    """All start with the first run; afterwards the file's pages of the weights are not in memory any more."""
    w = torch.randn(64, 64, 3, 3) / 24
    file = tmp_path / "threads.om"
    file.write_bytes(om([dict(inputs=["v0 x float32 NCHW 1,64,9,9"], outputs=["v2 y float32 NCHW 1,64,9,9"],
                              ops=[convolution("v0", "w", "n", "v1"), operator("aten::relu", ["t:v1"], ["v2"])])], {"w": w}))
    model, wrong, start = Loaded(acl, file), [], threading.Barrier(4)

    def run(seed):
        acl.aclrtSetDevice(0)
        x = torch.randn(1, 64, 9, 9, generator=torch.Generator().manual_seed(seed))
        start.wait()
        if not torch.allclose(model(x), F.relu(F.conv2d(x, w, padding=1)), atol=1e-4):
            wrong.append(seed)
    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    mapped = pathlib.Path("/proc/self/smaps").read_text().partition(file.name)[2]
    assert int(re.search(r"Rss: +(\d+) kB", mapped)[1]) < w.nbytes / 1024 / 2


# Batch, heads, rows, keys, size of a key, size of a value, shape of the mask.
ATTENTION = [(1, 12, 128, 128, 64, 64, "1,1,1,128"), (2, 3, 5, 33, 20, 17, None), (2, 3, 9, 40, 8, 24, "2,1,9,40"), (1, 2, 1, 16, 16, 16, "16"),
             (2, 2, 7, 19, 32, 32, "7,19"), (1, 1, 3, 4, 16, 16, None), (1, 1, 600, 600, 16, 16, None)]


@pytest.mark.parametrize("batch, heads, rows, keys, size, out, mask", ATTENTION)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float16, 5e-3)], ids=["float32", "float16"])
def test_attention(acl, batch, heads, rows, keys, size, out, mask, dtype, tolerance):
    """Heads that lie beside each other, as projections leave them; with a mask, some keys are hidden, and all of the last row."""
    name = DTYPES[dtype]
    q, k, v = (torch.randn(batch, length, heads, width).to(dtype) for length, width in ((rows, size), (keys, size), (keys, out)))
    inputs = [f"v{i} x{i} {name} ND {','.join(map(str, one.shape))}" for i, one in enumerate((q, k, v))]
    added = torch.randn([int(dim) for dim in (mask or "1").split(",")]).to(dtype)
    if mask:
        added[..., ::3] = -torch.inf
        if added.dim() > 1 and added.size(-2) > 1:
            added[..., -1, :] = -torch.inf
    ops = [operator("aten::permute", [f"t:v{i}", "I:0,2,1,3"], [f"p{i}"]) for i in range(3)]
    ops.append(operator("aten::scaled_dot_product_attention", ["t:p0", "t:p1", "t:p2", "t:m" if mask else "n", "f:0", "b:0", "f:0.3"], ["v3"]))
    data = om([dict(inputs=inputs, outputs=[f"v3 y {name} ND {batch},{heads},{rows},{out}"], ops=ops)], {"m": added} if mask else {})
    scores = torch.einsum("blhd,bnhd->bhln", q.double(), k.double()) * 0.3 + (added.double() if mask else 0)
    expected = torch.einsum("bhln,bnhd->bhld", scores.softmax(-1).nan_to_num(0), v.double())
    assert torch.allclose(Loaded(acl, data)(q, k, v).double(), expected, atol=tolerance)
