"""verl and LLaMA-Factory: what they ask of the device at import, verl's profiler and functions of its trainers."""

from __future__ import annotations

import os
import tempfile

os.environ["DISABLE_VERSION_CHECK"] = "1"  # LLaMA-Factory's pins are older than the libraries here

import torch
from harness import case, close, main, on_npu, run


@case("verl `utils.device`, `utils.torch_functional`")
def device() -> None:
    from verl.utils import device as verl_device
    from verl.utils.torch_functional import entropy_from_logits, logprobs_from_logits, masked_mean

    assert verl_device.is_npu_available and verl_device.get_device_name() == "npu"
    assert verl_device.get_nccl_backend() == "hccl" and verl_device.get_torch_device() is torch.npu
    torch.manual_seed(0)
    logits, labels = torch.randn(2, 5, 9), torch.randint(0, 9, (2, 5))
    close(logprobs_from_logits(logits.npu(), labels.npu()), logprobs_from_logits(logits, labels))
    close(entropy_from_logits(logits.npu()), entropy_from_logits(logits))
    close(masked_mean(logits.npu(), logits.npu() > 0), masked_mean(logits, logits > 0))


@case("verl `mstx_profile`: `get_npu_profiler` at three levels, `mark_annotate`, `marked_timer`")
def profiler() -> None:
    from verl.utils.profiler import mstx_profile

    @mstx_profile.mark_annotate("step")
    def step() -> torch.Tensor:
        return torch.ones(8, device="npu") * 2

    for level in ("level_none", "level0", "level1"):
        with tempfile.TemporaryDirectory() as folder:
            profile = mstx_profile.get_npu_profiler(["npu", "cpu", "memory", "shapes"], level, folder, False, role="actor")
            profile.start()
            times: dict[str, float] = {}
            with mstx_profile.marked_timer("gen", times):
                on_npu(step())
            profile.step()
            profile.stop()
            assert times["gen"] > 0


@case("LLaMA-Factory `llamafactory-cli env`, `extras.misc`")
def llamafactory() -> None:
    from llamafactory.extras.misc import get_current_device, get_peak_memory, is_accelerator_available

    assert get_current_device() == torch.device("npu", 0) and is_accelerator_available()
    assert len(get_peak_memory()) == 2
    said = run("llamafactory-cli", "env")
    assert "(NPU)" in said and "CANN version: " in said and "NPU type: Ascend" in said, said


if __name__ == "__main__":
    main("verl", "llamafactory")
