"""Hugging Face transformers: Trainer, generate, the attention implementations, mixtures of experts, pipelines. Random weights."""

from __future__ import annotations

import copy
import sys
import tempfile

import torch
from harness import case, close, main, on_npu, ranks, run
from small_llama import SMALL, llama, tokenizer
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
)


def sentences(count: int = 16, length: int = 12) -> list[dict[str, torch.Tensor]]:
    torch.manual_seed(1)
    rows = [(torch.arange(length) * 3 + start) % 97 for start in torch.randint(0, 97, (count,)).tolist()]
    return [{"input_ids": row, "labels": row} for row in rows]


def train(model: torch.nn.Module, folder: str, **options: object) -> Trainer:
    settings = {"max_steps": 8, "learning_rate": 5e-3, "per_device_train_batch_size": 8, "logging_steps": 1, "report_to": []}
    arguments = TrainingArguments(folder, **{**settings, **options})
    assert arguments.device.type == "npu", arguments.device
    rows = sentences()
    trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:8])
    trainer.train(resume_from_checkpoint=options.get("save_steps") == 4 and trainer.args.max_steps > 8)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0], losses
    on_npu(trainer.model)
    return trainer


@case("`Trainer`: train, evaluate, predict, checkpoint, resume")
def trainer() -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = train(llama(), folder, save_steps=4)
        assert first.evaluate()["eval_loss"] > 0
        assert first.predict(sentences(8)).predictions.shape == (8, 12, 97)
        resumed = train(llama(), folder, save_steps=4, max_steps=12)
        assert resumed.state.global_step == 12


@case("`Trainer` with bf16, fp16, gradient checkpointing, fused AdamW, accumulation")
def trainer_options() -> None:
    options = [
        {"bf16": True, "gradient_checkpointing": True},
        {"fp16": True, "gradient_accumulation_steps": 2},
        {"optim": "adamw_torch_fused", "max_grad_norm": 0.5},
        {"torch_compile": True},
    ]
    for option in options:
        with tempfile.TemporaryDirectory() as folder:
            train(llama(), folder, save_strategy="no", **option)


@case("`Trainer` with bf16 and torch_compile, fp16 and gradient checkpointing, NEFTune, label smoothing, Adafactor and others, bf16 evaluation")
def trainer_more_options() -> None:
    options = [
        {"bf16": True, "torch_compile": True},
        {"fp16": True, "gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": True}},
        {"bf16": True, "gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}, "torch_empty_cache_steps": 2},
        {"neftune_noise_alpha": 1.0, "label_smoothing_factor": 0.1, "bf16": True, "bf16_full_eval": True, "eval_strategy": "steps", "eval_steps": 4},
        *({"optim": name} for name in ("adamw_torch", "adafactor", "sgd", "adagrad", "rmsprop")),
    ]  # fmt: skip
    for option in options:
        with tempfile.TemporaryDirectory() as folder:
            train(llama(), folder, save_strategy="no", **option)
        print(*option.items(), flush=True)


@case("`Trainer` under torchrun with 2 processes: data parallel, `fsdp=\"full_shard\"`")
def trainer_two() -> None:
    for kind in ("ddp", "fsdp"):
        assert ranks("use_transformers.py", "worker", kind).count(f"{kind} on npu") == 2


@case("`from_pretrained(tp_plan=\"auto\")` under torchrun: tensor parallel over 2 NPUs, forward, backward and `generate`")
def tensor_parallel() -> None:
    with tempfile.TemporaryDirectory() as folder:
        llama().save_pretrained(folder)
        assert ranks("use_transformers.py", "worker", "tensor", folder).count("tensor on npu") == 2


@case("`from_pretrained(device_map=...)` over 2 NPUs of one process, layer by layer")
def two_devices() -> None:
    assert "layers on npu" in run(sys.executable, __file__, "worker", "layers", devices=2)


def tensor_worker(folder: str) -> None:
    torch.distributed.init_process_group("hccl")
    torch.npu.set_device(torch.distributed.get_rank())
    model = AutoModelForCausalLM.from_pretrained(folder, tp_plan="auto").eval()
    tokens = torch.arange(16).view(2, 8)
    whole = llama()
    found, wanted = model(tokens.npu(), labels=tokens.npu()), whole(tokens, labels=tokens)
    close(found.logits, wanted.logits)
    found.loss.backward()
    wanted.loss.backward()
    close(model.model.norm.weight.grad, whole.model.norm.weight.grad)
    generated = model.generate(tokens.npu(), max_new_tokens=3, do_sample=False)
    assert torch.equal(generated.cpu(), whole.generate(tokens, max_new_tokens=3, do_sample=False))
    part = model.model.layers[0].self_attn.q_proj.weight
    assert getattr(part, "to_local", lambda: part)().shape == (32, 64), part.shape
    print("tensor on npu", flush=True)


def layers_worker() -> None:
    where = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.layers.0": 0, "model.layers.1": 1, "model.norm": 1, "lm_head": 1}
    tokens = torch.arange(16).view(2, 8)
    with tempfile.TemporaryDirectory() as folder:
        llama().save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, device_map=where).eval()
    assert model.lm_head.weight.device == torch.device("npu", 1) and model.model.embed_tokens.weight.device == torch.device("npu", 0)
    close(model(tokens.to("npu:0")).logits, llama()(tokens).logits)
    generated = model.generate(tokens.to("npu:0"), max_new_tokens=3, do_sample=False)
    assert torch.equal(generated.cpu(), llama().generate(tokens, max_new_tokens=3, do_sample=False))
    print("layers on npu", flush=True)


def worker(kind: str, *arguments: str) -> None:
    """What each process does under torchrun, or one with torch.cuda for torch.npu."""
    if kind in ("tensor", "layers"):
        return tensor_worker(*arguments) if kind == "tensor" else layers_worker()
    if kind == "offloaded":
        same_tokens({"cache_implementation": "offloaded"}, {"cache_implementation": "offloaded_static"})
        print("tokens on npu", flush=True)
        return
    options = {"fsdp": "full_shard auto_wrap", "fsdp_config": {"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}} if kind == "fsdp" else {}
    with tempfile.TemporaryDirectory() as folder:
        trainer = train(llama(), folder, save_strategy="no", bf16=True, **options)
        assert trainer.args.parallel_mode.value == "distributed" and torch.distributed.get_backend().endswith("hccl")
        assert trainer.evaluate()["eval_loss"] > 0
    print(f"{kind} on npu", flush=True)


@case("`optim=adamw_torch_npu_fused`")
def trainer_npu_optimizer() -> None:
    with tempfile.TemporaryDirectory() as folder:
        train(llama(), folder, save_strategy="no", optim="adamw_torch_npu_fused")


@case("`generate`: greedy, beams, sampling, static cache; greedy tokens are the CPU's")
def generate() -> None:
    cpu = llama()
    npu = copy.deepcopy(cpu).to("npu")
    prompt = torch.tensor([[5, 8, 11, 14], [0, 3, 6, 9]])
    mask = (prompt != 0).long()
    options = [{}, {"num_beams": 3}, {"cache_implementation": "static"}, {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2}]
    for option in options:
        common = {"max_new_tokens": 8, "do_sample": False, **option}
        wanted = cpu.generate(prompt, attention_mask=mask, **common)
        found = npu.generate(prompt.npu(), attention_mask=mask.npu(), **common)
        on_npu(npu, found)
        assert torch.equal(found.cpu(), wanted), (option, found, wanted)
    sampled = npu.generate(prompt.npu(), attention_mask=mask.npu(), max_new_tokens=8, do_sample=True, top_k=20, top_p=0.9, temperature=0.8)
    on_npu(sampled)
    assert sampled.shape[1] > 4


def same_tokens(*options: dict[str, object]) -> None:
    """Greedy tokens of the NPU with each of the options against the CPU's without any."""
    cpu = llama()
    npu = copy.deepcopy(cpu).to("npu")
    prompt = torch.tensor([[5, 8, 11, 14, 5, 8, 11]])
    common = {"max_new_tokens": 12, "do_sample": False}
    wanted = cpu.generate(prompt, attention_mask=torch.ones_like(prompt), **common)
    for option in options:
        found = npu.generate(prompt.npu(), attention_mask=torch.ones_like(prompt).npu(), **common, **option)
        on_npu(found)
        assert torch.equal(found.cpu(), wanted), (list(option), found, wanted)
        print(*option, flush=True)


@case("`generate` assisted by another model, by the prompt's n-grams, by its own first layer; the CPU's tokens without")
def assisted() -> None:
    helper = llama().to("npu")  # of other weights, so that some of what it proposes is refused
    with torch.no_grad():
        for weight in helper.parameters():
            weight += 0.01 * torch.randn_like(weight)
    same_tokens({"assistant_model": helper}, {"prompt_lookup_num_tokens": 3}, {"assistant_early_exit": 1})


@case(
    "`cache_implementation`: offloaded",
    theirs="asks torch.cuda for its streams, on every device; with `TORCH_TRANSFER_TO_NPU=1` it works",
    error="AssertionError: Torch not compiled with CUDA enabled",
)
def offloaded() -> None:
    same_tokens({"cache_implementation": "offloaded"})


@case("`cache_implementation`: offloaded, offloaded_static, with `TORCH_TRANSFER_TO_NPU=1`")
def offloaded_transferred() -> None:
    assert "tokens on npu" in run(sys.executable, __file__, "worker", "offloaded", TORCH_TRANSFER_TO_NPU="1")


@case("continuous batching: `generate_batch`, the tokens of `generate`")
def continuous_batching() -> None:
    from transformers import GenerationConfig
    from transformers.generation import ContinuousBatchingConfig

    model = llama(attn_implementation="sdpa").to("npu")
    prompts = [[5, 8, 11, 14], [3, 6, 9], [20, 23, 26, 29, 32]]
    config = GenerationConfig(max_new_tokens=6, do_sample=False, eos_token_id=-1, pad_token_id=0)
    small = ContinuousBatchingConfig(num_blocks=16, max_batch_tokens=64)
    found = model.generate_batch(prompts, generation_config=config, continuous_batching_config=small, progress_bar=False)
    assert len(found) == 3
    tokens = [output.generated_tokens for output in found.values()]
    on_npu(model)
    model = llama().to("npu")
    for prompt, one in zip(prompts, tokens):
        given = torch.tensor([prompt], device="npu")
        wanted = model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=6, do_sample=False, eos_token_id=-1)
        assert wanted[0, len(prompt) :].tolist() == one, (prompt, wanted, one)


def attention(name: str, dtype: torch.dtype = torch.float32, tolerance: float = 1e-4) -> None:
    tokens = torch.randint(1, 97, (2, 16))
    mask = torch.ones_like(tokens)
    mask[1, :5] = 0
    labels = tokens.masked_fill(mask == 0, -100)
    labels[1, 5] = -100  # predicted by a row that attends to nothing
    cpu = llama(attn_implementation="eager")
    npu = AutoModelForCausalLM.from_config(copy.deepcopy(cpu.config), attn_implementation=name, dtype=dtype).eval()
    npu.load_state_dict(cpu.state_dict())
    npu.to("npu")
    assert npu.config._attn_implementation == name
    found = npu(tokens.npu(), attention_mask=mask.npu(), labels=labels.npu())
    wanted = cpu(tokens, attention_mask=mask, labels=labels)
    keep = mask.bool()
    close(found.logits[keep.npu()], wanted.logits[keep], tolerance)
    found.loss.backward()
    wanted.loss.backward()
    close(npu.model.embed_tokens.weight.grad, cpu.model.embed_tokens.weight.grad, tolerance)


@case("`attn_implementation`: eager, sdpa, flex_attention, forward and backward against the CPU")
def attentions() -> None:
    for name in ("eager", "sdpa", "flex_attention"):
        attention(name)


@case("`attn_implementation=flash_attention_2`, which is `npu_fusion_attention` through transformers' own path")
def flash_attention() -> None:
    attention("flash_attention_2", torch.bfloat16, 3e-2)


def moe(kind: str, **options: object) -> None:
    from transformers import AutoConfig

    config = AutoConfig.for_model(kind, **SMALL, num_key_value_heads=2, max_position_embeddings=128, **options)
    torch.manual_seed(0)
    cpu = AutoModelForCausalLM.from_config(config).eval()
    npu = copy.deepcopy(cpu).to("npu")
    tokens = torch.randint(0, 97, (2, 16))
    wanted = cpu(tokens, labels=tokens)
    found = npu(tokens.npu(), labels=tokens.npu())
    close(found.logits, wanted.logits)
    wanted.loss.backward()
    found.loss.backward()
    for (name, here), there in zip(npu.named_parameters(), cpu.parameters()):
        if there.grad is not None:
            assert here.grad is not None, name
            close(here.grad, there.grad)


@case("mixtures of experts on their default path: mixtral, qwen3_moe, deepseek_v3, gpt_oss; gradients are the CPU's")
def experts() -> None:
    moe("mixtral", num_local_experts=4)
    moe("qwen3_moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, decoder_sparse_step=1, head_dim=16)
    moe(
        "deepseek_v3", n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, moe_intermediate_size=32, first_k_dense_replace=1,
        q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=16, n_shared_experts=1,
    )  # fmt: skip
    moe("gpt_oss", num_local_experts=4, num_experts_per_tok=2, head_dim=16)


@case("`experts_implementation`: eager, batched_mm, grouped_mm")
def experts_implementations() -> None:
    for name in ("eager", "batched_mm", "grouped_mm"):
        moe("mixtral", num_local_experts=4, experts_implementation=name)


@case("families: bert, t5, gpt2, vit, clip, whisper, mamba, qwen3, gemma3, wav2vec2; outputs are the CPU's")
def families() -> None:
    from transformers import AutoConfig

    tokens = torch.randint(1, 97, (2, 10))
    image = torch.randn(2, 3, 32, 32)
    vision = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8}
    audio = {"d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    wav = {"conv_dim": [32] * 3, "conv_stride": [5, 4, 4], "conv_kernel": [10, 8, 8], "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
    models = [
        ("bert", SMALL, {"input_ids": tokens}),
        ("t5", {"vocab_size": 97, "d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 4, "d_kv": 16}, {"input_ids": tokens, "decoder_input_ids": tokens}),
        ("gpt2", {"vocab_size": 97, "n_embd": 64, "n_layer": 2, "n_head": 4}, {"input_ids": tokens}),
        ("vit", vision, {"pixel_values": image}),
        ("clip_vision_model", vision, {"pixel_values": image}),
        ("whisper", {**audio, "vocab_size": 97, "max_source_positions": 50, "pad_token_id": 0}, {"input_features": torch.randn(2, 80, 100), "decoder_input_ids": tokens}),
        ("mamba", {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8}, {"input_ids": tokens}),
        ("qwen3", {**SMALL, "num_key_value_heads": 2, "head_dim": 16}, {"input_ids": tokens}),
        ("gemma3_text", {**SMALL, "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}, {"input_ids": tokens}),
        ("wav2vec2", {**SMALL, **wav}, {"input_values": torch.randn(2, 2000)}),
    ]
    for kind, options, inputs in models:
        torch.manual_seed(0)
        cpu = AutoModel.from_config(AutoConfig.for_model(kind, **options)).eval()
        npu = copy.deepcopy(cpu).to("npu")
        with torch.no_grad():
            wanted = cpu(**inputs)[0]
            found = npu(**{name: value.to("npu") for name, value in inputs.items()})[0]
        print(kind, flush=True)
        close(found, wanted, 1e-3)


@case("`from_pretrained(device_map=...)`, `pipeline(device=...)`, `torch.compile`")
def loading() -> None:
    from transformers import pipeline

    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        BertForSequenceClassification(BertConfig(**SMALL, num_labels=3)).save_pretrained(folder)
        for where in ("npu", "npu:0", "auto", {"": 0}):
            model = BertForSequenceClassification.from_pretrained(folder, device_map=where, dtype=torch.bfloat16)
            on_npu(model)
        tokens = torch.randint(0, 97, (2, 8), device="npu")
        model = model.float().eval()
        close(torch.compile(model)(tokens).logits, model(tokens).logits.cpu())
        llama().save_pretrained(folder)
        generator = pipeline("text-generation", model=AutoModelForCausalLM.from_pretrained(folder), tokenizer=tokenizer(), device="npu")
        assert generator.device.type == "npu", generator.device
        assert generator("7 8 9", max_new_tokens=3, do_sample=False)[0]["generated_text"].startswith("7 8 9")
        assert pipeline("text-generation", model=llama(), tokenizer=tokenizer()).device.type == "npu"


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(*sys.argv[2:])
    else:
        main("transformers")
