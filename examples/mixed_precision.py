"""How a training loop is told about mixed precision: one object, whatever the kind."""
import contextlib

import torch

KINDS = ("O0", "O1", "O2", "fp16", "bf16")


class Precision:
    """`kind`: None for float32, fp16 (autocast and a loss scaler), bf16 (autocast), or a level of Apex."""

    def __init__(self, kind, device: torch.device):
        self.kind, self.device = kind, device
        self.scaler = torch.amp.GradScaler(device.type, enabled=kind == "fp16")
        if kind in ("O0", "O1", "O2") and device.type != "npu":
            raise SystemExit(f"--amp {kind} is for the NPU: use fp16 or bf16 on the {device.type}")

    def prepare(self, model, optimizer):
        if self.kind not in ("O0", "O1", "O2"):
            return model, optimizer
        from torch_npu.contrib.apex import amp
        return amp.initialize(model, optimizer, opt_level=self.kind)

    def region(self):
        """The model and its loss are computed inside."""
        if self.kind not in ("fp16", "bf16"):
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.float16 if self.kind == "fp16" else torch.bfloat16)

    def step(self, loss, optimizer) -> None:
        """Backward pass and update."""
        if self.kind in ("O0", "O1", "O2"):
            from torch_npu.contrib.apex import amp
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
            return
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)
        self.scaler.update()
