"""Every module that PyTorch's own tests list (module_db), in both modes: results, gradients and buffers are the CPU's."""
import copy

import pytest
import torch
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_leaves, tree_map

import torch_npu

INPUTS = 12   # of each module and mode
DOUBLE = ("nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d")   # the random numbers among their inputs are


def move(value, device):
    return tree_map(lambda x: x.detach().to(device).requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x, value)


def tensors(value):
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def run(module, given):
    """Results, gradients of parameters and inputs, buffers."""
    args, kwargs = given
    torch.manual_seed(1)
    results = tensors(module(*args, **kwargs))
    starts = [x for x in results if x.requires_grad]
    torch.manual_seed(2)
    torch.autograd.backward(starts, [torch.randn(x.shape, dtype=x.dtype).to(x.device) for x in starts])
    return {"results": results, "gradients": [x.grad for x in (*module.parameters(), *tensors(given)) if x.is_leaf],
            "buffers": list(module.buffers())}


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("info", module_db, ids=lambda info: info.name)
def test_as_on_the_cpu(info, training):
    torch.manual_seed(0)
    torch_npu.reset_fallbacks()
    seen = 0
    dtype = torch.float64 if info.name in DOUBLE else torch.float32
    samples = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
    for sample in samples[:INPUTS]:
        if sample.forward_input is None:
            continue
        module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).to(dtype).train(training)
        given = sample.forward_input.args, sample.forward_input.kwargs
        if any(torch.nn.parameter.is_lazy(x) for x in module.parameters()):
            module(*move(given, "cpu")[0])   # draws the weights
        on_npu = copy.deepcopy(module).npu()
        expected = run(module, move(given, "cpu"))
        found = run(on_npu, move(given, "npu"))
        for kind, values in expected.items():
            assert len(found[kind]) == len(values)
            for ours, theirs in zip(found[kind], values):
                assert (ours is None) == (theirs is None)
                if ours is not None:
                    assert ours.device.type == "npu"
                    torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-4, equal_nan=True,
                                               msg=lambda text: f"{sample.desc} {kind}: {text}")
        seen += 1
    assert seen or not samples
    assert torch_npu.fallbacks() == {}
