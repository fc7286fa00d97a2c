"""What torch_npu.contrib.apex has beside amp: Apex's optimizers with its defaults, normalizations, data parallel training."""
import copy

import pytest
import torch

from torch_npu.contrib.apex import normalization
from torch_npu.contrib.apex.fused import FusedAdam, FusedSGD
from torch_npu.contrib.apex.multi_tensor_apply import MultiTensorApply, multi_tensor_applier
from torch_npu.contrib.apex.normalization import FusedLayerNorm, FusedRMSNorm, MixedFusedLayerNorm, MixedFusedRMSNorm
from torch_npu.contrib.apex.parallel import DistributedDataParallel, SyncBatchNorm, convert_syncbn_model
from torch_npu.contrib.apex.xentropy import SoftmaxCrossEntropyLoss


def trained(optimizer_of, steps=3):
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(3, 4).npu()), torch.nn.Parameter(torch.randn(5).npu())]
    optimizer = optimizer_of(weights)
    for _ in range(steps):
        optimizer.zero_grad()
        sum((weight ** 2).sum() for weight in weights).backward()
        optimizer.step()
    return optimizer, [weight.detach().cpu() for weight in weights]


@pytest.mark.parametrize("made, same", [
    (lambda p: FusedAdam(p, lr=0.1, weight_decay=0.3), lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.3)),
    (lambda p: FusedAdam(p, lr=0.1, adam_w_mode=False, weight_decay=0.3), lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.3)),
    (lambda p: FusedAdam(p), lambda p: torch.optim.Adam(p)),
    (lambda p: FusedSGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
     lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True)),
], ids=["adam_w", "adam", "adam_defaults", "sgd"])
def test_optimizers(made, same):
    for value, expected in zip(trained(made)[1], trained(same)[1]):
        torch.testing.assert_close(value, expected)


def test_gradients_become_none_as_apex_says():
    for made, none in ((FusedAdam, True), (lambda p: FusedAdam(p, set_grad_none=False), False),
                       (lambda p: FusedSGD(p, lr=0.1), False), (lambda p: FusedSGD(p, lr=0.1, set_grad_none=True), True)):
        optimizer, _ = trained(made)
        optimizer.zero_grad()
        assert all((weight.grad is None) == none for weight in optimizer.param_groups[0]["params"])


def test_copies_keep_the_mode():
    copied = copy.deepcopy(trained(lambda p: FusedAdam(p, adam_w_mode=False, set_grad_none=False))[0])
    assert copied._kernel() is torch._fused_adam_ and not copied.set_grad_none
    assert copy.deepcopy(trained(lambda p: FusedSGD(p, lr=0.1, set_grad_none=True))[0]).set_grad_none


@pytest.mark.parametrize("make", [
    lambda p: FusedAdam(p, amsgrad=True), lambda p: FusedSGD(p, lr=0.1, wd_after_momentum=True),
])
def test_what_is_not_there_says_so(make):
    with pytest.raises(NotImplementedError):
        make([torch.nn.Parameter(torch.zeros(2).npu())])


@pytest.mark.parametrize("fused, plain", [
    (FusedLayerNorm(6), torch.nn.LayerNorm(6)), (FusedRMSNorm(6), torch.nn.RMSNorm(6, 1e-5)),
    (FusedLayerNorm(6, 1e-3, True, False), torch.nn.LayerNorm(6, 1e-3)),   # by position: memory_efficient
    (FusedRMSNorm(6, memory_efficient=True), torch.nn.RMSNorm(6, 1e-5)),
])
def test_normalizations(fused, plain):
    x = torch.randn(4, 6)
    assert {name for name, _ in fused.named_parameters()} == {name for name, _ in plain.named_parameters()}
    torch.testing.assert_close(fused.npu()(x.npu()).cpu(), plain(x))


def normalized(x, weight, bias, rms):
    x = x.double()
    centered = x if rms else x - x.mean(-1, keepdim=True)
    scaled = centered / (centered.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return scaled * weight.double() + (0 if rms else bias.double())


@pytest.mark.parametrize("kind", [MixedFusedLayerNorm, MixedFusedRMSNorm])
@pytest.mark.parametrize("of_input, of_weight", [(torch.float16, torch.float32), (torch.float32, torch.bfloat16), (torch.float32, torch.float32)], ids=str)
def test_mixed_normalizations(kind, of_input, of_weight, no_fallback):
    layer = kind(6).npu().to(of_weight)
    torch.manual_seed(0)
    with torch.no_grad():
        for param in layer.parameters():
            param.copy_(torch.randn(6))
    x = torch.randn(4, 6).to(of_input).npu().requires_grad_()
    out = layer(x)
    out.float().square().sum().backward()
    assert out.dtype == of_weight and x.grad.dtype == of_input and layer.weight.grad.dtype == of_weight
    y, weight, bias = (None if t is None else t.detach().cpu().double().requires_grad_() for t in (x, layer.weight, getattr(layer, "bias", None)))
    expected = normalized(y, weight, bias, kind is MixedFusedRMSNorm)
    expected.square().sum().backward()
    tolerance = {"rtol": 3e-2, "atol": 6e-2} if of_weight == torch.bfloat16 else {"rtol": 2e-3, "atol": 2e-3} if of_input == torch.float16 else {"rtol": 1e-4, "atol": 1e-4}
    for value, same in ((out.detach(), expected.detach()), (x.grad, y.grad), (layer.weight.grad, weight.grad)):
        torch.testing.assert_close(value.cpu().double(), same, **tolerance)


def test_normalizations_as_functions(no_fallback):
    x, weight, bias = (torch.randn(shape, generator=torch.Generator().manual_seed(2)) for shape in ((4, 6), (6,), (6,)))
    one, zero, on = torch.ones(6), torch.zeros(6), (x.npu(), weight.npu(), bias.npu())
    for found, expected in (
        (normalization.FusedLayerNormAffineFunction.apply(*on, (6,), 1e-5), normalized(x, weight, bias, False)),
        (normalization.FusedLayerNormFunction.apply(on[0], (6,), 1e-5), normalized(x, one, zero, False)),
        (normalization.FusedRMSNormAffineFunction.apply(*on[:2], 6, 1e-5), normalized(x, weight, None, True)),
        (normalization.FusedRMSNormFunction.apply(on[0], 6, 1e-5), normalized(x, one, None, True)),
    ):
        torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-4, atol=1e-5)
    for kind in (MixedFusedLayerNorm, MixedFusedRMSNorm):
        with pytest.raises(ValueError, match="elementwise_affine"):
            kind(6, elementwise_affine=False)


@pytest.mark.parametrize("dtype, to_float", [(torch.float32, False), (torch.float16, False), (torch.float16, True)], ids=str)
@pytest.mark.parametrize("smoothing, padding", [(0.0, 0), (0.1, 2), (0.3, -100)])
def test_cross_entropy(smoothing, padding, dtype, to_float, no_fallback):
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).to(dtype)
    labels = torch.tensor([1, 2, 0, 6, 2])
    on = x.npu().requires_grad_()
    losses = SoftmaxCrossEntropyLoss.apply(on, labels.npu(), smoothing, padding, to_float)
    assert losses.dtype == (torch.float32 if to_float else dtype)
    factors = torch.arange(1.0, 6.0)
    (losses.float() * factors.npu()).sum().backward()
    y = x.double().requires_grad_()
    rows = y.exp().sum(1).log() - (1 - smoothing) * y[torch.arange(5), labels] - smoothing * y.mean(1)
    expected = torch.where(labels == padding, 0, rows)
    (expected * factors).sum().backward()
    bound = 1e-5 if dtype == torch.float32 else 5e-3
    torch.testing.assert_close(losses.detach().cpu().double(), expected.detach(), rtol=bound, atol=bound)
    torch.testing.assert_close(on.grad.cpu().double(), y.grad, rtol=bound, atol=bound)


def test_kernels_of_cuda_are_not_there():
    assert not multi_tensor_applier.available and not MultiTensorApply.available and multi_tensor_applier.import_err.name == "amp_C"
    with pytest.raises(RuntimeError, match="amp_C"):
        multi_tensor_applier(None, None, [[]])


def test_batch_norms_are_replaced():
    model = convert_syncbn_model(torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.BatchNorm2d(2)).npu())
    assert isinstance(model[1], SyncBatchNorm) and model[1].weight.device.type == "npu"


def test_data_parallel(tmp_path):
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("hccl", rank=0, world_size=1, store=store)
    try:
        module = torch.nn.ModuleList([torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)]).npu()
        module.forward = lambda x: module[0](x)   # the other layer is without a gradient
        model = DistributedDataParallel(module, message_size=1, delay_allreduce=True)
        for _ in range(2):
            model(torch.ones(1, 3).npu()).sum().backward()
        assert model.module[0].bias.grad.tolist() == [2, 2]
        with pytest.raises(NotImplementedError, match="hook"):
            DistributedDataParallel(module, gradient_average=False)
    finally:
        torch.distributed.destroy_process_group()
