"""What torch_npu.contrib.apex has beside amp: Apex's optimizers with its defaults, normalizations, data parallel training."""
import copy

import pytest
import torch

from torch_npu.contrib.apex.fused import FusedAdam, FusedLAMB, FusedNovoGrad, FusedSGD
from torch_npu.contrib.apex.normalization import FusedLayerNorm, FusedRMSNorm
from torch_npu.contrib.apex.parallel import DistributedDataParallel, SyncBatchNorm, convert_syncbn_model


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
    lambda p: FusedAdam(p, bias_correction=False), lambda p: FusedAdam(p, amsgrad=True),
    lambda p: FusedAdam(p, capturable=True), lambda p: FusedAdam(p, master_weights=True),
    lambda p: FusedSGD(p, lr=0.1, wd_after_momentum=True), FusedLAMB, FusedNovoGrad,
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
