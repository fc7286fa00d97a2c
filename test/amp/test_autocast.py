"""torch.autocast("npu"): every operator of PyTorch's lists computes in the type the lists promise."""
import threading
import warnings

import pytest
import torch
from torch.testing._internal.autocast_test_lists import AutocastTestLists, TestAutocast

import torch_npu  # noqa: F401

HALF_TYPES = [torch.float16, torch.bfloat16]


@pytest.fixture(scope="module")
def lists():
    torch.manual_seed(0)
    return AutocastTestLists(torch.device("npu:0"))


def kernels(key):
    return {name for name in torch._C._dispatch_get_registrations_for_dispatch_key(key) if name.startswith("aten::")}


def test_the_operators_are_those_of_cuda():
    ours, cudas = kernels("AutocastPrivateUse1"), kernels("AutocastCUDA")
    assert len(ours) > 110
    # CUDA's list has operators of cuDNN on top.
    assert {name for name in cudas - ours if "cudnn" not in name} == set()
    assert ours - cudas == set()


# (list, module, whether the arguments are float32 to be lowered)
LOWERED = [("torch_fp16", torch), ("nn_fp16", torch._C._nn), ("linalg_fp16", torch._C._linalg), ("methods_fp16", None)]
RAISED = [("torch_fp32", torch), ("nn_fp32", torch._C._nn), ("methods_fp32", None)]


@pytest.mark.parametrize("dtype", HALF_TYPES, ids=str)
@pytest.mark.parametrize("name,module", LOWERED, ids=lambda value: value if isinstance(value, str) else "")
def test_lists_in_half_precision(lists, name, module, dtype):
    for entry in getattr(lists, name):
        if "cudnn" in entry[0]:
            continue
        if entry[0] == "einsum" and len(entry) == 3:   # PyTorch's entry puts the equation where arguments belong
            q = torch.randn(2, 3, 4, 5, device="npu")
            with torch.autocast("npu", dtype=dtype):
                assert torch.einsum(entry[1], q, q).dtype == dtype
            continue
        op, args = entry[:2]
        TestAutocast()._run_autocast_outofplace(op, args, dtype, "npu", module=module, amp_dtype=dtype)


@pytest.mark.parametrize("dtype", HALF_TYPES, ids=str)
@pytest.mark.parametrize("name,module", RAISED, ids=lambda value: value if isinstance(value, str) else "")
def test_lists_in_float32(lists, name, module, dtype):
    for entry in getattr(lists, name):
        op, args, kwargs = TestAutocast().args_maybe_kwargs(entry)
        args = tuple(arg.to(dtype) if torch.is_tensor(arg) and arg.dtype == torch.float16 else arg for arg in args)
        TestAutocast()._run_autocast_outofplace(op, args, torch.float32, "npu", module=module, add_kwargs=kwargs,
                                                amp_dtype=dtype)


def test_list_of_promotion(lists):
    for op, args in lists.torch_need_autocast_promote:
        TestAutocast()._run_autocast_outofplace(op, args, torch.float32, "npu", amp_dtype=torch.float16)


def test_lists_of_builtin_promotion(lists):
    for op, args, result_type in lists.torch_expect_builtin_promote:
        TestAutocast()._run_autocast_outofplace(op, args, torch.float32, "npu", out_type=result_type,
                                                amp_dtype=torch.float16)


def test_banned(lists):
    for op, args, module in lists.banned:
        with torch.autocast("npu"), pytest.raises(RuntimeError, match="unsafe to autocast.*_with_logits"):
            getattr(module, op)(*args)
        with torch.autocast("npu", enabled=False):
            getattr(module, op)(*args)


def op_infos():
    """OpInfo by operator for those of the lists that have one, with how the list wants them."""
    from torch.testing._internal.common_methods_invocations import op_db
    lists = AutocastTestLists("cpu")
    wanted = {}
    for names, dtype in ((LOWERED, torch.float16), (RAISED, torch.float32)):
        for name, _ in names:
            wanted.update({entry[0].strip("_"): dtype for entry in getattr(lists, name)})
    for info in op_db:
        module, _, name = info.name.rpartition(".")
        dtype = wanted.get(name) if module in ("", "nn.functional", "linalg") else None
        if dtype is not None and not info.variant_test_name and torch.float32 in info.dtypes:
            yield info, dtype


def test_op_infos():
    """Real samples: float32 ones become half precision, half-precision ones float32."""
    checked = set()
    for info, dtype in op_infos():
        given = torch.float32 if dtype is torch.float16 else torch.float16
        if given not in info.dtypes:
            continue
        sample = next(iter(info.sample_inputs("npu", given)))
        with torch.autocast("npu"):
            result = info.op(sample.input, *sample.args, **sample.kwargs)
        results = result if isinstance(result, (tuple, list)) else (result,)
        for tensor in results:
            assert not tensor.is_floating_point() or tensor.dtype == dtype, f"{info.name}: {tensor.dtype}, not {dtype}"
        checked.add(info.name)
    assert len(checked) > 50, sorted(checked)


def interpolate(mode, *size, **options):
    return lambda t: torch.nn.functional.interpolate(t(1, 2, *size), scale_factor=2, mode=mode, **options)


# Operators that stand in PyTorch's tables, but not in its test lists: whether they compute in float32, and a call.
UNLISTED = {
    "scaled_dot_product_attention": (False, lambda t: torch.nn.functional.scaled_dot_product_attention(*[t(1, 2, 4, 8)] * 3)),
    "_thnn_fused_lstm_cell": (False, lambda t: torch.ops.aten._thnn_fused_lstm_cell(t(2, 12), t(2, 12), t(2, 3))),
    "_thnn_fused_gru_cell": (False, lambda t: torch.ops.aten._thnn_fused_gru_cell(t(2, 9), t(2, 9), t(2, 3))),
    "huber_loss": (True, lambda t: torch.nn.functional.huber_loss(t(3), t(3))),
    "native_layer_norm": (True, lambda t: torch.native_layer_norm(t(3, 4), (4,), None, None, 1e-5)),
    "frobenius_norm": (True, lambda t: torch.frobenius_norm(t(3, 4), dim=(0, 1))),
    "nuclear_norm": (True, lambda t: torch.nuclear_norm(t(3, 4))),
    "linalg_vector_norm": (True, lambda t: torch.linalg.vector_norm(t(3, 4))),
    "linalg_matrix_norm": (True, lambda t: torch.linalg.matrix_norm(t(3, 4))),
    "upsample_nearest1d": (True, interpolate("nearest", 4)),
    "upsample_nearest2d": (True, interpolate("nearest", 4, 4)),
    "upsample_nearest3d": (True, interpolate("nearest", 4, 4, 4)),
    "_upsample_nearest_exact1d": (True, interpolate("nearest-exact", 4)),
    "_upsample_nearest_exact2d": (True, interpolate("nearest-exact", 4, 4)),
    "_upsample_nearest_exact3d": (True, interpolate("nearest-exact", 4, 4, 4)),
    "upsample_linear1d": (True, interpolate("linear", 4)),
    "upsample_bilinear2d": (True, interpolate("bilinear", 4, 4)),
    "upsample_bicubic2d": (True, interpolate("bicubic", 4, 4)),
    "upsample_trilinear3d": (True, interpolate("trilinear", 4, 4, 4)),
    "_upsample_bilinear2d_aa": (True, interpolate("bilinear", 4, 4, antialias=True)),
    "_upsample_bicubic2d_aa": (True, interpolate("bicubic", 4, 4, antialias=True)),
}


@pytest.mark.parametrize("dtype", HALF_TYPES, ids=str)
@pytest.mark.parametrize("name", UNLISTED)
def test_operators_that_the_lists_leave_out(name, dtype):
    raised, call = UNLISTED[name]
    results = []
    for region in (torch.autocast("npu", dtype=dtype), torch.autocast("npu", enabled=False)):
        torch.manual_seed(0)
        inside = region._enabled
        given = dtype if raised else torch.float32   # what the region has to change
        computed = torch.float32 if raised else dtype
        with region:
            result = call(lambda *shape: torch.randn(shape, device="npu").to(given).to(given if inside else computed))
        results.append(result if isinstance(result, tuple) else (result,))
    assert [t.dtype for t in results[0]] == [computed] * len(results[0])
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)   # as if cast by hand


def test_no_operator_is_left_out():
    lists = AutocastTestLists("cpu")
    names = ("torch_need_autocast_promote", "torch_expect_builtin_promote", "banned", *(name for name, _ in LOWERED + RAISED))
    listed = {entry[0] for name in names for entry in getattr(lists, name)}
    listed |= {f"linalg_{entry[0]}" for entry in lists.linalg_fp16}
    ours = {name.removeprefix("aten::").partition(".")[0] for name in kernels("AutocastPrivateUse1")}
    # The last one is CUDA's own implementation of attention.
    assert ours - listed - set(UNLISTED) == {"_scaled_dot_product_flash_attention"}


def test_default_is_float16_and_bfloat16_can_be_chosen():
    x = torch.ones(2, 2, device="npu")
    with torch.autocast("npu"):
        assert (x @ x).dtype == torch.float16
    with torch.npu.amp.autocast(dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
    assert (x @ x).dtype == torch.float32
    assert torch.npu.is_bf16_supported() is True
    assert set(torch.npu.get_amp_supported_dtype()) >= {torch.float16, torch.bfloat16}


def test_state_functions():
    assert not torch.npu.is_autocast_enabled()
    assert torch.npu.get_autocast_dtype() == torch.float16
    torch.npu.set_autocast_enabled(True)
    torch.npu.set_autocast_dtype(torch.bfloat16)
    try:
        assert torch.is_autocast_enabled("npu") and torch.get_autocast_dtype("npu") == torch.bfloat16
        assert (torch.ones(2, 2, device="npu") @ torch.ones(2, 2, device="npu")).dtype == torch.bfloat16
    finally:
        torch.npu.set_autocast_enabled(False)
        torch.npu.set_autocast_dtype(torch.float16)


def test_default_dtype_must_be_one_of_autocasts():
    for dtype in (torch.float64, torch.int8):
        with pytest.raises(ValueError, match="torch.float16, torch.bfloat16, torch.float32, not in torch"):
            torch.npu.set_autocast_dtype(dtype)
    with pytest.raises(TypeError, match="must be torch.dtype"):
        torch.npu.set_autocast_dtype("half")
    assert torch.npu.get_autocast_dtype() == torch.float16


def test_wrong_dtype_is_refused_with_a_warning():
    with pytest.warns(UserWarning, match="float16"):
        region = torch.autocast("npu", dtype=torch.float64)
    x = torch.ones(2, 2, device="npu")
    with region:
        assert (x @ x).dtype == torch.float32


def test_nesting():
    x = torch.ones(2, 2, device="npu")
    with torch.autocast("npu"):
        with torch.autocast("npu", enabled=False):
            assert (x @ x).dtype == torch.float32
            with torch.autocast("npu", dtype=torch.bfloat16):
                assert (x @ x).dtype == torch.bfloat16
        assert (x @ x).dtype == torch.float16


def test_nested_types_share_a_weight():
    """PyTorch's cache does not tell the types apart: the inner region does without it."""
    weight = torch.nn.Parameter(torch.randn(4, 4, device="npu"))
    x = torch.randn(4, 4, device="npu")
    with torch.autocast("npu"):
        assert (x @ weight).dtype == torch.float16
        with torch.autocast("npu", dtype=torch.bfloat16, cache_enabled=False):
            assert not torch.is_autocast_cache_enabled()
            assert (x @ weight).dtype == torch.bfloat16
        assert torch.is_autocast_cache_enabled()
        assert (x @ weight).dtype == torch.float16


def test_weights_are_cast_once(monkeypatch):
    """With the cache a leaf is cast once in a region, without it at each use; the cache ends with the region."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Casts(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.count += function is torch.ops.aten._to_copy.default
            return function(*args, **(kwargs or {}))

    weight = torch.nn.Parameter(torch.randn(4, 4, device="npu"))
    x = torch.randn(4, 4, device="npu", dtype=torch.float16)
    for cache, expected in ((True, 1), (False, 3)):
        for _ in range(2):
            with Casts() as casts, torch.autocast("npu", cache_enabled=cache):
                for _ in range(3):
                    x @ weight
            assert casts.count == expected
    with torch.autocast("npu"):
        before = x @ weight
    with torch.no_grad():
        weight.mul_(2)
    with torch.autocast("npu"):
        torch.testing.assert_close(x @ weight, 2 * before)


def test_gradients_come_back_in_the_weights_type():
    weight = torch.nn.Parameter(torch.randn(4, 4, device="npu"))
    x = torch.randn(4, 4, device="npu")
    with torch.autocast("npu"):
        loss = torch.nn.functional.cross_entropy(x @ weight, torch.arange(4, device="npu"))
    assert loss.dtype == torch.float32
    loss.backward()
    assert weight.grad.dtype == torch.float32
    reference = weight.detach().cpu().requires_grad_()
    torch.nn.functional.cross_entropy(x.cpu() @ reference, torch.arange(4)).backward()
    torch.testing.assert_close(weight.grad.cpu(), reference.grad, rtol=1e-2, atol=2e-3)


class Product(torch.autograd.Function):
    @staticmethod
    @torch.npu.amp.custom_fwd
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        ctx.seen = torch.npu.is_autocast_enabled()
        return a @ b

    @staticmethod
    @torch.npu.amp.custom_bwd
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        assert torch.npu.is_autocast_enabled() == ctx.seen
        return grad @ b.t(), a.t() @ grad


class Float32Product(torch.autograd.Function):
    @staticmethod
    @torch.npu.amp.custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, a):
        assert not torch.npu.is_autocast_enabled()
        return a @ a

    @staticmethod
    @torch.amp.custom_bwd(device_type="npu")
    def backward(ctx, grad):
        return grad


def test_custom_functions():
    a, b = (torch.randn(4, 4, device="npu", requires_grad=True) for _ in range(2))
    with torch.autocast("npu"):
        result = Product.apply(a, b)
        assert Float32Product.apply(a.half()).dtype == torch.float32
    assert result.dtype == torch.float16
    result.sum().backward()
    assert a.grad.dtype == torch.float32


def test_state_belongs_to_the_thread():
    seen = []
    x = torch.ones(2, 2, device="npu")
    with torch.autocast("npu"):
        thread = threading.Thread(target=lambda: seen.append((x @ x).dtype))
        thread.start()
        thread.join()
        assert (x @ x).dtype == torch.float16
    assert seen == [torch.float32]


def test_cpu_and_npu_do_not_mix():
    x, y = torch.ones(2, 2, device="npu"), torch.ones(2, 2)
    with torch.autocast("npu"):
        assert (y @ y).dtype == torch.float32
        assert not torch.is_autocast_enabled("cpu")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.float32
        assert (y @ y).dtype == torch.bfloat16


def under_compile(function, *args, region=torch.autocast):
    """What the compiled function gives, which must be what the function gives; without leaving the graph or a warning."""
    torch._dynamo.reset()
    # 2.8's Dynamo leaves the graph where torch.npu.amp.autocast is made.
    whole = region is torch.autocast or torch.__version__ >= torch.torch_version.TorchVersion("2.13")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        compiled = torch.compile(function, backend="aot_eager", fullgraph=whole)
        actual, expected = compiled(*args), function(*args)
        assert [t.dtype for t in actual] == [t.dtype for t in expected]
        torch.testing.assert_close(actual, expected)
    return actual


@pytest.mark.parametrize("region,options", [(torch.autocast, {"device_type": "npu"}), (torch.npu.amp.autocast, {}),
                                            (torch.npu.amp.autocast, {"dtype": torch.bfloat16, "cache_enabled": False})],
                         ids=str)
def test_under_compile(region, options):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Softmax(-1)).npu()
    x = torch.randn(3, 4, device="npu")

    def function(x):
        with region(**options):
            hidden = model[0](x)
            with region(**options, enabled=False):
                inside = model[0](hidden.float())
            return hidden, model[1](hidden), inside, model[0](inside)

    sum(t.float().sum() for t in under_compile(function, x, region=region)).backward()
    assert model[0].weight.grad.dtype == torch.float32

    @region(**options)
    def decorated(x):
        return model(x), model[0](x)
    under_compile(decorated, x, region=region)


def test_questions_under_compile():
    """What programs ask before they choose a type does not leave the graph either."""
    def function(x):
        dtype = torch.bfloat16 if torch.npu.is_bf16_supported() else torch.npu.get_amp_supported_dtype()[0]
        with torch.autocast("npu", dtype=dtype, enabled=torch.npu.is_available() and torch.npu.device_count() > 0):
            assert torch.npu.is_autocast_enabled()
            return x @ x, x.to(torch.npu.get_autocast_dtype()), x * torch.npu.is_support_inf_nan()
    result = under_compile(function, torch.randn(3, 3, device="npu"))
    assert result[0].dtype == result[1].dtype == torch.bfloat16


def test_custom_functions_under_compile():
    a, b = (torch.randn(4, 4, device="npu", requires_grad=True) for _ in range(2))

    def function(a, b):
        with torch.autocast("npu"):
            return Product.apply(a, b), Float32Product.apply(a.half())
    result = under_compile(function, a, b)
    assert [t.dtype for t in result] == [torch.float16, torch.float32]
    result[0].sum().backward()
    assert a.grad.dtype == torch.float32


def test_the_class():
    """A call gives a torch.autocast, which counts as an instance; a class made from it works as one."""
    class Mine(torch.npu.amp.autocast):
        def __init__(self):
            super().__init__(dtype=torch.bfloat16)

    x = torch.ones(2, 2, device="npu")
    with Mine():
        assert (x @ x).dtype == torch.bfloat16
    assert isinstance(Mine(), torch.npu.amp.autocast) and isinstance(torch.npu.amp.autocast(), torch.npu.amp.autocast)
    assert isinstance(torch.npu.amp.autocast(), torch.autocast) and not isinstance(torch.npu.amp.autocast(), Mine)
    assert not isinstance(torch.autocast("cpu"), torch.npu.amp.autocast)
    with pytest.raises(TypeError, match="positional"):
        torch.npu.amp.autocast("npu", torch.float16, True, True)


def test_checkpointing_repeats_the_region():
    model = torch.nn.Linear(4, 4).npu()
    seen = []

    def function(x):
        hidden = model(x)
        seen.append(hidden.dtype)
        return model(hidden).relu()

    x = torch.randn(3, 4, device="npu", requires_grad=True)
    with torch.autocast("npu"):
        result = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
    result.sum().backward()
    assert seen == [torch.float16, torch.float16]


@pytest.mark.parametrize("function", [torch.fft.fft, torch.fft.rfft2, torch.fft.irfft, torch.cholesky_inverse, torch.linalg.matrix_exp], ids=lambda f: f.__name__)
def test_what_is_made_of_products_keeps_its_type(function):
    """Autocast lists products, not operators that the NPU computes by products."""
    x = torch.eye(8, device="npu") + torch.ones(8, 8, device="npu")
    expected = function(x)
    with torch.autocast("npu", dtype=torch.bfloat16):
        result = function(x)
    assert result.dtype == expected.dtype
    assert torch.equal(torch.view_as_real(result) if result.is_complex() else result,
                       torch.view_as_real(expected) if expected.is_complex() else expected)
