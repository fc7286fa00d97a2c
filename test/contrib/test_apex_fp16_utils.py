"""apex.fp16_utils: networks in float16, float32 copies, scales, FP16_Optimizer beside float32 training on the CPU."""
import io
import pickle

import pytest
import torch
from torch import nn

import torch_npu
from torch_npu.contrib.apex import fp16_utils
from torch_npu.contrib.apex.fp16_utils import DynamicLossScaler, FP16_Optimizer, FP16Model, LossScaler

HALF, FLOAT = torch.float16, torch.float32


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.BatchNorm2d(2, affine=False), nn.Flatten(), nn.Linear(8, 3))


def images():
    return torch.randn(4, 1, 4, 4, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("convert", [
    lambda net: fp16_utils.network_to_half(net), lambda net: FP16Model(net),
    lambda net: nn.Sequential(fp16_utils.tofp16(), fp16_utils.convert_network(net, HALF)),
], ids=["network_to_half", "FP16Model", "convert_network"])
def test_networks(convert):
    net = network().npu()
    parameters = list(net.parameters())
    made = convert(net)
    assert [param.dtype for param in net.parameters()] == [HALF, HALF, FLOAT, FLOAT, HALF, HALF]
    assert net[1].running_mean.dtype == FLOAT and net[2].running_mean.dtype == HALF and net[1].num_batches_tracked.dtype == torch.int64
    assert all(old is new for old, new in zip(parameters, net.parameters()))   # an optimizer knows them
    out = made(images().npu())
    assert out.dtype == HALF
    torch.testing.assert_close(out.detach().cpu().float(), network()(images()).detach(), rtol=1e-2, atol=1e-2)


def test_a_module_without_its_children():
    module = nn.Module()
    module.weight, module.count = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2, dtype=torch.int32), requires_grad=False)
    module.register_buffer("seen", torch.ones(2))
    module.register_buffer("steps", torch.ones(2, dtype=torch.int64))
    module.child, module.weight.grad = nn.Linear(2, 2), torch.full((2,), 3.0)
    fp16_utils.convert_module(module.npu(), HALF)
    assert (module.weight.dtype, module.weight.grad.dtype, module.seen.dtype) == (HALF, HALF, HALF)
    assert (module.count.dtype, module.steps.dtype, module.child.weight.dtype) == (torch.int32, torch.int64, FLOAT)
    assert module.weight.grad.tolist() == [3, 3]


def test_recurrent_networks_are_converted():
    net = fp16_utils.convert_network(nn.LSTM(3, 4).npu(), HALF)
    assert net(torch.ones(2, 1, 3).half().npu())[0].dtype == HALF


def test_batch_norms_to_float():
    net = network().half()
    assert fp16_utils.BN_convert_float(net) is net and net[1].weight.dtype == FLOAT and net[0].weight.dtype == HALF


@pytest.mark.parametrize("flat", [False, True])
def test_copies_of_parameters(flat):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(3, 2), nn.Linear(2, 1)).npu().half()
    model[1].requires_grad_(False)
    params, masters = fp16_utils.prep_param_lists(model, flat_master=flat)
    assert len(params) == 4 and len(masters) == (1 if flat else 4)
    assert all(master.dtype == FLOAT and master.requires_grad and master.is_leaf for master in masters)
    values = [torch.full_like(param, i + 1.5) for i, param in enumerate(params)]
    for param, value in zip(params, values):
        param.grad = value
    params[1].grad = None
    fp16_utils.model_grads_to_master_grads(params, masters, flat_master=flat)
    optimizer = torch.optim.SGD(masters, lr=1.0)
    expected = [param.detach().float() - (0 if param.grad is None else param.grad.float()) for param in params]
    optimizer.step()
    fp16_utils.master_params_to_model_params(params, masters, flat_master=flat)
    for param, value in zip(params, expected):
        assert torch.equal(param.detach(), value.half())
    if not flat:
        assert masters[1].grad is None


def test_a_flat_copy_wants_one_type():
    model = nn.Sequential(nn.Linear(2, 2).half(), nn.Linear(2, 2)).npu()
    with pytest.raises(TypeError, match="flat_master"):
        fp16_utils.prep_param_lists(model, flat_master=True)


def test_small_functions():
    assert fp16_utils.to_python_float(torch.tensor(2.5).npu()) == 2.5 and fp16_utils.to_python_float([3.5]) == 3.5
    param = nn.Parameter(torch.zeros(4).npu())
    param.grad = torch.full((4,), 3.0).npu()
    assert fp16_utils.clip_grad_norm([param], 2.0).item() == 6.0
    torch.testing.assert_close(param.grad.cpu(), torch.ones(4))


def test_scalers():
    weight = nn.Parameter(torch.ones(2).npu())
    fixed = LossScaler(8)
    fixed.backward(weight.sum())
    assert weight.grad.tolist() == [8, 8] and fixed.loss_scale == 8
    assert fixed.scale_gradient(None, (torch.ones(1), None), None) == (torch.full((1,), 8.0), None)
    weight.grad.fill_(float("inf"))
    assert not fixed.has_overflow([weight])
    fixed.update_scale(True)
    assert fixed.loss_scale == 8

    dynamic = DynamicLossScaler(init_scale=4, scale_factor=2.0, scale_window=3)
    assert dynamic.has_overflow([weight, nn.Parameter(torch.ones(1).npu())])
    weight.grad.fill_(1.0)
    assert not dynamic.has_overflow([weight])
    found = []
    for overflow in (False, False, False, True, False, False, False, True, True, True, True):
        dynamic.update_scale(overflow)
        found.append(dynamic.loss_scale)
    assert found == [4, 4, 8, 4, 4, 4, 8, 4, 2, 1, 1]
    assert DynamicLossScaler().loss_scale == 2**32


class Mixed(nn.Module):
    """A layer in float16 and one in float32."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x):
        return self.second(self.first(x.to(self.first.weight.dtype)).to(self.second.weight.dtype))


def batch(step):
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(step)).half()


def optimizers(**options):
    """(a model with its FP16_Optimizer, the same in float32 with the optimizer alone)"""
    model, same = Mixed().npu(), Mixed()
    model.first.half()
    same.load_state_dict({name: value.float() for name, value in model.state_dict().items()})
    make = lambda net: torch.optim.SGD([{"params": net.first.parameters()}, {"params": net.second.parameters(), "lr": 0.02}], lr=0.05, momentum=0.9)
    return model, FP16_Optimizer(make(model), verbose=False, **options), same, make(same)


@pytest.mark.parametrize("options", [{}, {"static_loss_scale": 128.0}, {"dynamic_loss_scale": True, "dynamic_loss_args": {"init_scale": 1024.0, "scale_window": 2}}],
                         ids=["one", "static", "dynamic"])
@pytest.mark.parametrize("losses", [1, 2, "delayed", "clipped"], ids=str)
def test_training_is_that_in_float32(options, losses):
    model, optimizer, same, plain = optimizers(**options)
    first, scale = [param.detach().clone() for param in same.parameters()], optimizer.loss_scale
    for step in range(4):
        optimizer.zero_grad()
        plain.zero_grad()
        for part in range(2 if losses in (2, "delayed") else 1):
            x = batch(10 * step + part)
            optimizer.backward(model(x.npu()).square().mean(), update_master_grads=losses != "delayed")
            same(x.float()).square().mean().backward()
        if losses == "delayed":
            optimizer.update_master_grads()
        if losses == "clipped":
            norm = optimizer.clip_master_grads(0.1)
            torch.testing.assert_close(float(norm), float(nn.utils.clip_grad_norm_(same.parameters(), 0.1)), rtol=1e-2, atol=1e-3)
        for group, expected in zip(optimizer.inspect_master_grad_data(), plain.param_groups):
            for grad, param in zip(group, expected["params"]):
                torch.testing.assert_close(grad.cpu(), param.grad, rtol=1e-2, atol=2e-3)
        optimizer.step()
        plain.step()
    for group, expected in zip(optimizer.param_groups, plain.param_groups):
        for param, value in zip(group["params"], expected["params"]):
            assert param.dtype == FLOAT
            torch.testing.assert_close(param.detach().cpu(), value.detach(), rtol=5e-3, atol=1e-3)
    assert not any(torch.equal(param.detach(), value) for param, value in zip(same.parameters(), first))
    assert model.first.weight.dtype == HALF and torch.equal(model.first.weight.detach(), optimizer.param_groups[0]["params"][0].detach().half())
    updates = 8 if losses == 2 else 4
    assert optimizer.loss_scale == (scale * 2 ** (updates // 2) if "dynamic_loss_args" in options else scale)


def test_a_step_that_overflows_is_skipped(capsys):
    model, optimizer, _, _ = optimizers(dynamic_loss_scale=True)
    before = [param.detach().clone() for param in model.parameters()]
    optimizer.backward(model(batch(0).npu()).mean() * 1e6)
    assert optimizer.overflow and optimizer.loss_scale == 2**15 and optimizer.clip_master_grads(1.0) == -1
    assert optimizer.inspect_master_grad_data() is None
    optimizer.step()
    assert all(torch.equal(param.detach(), value) for param, value in zip(model.parameters(), before))
    assert "skipped" in capsys.readouterr().out
    optimizer.zero_grad(set_grads_to_None=True)
    optimizer.backward(model(batch(0).npu()).mean())
    assert not optimizer.overflow
    optimizer.step()
    assert not any(torch.equal(param.detach(), value) for param, value in zip(model.parameters(), before))


def test_a_static_scale_does_not_wait():
    model, optimizer, _, _ = optimizers(static_loss_scale=16.0)
    for debug in ("default", "error"):
        x = batch(0).npu()
        torch_npu.npu.set_sync_debug_mode(debug)
        try:
            optimizer.zero_grad()
            optimizer.backward(model(x).mean())
            optimizer.step()
        finally:
            torch_npu.npu.set_sync_debug_mode("default")


def test_closures():
    """LBFGS calls its closure again and again: the model in half precision follows the copies in between."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1, bias=False).npu().half()
    x, goal = torch.eye(3).half().npu(), torch.tensor([[1.0], [-2.0], [0.5]]).half().npu()
    optimizer = FP16_Optimizer(torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=10), dynamic_loss_scale=True,
                               dynamic_loss_args={"init_scale": 1024.0})
    factors = [1e6]   # the first call overflows, so it is made again

    def closure():
        optimizer.zero_grad()
        loss = (model(x) - goal).float().square().sum()
        optimizer.backward(loss * (factors.pop() if factors else 1))
        return loss

    optimizer.step(closure)
    torch.testing.assert_close(model.weight.detach().cpu().float().flatten(), torch.tensor([1.0, -2.0, 0.5]), rtol=1e-2, atol=1e-2)
    assert optimizer.loss_scale == 512 and optimizer.first_closure_call_this_step


def test_checkpoints():
    model, optimizer, _, _ = optimizers(dynamic_loss_scale=True)
    for step in range(2):
        optimizer.zero_grad()
        optimizer.backward(model(batch(step).npu()).square().mean())
        optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other, loaded, _, _ = optimizers()
    other.load_state_dict(saved["model"])
    loaded.load_state_dict(saved["optimizer"])
    assert loaded.loss_scale == 2**16 and loaded.dynamic_loss_scale and loaded.loss_scaler.unskipped == 2
    for net, one in ((model, optimizer), (other, loaded)):
        one.zero_grad()
        one.backward(net(batch(9).npu()).square().mean())
        one.step()
    for group, same in zip(optimizer.param_groups, loaded.param_groups):
        assert all(torch.equal(a.detach(), b.detach()) for a, b in zip(group["params"], same["params"]))
    with pytest.raises(ValueError, match="shapes"):
        FP16_Optimizer(torch.optim.SGD(nn.Linear(2, 2).npu().half().parameters(), lr=0.1)).load_state_dict(saved["optimizer"])
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(optimizer)


def test_what_it_wraps():
    model = nn.Linear(4, 2).npu().half()
    inner = torch_npu.optim.NpuFusedSGD(model.parameters(), lr=0.1, momentum=0.9)
    model(batch(0).npu()).sum().backward()
    inner.step()   # has state of its own before
    optimizer = FP16_Optimizer(inner, verbose=False)
    assert all(state["momentum_buffer"].dtype == FLOAT for state in optimizer.state.values()) and len(optimizer.state) == 2
    optimizer.backward(model(batch(1).npu()).sum())
    optimizer.step()
    optimizer.loss_scale = 4.0
    assert optimizer.loss_scale == 4.0 and optimizer.param_groups is inner.param_groups
    with pytest.raises(TypeError, match="float64"):
        FP16_Optimizer(torch.optim.SGD([nn.Parameter(torch.zeros(1, dtype=torch.float64).npu())], lr=0.1))


def test_larc_inside():
    """As Apex's LARC says: FP16_Optimizer around it."""
    model = nn.Linear(4, 2).npu().half()
    from torch_npu.contrib.apex.parallel import LARC
    optimizer = FP16_Optimizer(LARC(torch.optim.SGD(model.parameters(), lr=0.1)), static_loss_scale=8.0)
    before = model.weight.detach().clone()
    optimizer.backward(model(batch(0).npu()).sum())
    optimizer.step()
    moved = (model.weight.detach() - before).float().norm() / before.float().norm()
    assert abs(moved.item() - 0.02) < 1e-3   # lr is larger than the rate, so it moves by the trust coefficient
