"""Every custom operator against its reference: values, gradients, meta tensors; signatures, docstrings, unknown names."""
import inspect
import re

import pytest
import torch
from cases import CASES
from signatures import misfits
from torch.utils._pytree import tree_flatten, tree_map

import torch_npu
from torch_npu import _cpu_ops
from torch_npu._ops import custom

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# The NPU rounds once at the end, the reference too; float32 sums in another order.
TOLERANCE = {torch.float32: (1e-4, 1e-5), torch.float16: (2e-3, 2e-3), torch.bfloat16: (1.6e-2, 1.6e-2)}
# Composed of torch's own operators, which round after each: the NPU may do otherwise than the CPU between them.
COARSE = 4
# Those that write into their input have the gradients of the others.
RULED = sorted(name for name in CASES if name in torch_npu._C._custom_ops_with_gradient() and not name.endswith("_"))
SEEDED = {"_npu_dropout_gen_mask", "dropout_with_byte_mask", "_dropout_with_byte_mask", "npu_random_choice_with_mask", "npu_sub_sample", "_npu_dropout", "npu_dropout_with_add_softmax", "npu_dropout_gen_mask", "npu_sim_exponential_"}
# Ranks, files, memory, services: test_composed.py, test_training_operators.py, test/distributed/test_parallel_matmul.py and test_quant_parallel.py.
OWN_TESTS = {"npu_all_gather_quant_mm", "npu_all_to_all_quant_matmul", "npu_alltoallv_quant_gmm", "npu_quant_gmm_alltoallv",
             "npu_quant_matmul_all_to_all", "npu_quant_mm_reduce_scatter", "npu_hans_decode", "obfuscation_calculate", "obfuscation_finalize", "obfuscation_initialize", "set_op_timeout_ms",
             "_amp_foreach_non_finite_check", "empty_with_format", "unsafe_empty_with_format", "empty_with_swapped_memory", "npu_change_data_ptr", "npu_all_gather_base_mm",
             "npu_all_to_all_matmul", "npu_alltoallv_gmm", "npu_gmm_alltoallv", "npu_matmul_all_to_all", "npu_mm_all_reduce_base",
             "npu_mm_reduce_scatter_base", "print_npugraph_tensor", "save_npugraph_tensor"}
QUANTIZING = {"npu_mla_prolog_v2", "npu_add_rms_norm_dynamic_quant", "npu_rms_norm_quant", "npu_rms_norm_quant_v2", "npu_gelu_quant", "npu_group_quant",
              "npu_rotate_quant", "npu_grouped_matmul_swiglu_quant", "npu_grouped_matmul_swiglu_quant_v2", "npu_moe_init_routing_quant",
              "npu_quant_scatter", "npu_quant_scatter_", "npu_kv_rmsnorm_rope_cache", "npu_rope_quant_kvcache",
              "npu_dequant_rope_quant_kvcache", "npu_fused_infer_attention_score_v2", "npu_dynamic_quant", "npu_quantize", "npu_quant_matmul", "npu_dynamic_quant_asymmetric", "npu_swiglu_quant",
              "npu_dequant_swiglu_quant", "npu_add_rms_norm_quant", "npu_moe_init_routing_v2"}
# Results, in the order of defined(), that are on the CPU whatever the operands are on: a dropout's seed and offset.
ON_THE_HOST = {("npu_fusion_attention_v3", 3), ("npu_fusion_attention_v3", 4)}
BLOCKS = {name for name in CASES if "_mx_quant" in name or "block_quant" in name or name == "npu_quant_max"}


# The result's shape depends on what the arguments hold.
DATA_DEPENDENT = ("npu_nms_rotated", "npu_moe_token_permute_with", "npu_moe_token_unpermute_with", "_npu_moe_token_unpermute_with")
# The result that gradients are for, where it is not the first.
DIFFERENTIATED = {"npu_deep_norm": 2, "npu_fused_floyd_attention": 2}
# Whose result is rounded to float8: the gradient is that of what it was before, and differences of the result say nothing of it.
STRAIGHT_THROUGH = {"npu_swiglu_group_quant"}
# Of int8 and of float32 beside them, or of float32 alone; their gradients are PyTorch's own, of the composition.
NOT_IN_FLOAT64 = {"npu_mhc_sinkhorn", "npu_grouped_matmul_finalize_routing", "npu_fused_cross_entropy_loss_with_max_sum"}


def arguments(name, index, dtype):
    torch.manual_seed(index)
    return CASES[name][index](dtype)


def to(device, value):
    return tree_map(lambda v: v.detach().clone().to(device) if isinstance(v, torch.Tensor) else v, value)


def run(name, args, kwargs):
    """The tensors among result and arguments: operators may write."""
    result = getattr(torch_npu, name)(*args, **kwargs)
    return [leaf for leaf in tree_flatten((result, args, kwargs))[0] if isinstance(leaf, torch.Tensor)]


def every(names):
    return [(name, i) for name in names for i in range(len(CASES[name]))]


def defined(name, results):
    """What is defined of the results: of attention's statistics only the logarithm of the sum of exponentials."""
    if name not in ("npu_fusion_attention", "npu_fusion_attention_v2", "npu_fusion_attention_v3"):
        return results
    out, top, total, *rest = results
    return [out, top + total.log(), *rest]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name,index", every(CASES))
def test_equals_reference(name, index, dtype):
    args, kwargs = arguments(name, index, dtype)
    if dtype == torch.float16 and name in ("npu_iou", "npu_ptiou", "npu_giou", "npu_diou", "npu_ciou"):
        dtype = torch.bfloat16  # differences of areas lose digits
    expected = defined(name, run(name, *to("cpu", (args, kwargs))))
    found = defined(name, run(name, *to("npu", (args, kwargs))))
    rtol, atol = TOLERANCE[dtype]
    if any(overload[2] == "composed" for overload in custom.operators()[name]):
        rtol, atol = COARSE * rtol, COARSE * atol
    assert len(expected) == len(found)
    for place, (ours, reference) in enumerate(zip(found, expected)):
        device = "cpu" if (name, place) in ON_THE_HOST else "npu"
        assert ours.device.type == device and ours.dtype == reference.dtype and ours.shape == reference.shape
        if name in BLOCKS and ours.element_size() == 1:
            # An element on the edge between two numbers, or a block on that between two scales, may fall to either side.
            same = ours.cpu().view(torch.uint8) == reference.view(torch.uint8)
            assert same.float().mean() > 0.98
            continue
        if ours.element_size() == 1 and ours.is_floating_point():
            assert torch.equal(ours.cpu().view(torch.uint8), reference.view(torch.uint8))
            continue
        if ours.dtype in (torch.int8, torch.uint8) and name in QUANTIZING and ours.numel():
            # A value on the edge between two integers may fall to either side.
            assert (ours.cpu().int() - reference.int()).abs().max() <= 1
            continue
        rounding = TOLERANCE.get(ours.dtype, (0.0, 0.0))  # of results that are coarser than the arguments
        torch.testing.assert_close(ours.cpu(), reference, rtol=max(rtol, rounding[0]), atol=max(atol, rounding[1]), equal_nan=True)


@pytest.mark.parametrize("name,index", every(CASES))
def test_meta(name, index):
    args, kwargs = arguments(name, index, torch.float32)
    if name.startswith(DATA_DEPENDENT):
        pytest.skip("the result's shape depends on the data")
    expected = run(name, *to("cpu", (args, kwargs)))
    found = run(name, *to("meta", (args, kwargs)))
    assert [(t.shape, t.dtype) for t in found] == [(t.shape, t.dtype) for t in expected]


def gradients_of(name, args, kwargs, device):
    args, kwargs = to(device, (args, kwargs))
    leaves = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor) and t.is_floating_point()]
    for leaf in leaves:
        leaf.requires_grad_()
    results = tree_flatten(getattr(torch_npu, name)(*args, **kwargs))[0][DIFFERENTIATED.get(name, 0):]
    first = next(t for t in results if isinstance(t, torch.Tensor) and t.requires_grad)
    torch.manual_seed(9)
    first.backward(torch.randn(first.shape).to(first))
    return [leaf.grad for leaf in leaves]


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("name,index", every(RULED))
def test_gradient_equals_reference(name, index, dtype):
    args, kwargs = arguments(name, index, dtype)
    rtol, atol = TOLERANCE[dtype]
    found, expected = gradients_of(name, args, kwargs, "npu"), gradients_of(name, args, kwargs, "cpu")
    assert any(g is not None for g in expected)
    for ours, reference in zip(found, expected):
        assert (ours is None) == (reference is None)
        if ours is not None:
            torch.testing.assert_close(ours.cpu(), reference, rtol=COARSE * rtol, atol=COARSE * atol)


@pytest.mark.parametrize("name", [name for name in RULED if name not in STRAIGHT_THROUGH | NOT_IN_FLOAT64])
def test_rules_by_differences(name):
    """The gradient rules on the CPU, in float64, against differences."""
    args, kwargs = to("cpu", arguments(name, 0, torch.float64))
    inputs = [a for a in args if isinstance(a, torch.Tensor) and a.dtype == torch.float64]

    def function(*tensors):
        given = iter(tensors)
        filled = [next(given) if isinstance(a, torch.Tensor) and a.dtype == torch.float64 else a for a in args]
        results = getattr(torch_npu, name)(*filled, **kwargs)
        results = results if isinstance(results, tuple) else (results,)
        return results[DIFFERENTIATED.get(name, 0)]

    assert torch.autograd.gradcheck(function, [t.requires_grad_() for t in inputs], atol=1e-4, rtol=1e-3)


def test_no_gradient_says_so():
    x = torch.randn(3, 8, device="npu", requires_grad=True)
    out = torch_npu.npu_gelu_mul(x)
    assert out.requires_grad
    with pytest.raises(NotImplementedError, match="npu_gelu_mul has no gradient"):
        out.sum().backward()


def test_every_operator_has_a_reference_a_docstring_and_a_test():
    untested = set()
    for name, overloads in custom.operators().items():
        for overload, schema, _ in overloads:
            named = [vars(family).get(overload.replace(".", "_")) for family in _cpu_ops._FAMILIES]
            assert len({id(function) for function in named if function is not None}) == 1, overload
            reference = _cpu_ops.find(overload)
            assert reference.__doc__, overload
            assert misfits(reference, "npu::" + schema) == [], overload
        if name not in CASES and not name.endswith(("_backward", "_grad", "_grad_v2", "_grad_v3")):
            untested.add(name)
    elsewhere = {"npu_format_cast", "npu_format_cast_", "get_npu_format"}  # test_formats.py
    elsewhere |= {name for name in untested if "_distribute_" in name}  # test/distributed/test_expert_parallel.py
    elsewhere |= {"_quantize_per_tensor_impl", "_quantize_per_channel_impl"}  # only with out
    assert untested <= SEEDED | OWN_TESTS | elsewhere


def test_misfits_are_found():
    schema = "npu::x(Tensor a, int b=3, *, float c=1.5) -> Tensor"
    assert misfits(lambda a, b=3, *, c=1.5: a, schema) == misfits(lambda a, b=3, **rest: a, schema) == []
    assert misfits(lambda *args, c=1.5: args, schema) == misfits(lambda *args, **rest: args, schema) == []
    assert misfits(lambda a, b=4, *, c=1.5: a, schema) == ["b=4"]
    assert misfits(lambda a, b=3: a, schema) == ["does not take c"]
    assert misfits(lambda a, **rest: a, schema) == ["does not take b"]
    assert misfits(lambda a, c=1.5, b=3: a, schema) == ["takes a, c, b"]
    assert misfits(lambda a, d, **rest: a, schema) == ["does not take b", "takes a, d"]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_arguments_that_a_function_does_not_name(device):
    q = torch.randn(1, 2, 3, 4, device=device)
    call = lambda **options: torch_npu.npu_fusion_attention_v2(q, q, q, 2, "BNSD", **options)
    call(softmax_layout="", padding_mask=None, q_start_idx=[], inner_precise=0)
    call(inner_precise=2, sync=True)  # without a meaning on the CPU
    with pytest.raises(NotImplementedError, match="npu_fusion_attention_v2: padding_mask is not supported"):
        call(padding_mask=q)
    with pytest.raises(NotImplementedError, match="npu_fusion_attention_v2: query_rope and key_rope need the layout TND"):
        call(query_rope=q, key_rope=q)


def test_signatures_are_the_schemas():
    text = str(inspect.signature(torch_npu.npu_quantize))
    assert text.startswith("(input: torch.Tensor, scales: torch.Tensor, zero_points: Optional[torch.Tensor], dtype: ")
    assert text.endswith("axis: int = 1, div_mode: bool = True) -> torch.Tensor")
    parameters = inspect.signature(torch_npu.npu_fused_infer_attention_score).parameters
    assert parameters["num_heads"].default == 1 and parameters["num_heads"].kind == inspect.Parameter.KEYWORD_ONLY
    assert "block_size" in parameters and "learnable_sink" not in parameters


def test_dropout():
    x = torch.ones(100, 1000, device="npu", requires_grad=True)
    torch.npu.manual_seed(5)
    out, mask = torch_npu._npu_dropout(x, 0.25)
    torch.npu.manual_seed(5)
    assert torch.equal(out, torch_npu._npu_dropout(x, 0.25)[0])
    assert mask.dtype == torch.uint8 and mask.numel() == 12512  # 100000 bits, rounded up to 128
    assert out.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert abs((out == 0).float().mean().item() - 0.25) < 0.01
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())
    torch.testing.assert_close(torch_npu.npu_dropout_do_mask(x.detach(), mask, 0.25)[0], out.detach())


@pytest.mark.parametrize("device", ["npu", "npu:1", "cpu", None])
def test_dropout_gen_mask(device):
    def make(*size, p=0.25):
        torch.manual_seed(5)
        return torch_npu.npu_dropout_gen_mask(size, p, dtype=torch.float16, device=device)

    mask = make(100, 1000)
    assert mask.device.type == (device or "npu")[:3] and mask.device.index == {"cpu": None, "npu:1": 1}.get(device, 0)
    assert mask.dtype == torch.uint8 and mask.shape == (12512,)
    assert torch.equal(mask, make(100, 1000))
    x = torch.ones(100, 1000, device=mask.device)
    out = torch_npu.npu_dropout_do_mask(x, mask, 0.25)[0]
    assert out.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert abs((out == 0).float().mean().item() - 0.25) < 0.01
    assert make(0, 5).shape == (0,) and make().shape == (16,)
    assert make(128, p=0.0).cpu().unique().tolist() == [255] and make(128, p=1.0).cpu().unique().tolist() == [0]
    with pytest.raises(RuntimeError, match="probability"):
        make(4, p=1.5)


def test_dropout_gen_mask_without_data():
    from torch._subclasses import FakeTensorMode
    assert torch_npu.npu_dropout_gen_mask([3, 50], 0.5, device="meta").shape == (32,)
    with FakeTensorMode():
        mask = torch_npu.npu_dropout_gen_mask([3, 50], 0.5, device="npu")
        assert mask.device.type == "npu" and mask.shape == (32,)
    with pytest.raises(RuntimeError, match="pinned"):
        torch_npu.npu_dropout_gen_mask([3, 50], 0.5, device="npu", pin_memory=True)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_sim_exponential(device):
    x = torch.empty(200, 500, device=device)
    torch.manual_seed(3)
    assert torch_npu.npu_sim_exponential_(x, 2.0) is x
    first = x.clone()
    assert abs(x.mean().item() - 0.5) < 0.01 and x.min().item() >= 0
    torch.manual_seed(3)
    assert torch.equal(torch_npu.npu_sim_exponential_(x, 2.0), first)
    with pytest.raises(RuntimeError, match="lambda"):
        torch_npu.npu_sim_exponential_(x, -1.0)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_dropout_with_add_softmax(device):
    x, y = (torch.randn(40, 30, dtype=torch.float64, requires_grad=True) for _ in range(2))
    own = [t.detach().to(device).requires_grad_() for t in (x, y)]
    mask, softmax, out = torch_npu.npu_dropout_with_add_softmax(*own, 0.5, 0.25, -1)
    torch.testing.assert_close(softmax.cpu(), torch.softmax(y + 0.5 * x, -1))
    kept = torch_npu.npu_dropout_backward(torch.ones_like(out), mask, 0.25).cpu() * 0.75
    assert abs(kept.mean().item() - 0.75) < 0.06
    expected = torch.softmax(y + 0.5 * x, -1) * kept / 0.75
    torch.testing.assert_close(out.cpu(), expected)
    out.square().sum().backward()
    expected.square().sum().backward()
    for got, wanted in zip(own, (x, y)):
        torch.testing.assert_close(got.grad.cpu(), wanted.grad)


@pytest.mark.parametrize("attention", [torch_npu.npu_fusion_attention, torch_npu.npu_fusion_attention_v2])
def test_attention_dropout_repeats_in_backward(attention):
    torch.manual_seed(7)
    q, k, v = (torch.randn(1, 2, 32, 8, device="npu", requires_grad=True) for _ in range(3))
    out, _, _, _, seed, offset, size = attention(q, k, v, 2, "BNSD", scale=0.3, keep_prob=0.5)
    assert size == 2 * 32 * 32
    again = attention(q, k, v, 2, "BNSD", scale=0.3, keep_prob=0.5, seed=seed, offset=offset)[0]
    assert torch.equal(out, again)
    # The result is linear in v: with the same dropout <v, dv> is <out, out>.
    out.backward(out.detach())
    torch.testing.assert_close((v * v.grad).sum(), out.square().sum(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam_w_is_torchs(device, amsgrad):
    torch.manual_seed(3)
    weight = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    var, m, v = weight.detach().clone().to(device), torch.zeros(7, 3).double().to(device), torch.zeros(7, 3).double().to(device)
    most = torch.zeros_like(v)
    optimizer = torch.optim.AdamW([weight], lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, amsgrad=amsgrad)
    for step in range(1, 6):
        weight.grad = torch.randn(7, 3, dtype=torch.float64) / step
        optimizer.step()
        results = torch_npu.npu_apply_adam_w(0.8 ** (step - 1), 0.95 ** (step - 1), 0.05, 0.1, 0.8, 0.95, 1e-3,
                                             weight.grad.to(device), most, amsgrad, False, out=(var, m, v))
        assert [t.data_ptr() for t in results] == [t.data_ptr() for t in (var, m, v)]
    torch.testing.assert_close(var.cpu(), weight.detach())
    with pytest.raises(RuntimeError, match="amsgrad needs max_grad_norm"):
        torch_npu.npu_apply_adam_w(0.9, 0.9, 0.1, 0.0, 0.9, 0.9, 1e-3, var, None, True, False, out=(var, m, v))
    with pytest.raises(TypeError, match=r"out is \(var, m, v\), but got 2"):
        torch_npu.npu_apply_adam_w(0.9, 0.9, 0.1, 0.0, 0.9, 0.9, 1e-3, var, None, False, False, out=(var, m))


def covered(box, points):
    """Which points lie in a rotated box."""
    x, y, width, height, angle = box.tolist()
    turn = torch.tensor(angle).deg2rad()
    dx, dy = points[:, 0] - x, points[:, 1] - y
    along, across = dx * turn.cos() + dy * turn.sin(), dy * turn.cos() - dx * turn.sin()
    return (along.abs() <= width / 2) & (across.abs() <= height / 2)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_rotated_iou_counts_points(device):
    torch.manual_seed(4)
    boxes = torch.cat([4 + torch.rand(12, 2) * 3, 1 + torch.rand(12, 2) * 4, torch.rand(12, 1) * 720 - 360], 1)
    boxes[0] = boxes[1]                                    # equal
    boxes[2] = torch.tensor([5.0, 5.0, 4.0, 2.0, 30.0])    # one inside the other, turned alike
    boxes[3] = torch.tensor([5.0, 5.0, 2.0, 1.0, 30.0])
    boxes[4] = torch.tensor([100.0, 5.0, 2.0, 1.0, 30.0])  # far away
    boxes[5] = torch.tensor([5.0, 5.0, 0.0, 1.0, 30.0])    # empty
    line = torch.arange(0.0, 12.0, 0.02)
    points = torch.cartesian_prod(line, line)
    inside = torch.stack([covered(box, points) for box in boxes]).double()
    both = inside @ inside.t()
    whole = inside.sum(1)[:, None] + inside.sum(1) - both
    expected = torch.where(whole > 0, both / whole.clamp(min=1), 0).float()
    found = torch_npu.npu_rotated_iou(boxes.unsqueeze(0).to(device), boxes.unsqueeze(0).to(device))[0].cpu()
    live = [i for i in range(12) if i not in (4, 5)]
    torch.testing.assert_close(found[live][:, live], expected[live][:, live], rtol=0, atol=0.01)
    assert (found[live][:, live].diagonal() - 1).abs().max() < 1e-4
    assert found[4, live].max() < 1e-6 and found[5].max() < 1e-6
    corners = torch.cat([boxes[:, :2] - boxes[:, 2:4] / 2, boxes[:, :2] + boxes[:, 2:4] / 2, boxes[:, 4:]], 1).unsqueeze(0)
    torch.testing.assert_close(torch_npu.npu_rotated_iou(corners.to(device), corners.to(device), True)[0].cpu(), found, rtol=1e-3, atol=1e-4)


def test_nms_rotated_keeps_the_best():
    boxes = torch.tensor([[5.0, 5, 4, 2, 0], [5, 5, 4, 2, 5], [5, 5, 4, 2, 90], [50, 5, 4, 2, 0]]).npu()
    chosen, count = torch_npu.npu_nms_rotated(boxes, torch.tensor([0.5, 0.9, 0.8, 0.1]).npu(), 0.5)
    assert chosen.tolist() == [1, 2, 3] and count.tolist() == [3] and chosen.dtype == torch.int32
    assert torch_npu.npu_nms_rotated(boxes, torch.tensor([0.5, 0.9, 0.8, 0.1]).npu(), 0.5, 0.2, 1)[0].tolist() == [1]


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_batch_nms_goes_class_by_class(device):
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 3.9], [10, 10, 14, 14], [20, 20, 24, 24]])
    scores = torch.tensor([[0.9, 0.2], [0.8, 0.7], [0.6, 0.65], [0.1, 0.05]])
    found = torch_npu.npu_batch_nms(boxes.view(1, 4, 1, 4).to(device), scores.unsqueeze(0).to(device), 0.15, 0.5, 2, 5)
    # Of class 0 boxes 0 and 2 stay, of class 1 boxes 1 and 2: the first two overlap.
    torch.testing.assert_close(found[1].cpu(), torch.tensor([[0.9, 0.7, 0.65, 0.6, 0.0]]))
    assert found[2].tolist() == [[0, 1, 1, 0, 0]] and found[3].tolist() == [4]
    torch.testing.assert_close(found[0].cpu(), torch.stack([boxes[0], boxes[1], boxes[2], boxes[2], torch.zeros(4)]).unsqueeze(0))
    assert found[3].dtype == torch.int32
    few = torch_npu.npu_batch_nms(boxes.view(1, 4, 1, 4).to(device), scores.unsqueeze(0).to(device), 0.15, 0.5, 1, 2)
    assert few[2].tolist() == [[0, 1]] and few[3].tolist() == [2]
    with pytest.raises(NotImplementedError, match="transpose_box"):
        torch_npu.npu_batch_nms(boxes.view(1, 4, 1, 4).to(device), scores.unsqueeze(0).to(device), 0.1, 0.5, 1, 2, transpose_box=True)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_lstm_is_torchs(device):
    torch.manual_seed(2)
    layer = torch.nn.LSTM(5, 4)
    x, h, c = torch.randn(3, 2, 5, requires_grad=True), torch.randn(1, 2, 4), torch.randn(1, 2, 4)
    weight = torch.cat([layer.weight_ih_l0, layer.weight_hh_l0], 1).t()   # the gates in torch's order, as the published torch_npu asks
    bias = layer.bias_ih_l0 + layer.bias_hh_l0
    own = x.detach().to(device).requires_grad_()
    out = torch_npu.npu_lstm(own, weight.detach().to(device), bias.detach().to(device), torch.empty(0).to(device), h.to(device),
                             c.to(device), True, 1, 0.0, False, False, False, False, False)
    y, (last_h, last_c) = layer(x, (h, c))
    torch.testing.assert_close(out[0].cpu(), y)
    torch.testing.assert_close(out[1][-1:].cpu(), last_h)
    torch.testing.assert_close(out[2][-1:].cpu(), last_c)
    y.square().sum().backward()
    out[0].square().sum().backward()
    torch.testing.assert_close(own.grad.cpu(), x.grad)
    with pytest.raises(NotImplementedError, match="bidirectional"):
        torch_npu.npu_lstm(own, own, own, own, own, own, True, 1, 0.0, False, True, False, False, False)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_gru_is_torchs(device):
    torch.manual_seed(2)
    layer = torch.nn.GRU(5, 4)
    x, h = torch.randn(3, 2, 5, requires_grad=True), torch.randn(1, 2, 4)
    lengths = torch.tensor([3, 2])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths)
    y, last = layer(packed, h)
    y = torch.nn.utils.rnn.pad_packed_sequence(y)[0]
    own = x.detach().to(device).requires_grad_()
    parts = [t.detach().t().contiguous().to(device) if t.dim() == 2 else t.detach().to(device) for t in
             (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)]
    out = torch_npu.npu_gru(own, h.to(device), *parts, lengths.int().to(device), True, 1, 0.0, False, False, False)
    torch.testing.assert_close(out[0].cpu(), y)
    torch.testing.assert_close(out[1][-1:].cpu(), last)
    y.square().sum().backward()
    out[0].square().sum().backward()
    torch.testing.assert_close(own.grad.cpu(), x.grad)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_gradient_of_the_added_layer_norm_takes_that_of_the_sum(device):
    torch.manual_seed(6)
    values = [torch.randn(3, 8), torch.randn(3, 8), torch.randn(8), torch.randn(8)]
    own, plain = ([t.clone().to(place).requires_grad_() for t in values] for place in (device, "cpu"))
    out, _, _, total = torch_npu.npu_add_layer_norm(*own, additional_output=True)
    (out.square().sum() + (3 * total).sin().sum()).backward()
    total = plain[0] + plain[1]
    (torch.nn.functional.layer_norm(total, [8], *plain[2:]).square().sum() + (3 * total).sin().sum()).backward()
    for ours, theirs in zip(own, plain):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_sign_bits_go_there_and_back(device):
    x = torch.tensor([5.0, 4, 3, 2, 0, -1, -2, 4, 3, 2, 1, 0, -1, -2], device=device)
    packed = torch_npu.npu_sign_bits_pack(x, 2)
    assert packed.tolist() == [[159], [15]] and packed.dtype == torch.uint8
    signs = torch_npu.npu_sign_bits_unpack(packed.view(-1), 1, torch.float16)
    assert signs.dtype == torch.float16 and signs[0, :14].tolist() == torch.where(x >= 0, 1.0, -1.0).tolist()
    with pytest.raises(ValueError, match="3 rows"):
        torch_npu.npu_sign_bits_pack(x, 3)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_attention_in_parts_is_attention(device):
    torch.manual_seed(8)
    scores, value = torch.randn(5, 12, device=device), torch.randn(12, 8, device=device)
    cuts = ((0, 4), (4, 5), (5, 12))
    out, lse = torch_npu.npu_attention_update([scores[:, a:b].logsumexp(1) for a, b in cuts],
                                              [scores[:, a:b].softmax(1) @ value[a:b] for a, b in cuts], 1)
    torch.testing.assert_close(out, scores.softmax(1) @ value)
    torch.testing.assert_close(lse, scores.logsumexp(1))


def test_input_is_self():
    x = torch.randn(2, 8).npu()
    assert torch.equal(torch_npu.npu_swiglu(input=x), torch_npu.npu_swiglu(x))
    assert torch.equal(torch.ops.npu.npu_swiglu(x), torch_npu.npu_swiglu(x))


def test_names():
    assert "npu_rms_norm" in dir(torch_npu) and "gamma" in str(inspect.signature(torch_npu.npu_rms_norm))
    assert torch_npu.npu_rms_norm.__doc__ and torch_npu.npu_rms_norm is torch_npu.npu_rms_norm
    with pytest.raises(AttributeError, match=r"npu_rms_normm.*does not have this operator.*npu_rms_norm"):
        torch_npu.npu_rms_normm
    with pytest.raises(AttributeError, match=re.escape("module 'torch_npu' has no attribute 'nonsense'")):
        torch_npu.nonsense
    assert not hasattr(torch_npu, "npu_rms_normm")


def test_cleared_float_status_has_eight_numbers():
    for device in ("npu", "cpu", "meta"):
        status = torch_npu.npu_clear_float_status(torch.rand(2, device=device).half())
        assert status.shape == (8,) and status.dtype == torch.float32 and status.device.type == device


def test_refusals():
    q = torch.randn(1, 2, 4, 8)
    for device in ("npu", "cpu"):
        t = q.to(device)
        with pytest.raises(NotImplementedError, match="padding_mask"):
            torch_npu.npu_fusion_attention(t, t, t, 2, "BNSD", padding_mask=t)
        with pytest.raises(ValueError, match="pse_type"):
            torch_npu.npu_fusion_attention_v2(t, t, t, 2, "BNSD", pse_type=4)
        with pytest.raises(RuntimeError, match="pse_type 2 needs pse, the slopes"):
            torch_npu.npu_fusion_attention_v2(t, t, t, 2, "BNSD", pse_type=2)
        with pytest.raises(NotImplementedError, match="query_rope"):
            torch_npu.npu_fusion_attention_v2(t, t, t, 2, "BNSD", query_rope=t, key_rope=t)
        with pytest.raises(ValueError, match="rotary_mode"):
            torch_npu.npu_rotary_mul(t, t, t, "thirds")
        with pytest.raises(ValueError, match="'tanh' is not one of"):
            torch_npu.npu_ffn(t[0, 0], t[0, 0], t[0, 0], "tanh")
        with pytest.raises(NotImplementedError, match="quant_scale_p"):
            torch_npu.npu_fused_infer_attention_score_v2(t, t, t, input_layout="BNSD", quant_scale_p=t)
        with pytest.raises(ValueError, match="quant_mode"):
            torch_npu.npu_swiglu_quant(t, quant_mode=2)
        with pytest.raises(NotImplementedError, match="drop_pad_mode"):
            torch_npu.npu_moe_init_routing_v2(t[0, 0], t[0, 0].int(), expert_num=4, drop_pad_mode=2)
        with pytest.raises(ValueError, match="expert_capacity"):
            torch_npu.npu_moe_init_routing_v2(t[0, 0], t[0, 0].int(), expert_num=4, drop_pad_mode=1)
        with pytest.raises(NotImplementedError, match="transpose_weight"):
            torch_npu.npu_grouped_matmul_add(t[0], t[0, 0], t[0, 0], t[0, 0].long(), transpose_weight=True)
        with pytest.raises(NotImplementedError, match="cache_mode"):
            torch_npu.npu_mrope(t[0, 0].long(), t[0, 0], t[0, 0], t[0, 0], 8, cache_mode="interleave")
        with pytest.raises(ValueError, match="pertoken"):
            torch_npu.npu_dynamic_quant(t, quant_mode="perblock")
        with pytest.raises(NotImplementedError, match="perchannel"):
            torch_npu.npu_dynamic_quant_asymmetric(t, quant_mode="perchannel")
        with pytest.raises(NotImplementedError, match="round_mode"):
            torch_npu.npu_dequant_swiglu_quant(t.int(), round_mode=1)


def test_fake_and_compiled():
    from torch._subclasses import FakeTensorMode
    with FakeTensorMode():
        x = torch.randn(3, 8, device="npu")
        assert torch_npu.npu_swiglu(x).device.type == "npu" and torch_npu.npu_swiglu(x).shape == (3, 4)

    def model(x, gamma):
        return torch_npu.npu_swiglu(torch_npu.npu_rms_norm(x, gamma)[0]).sum()

    x, gamma = torch.randn(3, 8, device="npu", requires_grad=True), torch.randn(8, device="npu", requires_grad=True)
    model(x, gamma).backward()
    expected, x.grad, gamma.grad = (x.grad, gamma.grad), None, None
    torch.compile(model, backend="aot_eager", fullgraph=True)(x, gamma).backward()
    torch.testing.assert_close((x.grad, gamma.grad), expected)


def test_kernels_do_not_warn(capfd):
    """What they compute with is not the caller's doing."""
    for name in sorted(BLOCKS):
        for index in range(len(CASES[name])):
            args, kwargs = to("npu", arguments(name, index, torch.float16))
            getattr(torch_npu, name)(*args, **kwargs)
    torch.npu.synchronize()
    assert "Warning" not in capfd.readouterr().err


def grouped(device):
    torch.manual_seed(3)
    x, weight = torch.randn(7, 4).to(device), [torch.randn(4, 6).to(device) for _ in range(3)]
    parts = list(x.split([2, 3, 2]))
    return x, weight, parts, [part @ w for part, w in zip(parts, weight)]


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("split_item", [0, 1])
def test_grouped_matmul_of_one_input_has_a_result_for_each_group(device, split_item):
    x, weight, parts, wanted = grouped(device)
    for groups, kind, weights in ([2, 5, 7], None, weight), (torch.tensor([2, 5, 7]), 0, weight), \
            (torch.tensor([2, 3, 2]), 1, [torch.stack(weight)]):
        options = {} if kind is None else {"group_type": 0, "group_list_type": kind}
        groups = groups if kind is None else groups.to(device)
        found = torch_npu.npu_grouped_matmul([x], weights, group_list=groups, split_item=split_item, **options)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    found = torch_npu.npu_grouped_matmul(parts, weight, split_item=split_item, group_type=0)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_grouped_matmul_puts_results_of_separate_inputs_below_one_another(device):
    _, weight, parts, wanted = grouped(device)
    found, = torch_npu.npu_grouped_matmul(parts, weight, split_item=2, group_type=-1)
    torch.testing.assert_close(found, torch.cat(wanted), rtol=1e-4, atol=1e-5)


def test_grouped_matmul_refuses_groups_of_negative_size():
    x, weight, _, _ = grouped("npu")
    with pytest.raises(RuntimeError, match="group_list has a group of -3 rows"):
        torch_npu.npu_grouped_matmul([x], weight, group_list=torch.tensor([5, 2, 7]).npu(), split_item=0, group_type=0)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_quantized_product_cuts_scales_as_the_matrix_unit_does(device):
    x, weight = torch.full((1, 1), 100, dtype=torch.int8, device=device), torch.full((1, 1), 100, dtype=torch.int8, device=device)
    scale = torch.tensor([1 + 1.9 * 2 ** -10], device=device)   # the unit has 10 bits behind the point
    product = lambda **options: torch_npu.npu_quant_matmul(x, weight, scale, **options).item()
    assert product(output_dtype=torch.float16) == 10008   # of 10009.765625
    assert product(output_dtype=torch.float16, pertoken_scale=torch.ones(1, device=device)) == 10016


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("operator", ["npu_silu", "npu_gelu", "npu_mish", "npu_dtype_cast"])
def test_result_is_contiguous(device, operator):
    x = torch.randn(4, 3, device=device).t()
    result = getattr(torch_npu, operator)(x, *([torch.float16] if operator == "npu_dtype_cast" else []))
    assert result.is_contiguous() and result.shape == (3, 4)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_linear_keeps_the_dtype_of_its_input(device):
    x, weight, bias = torch.randn(3, 4).to(device), torch.randn(5, 4).to(device), torch.randn(5).to(device)
    assert torch_npu.npu_linear(x, weight.half(), bias).dtype == torch.float32
    result = torch_npu.npu_linear(x.half(), weight.half(), bias)
    torch.testing.assert_close(result, (x.half().float() @ weight.half().float().t() + bias).half(), rtol=2e-3, atol=4e-3)


def test_latents_have_the_dtype_of_the_tokens():
    args, kwargs = to("npu", arguments("npu_mla_prolog", 0, torch.float16))
    assert [x.dtype for x in torch_npu.npu_mla_prolog(*args, **kwargs)] == [torch.float16] * 4
