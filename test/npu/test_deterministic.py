"""torch.use_deterministic_algorithms: CANN is told, results repeat bit for bit, memory nobody wrote is recognisable."""

import pytest
import torch

import torch_npu  # noqa: F401


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_cann_is_told(python, tmp_path):
    trace = tmp_path / "trace"
    code = """if True:
        import torch, torch_npu
        torch.use_deterministic_algorithms(True)
        torch.ones(2, device="npu")
        torch.use_deterministic_algorithms(False)"""
    result = python(code, SOFTCANN_TRACE=trace)
    assert result.returncode == 0, result.stderr
    calls = [line for line in trace.read_text().splitlines() if "aclrtSetSysParamOpt" in line]
    assert len(calls) == 2, calls  # on at the device's first use, then off


N, BINS = 100_000, 7
SUMS = {
    "index_put_accumulate": lambda x, i: torch.zeros(BINS, device=x.device, dtype=x.dtype).index_put_((i,), x, accumulate=True),
    "index_add": lambda x, i: torch.zeros(BINS, device=x.device, dtype=x.dtype).index_add_(0, i, x),
    "scatter_add": lambda x, i: torch.zeros(BINS, device=x.device, dtype=x.dtype).scatter_add_(0, i, x),
    "scatter_reduce": lambda x, i: torch.zeros(BINS, device=x.device, dtype=x.dtype).scatter_reduce_(0, i, x, "sum"),
    "put_accumulate": lambda x, i: torch.zeros(BINS, device=x.device, dtype=x.dtype).put_(i, x, accumulate=True),
    "bincount": lambda x, i: torch.bincount(i, x, BINS),
    "embedding_backward": lambda x, i: torch.ops.aten.embedding_dense_backward(x.unsqueeze(1), i, BINS, -1, False),
    "cumsum": lambda x, i: x.cumsum(0),
    "sum": lambda x, i: x.sum(),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_repeat_and_equal_the_cpu(deterministic, name):
    torch.manual_seed(0)
    x, i = torch.randn(N), torch.randint(BINS, (N,))
    first = SUMS[name](x.npu(), i.npu()).cpu()
    for _ in range(3):
        assert torch.equal(SUMS[name](x.npu(), i.npu()).cpu(), first)
    torch.testing.assert_close(first, SUMS[name](x.double(), i).to(first.dtype), rtol=1e-4, atol=1e-2)


def test_training_repeats(deterministic):
    def train():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Dropout(), torch.nn.Linear(36, 10)).npu()
        steps = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            steps.zero_grad()
            torch.nn.functional.cross_entropy(model(torch.randn(16, 1, 8, 8, device="npu")), torch.randint(10, (16,), device="npu")).backward()
            steps.step()
        return [p.detach().cpu() for p in model.parameters()]

    for a, b in zip(train(), train()):
        assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex64, torch.int64, torch.int8, torch.bool])
def test_memory_nobody_wrote_is_filled_as_on_the_cpu(deterministic, dtype):
    for make in (lambda d: torch.empty(5, dtype=dtype, device=d), lambda d: torch.empty_strided((2, 3), (1, 2), dtype=dtype, device=d),
                 lambda d: torch.empty_like(torch.zeros(4, dtype=dtype, device=d)), lambda d: torch.zeros(2, dtype=dtype, device=d).resize_(6)):
        torch.testing.assert_close(make("npu").cpu(), make("cpu"), rtol=0, atol=0, equal_nan=True)


def test_fill_can_be_switched_off(deterministic):
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        kept = torch.ones(64, device="npu")
        address = kept.data_ptr()
        del kept
        again = torch.empty(64, device="npu")
        assert again.data_ptr() != address or again.cpu().eq(1).all()
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True


def test_levels():
    set_to = torch.npu.set_deterministic_level
    try:
        for level in (1, 2, 1, 0):
            set_to(level)
            assert torch.are_deterministic_algorithms_enabled() is bool(level)
            assert torch.npu._get_deterministic_level() == level
        set_to(2)
        torch.use_deterministic_algorithms(True)
        assert torch.npu._get_deterministic_level() == 2
        torch.use_deterministic_algorithms(False)
        assert torch.npu._get_deterministic_level() == 0
        torch.use_deterministic_algorithms(True)
        assert torch.npu._get_deterministic_level() == 1
    finally:
        torch.use_deterministic_algorithms(False)
    for wrong in (4, -1, "on"):
        with pytest.raises(RuntimeError, match="expected 0, 1, 2 or 3"):
            set_to(wrong)


def test_a_level_that_cann_lacks_changes_nothing():
    with pytest.raises(RuntimeError, match="batch consistency"):
        torch.npu.set_deterministic_level(3)
    assert torch.npu._get_deterministic_level() == 0 and not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.complex64])
def test_all_products_are_consistent_at_level_2(dtype):
    torch.manual_seed(1)
    a, b, c = torch.randn(257, 300), torch.randn(300, 129), torch.randn(129)
    a[100] = a[256] = a[0]
    b[:, 128] = b[:, 3]
    expected = a @ b
    a, b, c = (t.to(dtype).npu() for t in (a, b, c))
    torch.npu.set_deterministic_level(2)
    try:
        products = [a @ b, torch.addmm(c, a, b, beta=0), torch.bmm(a.expand(2, -1, -1), b.expand(2, -1, -1))[1]]
        alone, column = a[:1] @ b, a @ b[:, 3]
    finally:
        torch.npu.set_deterministic_level(0)
    for product in products:
        assert torch.equal(product[0], product[100]) and torch.equal(product[0], product[256]) and torch.equal(product[:1], alone)
        assert torch.equal(product[:, 3], product[:, 128]) and torch.equal(product[:, 3], column)
    found = products[0].cpu()
    torch.testing.assert_close((found.real if dtype.is_complex else found).float(), expected, rtol=2e-2,
                               atol=0.4 if dtype == torch.bfloat16 else 0.1)


def test_a_level_holds_for_what_is_launched_later(python):
    code = """if True:
        import torch, torch_npu
        a, b = torch.randn(1000, 600), torch.randn(600, 999)
        a[999] = a[0]
        a, b = a.npu(), b.npu()
        torch.npu.set_deterministic_level(2)
        products = [a @ b for _ in range(4)]   # some wait in the stream's queue
        torch.npu.set_deterministic_level(0)
        later = a @ b
        torch.npu.set_deterministic_level(2)
        assert all(torch.equal(p[0], p[999]) and torch.equal(p, a @ b) for p in products)"""
    result = python(code)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_equal_rows_give_equal_results_at_level_2(dtype):
    torch.manual_seed(0)
    row, weight = torch.randn(1, 301), torch.randn(301, 77)
    try:
        torch.npu.set_deterministic_level(2)
        x, w = row.to(dtype).npu(), weight.to(dtype).npu()
        alone = (x @ w).cpu()
        for rows in (2, 7, 64, 333):
            assert torch.equal((x.expand(rows, 301) @ w).cpu(), alone.expand(rows, 77))
        same = w[:, :1].expand(301, 50)
        assert (x @ same).unique().numel() == 1
        torch.testing.assert_close(alone.float(), row.to(dtype).float() @ weight.to(dtype).float(), rtol=1e-2, atol=1e-2)
    finally:
        torch.npu.set_deterministic_level(0)
