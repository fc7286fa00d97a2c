"""Model families of `transformers`, small and with random weights: they train and generate as on the CPU, all on the NPU."""
import copy

import pytest
import torch

import torch_npu  # noqa: F401

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("no_fallback")

STEPS = 5
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99,
         "max_position_embeddings": 64}
GROUPED = {**SIZES, "num_key_value_heads": 2}
SIDES = {f"{side}_{what}": value for side in ("encoder", "decoder")
         for what, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))}
PICTURES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32,
            "patch_size": 8}
DECODERS = {
    "Llama": GROUPED,
    "Mistral": {**GROUPED, "sliding_window": 4},
    "Mixtral": {**GROUPED, "num_local_experts": 4},
    "Qwen3": {**GROUPED, "head_dim": 8},
    "Gemma2": {**GROUPED, "head_dim": 8},
    "DeepseekV3": {**SIZES, "n_routed_experts": 8, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "q_lora_rank": 16,
                   "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "num_key_value_heads": 4,
                   "moe_intermediate_size": 16, "first_k_dense_replace": 1},
    "Mamba": {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 99, "state_size": 8},
    "Bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99},
}
OTHERS = {
    "T5ForConditionalGeneration": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 99,
                                   "decoder_start_token_id": 0},
    "BartForConditionalGeneration": {"d_model": 32, "vocab_size": 99, "max_position_embeddings": 64, **SIDES},
    "WhisperForConditionalGeneration": {"d_model": 32, "vocab_size": 99, "num_mel_bins": 8, "max_source_positions": 20,
                                        "max_target_positions": 32, "pad_token_id": 0, "decoder_start_token_id": 1, **SIDES},
    "DebertaV2ForMaskedLM": {**SIZES, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "ViTForImageClassification": PICTURES,
    "SwinForImageClassification": {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2],
                                   "window_size": 4},
    "ConvNextForImageClassification": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
}


def make(name, settings):
    torch.manual_seed(0)
    model = getattr(transformers, name)
    # Dropout would draw other numbers on another device; in eval mode there is none.
    return model(model.config_class(**settings)).eval()


def batch(model):
    """A few tokens, the second row padded; pictures or sounds where the model takes these."""
    tokens = torch.randint(3, 99, (2, 10))
    if model.main_input_name == "pixel_values":
        return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([0, 1])}
    if model.main_input_name == "input_features":
        return {"input_features": torch.randn(2, 8, 40), "labels": tokens}
    mask = torch.ones_like(tokens)
    mask[1, 7:] = 0
    return {"input_ids": tokens, "attention_mask": mask, "labels": tokens}


def train(model, inputs, device):
    model = copy.deepcopy(model).to(device)
    inputs = {name: value.to(device) for name, value in inputs.items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def compare(model):
    inputs = batch(model)
    cpu, expected = train(model, inputs, "cpu")
    npu, found = train(model, inputs, "npu")
    assert found == pytest.approx(expected, rel=1e-4)
    assert expected[-1] < expected[0]
    return cpu, npu, inputs


@pytest.mark.parametrize("family", DECODERS)
def test_decoders_train_and_generate(family):
    cpu, npu, inputs = compare(make(f"{family}ForCausalLM", DECODERS[family]))
    prompt = inputs["input_ids"][:1]
    words = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    torch.testing.assert_close(npu.generate(prompt.npu(), **words).cpu(), cpu.generate(prompt, **words))


@pytest.mark.parametrize("name", OTHERS)
def test_others_train(name):
    compare(make(name, OTHERS[name]))
