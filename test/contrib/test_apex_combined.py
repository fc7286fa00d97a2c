"""Optimizers of programs' own that update flat tensors under amp, beside torch's."""
import copy

import pytest
import torch

from torch_npu.contrib.apex import amp
from torch_npu.optim import NpuFusedAdam
from torch_npu.utils.combine_tensors import npu_combine_tensors


class FlatMomentum(torch.optim.Optimizer):
    """SGD with momentum, written as programs for Ascend's Apex write theirs."""

    def __init__(self, params, lr, momentum):
        self.is_npu_fused_optimizer = True
        super().__init__(params, {"lr": lr, "momentum": momentum})
        self.combinations = 0

    def _combine_param_states_by_group(self):
        stash = self._amp_stash
        if stash.param_states_are_combined_by_group:
            return
        self.combinations += 1
        stash.combined_param_states_indexed_by_group = []
        for kinds in stash.params_lists_indexed_by_group:
            flats = []
            for params in kinds:
                for param in params:
                    state = self.state[param]
                    fresh = torch.zeros_like(param)
                    if "momentum_buffer" in state:
                        fresh.copy_(state["momentum_buffer"])
                    state["momentum_buffer"] = fresh
                flats.append(npu_combine_tensors([self.state[param]["momentum_buffer"] for param in params]))
            stash.combined_param_states_indexed_by_group.append(flats)
        stash.param_states_are_combined_by_group = True

    @torch.no_grad()
    def step(self, closure=None):
        self._check_already_combined_params_and_grads()
        self._combine_params_and_grads_by_group()
        self._combine_param_states_by_group()
        stash = self._amp_stash
        for i, group in enumerate(self.param_groups):
            for param, grad, state in zip(stash.combined_params_indexed_by_group[i], stash.combined_grads_indexed_by_group[i],
                                          stash.combined_param_states_indexed_by_group[i]):
                state.mul_(group["momentum"]).add_(grad)
                param.add_(state, alpha=-group["lr"])


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
                               torch.nn.Linear(64, 2)).npu().to(memory_format=torch.channels_last)


def groups(network):
    return [{"params": list(network[:2].parameters())}, {"params": list(network[3].parameters()), "lr": 0.03}]


def train(network, optimizer, steps=4, frozen=None, restore=None):
    for step in range(steps):
        network[3].bias.requires_grad_(step != frozen)
        if step == restore:
            state = copy.deepcopy(optimizer.state_dict())
            for param in network.parameters():
                optimizer.state[param]["momentum_buffer"].add_(1)   # to be lost
            optimizer.load_state_dict(state)
        x = torch.randn(5, 3, 6, 6, generator=torch.Generator().manual_seed(step)).npu()
        optimizer.zero_grad()
        with amp.scale_loss(network(x).square().sum(), optimizer) as loss:
            loss.backward()
        optimizer.step()


@pytest.mark.parametrize("level, options", [
    ("O0", {}), ("O0", {"frozen": 2}), ("O0", {"restore": 2}), ("O1", {}), ("O1", {"frozen": 2}), ("O1", {"restore": 2}),
    ("O2", {}), ("O2", {"frozen": 2})], ids=str)
def test_as_torch(level, options):
    results = []
    for kind in FlatMomentum, torch.optim.SGD:
        network = model()
        network, optimizer = amp.initialize(network, kind(groups(network), lr=0.1, momentum=0.9), opt_level=level, verbosity=0,
                                            loss_scale=4.0)
        train(network, optimizer, **options)
        results.append([param.detach().float().cpu() for param in network.parameters()])
        if kind is FlatMomentum:
            assert optimizer.combinations == {"frozen": 3}.get(next(iter(options), None), 1 + len(options))
            flats = optimizer._amp_stash.combined_params_indexed_by_group
            assert [len(group) for group in flats] == [1, 1]
            assert flats[0][0].numel() == 4 * 27 + 4 + 4 + 4
    torch.testing.assert_close(*results, rtol=2e-3 if level == "O2" else 1e-5, atol=1e-3 if level == "O2" else 1e-6)


@pytest.mark.parametrize("under_amp", [False, True])
def test_a_rule_for_a_group_in_a_subclass(under_amp):
    class Signs(NpuFusedAdam):
        def _group_step(self, group_index):
            group, stash = self.param_groups[group_index], self._amp_stash
            for param in group["params"]:
                if param.grad is not None:
                    self.state[param]["step"] += 1
            for param, grad, state in zip(stash.combined_params_indexed_by_group[group_index],
                                          stash.combined_grads_indexed_by_group[group_index],
                                          stash.combined_param_states_indexed_by_group[group_index]):
                state["step"] += 1
                state["exp_avg"].add_(grad)
                param.sub_(state["exp_avg"].sign(), alpha=group["lr"] / state["step"])

    network, expected = model(), [param.detach().clone() for param in model().parameters()]
    optimizer = Signs(groups(network), lr=0.5)
    if under_amp:
        network, optimizer = amp.initialize(network, optimizer, opt_level="O0", verbosity=0)
    sums = [torch.zeros_like(param) for param in expected]
    steps = [0] * len(expected)
    for step in range(3):
        for i, param in enumerate(network.parameters()):
            param.grad = None if (step, i) == (1, 2) else torch.randn(param.shape, generator=torch.Generator().manual_seed(i)).npu()
            if param.grad is not None:
                steps[i] += 1
                sums[i] += param.grad
                expected[i] -= (0.03 if i >= 4 else 0.5) / steps[i] * sums[i].sign()
        optimizer.step()
    for param, value, count in zip(network.parameters(), expected, steps):
        torch.testing.assert_close(param.detach(), value)
        assert optimizer.state[param]["step"] == count


def test_sparse_gradients_are_refused():
    network = torch.nn.EmbeddingBag(4, 3, sparse=True, mode="sum").npu()
    network, optimizer = amp.initialize(network, FlatMomentum(network.parameters(), 0.1, 0.9), opt_level="O1", verbosity=0)
    network.weight.grad = torch.zeros(4, 3).to_sparse(1).npu()
    with pytest.raises(RuntimeError, match="dense gradients"):
        optimizer.step()


def test_every_optimizer_has_a_stash():
    network = torch.nn.Linear(2, 2).npu()
    _, optimizer = amp.initialize(network, torch.optim.SGD(network.parameters(), 0.1), verbosity=0)
    assert not hasattr(optimizer._amp_stash, "all_fp32_params")
    assert not hasattr(optimizer, "_combine_params_and_grads_by_group")
