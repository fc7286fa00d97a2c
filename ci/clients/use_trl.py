"""TRL: supervised fine-tuning, preferences, rewards and policy gradients with their trainers, with and without LoRA."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
import trl
from datasets import Dataset
from harness import case, main, on_npu
from small_llama import counting, llama, tokenizer
from transformers import LlamaForCausalLM


def settings(kind: Any, folder: str, **options: object) -> Any:
    common = {
        "max_steps": 6, "learning_rate": 1e-2, "per_device_train_batch_size": 4, "logging_steps": 1, "report_to": [],
        "save_strategy": "no", "bf16": False, "gradient_checkpointing": False, "warmup_steps": 0,
    }  # fmt: skip
    return kind(folder, **{**common, **options})


def finish(trainer: Any, watch: str = "loss", falls: bool = True) -> None:
    assert trainer.args.device.type == "npu", trainer.args.device
    trainer.train()
    values = [entry[watch] for entry in trainer.state.log_history if watch in entry]
    assert len(values) == trainer.args.max_steps and all(torch.tensor(values).isfinite()), values
    assert not falls or values[-1] < values[0], values
    on_npu(trainer.model)


def saved(folder: str) -> LlamaForCausalLM:
    """The model from disk: trainers load it once more, by its name, as the reference."""
    llama().save_pretrained(f"{folder}/model")
    return LlamaForCausalLM.from_pretrained(f"{folder}/model")


def preferences(count: int = 16) -> Dataset:
    return Dataset.from_list([
        {"prompt": counting(i, 4) + " ", "chosen": counting(i + 12, 4), "rejected": counting(i + 50, 4)} for i in range(count)
    ])


@case("`SFTTrainer`: packing, bf16 with gradient checkpointing, LoRA")
def sft() -> None:
    from peft import LoraConfig

    rows = Dataset.from_list([{"text": counting(i, 12)} for i in range(32)])
    lora = LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"])
    for options, adapter in (({}, None), ({"packing": True, "packing_strategy": "wrapped"}, None), ({"bf16": True, "gradient_checkpointing": True}, None), ({}, lora)):
        with tempfile.TemporaryDirectory() as folder:
            arguments = settings(trl.SFTConfig, folder, max_length=16, **options)
            finish(trl.SFTTrainer(llama(), arguments, train_dataset=rows, processing_class=tokenizer(), peft_config=adapter))


@case("`DPOTrainer`, with a reference model and with LoRA")
def dpo() -> None:
    from peft import LoraConfig

    for adapter in (None, LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"])):
        with tempfile.TemporaryDirectory() as folder:
            arguments = settings(trl.DPOConfig, folder, max_length=24)
            trainer = trl.DPOTrainer(saved(folder), args=arguments, train_dataset=preferences(), processing_class=tokenizer(), peft_config=adapter)
            finish(trainer)


@case("`RewardTrainer`")
def reward() -> None:
    from transformers import LlamaForSequenceClassification

    config = llama().config
    config.num_labels = 1
    with tempfile.TemporaryDirectory() as folder:
        arguments = settings(trl.RewardConfig, folder, max_length=24)
        finish(trl.RewardTrainer(LlamaForSequenceClassification(config), arguments, train_dataset=preferences(), processing_class=tokenizer()))


@case("`GRPOTrainer`: generates, rewards, updates")
def grpo() -> None:
    rows = Dataset.from_list([{"prompt": counting(i, 4)} for i in range(16)])

    def short(completions: list[str], **_: object) -> list[float]:
        return [-float(len(text)) for text in completions]

    with tempfile.TemporaryDirectory() as folder:
        arguments = settings(trl.GRPOConfig, folder, num_generations=4, max_completion_length=6, beta=0.04)
        trainer = trl.GRPOTrainer(saved(folder), short, arguments, train_dataset=rows, processing_class=tokenizer())
        finish(trainer, falls=False)


@case("`RLOOTrainer`")
def rloo() -> None:
    rows = Dataset.from_list([{"prompt": counting(i, 4)} for i in range(16)])

    def short(completions: list[str], **_: object) -> list[float]:
        return [-float(len(text)) for text in completions]

    with tempfile.TemporaryDirectory() as folder:
        arguments = settings(trl.RLOOConfig, folder, num_generations=4, max_completion_length=6)
        finish(trl.RLOOTrainer(saved(folder), short, arguments, train_dataset=rows, processing_class=tokenizer()), falls=False)


if __name__ == "__main__":
    main("trl")
