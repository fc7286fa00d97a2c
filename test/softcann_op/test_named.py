"""Operators that clients name to aclopCompileAndExecute: libacl_op_compiler hands them to libopapi."""
import ctypes

import pytest
import torch
import torch.nn.functional as F
from nn_client import ACL_TYPES, close

ND, HOST = 2, 1
NC1HWC0, FRACTAL_NZ = 3, 29


class Blocked:
    """Memory in an internal format, of a tensor with these sizes."""

    def __init__(self, memory, sizes, format):
        self.memory, self.sizes, self.format = memory, sizes, format


class NamedClient:
    def __init__(self, client, folder):
        self.acl, self.stream = client.acl, client.stream
        self.check = client.check
        self.lib = ctypes.CDLL(str(folder / "libacl_op_compiler.so"))
        for library, name in ((self.acl, "aclCreateTensorDesc"), (self.acl, "aclCreateDataBuffer"), (self.lib, "aclopCreateAttr")):
            getattr(library, name).restype = ctypes.c_void_p

    def device(self, tensor):
        address, bytes = ctypes.c_void_p(), ctypes.c_size_t(max(tensor.nbytes, 1))
        self.check(self.acl.aclrtMalloc(ctypes.byref(address), bytes, 0), "aclrtMalloc")
        if tensor.nbytes:
            self.check(self.acl.aclrtMemcpy(address, bytes, ctypes.c_void_p(tensor.data_ptr()), bytes, 1), "aclrtMemcpy")
        return address

    def described(self, tensors):
        """Arrays of descriptors and buffers. A list of numbers is an input in host memory; None is left out."""
        descriptors, buffers = (ctypes.c_void_p * len(tensors))(), (ctypes.c_void_p * len(tensors))()
        for i, given in enumerate(tensors):
            blocked, given = (given, given.memory) if isinstance(given, Blocked) else (None, given)
            tensor = torch.tensor(given) if isinstance(given, list) else given
            shape, kind = ((), -1) if tensor is None else (blocked.sizes if blocked else tensor.shape, ACL_TYPES[tensor.dtype])
            descriptor = ctypes.c_void_p(self.acl.aclCreateTensorDesc(kind, len(shape), (ctypes.c_int64 * max(len(shape), 1))(*shape), ND))
            if blocked:
                self.acl.aclSetTensorFormat(descriptor, blocked.format)
                self.acl.aclSetTensorShape(descriptor, tensor.dim(), (ctypes.c_int64 * tensor.dim())(*tensor.shape))
            address = None if tensor is None else ctypes.c_void_p(tensor.data_ptr()) if isinstance(given, list) else self.device(tensor)
            if isinstance(given, list):
                self.check(self.acl.aclSetTensorPlaceMent(descriptor, HOST), "aclSetTensorPlaceMent")
            descriptors[i] = descriptor.value
            buffers[i] = self.acl.aclCreateDataBuffer(address, ctypes.c_size_t(0 if tensor is None else tensor.nbytes))
            self.kept.append((tensor, address))
        return len(tensors), descriptors, buffers

    def __call__(self, name, inputs, outputs, **attributes):
        self.kept = []
        attr = ctypes.c_void_p(self.lib.aclopCreateAttr())
        for key, value in attributes.items():
            key = key.encode()
            if isinstance(value, bool):
                self.lib.aclopSetAttrBool(attr, key, value)
            elif isinstance(value, int):
                self.lib.aclopSetAttrInt(attr, key, ctypes.c_int64(value))
            elif isinstance(value, float):
                self.lib.aclopSetAttrFloat(attr, key, ctypes.c_float(value))
            elif isinstance(value, str):
                self.lib.aclopSetAttrString(attr, key, value.encode())
            else:
                self.lib.aclopSetAttrListInt(attr, key, len(value), (ctypes.c_int64 * len(value))(*value))
        taken = self.described(inputs)
        made = self.described(outputs)
        self.check(self.lib.aclopCompileAndExecute(name.encode(), *taken, *made, attr, 0, 0, None, self.stream), name)
        self.check(self.acl.aclrtSynchronizeStream(self.stream), name)
        for tensor, address in self.kept[len(inputs):]:
            size = ctypes.c_size_t(tensor.nbytes)
            self.check(self.acl.aclrtMemcpy(ctypes.c_void_p(tensor.data_ptr()), size, address, size, 2), "aclrtMemcpy")
        for tensor, address in self.kept:
            if address and address.value != tensor.data_ptr():
                self.acl.aclrtFree(address)
        return outputs


@pytest.fixture(scope="module")
def named(call, libraries):
    return NamedClient(call, libraries)


def test_small_operators(named):
    x, y = torch.randn(4, 6), torch.randn(2, 4, 5)
    columns, row = torch.randn(1, 6), torch.randn(4, 6)
    for name, inputs, expected, attributes in [
            ("Mish", [x], F.mish(x), {}), ("Swish", [x], x * torch.sigmoid(2 * x), {"scale": 2.0}),
            ("Transpose", [y, [2, 0, 1]], y.permute(2, 0, 1), {}),
            ("BroadcastTo", [columns, [4, 6]], columns.expand(4, 6), {}), ("Slice", [y, [0, 1, 2], [2, 2, -1]], y[:, 1:3, 2:], {}),
            ("Pad", [x, [1, 2, 0, 3]], F.pad(x, (0, 3, 1, 2)), {}), ("BatchMatMul", [y, y], y @ y.mT, {"adj_x2": True}),
            ("ConfusionTransposeD", [x], x.t().reshape(8, 3), {"perm": [1, 0], "shape": [8, 3], "transpose_first": True}),
            ("LpNormReduceV2", [row], row.abs().pow(5).sum(1), {"p": 5.0, "axes": [1]}),
            ("LpNormUpdateV2", [row.abs()], row.abs().pow(0.2), {"p": 5.0}), ("ReduceProd", [y, [1]], y.prod(1), {"keep_dims": False}),
            ("ReduceProd", [y, [2, 0]], y.prod(2, True).prod(0, True), {"keep_dims": True}),
            ("ReduceProd", [y, [0, -1]], y.prod(2).prod(0), {"keep_dims": False})]:
        close(named(name, inputs, [torch.empty(expected.shape)], **attributes)[0], expected, 1e-4)
    for name, expected in (("ArgMaxWithValue", x.max(1)), ("ArgMinWithValue", x.min(1))):
        index, value = named(name, [x], [torch.empty(4, dtype=torch.int32), torch.empty(4)], dimension=1, keep_dims=False)
        close(value, expected.values)
        assert index.long().equal(expected.indices)


def test_masks_of_dropout(named):
    """A byte for each element; another one with each call, of the same seeds, too."""
    masks = [named("DropOutGenMaskV3", [[40, 50], [0.7]], [torch.empty(40, 50, dtype=torch.uint8)], seed=3, seed2=5)[0] for _ in range(2)]
    assert not masks[0].equal(masks[1])
    for mask in masks:
        assert mask.le(1).all() and 0.65 < mask.float().mean() < 0.75


def test_operators_of_the_first_generation(named):
    """With what PyTorch never asks of them; what it does is compared in test/witness/first_generation.py."""
    torch.manual_seed(2)
    m, x, y = torch.randn(4, 4) + 4 * torch.eye(4), torch.randn(4, 3), torch.randn(2, 4, 5)
    rows, places = torch.tensor([2, 0]), torch.tensor([[1, 2], [0, 3]])
    ordered = x.sort(1).values
    values = torch.linalg.svdvals(x)
    for name, inputs, expected, attributes in [
            ("MatrixInverse", [m], [m.inverse().t()], {"adjoint": True}),
            ("MatrixTriangularSolve", [m, x], [torch.linalg.solve_triangular(m.tril().t(), x, upper=True)], {"lower": True, "adjoint": True}),
            ("MatrixTriangularSolve", [m, x], [torch.linalg.solve_triangular(m.tril(), x, upper=False)], {}),
            ("Svd", [x], [values], {"compute_uv": False}), ("LogMatrixDeterminant", [-m], list(torch.slogdet(-m)), {}),
            ("Cdist", [y[:1], y[1:]], [(y[:1] - y[1:]).abs().amax(-1)], {"p": -1.0}),
            ("Cross", [x, x.flip(0)], [torch.linalg.cross(x, x.flip(0), dim=1)], {}),
            ("RepeatInterleave", [x, torch.tensor([2])], [x.repeat_interleave(2)], {}),
            ("ScatterUpdate", [x, rows, x[:2] + 1], [x.index_put((rows,), x[:2] + 1)], {}),
            ("ScatterNdUpdate", [y, places, torch.ones(2, 5)], [y.index_put(tuple(places.t()), torch.ones(2, 5))], {}),
            ("ScatterNdAdd", [torch.tensor([2**40, 1]), torch.tensor([[0], [0]]), torch.tensor([1, 1])], [torch.tensor([2**40 + 2, 1])], {}),
            ("SearchSorted", [ordered, ordered], [torch.searchsorted(ordered, ordered, right=True)], {"right": True}),
            ("PadV3", [x, [1, 2, 0, 1]], [F.pad(x[None], (0, 1, 1, 2), mode="replicate")[0]], {"mode": "edge", "paddings_contiguous": True}),
            ("ReduceSum", [x, None], [x.sum()], {}), ("Renorm", [x], [torch.renorm(x, 2, 1, 1.0)], {"p": 2.0, "dim": 1, "maxnorm": 1.0}),
            ("TensorEqual", [x, x[:2]], [torch.tensor(False)], {}), ("Pdist", [x], [F.pdist(x, 1)], {"p": 1.0}),
            ("FillDiagonal", [torch.zeros(7, 3)], [torch.zeros(7, 3).fill_diagonal_(2, wrap=True)], {"fill_value": 2.0, "wrap": True}),
            ("SoftMarginLossGrad", [x, x.sign(), torch.ones(4, 3)], [-x.sign() * torch.sigmoid(-x.abs())], {"reduction": "none"})]:
        for actual, wanted in zip(named(name, inputs, [torch.empty(e.shape, dtype=e.dtype) for e in expected], **attributes), expected):
            close(actual, wanted, 1e-4)
    bits = named("StatelessDropOutGenMask", [[8, 100], [0.7], [3], [5], [0, 10]], [torch.empty(112, dtype=torch.uint8)])[0]
    assert 0.6 < (bits.unsqueeze(1) >> torch.arange(8) & 1).float().mean() < 0.8
    with pytest.raises(RuntimeError, match="differ before and after"):
        named("Im2col", [torch.ones(1, 1, 4, 4)], [torch.empty(1, 9, 9)], ksizes=[3, 3], pads=[0, 1, 0, 1])
    with pytest.raises(RuntimeError, match="data_format NDHWC is not supported"):
        named("AvgPool3D", [torch.ones(1, 1, 2, 2, 2)], [torch.empty(1, 1, 1, 1, 1)], ksize=[2, 2, 2], strides=[2, 2, 2], pads=[0] * 6)


def in_columns_of_blocks(x):
    """A matrix as FRACTAL_NZ has it: blocks of 16 x 16, a column of blocks after the other."""
    rows, columns = -(-x.size(0) // 16), -(-x.size(1) // 16)
    padded = F.pad(x, (0, columns * 16 - x.size(1), 0, rows * 16 - x.size(0)))
    return padded.view(rows, 16, columns, 16).permute(2, 0, 1, 3).contiguous()


def test_internal_formats(named):
    x, half = torch.randn(5, 40), torch.randn(5, 40).half()
    room = torch.full((3, 1, 16, 16), 7.0)
    named("Identity", [x], [Blocked(room, (5, 40), FRACTAL_NZ)])
    assert room.equal(in_columns_of_blocks(x))
    blocks = Blocked(room, (5, 40), FRACTAL_NZ)
    assert named("TransData", [blocks], [torch.empty(5, 40)])[0].equal(x)
    copy = torch.zeros(3, 1, 16, 16)   # all of the memory, of which the tensor is a part
    named("Identity", [blocks], [Blocked(copy, (5, 40), FRACTAL_NZ)])
    assert copy.equal(room)
    close(named("Mish", [blocks], [torch.empty(5, 40)])[0], F.mish(x))
    named("Cast", [half], [Blocked(room, (5, 40), FRACTAL_NZ)])
    assert room.equal(in_columns_of_blocks(half.float()))
    channels = torch.full((1, 2, 1, 1, 16), 7.0)
    named("Identity", [torch.arange(20.0)], [Blocked(channels, (20,), NC1HWC0)])
    assert channels.flatten().equal(F.pad(torch.arange(20.0), (0, 12)))


def test_internal_formats_that_do_not_fit_are_refused(named):
    with pytest.raises(RuntimeError, match="takes 768 elements, but the storage has 512"):
        named("Identity", [torch.ones(5, 40)], [Blocked(torch.empty(2, 1, 16, 16), (5, 40), FRACTAL_NZ)])
    with pytest.raises(RuntimeError, match="from format 2 to 1 is not supported"):
        named("Identity", [torch.ones(1, 2, 3, 4)], [Blocked(torch.empty(1, 3, 4, 2), (1, 2, 3, 4), 1)])


@pytest.mark.parametrize("function,name", [(F.mish, "Mish"), (F.silu, "Swish")])
def test_gradients_of_activations(named, function, name):
    x, grad = torch.randn(4, 6).requires_grad_(), torch.randn(4, 6)
    y = function(x)
    expected, = torch.autograd.grad(y, x, grad)
    close(named(name + "Grad", [grad, x.detach(), y.detach()], [torch.empty(4, 6)])[0], expected)


def test_anchors_of_cells_with_a_centre(named):
    boxes = torch.tensor([[0.0, 0, 31, 31], [40, 10, 60, 30], [500, 500, 700, 700]])  # the last one's centre lies outside
    flags, = named("AnchorResponseFlags", [boxes], [torch.empty(3 * 4 * 2, dtype=torch.uint8)], featmap_size=[3, 4], strides=[32, 32], num_base_anchors=2)
    expected = torch.zeros(3, 4, 2, dtype=torch.uint8)
    expected[0, 0] = expected[0, 1] = expected[2, 3] = 1
    assert torch.equal(flags, expected.flatten())


def test_masked_softmax(named):
    x, mask, grad = torch.randn(2, 3, 4, 8).requires_grad_(), torch.rand(2, 1, 4, 8) > 0.5, torch.randn(2, 3, 4, 8)
    expected = (x * 0.5).masked_fill(mask, -10000.0).softmax(-1)
    close(named("ScaledMaskedSoftmax", [x.detach(), mask], [torch.empty(x.shape)], scale=0.5)[0], expected)
    by_x, = torch.autograd.grad(expected, x, grad)
    close(named("ScaledMaskedSoftmaxGrad", [grad, expected.detach(), mask], [torch.empty(x.shape)], scale=0.5)[0], by_x)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_gradient_of_distances(named, p):
    x1, x2, grad = torch.randn(2, 5, 3).requires_grad_(), torch.randn(2, 4, 3), torch.randn(2, 5, 4)
    distance = torch.cdist(x1, x2, p=p)
    expected, = torch.autograd.grad(distance, x1, grad)
    pairs = [t.detach().expand(2, 5, 4, 3).contiguous() for t in (grad[..., None], x1[:, :, None], x2[:, None], distance[..., None])]
    close(named("CdistGrad", pairs, [torch.empty(2, 5, 3)], p=-1.0 if p == float("inf") else p)[0], expected, 1e-4)


def columns_of(weight, order, in_torch="ifjo"):
    """torch's weight or bias, whose gates are input, forget, cell, output (of a GRU reset, update, new), as columns in this order."""
    gates = dict(zip(in_torch, weight.chunk(len(in_torch), 0)))
    return torch.cat([gates[letter] for letter in order]).t().contiguous()


@pytest.mark.parametrize("direction", ["UNIDIRECTIONAL", "REDIRECTIONAL"])
@pytest.mark.parametrize("order", ["ifjo", "ijfo"])
def test_recurrent_network(named, direction, order):
    module = torch.nn.LSTM(6, 5)
    torch.nn.init.zeros_(module.bias_hh_l0)
    x, h, c = torch.randn(4, 3, 6).requires_grad_(), torch.randn(1, 3, 5).requires_grad_(), torch.randn(1, 3, 5).requires_grad_()

    def turned(t):
        return t.flip(0) if direction == "REDIRECTIONAL" else t
    expected, last = module(turned(x), (h, c))
    expected = turned(expected)
    w = torch.cat([columns_of(module.weight_ih_l0.detach(), order), columns_of(module.weight_hh_l0.detach(), order)])
    bias = columns_of(module.bias_ih_l0.detach(), order)
    attributes = {"direction": direction, "gate_order": order, "cell_type": "LSTM", "is_training": True}
    inputs = [x.detach(), w, bias, None, h.detach(), c.detach()]
    kept = named("DynamicRNN", inputs, [torch.empty(4, 3, 5) for _ in range(8)], **attributes)
    close(kept[0], expected)
    end = 0 if direction == "REDIRECTIONAL" else 3
    close(kept[1][end], last[0][0])
    close(kept[2][end], last[1][0])

    grads = [torch.randn_like(t) for t in (expected, *last)]
    torch.autograd.backward([expected, *last], grads)
    y, hs, cs, i, j, f, o, tanh_c = kept
    number = torch.zeros(())
    made = named("DynamicRNNGrad",
                 [x.detach(), w, bias, y, h.detach()[0], c.detach()[0], hs, cs, grads[0], grads[1][0], grads[2][0],
                  i, j, f, o, tanh_c, number],
                 [torch.empty_like(w), torch.empty_like(bias), torch.empty(4, 3, 6), torch.empty(3, 5), torch.empty(3, 5)], **attributes)
    by_w = torch.cat([columns_of(module.weight_ih_l0.grad, order), columns_of(module.weight_hh_l0.grad, order)])
    for actual, wanted in zip(made, (by_w, columns_of(module.bias_ih_l0.grad, order), x.grad, h.grad[0], c.grad[0])):
        close(actual, wanted)


@pytest.mark.parametrize("state", [True, False])
@pytest.mark.parametrize("order", ["rzh", "zrh"])
def test_gated_recurrent_unit(named, order, state):
    module = torch.nn.GRU(6, 5)
    x, h = torch.randn(4, 3, 6).requires_grad_(), torch.zeros(1, 3, 5)
    if state:
        h = torch.randn(1, 3, 5)
    h.requires_grad_()
    expected, last = module(x, h)
    parameters = [columns_of(p.detach(), order, "rzh") for p in (module.weight_ih_l0, module.weight_hh_l0, module.bias_ih_l0, module.bias_hh_l0)]
    attributes = {"direction": "UNIDIRECTIONAL", "gate_order": order, "reset_after": True, "time_major": True}
    first = h.detach() if state else None
    kept = named("DynamicGRUV2", [x.detach(), *parameters, None, first], [torch.empty(4, 3, 5) for _ in range(6)], activation="tanh", **attributes)
    close(kept[0], expected)
    close(kept[1][-1], last[0])

    grads = [torch.randn_like(t) for t in (expected, last)]
    torch.autograd.backward([expected, last], grads)
    y, hs, update, reset, new, hidden_new = kept
    numbers = [torch.zeros(()), torch.zeros((), dtype=torch.uint8)]
    made = named("DynamicGRUV2Grad", [x.detach(), *parameters[:2], y, h.detach()[0], hs, grads[0], grads[1][0], update, reset, new, hidden_new, *numbers],
                 [torch.empty_like(t) for t in parameters] + [torch.empty(4, 3, 6), torch.empty(3, 5)], **attributes)
    wanted = [columns_of(p.grad, order, "rzh") for p in module.parameters()] + [x.grad, h.grad[0]]
    for actual, one in zip(made, wanted):
        close(actual, one)


def test_what_is_not_served_is_refused(named):
    with pytest.raises(RuntimeError, match="softcann has no operator Nothing of this interface"):
        named("Nothing", [torch.ones(1, 1, 2, 2)], [torch.ones(1, 1, 2, 2)])
    with pytest.raises(RuntimeError, match="reset_after 0 is not supported"):
        named("DynamicGRUV2", [torch.ones(2, 1, 3), torch.ones(3, 6), torch.ones(2, 6)], [torch.empty(2, 1, 2) for _ in range(6)], reset_after=False)
    with pytest.raises(RuntimeError, match="smaller than its description"):
        named.kept = []
        counted, descriptors, buffers = named.described([torch.ones(4)])
        named.acl.aclUpdateDataBuffer(ctypes.c_void_p(buffers[0]), named.kept[0][1], ctypes.c_size_t(4))
        named.check(named.lib.aclopCompileAndExecute(b"Mish", counted, descriptors, buffers, counted, descriptors, buffers,
                                                     None, 0, 0, None, named.stream), "Mish")


@pytest.mark.parametrize("name, inputs, attributes, result", [
    ("Mish", [torch.ones(4, 6)], {}, (6, 4)), ("Transpose", [torch.ones(4, 6), [1, 0]], {}, (4, 6)),
    ("ReduceSum", [torch.ones(4, 6), [1]], {"keep_dims": True}, (4,)), ("MatMul", [torch.ones(2, 3), torch.ones(3, 4)], {}, (4, 2))])
def test_a_result_of_as_many_elements_in_another_shape_is_refused(named, name, inputs, attributes, result):
    with pytest.raises(RuntimeError, match="the result has shape"):
        named(name, inputs, [torch.empty(result)], **attributes)


@pytest.mark.parametrize("keep", [1.0, 0.5])
def test_layer_of_attention(named, keep):
    torch.manual_seed(5)
    heads, size, batch, rows, keys = 2, 8, 2, 3, 5
    width = heads * size
    inputs = [torch.randn(batch * n, width, requires_grad=True) for n in (rows, keys, keys)]
    weights = [(torch.randn(width, width) / 4).requires_grad_() for _ in range(4)]
    biases = [torch.randn(width, requires_grad=True) for _ in range(4)]
    mask, kept = torch.randn(batch, heads, rows, keys), torch.randint(0, 2, (batch, heads, rows, keys)).to(torch.uint8)
    split = lambda x, n: x.view(batch, n, heads, size).transpose(1, 2)
    q, k, v = (split(F.linear(x, w, b), n) for x, w, b, n in zip(inputs, weights, biases, (rows, keys, keys)))
    softmax = (q @ k.mT / size ** 0.5 + mask).softmax(-1)
    dropped = softmax * kept / keep if keep < 1 else softmax
    context = (dropped @ v).transpose(1, 2).reshape(-1, width)
    y = F.linear(context, weights[3], biases[3])
    expected = [t.detach() for t in (y, kept, q, k, v, softmax, dropped, context)]
    given = [t.detach() for t in (*inputs, *weights[:3], mask.flatten(0, 1).reshape(rows, -1), weights[3], *biases)]
    options = dict(attn_head_num=heads, attn_dim_per_head=size, src_len=keys, tgt_len=rows, keep_prob=keep, softmax_use_float=True)
    found = named("MultiHeadAttention", [*given, kept], [torch.zeros_like(t, memory_format=torch.contiguous_format) for t in expected], **options)
    for one, other in zip(found, expected):
        close(one, other, 1e-4)
    by = torch.randn_like(y)
    leaves = [*weights, *inputs, *biases]
    gradients = torch.autograd.grad(y, leaves, by)
    made = named("MultiHeadAttentionGrad", [t.detach() for t in (*inputs, *weights, *found[2:], by, kept)], [torch.empty_like(g) for g in gradients], **options)
    for one, other in zip(made, gradients):
        close(one, other, 1e-3)
