"""PEFT: adapters trained on the NPU, merged, saved and loaded; the base stays as it was."""

from __future__ import annotations

import tempfile

import peft
import torch
from harness import case, close, main, on_npu
from peft import PeftModel, get_peft_model
from small_llama import llama

TARGETS = ["q_proj", "v_proj"]


def batch() -> torch.Tensor:
    torch.manual_seed(1)
    return (torch.randint(0, 90, (4, 1)) + 3 * torch.arange(10)) % 97


def train(config: peft.PeftConfig, dtype: torch.dtype = torch.float32, first: str = "npu") -> PeftModel:
    """Trains the adapter of a fresh model, then saves it, loads it over another and compares the results. `first` is where the
    model is when it gets the adapter."""
    torch.manual_seed(2)
    model = get_peft_model(llama().to(first, dtype), config).to("npu").train()
    before = model.get_input_embeddings().weight.detach().clone()
    tokens = batch().npu()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-2)
    losses = []
    for _ in range(8):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0], (config.peft_type, losses)
    on_npu(model)
    assert torch.equal(before, model.get_input_embeddings().weight)
    with tempfile.TemporaryDirectory() as folder:
        model.eval().save_pretrained(folder)
        loaded = PeftModel.from_pretrained(llama().to("npu", dtype), folder).eval()
        on_npu(loaded)
        close(loaded(input_ids=tokens).logits, model(input_ids=tokens).logits.cpu())
    return model


@case("LoRA, rsLoRA, DoRA, PiSSA, OLoRA: train, save, load, merge, unload")
def lora() -> None:
    common = {"task_type": "CAUSAL_LM", "target_modules": TARGETS, "r": 4}
    options = [{}, {"use_rslora": True}, {"use_dora": True}, {"init_lora_weights": "pissa"}, {"init_lora_weights": "olora"}]
    for option in options:
        model = train(peft.LoraConfig(**common, **option)) if "init_lora_weights" not in option else initialised(common, option)
        tokens = batch().npu()
        wanted = model(input_ids=tokens).logits
        merged = model.merge_and_unload()
        on_npu(merged)
        close(merged(input_ids=tokens).logits, wanted.cpu(), 1e-3)


def initialised(common: dict[str, object], option: dict[str, object]) -> PeftModel:
    """Starts from a decomposition of the weights: the model's result is unchanged at first."""
    tokens = batch().npu()
    wanted = llama().npu()(input_ids=tokens).logits
    model = get_peft_model(llama().npu(), peft.LoraConfig(**common, **option)).eval()
    close(model(input_ids=tokens).logits, wanted.cpu(), 1e-3)
    return model


@case("IA3, LoHa, LoKr, OFT, VeRA, FourierFT, prompt, prefix and P-tuning: train, save, load")
def others() -> None:
    task = {"task_type": "CAUSAL_LM"}
    configs = [
        peft.IA3Config(**task, target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
        peft.LoHaConfig(**task, target_modules=TARGETS, r=4),
        peft.LoKrConfig(**task, target_modules=TARGETS, r=4),
        peft.OFTConfig(**task, target_modules=TARGETS, oft_block_size=8, r=0),
        peft.VeraConfig(**task, target_modules=["q_proj"], r=8),
        peft.FourierFTConfig(**task, target_modules=TARGETS, n_frequency=50, scaling=100.0),
        peft.PromptTuningConfig(**task, num_virtual_tokens=4),
        peft.PrefixTuningConfig(**task, num_virtual_tokens=4),
        peft.PromptEncoderConfig(**task, num_virtual_tokens=4, encoder_hidden_size=16),
    ]
    for config in configs:
        print(config.peft_type.value, flush=True)
        train(config)


@case("AdaLoRA, added before the model moves to the NPU")
def adalora() -> None:
    train(peft.AdaLoraConfig(task_type="CAUSAL_LM", target_modules=TARGETS, init_r=4, target_r=2, total_step=20), first="cpu")


@case(
    "AdaLoRA, added to a model on the NPU",
    theirs="the move makes `ranknum`, which is not saved, a parameter to train: `ParameterDict` wraps what `.to()` returns",
    error="AssertionError: Tensor-likes are not close",
)
def adalora_on_device() -> None:
    train(peft.AdaLoraConfig(task_type="CAUSAL_LM", target_modules=TARGETS, init_r=4, target_r=2, total_step=20))


@case("LoRA in bfloat16 over frozen embeddings, `generate` of the adapted model, adapters switched off")
def bfloat16() -> None:
    model = train(peft.LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear", r=4), torch.bfloat16)
    tokens = batch().npu()[:, :4]
    out = model.generate(input_ids=tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=4, do_sample=False)
    on_npu(out)
    with model.disable_adapter():
        plain = model(input_ids=tokens).logits
    close(plain, llama().npu().bfloat16()(input_ids=tokens).logits.cpu())


if __name__ == "__main__":
    main("peft")
