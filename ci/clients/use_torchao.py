"""torchao: quantised weights and activations on the NPU against the CPU, 8-bit optimizers, quantisation-aware training."""

from __future__ import annotations

import copy

import torch
import torchao.quantization as quantization
from harness import case, close, main, on_npu
from torchao.quantization import quantize_


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64)).bfloat16()


@case("`quantize_`: int8 and float8 weights, intx weights, int8 activations with int8 and intx weights; the CPU's results")
def weights() -> None:
    inputs = torch.randn(4, 64).bfloat16()
    for name in ("Int8WeightOnly", "Int8DynamicActivationInt8Weight", "Int8DynamicActivationIntxWeight", "Float8WeightOnly", "IntxWeightOnly"):
        config = getattr(quantization, f"{name}Config")
        cpu, npu = network(), copy.deepcopy(network()).npu()
        quantize_(cpu, config())
        quantize_(npu, config())
        on_npu(npu)
        close(npu(inputs.npu()), cpu(inputs), 1e-2)


@case("`AdamW8bit`, `AdamWFp8`")
def optimizers() -> None:
    from torchao.optim import AdamW8bit, AdamWFp8

    for kind in (AdamW8bit, AdamWFp8):
        model = network().float().npu()
        optimizer = kind(model.parameters(), lr=1e-2)
        inputs = torch.randn(16, 64).npu()
        losses = []
        for _ in range(6):
            loss = torch.nn.functional.mse_loss(model(inputs), inputs)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        assert losses[-1] < losses[0], losses
        on_npu(model)


if __name__ == "__main__":
    main("torchao")
