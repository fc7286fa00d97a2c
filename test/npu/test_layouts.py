"""Sparse, nested and quantized tensors: made, printed, computed with, trained, saved on the NPU."""
import io

import pytest
import torch

import torch_npu

pytestmark = pytest.mark.filterwarnings("ignore")


def coo(device):
    indices, values = torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]], device=device), torch.tensor([3.0, 4, 5, 6], device=device)
    return torch.sparse_coo_tensor(indices, values, (2, 3))


def csr(device):
    return torch.sparse_csr_tensor(torch.tensor([0, 2, 3], device=device), torch.tensor([0, 2, 1], device=device),
                                   torch.tensor([1.0, 2, 3], device=device), (2, 3))


def right(device):
    return torch.arange(12.0, device=device).reshape(3, 4)


def plain(tensor):
    return (tensor if tensor.layout == torch.strided else tensor.to_dense()).detach().cpu()


CALLS = {
    "coalesce": lambda d: coo(d).coalesce(),
    "values": lambda d: coo(d).coalesce().values(),
    "indices": lambda d: coo(d).coalesce().indices(),
    "to_dense": lambda d: coo(d).to_dense(),
    "to_sparse": lambda d: right(d).to_sparse(),
    "to_sparse_csr": lambda d: right(d).to_sparse_csr(),
    "to_sparse_csc": lambda d: right(d).to_sparse_csc(),
    "to_sparse_bsr": lambda d: right(d)[:2].to_sparse_bsr((2, 2)),
    "coo_to_csr": lambda d: coo(d).to_sparse_csr(),
    "csr_to_coo": lambda d: csr(d).to_sparse_coo(),
    "csr_to_csc": lambda d: csr(d).to_sparse_csc(),
    "sparse_mm": lambda d: torch.sparse.mm(coo(d), right(d)),
    "matmul": lambda d: coo(d) @ right(d),
    "mv": lambda d: coo(d) @ torch.arange(3.0, device=d),
    "addmm": lambda d: torch.sparse.addmm(torch.ones(2, 4, device=d), coo(d), right(d)),
    "sparse_by_sparse": lambda d: torch.sparse.mm(coo(d), coo(d).t()),
    "add": lambda d: coo(d) + coo(d),
    "add_dense": lambda d: torch.ones(2, 3, device=d) + coo(d),
    "add_to_dense_": lambda d: torch.ones(2, 3, device=d).add_(coo(d), alpha=2),
    "add_to_sparse_": lambda d: coo(d).add_(coo(d)).mul_(2),
    "mul": lambda d: coo(d) * coo(d),
    "div": lambda d: coo(d) / 2,
    "sum": lambda d: torch.sparse.sum(coo(d)),
    "sum_dim": lambda d: torch.sparse.sum(coo(d), 0),
    "softmax": lambda d: torch.sparse.softmax(coo(d), 1),
    "sqrt": lambda d: coo(d).coalesce().sqrt(),
    "cat": lambda d: torch.cat([coo(d), coo(d)]),
    "select": lambda d: coo(d).coalesce()[1],
    "index_select": lambda d: coo(d).index_select(1, torch.tensor([0, 2], device=d)),
    "mask": lambda d: torch.arange(6.0, device=d).reshape(2, 3).sparse_mask(coo(d).coalesce()),
    "zeros_like": lambda d: torch.zeros_like(coo(d)),
    "half": lambda d: coo(d).to(torch.float16),
    "norm": lambda d: torch.norm(coo(d)),
    "spdiags": lambda d: torch.sparse.spdiags(torch.ones(1, 3, device=d), torch.tensor([0]), (3, 3)),
    "csr_matmul": lambda d: csr(d) @ right(d),
    "csr_mv": lambda d: csr(d) @ torch.arange(3.0, device=d),
    "csr_add": lambda d: csr(d) + csr(d),
    "csr_mul": lambda d: csr(d) * 2,
    "csr_relu": lambda d: torch.relu(csr(d)),
    "csr_transpose": lambda d: csr(d).t(),
    "csr_sum": lambda d: csr(d).sum(),
    "sampled_addmm": lambda d: torch.sparse.sampled_addmm(csr(d), torch.ones(2, 4, device=d), torch.ones(4, 3, device=d)),
}


@pytest.mark.parametrize("name", CALLS)
def test_sparse_equals_cpu(name):
    actual, expected = CALLS[name]("npu"), CALLS[name]("cpu")
    assert actual.device.type == "npu" and actual.layout == expected.layout
    torch.testing.assert_close(plain(actual), plain(expected))


@pytest.mark.parametrize("make", [coo, csr])
def test_sparse_moves_prints_and_is_saved(make):
    tensor = make("cpu").to("npu")
    assert tensor.device.type == "npu" and torch.equal(plain(tensor.cpu()), plain(make("cpu")))
    assert "device='npu:0'" in repr(tensor) and "nnz=" in repr(tensor)
    buffer = io.BytesIO()
    torch.save(tensor, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    assert loaded.device.type == "npu" and torch.equal(plain(loaded), plain(tensor))


def test_operators_on_the_cpu_are_counted():
    torch_npu.reset_fallbacks()
    torch.ones(2, 3, device="npu").sparse_mask(coo("npu").coalesce())
    assert torch_npu.fallbacks()["aten::sparse_mask"]["calls"] == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("size, sparse_dim", [((5,), 1), ((4, 3), 2), ((3, 4, 2), 2), ((2, 3, 2), 3), ((2, 3), 0)])
def test_coalesce_adds_up_equal_indices_on_the_npu(size, sparse_dim, dtype):
    torch.manual_seed(0)
    for entries in (0, 1, 9):
        rows = [torch.randint(0, n, (entries,)) for n in size[:sparse_dim]]
        indices = torch.stack(rows) if rows else torch.empty(0, entries).long()
        values = torch.randint(0, 3, (entries, *size[sparse_dim:])).to(dtype)
        tensor = torch.sparse_coo_tensor(indices, values, size)
        torch_npu.reset_fallbacks()
        found, expected = tensor.to("npu").coalesce(), tensor.coalesce()
        assert not torch_npu.fallbacks() and found.is_coalesced() and found.dtype == dtype
        assert torch.equal(found.indices().cpu(), expected.indices()) and torch.equal(found.values().cpu(), expected.values())


def test_operators_that_read_memory_whatever_the_device():
    """torch has one function of these for every device, which would read the NPU's memory on the host."""
    x = torch.randn(100)
    calls = [lambda d: torch.choose_qparams_optimized(x.to(d), 100, 200, 0.16, 8),
             lambda d: torch._rowwise_prune(x[:16].view(4, 4).to(d), torch.tensor([True, False, True, True]).to(d), torch.int)]
    for call in calls:
        for ours, theirs in zip(call("npu"), call("cpu")):
            assert ours.device.type == "npu" and torch.equal(ours.cpu(), theirs)
    engine, drawn = torch.quasirandom.SobolEngine(3), []
    for d in ("cpu", "npu"):
        quasi, state = engine.quasi.to(d, copy=True), engine.sobolstate.to(d)
        torch._sobol_engine_ff_(quasi, 5, state, 3, 0)
        drawn.append([quasi, *torch._sobol_engine_draw(quasi, 4, state, 3, 5, torch.float)])
    for theirs, ours in zip(*drawn):
        assert ours.device.type == "npu" and torch.equal(ours.cpu(), theirs)
    for call in (torch.fbgemm_linear_quantize_weight, torch.fbgemm_pack_gemm_matrix_fp16, torch.fbgemm_pack_quantized_matrix):
        with pytest.raises(NotImplementedError, match="tensors of the CPU alone"):
            call(torch.ones(4, 4).npu())


def test_gradients_of_sparse_products():
    def gradients(device):
        values = torch.tensor([3.0, 4, 5], device=device, requires_grad=True)
        sparse = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1], [2, 0, 2]], device=device), values, (2, 3))
        compressed, dense = csr(device).requires_grad_(), right(device).requires_grad_()
        (torch.sparse.mm(sparse, dense).sum() + (compressed @ dense).sum()).backward()
        return [plain(t.grad) for t in (values, compressed, dense)]

    for actual, expected in zip(gradients("npu"), gradients("cpu")):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.SparseAdam, torch.optim.Adagrad])
def test_embedding_with_sparse_gradients_trains(optimizer):
    def train(device):
        torch.manual_seed(0)
        embedding = torch.nn.Embedding(10, 3, sparse=True).to(device)
        steps = optimizer(embedding.parameters(), lr=0.1)
        for _ in range(3):
            steps.zero_grad()
            embedding(torch.tensor([1, 2, 2], device=device)).square().sum().backward()
            assert embedding.weight.grad.is_sparse
            steps.step()
        return embedding.weight.detach().cpu()

    torch.testing.assert_close(train("npu"), train("cpu"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_sparse_gradients_of_two_uses_add_up_on_the_npu(dtype):
    torch_npu.reset_fallbacks()
    embedding = torch.nn.Embedding(10, 3, sparse=True).to("npu", dtype)
    for rows in ([7, 1], [7, 4, 4]):
        embedding(torch.tensor(rows, device="npu")).sum().backward()
    gradient = embedding.weight.grad
    assert gradient._indices().tolist() == [[7, 1, 7, 4, 4]] and gradient.dtype == dtype and not gradient.is_coalesced()
    with torch.no_grad():
        stepped = embedding.weight.detach().clone().add_(gradient, alpha=-0.5)
    assert "aten::add.out" not in torch_npu.fallbacks()
    expected = embedding.weight.detach().cpu()
    expected[[7, 4]] -= 1
    expected[1] -= 0.5
    torch.testing.assert_close(stepped.cpu(), expected)


SUMS = {
    "empty first": lambda d: torch.sparse_coo_tensor((2, 3), device=d) + coo(d).coalesce(),
    "empty second": lambda d: coo(d).coalesce() + torch.sparse_coo_tensor((2, 3), device=d),
    "alpha": lambda d: torch.add(coo(d), coo(d), alpha=-3),
    "dense values": lambda d: torch.sparse_coo_tensor([[0, 1]], [[1.0, 2], [3, 4]], (2, 2), device=d) + torch.sparse_coo_tensor(
        [[1, 1]], [[1.0, 2], [3, 4]], (2, 2), device=d),
    "to dense, with dense values": lambda d: torch.ones(2, 2, device=d) + torch.sparse_coo_tensor(
        [[1, 1]], [[1.0, 2], [3, 4]], (2, 2), device=d),
    "promoted": lambda d: coo(d).to(torch.int32) + coo(d).to(torch.float64),
    "dense promoted": lambda d: torch.ones(2, 3, dtype=torch.int64, device=d) + coo(d),
    "bool": lambda d: torch.zeros(2, 3, dtype=torch.bool, device=d) + coo(d).coalesce().to(torch.bool),
    "transposed": lambda d: torch.ones(3, 2, device=d).t() + coo(d),
    "out": lambda d: torch.add(torch.ones(2, 3, device=d), coo(d), out=torch.empty(0, dtype=torch.float64, device=d)),
    "no sparse dimension": lambda d: torch.ones(2, device=d) + torch.sparse_coo_tensor(
        torch.empty(0, 2, dtype=torch.int64), [[1.0, 2], [3, 4]], (2, ), device=d),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_with_sparse_tensors(name):
    actual, expected = SUMS[name]("npu"), SUMS[name]("cpu")
    assert actual.layout == expected.layout and actual.device.type == "npu"
    torch.testing.assert_close(plain(actual), plain(expected))


@pytest.mark.parametrize("first, second", [((3, 3), (2, 3)), ((3, ), (2, 3))])
def test_sums_with_sparse_tensors_are_not_broadcast(first, second):
    sparse = torch.ones(second).to_sparse().to("npu")
    with pytest.raises(RuntimeError, match="size"):
        torch.ones(first, device="npu") + sparse
    with pytest.raises(RuntimeError, match="size"):
        torch.ones(first).to_sparse().to("npu") + sparse


def test_gradient_of_bags_sums_in_float32():
    rows, table = torch.zeros(1, 4096, dtype=torch.int64), torch.ones(2, 4)
    table = table.to("npu", torch.bfloat16).requires_grad_()
    torch.nn.functional.embedding_bag(rows.to("npu"), table, mode="sum").sum().backward()
    assert table.grad.tolist() == [[4096.0] * 4, [0.0] * 4]  # ones added in bfloat16 end at 256


def test_jagged_tensors():
    parts = [torch.randn(2, 8), torch.randn(3, 8)]
    weight = torch.randn(8, 8)

    def run(device):
        jagged = torch.nested.nested_tensor(parts, layout=torch.jagged, device=device)
        hidden = torch.nn.functional.linear(jagged, weight.to(device)).relu() * 2
        heads = hidden.unflatten(-1, [2, 4]).transpose(1, 2)
        attended = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
        return attended.transpose(1, 2).flatten(-2), hidden.to_padded_tensor(0.0)

    for actual, expected in zip(run("npu"), run("cpu")):
        assert actual.device.type == "npu"
        if actual.is_nested:
            for a, e in zip(actual.unbind(), expected.unbind()):
                torch.testing.assert_close(a.cpu(), e)
        else:
            torch.testing.assert_close(actual.cpu(), expected)


def test_gradient_of_jagged_values():
    values = torch.randn(5, 4, device="npu", requires_grad=True)
    jagged = torch.nested.nested_tensor_from_jagged(values, offsets=torch.tensor([0, 2, 5], device="npu"))
    (jagged * 2).sin().values().sum().backward()
    torch.testing.assert_close(values.grad.cpu(), 2 * (2 * values.detach().cpu()).cos())


def test_strided_nested_tensors():
    parts = [torch.randn(2, 8), torch.randn(3, 8)]
    nested = torch.nested.nested_tensor(parts).to("npu")
    for a, e in zip((nested * 2).unbind(), parts):
        torch.testing.assert_close(a.cpu(), e * 2)
    torch.testing.assert_close(nested.to_padded_tensor(0.0).cpu(), torch.nn.utils.rnn.pad_sequence(parts, batch_first=True))
    torch.testing.assert_close(nested.cpu().unbind()[1], parts[1])


def test_sizes_of_a_nested_tensor_may_come_from_the_device():
    dense = torch.arange(12.0).view(2, 2, 3)
    torch.set_default_device("npu")
    try:
        nested = torch.nested.as_nested_tensor(dense.npu())
    finally:
        torch.set_default_device(None)
    assert nested.device.type == "npu"
    for part, expected in zip(nested.unbind(), dense):
        assert torch.equal(part.cpu(), expected)


def test_masked_select_owns_no_more_than_it_returns():
    chosen = torch.arange(10, device="npu").masked_select(torch.arange(10, device="npu") > 2)
    assert chosen.untyped_storage().nbytes() == 7 * 8


def test_quantized_tensors():
    x, scales = torch.randn(4, 4), torch.tensor([0.1, 0.2, 0.3, 0.4])
    whole = torch.quantize_per_tensor(x.npu(), 0.1, 0, torch.qint8)
    channels = torch.quantize_per_channel(x.npu(), scales.npu(), torch.zeros(4, dtype=torch.long).npu(), 0, torch.qint8)
    for actual, expected in ((whole, torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)),
                             (channels, torch.quantize_per_channel(x, scales, torch.zeros(4, dtype=torch.long), 0, torch.qint8))):
        assert actual.device.type == "npu" and actual.is_quantized
        assert torch.equal(actual.int_repr().cpu(), expected.int_repr())
        assert torch.equal(actual.dequantize().cpu(), expected.dequantize())
        assert torch.equal(actual.cpu().int_repr(), expected.int_repr())
        assert torch.equal(expected.to("npu").int_repr().cpu(), expected.int_repr())
        assert "device='npu:0'" in repr(actual)


@pytest.mark.parametrize("engine", [engine for engine in torch.backends.quantized.supported_engines if engine != "none"])
def test_quantized_layers_by_every_engine(engine, monkeypatch):
    monkeypatch.setattr(torch.backends.quantized, "engine", engine)
    weight, bias = torch.randn(4, 3, 3, 3), torch.randn(3)

    def layer(device):
        torch.manual_seed(0)
        module = torch.ao.nn.quantized.ConvTranspose2d(4, 3, 3, stride=2)
        module.set_weight_bias(torch.quantize_per_tensor(weight, 0.05, 0, torch.qint8), bias)
        x = torch.quantize_per_tensor(torch.randn(2, 4, 6, 6).to(device), 0.1, 64, torch.quint8)
        assert x.device.type == device and x.clone().device.type == device
        return module(x)

    result = layer("npu")
    assert result.device.type == "npu" and torch.equal(result.cpu().int_repr(), layer("cpu").int_repr())


@pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two NPUs")
def test_layouts_on_a_device_that_is_not_current():
    eye = torch.eye(3, device="npu:1")
    for made in (eye.to_sparse(), eye.to_sparse().clone(), eye.to_sparse() + eye.to_sparse(), eye.to_sparse_csr(), coo("npu:1"),
                 torch.zeros(3, layout=torch.sparse_coo, device="npu:1"), torch.nested.nested_tensor([eye, eye[:2]]) * 2):
        assert made.device == torch.device("npu:1")
    assert torch.equal(plain(eye.to_sparse().to("npu:0")), torch.eye(3))
    target = torch.zeros(2, 3, layout=torch.sparse_coo, device="npu:1").copy_(coo("npu:0"))
    assert target.device == torch.device("npu:1") and torch.equal(plain(target), plain(coo("cpu")))
    assert torch.npu.current_device() == 0


FIRST = {
    "empty, coo": "torch.ops.aten.empty.memory_format([2], layout=torch.sparse_coo, device='npu')",
    "empty, csr": "torch.ops.aten.empty.memory_format([2, 2], layout=torch.sparse_csr, device='npu')",
    "quantized": "torch.ops.aten._empty_affine_quantized([2], dtype=torch.qint8, device='npu', scale=1.0, zero_point=0)",
    "coo": "torch.ops.aten._to_copy(torch.eye(2).to_sparse(), device='npu')",
    "nested": "torch.ops.aten._to_copy(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), device='npu')",
}


@pytest.mark.parametrize("made", FIRST.values(), ids=FIRST)
def test_one_can_be_the_first_tensor_of_a_process(python, made):
    run = python(f"import torch, torch_npu; print({made}.clone().device)")
    assert run.stdout.split() == ["npu:0"], run.stderr
