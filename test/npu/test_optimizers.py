"""Every optimizer and configuration that PyTorch's own tests list (optim_db), in each of its implementations: after every step,
parameters and state are what the CPU's plain loop gives."""
import functools
import io

import pytest
import torch
from torch.testing._internal.common_optimizers import OptimizerErrorEnum, optim_db
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only

import torch_npu

STEPS = 4
RESUMED = 2   # before this step, the optimizer is made anew from its saved state
DTYPES = (torch.float32, torch.float64, torch.complex64)
# Steps are counted in float32 where PyTorch counts them on the device, and CANN's fused SGD takes its numbers as float.
TOLERANCES = {torch.float64: {"rtol": 1e-6, "atol": 1e-6}}
DEFAULT_TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
ORTHOGONALIZED = {"rtol": 2e-2, "atol": 2e-3}   # Muon does that in bfloat16
FALLBACKS = {"SparseAdam": {"aten::sparse_mask"}}


def cases():
    for info in optim_db:
        flags = {name: {name: True} for name in info.supported_impls}
        flags["loop"] = {"foreach": False} if "foreach" in flags else {}
        for dtype in DTYPES:
            for name, given in flags.items():
                if not dtype.is_complex or info.supports_complex and name != "fused":
                    yield pytest.param(info, dtype, given, id=f"{info.name}-{name}-{str(dtype)[6:]}")


def inputs(info, dtype, flags):
    """Those of CUDA, which have capturable among them. Tensors as rates are refused without it where the step is not a plain loop."""
    found = info.optim_inputs_func(device="cuda", dtype=dtype)
    return [given for given in found
            if not (flags.get("foreach") and isinstance(given.kwargs.get("lr"), torch.Tensor) and not given.kwargs.get("capturable"))]


def numbers(info, dtype):
    """What parameters begin with, and their gradients of each step."""
    shapes = [(4, 3), (2, 5)] if info.name in ("Muon", "SparseAdam") else [(4, 3), (7,), (), (2, 3, 2)]
    generator = torch.Generator().manual_seed(5)
    draw = functools.partial(torch.randn, dtype=dtype, generator=generator)
    begun, gradients = [draw(shape) for shape in shapes], [[draw(shape) for shape in shapes] for _ in range(STEPS)]
    if info.only_supports_sparse_grads:
        gradients = [[g.index_fill(0, torch.tensor([k % len(g)]), 0).to_sparse(1) for g in grads] for k, grads in enumerate(gradients)]
    return begun, gradients


def loss_of(params, targets):
    """A loss, with its gradients."""
    loss = sum((p * target).abs().square().sum() for p, target in zip(params, targets))
    for p, grad in zip(params, torch.autograd.grad(loss, params)):
        p.grad = grad
    return loss.detach()


def steps(info, options, device, dtype):
    """Of each step, parameters and state."""
    begun, gradients = numbers(info, dtype)
    params = [x.to(device).requires_grad_() for x in begun]
    differentiable = options.get("differentiable", False)
    if differentiable:
        params = [x.clone() for x in params]
    groups = [{"params": params[:2]}, {"params": params[2:], "lr": 0.01}] if info.supports_param_groups and len(params) > 2 else params
    optimizer = info.optim_cls(groups, **options)
    for k, grads in enumerate(gradients):
        if k == RESUMED and not differentiable:   # such a state is part of a graph
            file = io.BytesIO()
            torch.save(optimizer.state_dict(), file)
            file.seek(0)
            optimizer = info.optim_cls(groups, **options)
            optimizer.load_state_dict(torch.load(file, weights_only=True))
        for p, g in zip(params, grads):
            p.grad = g.to(device)
        optimizer.step(*[functools.partial(loss_of, params, [p.grad for p in params])] * info.step_requires_closure)
        yield tree_map_only(torch.Tensor, lambda x: x.detach().clone(), {"parameters": params, **optimizer.state_dict()["state"]})


@pytest.mark.parametrize("info, dtype, flags", list(cases()))
def test_as_on_the_cpu(info, dtype, flags):
    torch_npu.reset_fallbacks()
    tolerance = ORTHOGONALIZED if info.name == "Muon" else TOLERANCES.get(dtype, DEFAULT_TOLERANCE)
    for given, same in zip(inputs(info, dtype, flags), inputs(info, dtype, flags)):
        same.kwargs.pop("capturable", None)   # the CPU has no such steps
        on_cpu = steps(info, {**same.kwargs, **({"foreach": False} if flags else {})}, "cpu", dtype)
        for found, expected in zip(steps(info, {**given.kwargs, **flags}, "npu", dtype), on_cpu):
            assert all(p.is_npu for p in found["parameters"])
            ours, structure = tree_flatten(found)
            theirs, expected_structure = tree_flatten(expected)
            assert structure == expected_structure
            for x, y in zip(ours, theirs):
                torch.testing.assert_close(x, y, **tolerance, check_dtype=False, check_device=False,
                                           msg=lambda text: f"{given.desc}: {text}")
    assert set(torch_npu.fallbacks()) <= FALLBACKS.get(info.name, set())


@pytest.mark.parametrize("info", optim_db, ids=lambda info: info.name)
@pytest.mark.filterwarnings("ignore")
def test_errors(info):
    errors = info.optim_error_inputs_func("cpu", torch.float32)
    assert errors
    for error in errors:
        moved = {}   # one that is given twice stays one
        params = tree_map_only(torch.Tensor, lambda x: moved.setdefault(x, x.detach().npu().requires_grad_(x.requires_grad)),
                               error.optimizer_error_input.params)
        if params is None:
            params = [torch.randn(2, 3, device="npu", requires_grad=True)]
        expecting = pytest.warns if issubclass(error.error_type, Warning) else pytest.raises
        if error.error_on == OptimizerErrorEnum.CONSTRUCTION_ERROR:
            with expecting(error.error_type, match=error.error_regex):
                info.optim_cls(params, **error.optimizer_error_input.kwargs)
            continue
        optimizer = info.optim_cls(params, **error.optimizer_error_input.kwargs)
        for p in tree_leaves(params):
            p.grad = torch.randn_like(p)
        with expecting(error.error_type, match=error.error_regex):
            optimizer.step()
