"""acl.op.compile_and_execute of the operators that make networks, against torch on the CPU."""
import ctypes

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from acl_tools import LIBRARIES

NUMBERS = {"float32": 0, "float16": 1, "int32": 3}
NCHW, ND, NHWC = 0, 2, 1


def run(acl, name, inputs, shape, attributes=None, dtype=None, layout=ND, stream=None):
    """The output of an operator by name, of the first input's type unless one is given; `layout` is of tensors with 4 dimensions or more.
    The error's text where it fails."""
    attr, own = acl.op.create_attr(), stream or acl.rt.create_stream()[0]
    for key, value in (attributes or {}).items():
        kind = "list_int" if isinstance(value, list) else type(value).__name__.replace("str", "string")
        assert getattr(acl.op, f"set_attr_{kind}")(attr, key, value) == 0
    y = np.zeros(shape, dtype or inputs[0].dtype)
    descs, buffers = [], []
    for array in [*inputs, y]:
        array = np.ascontiguousarray(array)
        address, ret = acl.rt.malloc(max(array.nbytes, 1), 0)
        assert ret == 0 and acl.rt.memcpy(address, array.nbytes, acl.util.numpy_to_ptr(array), array.nbytes, 1) == 0
        descs.append(acl.create_tensor_desc(NUMBERS[str(array.dtype)], array.shape, layout if array.ndim >= 4 else ND))
        buffers.append(acl.create_data_buffer(address, array.nbytes))
    ret = acl.op.compile_and_execute(name, descs[:-1], buffers[:-1], descs[-1:], buffers[-1:], attr, 0, 0, "", own)
    ret = ret or acl.rt.synchronize_stream(own)
    failure = acl.get_recent_err_msg() if ret else None
    address = acl.get_data_buffer_addr(buffers[-1])
    assert acl.rt.memcpy(acl.util.numpy_to_ptr(y), y.nbytes, address, y.nbytes, 2) == 0
    for desc, buffer in zip(descs, buffers):
        assert acl.rt.free(acl.get_data_buffer_addr(buffer)) == 0
        assert acl.destroy_tensor_desc(desc) == 0 and acl.destroy_data_buffer(buffer) == 0
    assert acl.op.destroy_attr(attr) == 0 and (stream or acl.rt.destroy_stream(own) == 0)
    return failure or torch.from_numpy(y)


def close(found, expected, atol=1e-5):
    assert not isinstance(found, str), found
    torch.testing.assert_close(found, expected.to(found.dtype), atol=atol, rtol=1e-3 if found.dtype == torch.float16 else 1e-5)


def numbers(*shape):
    return torch.randn(*shape)


X = (2, 4, 9, 8)


def test_no_text_without_an_error(acl):
    acl.get_recent_err_msg()
    assert acl.get_recent_err_msg() is None


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["Abs", "Neg", "Relu", "Floor", "Ceil", "Round", "Reciprocal", "Sqrt", "Rsqrt", "Erf", "Sin", "Cos", "Tanh", "Sigmoid"])
def test_one_element(acl, name, dtype):
    x = numbers(3, 5).abs() + 0.1 if name in ("Reciprocal", "Sqrt", "Rsqrt") else numbers(3, 5) * 3
    x = x.to(getattr(torch, dtype))
    close(run(acl, name, [x.numpy()], x.shape), getattr(torch, name.lower())(x.float()), 1e-3 if dtype == "float16" else 1e-5)


@pytest.mark.parametrize("name, function", [("Add", torch.add), ("Sub", torch.sub), ("Mul", torch.mul), ("Div", torch.div), ("Pow", torch.pow),
                                            ("Maximum", torch.maximum), ("Minimum", torch.minimum)])
def test_two_elements(acl, name, function):
    a, b = numbers(3, 5).abs() + 0.1, numbers(5)
    close(run(acl, name, [a.numpy(), b.numpy()], a.shape), function(a, b))


def test_exponents_and_logarithms(acl):
    x = numbers(4).abs() + 0.5
    close(run(acl, "Exp", [x.numpy()], x.shape, {"base": 2.0, "scale": 0.5, "shift": 1.0}), torch.exp2(0.5 * x + 1))
    close(run(acl, "Log", [x.numpy()], x.shape, {"base": -1.0, "scale": 2.0}), torch.log(2 * x))
    close(run(acl, "Log", [x.numpy()], x.shape, {"base": 10.0}), torch.log10(x))
    assert "base 0" in run(acl, "Exp", [x.numpy()], x.shape, {"base": 0.0})


def test_shapes(acl):
    x = numbers(2, 3, 4)
    close(run(acl, "TransposeD", [x.numpy()], (4, 2, 3), {"perm": [2, 0, 1]}), x.permute(2, 0, 1))
    close(run(acl, "Flatten", [x.numpy()], (6, 4), {"axis": -1}), x.reshape(6, 4))
    close(run(acl, "BroadcastToD", [x[:, :1].numpy()], (2, 3, 4), {"shape": [2, 3, 4]}), x[:, :1].expand(2, 3, 4))
    close(run(acl, "Fill", [np.array([2, 3], np.int32), np.array([1.5], np.float32)], (2, 3), dtype=np.float32), torch.full((2, 3), 1.5))


@pytest.mark.parametrize("turn", [False, True])
def test_products(acl, turn):
    a, b, c = numbers(4, 5), numbers(5, 6), numbers(4, 6)
    left, right = (a.t(), b.t()) if turn else (a, b)
    close(run(acl, "MatMul", [left.numpy(), right.numpy()], (4, 6), {"transpose_x1": turn, "transpose_x2": turn}), a @ b)
    alpha, beta = np.array([0.5], np.float32), np.array([2], np.float32)
    close(run(acl, "GEMM", [left.numpy(), right.numpy(), c.numpy(), alpha, beta], (4, 6), {"transpose_a": turn, "transpose_b": turn}),
          0.5 * a @ b + 2 * c)
    left, right = numbers(3, 4, 5), numbers(3, 5, 6)
    given = (left.mT, right.mT) if turn else (left, right)
    close(run(acl, "BatchMatMul", [one.numpy() for one in given], (3, 4, 6), {"adj_x1": turn, "adj_x2": turn}), left @ right)


def test_convolution(acl):
    x, weight, bias = numbers(*X), numbers(6, 2, 3, 3), numbers(6)
    attributes = {"strides": [1, 1, 2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 1, 1, 2], "groups": 2}
    expected = F.conv2d(F.pad(x, (2, 1, 1, 0)), weight, bias, (2, 1), 0, (1, 2), 2)
    given = [x.numpy(), weight.numpy(), bias.numpy()]
    close(run(acl, "Conv2D", given, expected.shape, attributes, layout=NCHW), expected, 1e-4)
    assert "the output" in run(acl, "Conv2D", given, (2, 6, 4, 9), attributes, layout=NCHW)
    assert "channels last" in run(acl, "Conv2D", given, expected.shape, attributes, layout=NHWC)
    assert "groups 3" in run(acl, "Conv2D", given, expected.shape, {**attributes, "groups": 3}, layout=NCHW)
    assert "auto_pad" in run(acl, "Conv2D", given, expected.shape, {**attributes, "auto_pad": "SAME_UPPER"}, layout=NCHW)


@pytest.mark.parametrize("ceil", [False, True])
def test_pools(acl, ceil):
    x = numbers(*X)
    attributes = {"ksize": [1, 1, 3, 2], "strides": [1, 1, 2, 3], "padding_mode": "CALCULATED", "pads": [1, 1, 1, 1], "data_format": "NCHW",
                  "ceil_mode": ceil}
    expected = F.max_pool2d(x, (3, 2), (2, 3), (1, 1), ceil_mode=ceil)
    close(run(acl, "MaxPoolV3", [x.numpy()], expected.shape, attributes), expected)
    for exclusive in (False, True):
        expected = F.avg_pool2d(x, (3, 2), (2, 3), (1, 1), ceil, not exclusive)
        close(run(acl, "AvgPoolV2", [x.numpy()], expected.shape, {**attributes, "exclusive": exclusive}), expected)
    for mode, wanted in (("VALID", F.avg_pool2d(x, (3, 2), (2, 3), ceil_mode=ceil)),
                         ("SAME", F.avg_pool2d(F.pad(x, (0, 0, 1, 1)), (3, 2), (2, 3)) * 6 / _counted(x.shape))):
        if mode == "SAME" and ceil:
            continue
        close(run(acl, "AvgPoolV2", [x.numpy()], wanted.shape, {**attributes, "padding_mode": mode, "exclusive": True}), wanted)
    everything = {**attributes, "global_pooling": True}
    close(run(acl, "MaxPoolV3", [x.numpy()], (2, 4, 1, 1), everything), x.amax((2, 3), True))
    close(run(acl, "AvgPoolV2", [x.numpy()], (2, 4, 1, 1), everything), x.mean((2, 3), True))
    assert "NHWC" in run(acl, "MaxPoolV3", [x.numpy()], expected.shape, {**attributes, "data_format": "NHWC"})
    assert "does not fit" in run(acl, "MaxPoolV3", [x.numpy()], expected.shape, {**attributes, "ksize": [1, 1, 30, 2]})


def _counted(shape):
    """Elements of the picture in each window of 3 x 2, stride 2 x 3, with a row of pads at the top and one at the bottom."""
    return F.avg_pool2d(F.pad(torch.ones(1, 1, *shape[2:]), (0, 0, 1, 1)), (3, 2), (2, 3)) * 6


@pytest.mark.parametrize("name, function", [("ReduceSum", torch.sum), ("ReduceMean", torch.mean), ("ReduceMax", torch.amax), ("ReduceMin", torch.amin)])
def test_reductions(acl, name, function):
    x, axes = numbers(3, 4, 5), np.array([0, 2], np.int32)
    close(run(acl, name, [x.numpy(), axes], (4,)), function(x, (0, 2)))
    close(run(acl, name, [x.numpy(), axes], (1, 4, 1), {"keep_dims": True}), function(x, (0, 2), keepdim=True))


@pytest.mark.parametrize("dims", [2, 3])
def test_gradients_of_convolutions(acl, dims):
    forward, backward = (F.conv2d, F.conv_transpose2d) if dims == 2 else (F.conv3d, F.conv_transpose3d)
    x, weight = numbers(2, 4, *[7, 6, 5][:dims]).requires_grad_(), numbers(6, 2, *[3, 2, 3][:dims]).requires_grad_()
    pads = [1, 0, 2, 1, 0, 1][: 2 * dims]
    attributes = {"strides": [1, 1, *[2, 1, 2][:dims]], "pads": pads, "dilations": [1] * (dims + 2), "groups": 2}
    around = [pad for d in reversed(range(dims)) for pad in pads[2 * d: 2 * d + 2]]
    y = forward(F.pad(x, around), weight, None, attributes["strides"][2:], 0, 1, 2)
    by = numbers(*y.shape)
    for_x, for_weight = torch.autograd.grad(y, (x, weight), by)
    layout, kind = (NCHW, f"Conv{dims}D")
    sizes = [np.array(one.shape, np.int32) for one in (x, weight)]
    given = [one.detach().numpy() for one in (x, weight)]
    close(run(acl, kind, given, y.shape, attributes, layout=layout), y.detach(), 1e-4)
    close(run(acl, f"{kind}BackpropInput", [sizes[0], given[1], by.numpy()], x.shape, attributes, layout=layout, dtype=np.float32), for_x, 1e-4)
    close(run(acl, f"{kind}BackpropFilter", [given[0], sizes[1], by.numpy()], weight.shape, attributes, layout=layout), for_weight, 1e-4)
    bias = numbers(4)
    close(run(acl, f"{kind}Transpose", [sizes[0], by.numpy(), given[1], bias.numpy()], x.shape, attributes, layout=layout, dtype=np.float32),
          for_x + bias.reshape(1, 4, *[1] * dims), 1e-4)


def test_results_whose_number_depends_on_values(acl):
    """compile_and_execute_v2 waits, and says in the descriptions how much there is."""
    boxes = np.array([[0, 0, 4, 2, 0], [0, 0, 2, 4, 90], [20, 0, 4, 2, 45]], np.float32)
    arrays = [boxes, np.array([0.5, 0.9, 0.7], np.float32), np.zeros(1, np.int32), np.zeros((3, 5), np.float32), np.zeros(3, np.int32)]
    described = []
    for array in arrays:
        address = acl.rt.malloc(array.nbytes, 0)[0]
        assert acl.rt.memcpy(address, array.nbytes, acl.util.numpy_to_ptr(array), array.nbytes, 1) == 0
        described.append((acl.create_tensor_desc(NUMBERS[str(array.dtype)], array.shape, ND), acl.create_data_buffer(address, array.nbytes)))
    attr, stream = acl.op.create_attr(), acl.rt.create_stream()[0]
    for key, value in (("iou_threshold", 0.5), ("score_threshold", 0.0)):
        assert acl.op.set_attr_float(attr, key, value) == 0
    descs, buffers = zip(*described)
    made = acl.op.compile_and_execute_v2("RotatedNMS", list(descs[:3]), list(buffers[:3]), list(descs[3:]), list(buffers[3:]), attr, 0, 0, "",
                                         stream)
    assert (made[-1] if isinstance(made, tuple) else made) == 0, acl.get_recent_err_msg()
    assert [acl.get_tensor_desc_dim_v2(descs[3], axis)[0] for axis in (0, 1)] == [2, 5]
    assert acl.get_tensor_desc_dim_v2(descs[4], 0)[0] == 2
    numbers = np.zeros(2, np.int32)
    assert acl.rt.memcpy(acl.util.numpy_to_ptr(numbers), 8, acl.get_data_buffer_addr(buffers[4]), 8, 2) == 0
    assert numbers.tolist() == [1, 2]


def test_normalization_and_softmax(acl):
    x, scale, offset, mean, variance = numbers(*X), numbers(4), numbers(4), numbers(4), numbers(4).abs()
    given = [one.numpy() for one in (x, scale, offset, mean, variance)]
    close(run(acl, "BatchNorm", given, X, {"epsilon": 1e-5, "is_training": False}),
          F.batch_norm(x, mean, variance, scale, offset, eps=1e-5))
    assert "is_training" in run(acl, "BatchNorm", given, X, {"epsilon": 1e-5})
    close(run(acl, "SoftmaxV2", [x.numpy()], X, {"axes": [1]}), x.softmax(1))


def test_overflow_is_noted_where_the_stream_says_so(acl):
    """On a device that saturates; the flag is that of the device."""
    cann = ctypes.CDLL(str(LIBRARIES / "libascendcl.so"))
    by_other_names = (lambda block, stream: cann.aclrtGetFloatOverflowStatus(block, ctypes.c_uint64(64), stream),
                      lambda block, stream: cann.aclrtNpuGetFloatOverFlowStatus(block, ctypes.c_uint64(64), 0, stream))

    def status(stream, read=None):
        block = acl.rt.malloc(64, 0)[0]
        code = read(ctypes.c_void_p(block), ctypes.c_void_p(stream)) if read else acl.rt.get_overflow_status(block, 64, stream)
        assert code == 0 and acl.rt.synchronize_stream(stream) == 0
        words = np.zeros(16, np.int32)
        assert acl.rt.memcpy(acl.util.numpy_to_ptr(words), 64, block, 64, 2) == 0 and acl.rt.free(block) == 0
        return words[0]

    large = np.full(4, 60000, np.float16)
    before, ret = acl.rt.get_device_sat_mode()
    assert ret == 0
    stream = acl.rt.create_stream()[0]
    try:
        assert acl.rt.set_device_sat_mode(0) == 0 and acl.rt.reset_overflow_status(stream) == 0
        assert status(stream) == 0
        assert run(acl, "Add", [large, large], (4,)).tolist() == [65504.0] * 4
        assert [status(stream, read) for read in (None, *by_other_names)] == [1, 1, 1]
        assert acl.rt.reset_overflow_status(stream) == 0 and status(stream) == 0
        for lower in (lambda: cann.aclrtResetFloatOverflowStatus(ctypes.c_void_p(stream)),
                      lambda: cann.aclrtNpuClearFloatOverFlowStatus(0, ctypes.c_void_p(stream))):
            run(acl, "Add", [large, large], (4,))
            assert status(stream) == 1 and lower() == 0 and status(stream) == 0
        endless = np.full(4, np.inf, np.float16)
        assert run(acl, "Add", [endless, large], (4,)).tolist() == [np.inf] * 4 and status(stream) == 0   # the client's own
        assert acl.rt.get_stream_overflow_switch(stream) == (1, 0)
        assert acl.rt.set_stream_overflow_switch(stream, 0) == 0 and acl.rt.get_stream_overflow_switch(stream) == (0, 0)
        assert acl.rt.set_stream_overflow_switch(stream, 2) != 0
        assert run(acl, "Add", [large, large], (4,), stream=stream).tolist() == [65504.0] * 4 and status(stream) == 0
    finally:
        assert acl.rt.set_device_sat_mode(before) == 0 and acl.rt.destroy_stream(stream) == 0
