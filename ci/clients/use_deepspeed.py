"""DeepSpeed: ZeRO 0 to 3 on two NPUs in bf16, offload to the host, checkpoints; `ds_report`, the `deepspeed` launcher."""

from __future__ import annotations

import argparse
import tempfile

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from harness import case, free_port, main, on_npu, run

WIDTH = 32


def train(stage: int, offload: str, folder: str) -> None:
    """What each process does: trains, saves, loads into a second engine and finds the same loss."""
    deepspeed.init_distributed()
    assert torch.distributed.get_backend() == "hccl", torch.distributed.get_backend()
    zero: dict[str, object] = {"stage": stage}
    if offload:
        zero["offload_optimizer"] = {"device": offload}
    config = {
        "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0, "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}}, "zero_optimization": zero,
    }  # fmt: skip
    torch.manual_seed(0)
    engine = build(config)
    inputs = torch.randn(4, WIDTH, device=engine.device, dtype=torch.bfloat16)
    target = inputs.roll(1, 1)
    losses = []
    for _ in range(12):
        loss = torch.nn.functional.mse_loss(engine(inputs), target)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0], losses
    on_npu(engine.module, inputs)
    engine.save_checkpoint(folder, tag="one")
    wanted = torch.nn.functional.mse_loss(engine(inputs), target).item()
    other = build(config)
    other.load_checkpoint(folder, tag="one")
    found = torch.nn.functional.mse_loss(other(inputs), target).item()
    assert abs(found - wanted) < 1e-3, (found, wanted)
    print(f"stage {stage} on {engine.device}", flush=True)
    torch.distributed.destroy_process_group()


def build(config: dict[str, object]) -> deepspeed.DeepSpeedEngine:
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 64), torch.nn.GELU(), torch.nn.Linear(64, WIDTH))
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]


def launch(stage: int, offload: str = "") -> None:
    with tempfile.TemporaryDirectory() as folder:
        said = run("deepspeed", "--num_gpus", "2", "--master_port", free_port(), __file__, "--stage", str(stage), "--offload", offload, "--folder", folder, devices=2)
    assert said.count(f"stage {stage} on npu:") == 2, said


@case("`get_accelerator()`")
def accelerator() -> None:
    assert get_accelerator()._name == "npu"
    assert get_accelerator().communication_backend_name() == "hccl"
    assert get_accelerator().device_count() == torch.npu.device_count()
    on_npu(torch.ones(1, device=get_accelerator().current_device_name()))


@case("`ds_report`, without `ASCEND_HOME_PATH`")
def report() -> None:
    assert "npu" in run("ds_report")


@case("ZeRO 0, 2 processes, bf16, clipping, accumulation, checkpoint")
def zero0() -> None:
    launch(0)


@case("ZeRO 1, the same")
def zero1() -> None:
    launch(1)


@case("ZeRO 2, the same")
def zero2() -> None:
    launch(2)


@case("ZeRO 3, the same")
def zero3() -> None:
    launch(3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--stage", type=int)
    parser.add_argument("--offload", default="")
    parser.add_argument("--folder")
    parser.add_argument("--local_rank")
    given, _ = parser.parse_known_args()
    if given.stage is None:
        main("deepspeed")
    else:
        train(given.stage, given.offload, given.folder)
