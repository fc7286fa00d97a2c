"""Programs for CUDA, unmodified, by TORCH_TRANSFER_TO_NPU=1: karpathy/nanoGPT and those of pytorch/examples that need no torchvision.

EXAMPLES names the folder with both, called nanoGPT and examples; ci/clients.sh clones them. The examples of distributed training assert
nothing but that they end well. Those that import torchvision are in use_torchvision.py.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import sys
import tempfile
from pathlib import Path

import numpy
from harness import case, main, run
from programs import TREES, program


def shakespeare() -> dict[str, bytes]:
    tokens = (numpy.arange(6000) * 7 % 65).astype(numpy.uint16)
    meta = {"vocab_size": 65, "itos": {i: chr(40 + i) for i in range(65)}, "stoi": {chr(40 + i): i for i in range(65)}}
    return {"data__tiny__train_DOT_bin": tokens.tobytes(), "data__tiny__val_DOT_bin": tokens.tobytes(), "data__tiny__meta_DOT_pkl": pickle.dumps(meta)}


def gpt(*options: str) -> None:
    small = ("--dataset=tiny", "--n_layer=2", "--n_head=2", "--n_embd=32", "--block_size=16", "--batch_size=8", "--max_iters=20", "--lr_decay_iters=20",
             "--eval_interval=10", "--eval_iters=2", "--log_interval=1", "--gradient_accumulation_steps=2", "--learning_rate=1e-2", "--warmup_iters=0",
             "--dropout=0.0", "--always_save_checkpoint=True")  # fmt: skip
    said = program("nanoGPT", ".", "train.py", *small, *options, **shakespeare())
    losses = [float(loss) for loss in re.findall(r"iter \d+: loss ([\d.]+)", said)]
    assert len(losses) > 15 and losses[-1] < losses[0], losses


@case("nanoGPT `train.py`, `--device=cuda`, float16 with its GradScaler and bfloat16")
def nanogpt() -> None:
    gpt("--device=cuda", "--dtype=float16", "--compile=False")
    gpt("--device=cuda", "--dtype=bfloat16", "--compile=False")


@case("nanoGPT `train.py --compile=True`")
def nanogpt_compiled() -> None:
    gpt("--device=cuda", "--dtype=bfloat16", "--compile=True")


def corpus() -> dict[str, bytes]:
    text = "\n".join(" ".join(str((line * 3 + i) % 50) for i in range(20)) for line in range(60)).encode()
    return {f"data__wikitext-2__{name}_DOT_txt": text for name in ("train", "valid", "test")}


@case("pytorch/examples `word_language_model`: LSTM and Transformer, `--accel`")
def language_model() -> None:
    for kind in ("LSTM", "GRU", "RNN_TANH", "Transformer"):
        program("examples", "word_language_model", "main.py", "--accel", "--model", kind, "--epochs", "1", "--emsize", "16", "--nhid", "16", "--nhead", "2", "--nlayers", "1", **corpus())


@case("pytorch/examples `regression`", theirs="it chooses no device and trains on the CPU", error="trained on cpu")
def regression() -> None:
    program("examples", "regression", "main.py")


@case("pytorch/examples `distributed/FSDP2` and `distributed/ddp-tutorial-series` with 2 processes")
def distributed() -> None:
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(TREES / "examples" / "distributed", Path(place) / "copy")
        before = os.getcwd()
        for folder, command in (("FSDP2", ("example.py",)), ("ddp-tutorial-series", ("multigpu_torchrun.py", "2", "1"))):
            os.chdir(Path(place) / "copy" / folder)
            try:
                run(*launcher, *command, devices=2, TORCH_TRANSFER_TO_NPU="1")
            finally:
                os.chdir(before)


if __name__ == "__main__":
    main()
