"""A Llama of two layers with random weights and the tokenizer of its 97 words, which are the numbers 0 to 96."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = 97
SMALL = {"vocab_size": WORDS, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}


def llama(**options: object) -> LlamaForCausalLM:
    """The same weights at every call. Word 0 pads, 1 begins and 2 ends."""
    torch.manual_seed(0)
    config = LlamaConfig(**SMALL, num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2, **options)
    return LlamaForCausalLM(config).eval()


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({str(i): i for i in range(WORDS)}, unk_token="0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="0", bos_token="1", eos_token="2", unk_token="0",
        chat_template="{% for message in messages %}{{ message['content'] }} {% endfor %}",
    )  # fmt: skip


def counting(start: int, length: int = 8) -> str:
    """A text that a model can learn: numbers in steps of three."""
    return " ".join(str(3 + (start + 3 * i) % (WORDS - 3)) for i in range(length))
