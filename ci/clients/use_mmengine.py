"""MMEngine: Runner trains, validates, saves and resumes on the NPU that it finds by itself; fp16 and bf16 by AmpOptimWrapper."""

from __future__ import annotations

import os
import sys
import tempfile
import uuid
from typing import Any
from unittest import mock

import mmengine
import torch
from harness import case, main, on_npu, ranks
from mmengine.device import get_device, is_npu_available
from mmengine.evaluator import BaseMetric
from mmengine.model import BaseModel
from mmengine.runner import Runner


class Network(BaseModel):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        self.losses: list[float] = []

    def forward(self, inputs: torch.Tensor, target: torch.Tensor, mode: str = "tensor") -> Any:
        on_npu(self, inputs, target)
        found = self.net(inputs)
        if mode != "loss":
            return [found, target]
        loss = torch.nn.functional.cross_entropy(found, target)
        self.losses.append(loss.item())
        return {"loss": loss}


class Accuracy(BaseMetric):
    def process(self, data_batch: Any, data_samples: Any) -> None:
        found, target = data_samples
        self.results.append(float((found.argmax(1) == target).float().mean()))

    def compute_metrics(self, results: list[float]) -> dict[str, float]:
        return {"accuracy": sum(results) / len(results)}


def loader() -> dict[str, Any]:
    torch.manual_seed(1)
    inputs = torch.randn(64, 8)
    rows = torch.utils.data.TensorDataset(inputs, inputs[:, :4].argmax(1))
    return {"batch_size": 8, "num_workers": 0, "dataset": rows, "sampler": {"type": "DefaultSampler", "shuffle": True}, "collate_fn": {"type": "default_collate"}}


def train(folder: str, epochs: int = 3, wrapper: dict[str, Any] | None = None, **options: Any) -> Runner:
    runner = Runner(
        model=Network(), work_dir=folder, experiment_name=uuid.uuid4().hex, train_dataloader=loader(), val_dataloader=loader(), val_evaluator=[Accuracy()], val_cfg={},
        train_cfg={"by_epoch": True, "max_epochs": epochs, "val_interval": 1}, log_level="ERROR",
        optim_wrapper={"optimizer": {"type": "AdamW", "lr": 1e-2}, **(wrapper or {})},
        default_hooks={"checkpoint": {"type": "CheckpointHook", "interval": 1}}, **options,
    )  # fmt: skip
    runner.train()
    return runner


def falls(losses: list[float]) -> None:
    assert losses[-1] < losses[0], losses


@case("`get_device()`, `is_npu_available()`")
def device() -> None:
    assert get_device() == "npu" and is_npu_available()


@case("`Runner`: train, validate, save, resume with `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1`, as mmengine needs since torch 2.6")
def runner() -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1"):
        falls(train(folder).model.losses)
        again = train(folder, 4, resume=True)
        assert again.iter == 4 * 8 and len(again.model.losses) == 8


@case("`AmpOptimWrapper`, fp16 with loss scaling and bf16; clipping, accumulation")
def mixed() -> None:
    for options in ({}, {"dtype": "bfloat16"}, {"accumulative_counts": 2, "clip_grad": {"max_norm": 1.0}}):
        with tempfile.TemporaryDirectory() as folder:
            falls(train(folder, wrapper={"type": "AmpOptimWrapper", **options}).model.losses)


@case(
    "`NPUProfilerHook`",
    theirs="calls `torch_npu.npu.profile`, which the published torch_npu has no more either: use `ProfilerHook` or `torch_npu.profiler`",
    error="AttributeError: module 'torch.npu' has no attribute 'profile'",
)
def profiler() -> None:
    with tempfile.TemporaryDirectory() as folder:
        train(folder, 1, custom_hooks=[{"type": "NPUProfilerHook", "begin": 0, "end": 2, "result_path": f"{folder}/profile"}])


@case("`launcher=\"pytorch\"`: 2 processes on hccl")
def ddp() -> None:
    assert ranks("use_mmengine.py", "worker").count("worker on npu") == 2


def worker() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = train(folder, launcher="pytorch", env_cfg={"dist_cfg": {"backend": "hccl"}})
        falls(run.model.module.losses)
        assert torch.distributed.get_backend() == "hccl"
        assert mmengine.dist.all_reduce_dict is not None
        print("worker on npu", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        worker()
    else:
        main("mmengine")
