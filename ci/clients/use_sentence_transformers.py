"""sentence-transformers: encode on the NPU it finds by itself, train with its Trainer, cross-encoders, similarity and search."""

from __future__ import annotations

import tempfile

import torch
from datasets import Dataset
from harness import case, close, main, on_npu
from sentence_transformers import (
    CrossEncoder,
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    losses,
    models as parts,
    util,
)
from small_llama import SMALL, counting, tokenizer
from transformers import BertConfig, BertForSequenceClassification, BertModel


def encoder(folder: str, **options: object) -> SentenceTransformer:
    torch.manual_seed(0)
    BertModel(BertConfig(**SMALL)).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    words = parts.Transformer(folder, max_seq_length=16)
    return SentenceTransformer(modules=[words, parts.Pooling(SMALL["hidden_size"])], **options)


TEXTS = [counting(i) for i in range(12)]


@case("`SentenceTransformer.encode` on the device it takes by itself, `similarity`, `semantic_search`, `community_detection`")
def encode() -> None:
    with tempfile.TemporaryDirectory() as folder:
        npu, cpu = encoder(folder), encoder(folder, device="cpu")
        assert npu.device.type == "npu", npu.device
        found = npu.encode(TEXTS, convert_to_tensor=True)
        wanted = cpu.encode(TEXTS, convert_to_tensor=True)
        close(found, wanted)
        close(npu.similarity(found, found), cpu.similarity(wanted, wanted))
        hits = [util.semantic_search(one[:2], one, top_k=3) for one in (found, wanted)]
        assert [[hit["corpus_id"] for hit in row] for row in hits[0]] == [[hit["corpus_id"] for hit in row] for row in hits[1]]
        assert util.community_detection(found, threshold=0.9, min_community_size=1)
        assert npu.encode(TEXTS, precision="int8").dtype.name == "int8"


@case("`SentenceTransformerTrainer` with contrastive losses, bf16")
def training() -> None:
    rows = Dataset.from_list([{"anchor": counting(i), "positive": counting(i + 3)} for i in range(24)])
    with tempfile.TemporaryDirectory() as folder:
        for loss in (losses.MultipleNegativesRankingLoss, losses.CachedMultipleNegativesRankingLoss):
            model = encoder(folder)
            options = {"max_steps": 6, "learning_rate": 1e-3, "per_device_train_batch_size": 8, "logging_steps": 1, "report_to": [], "save_strategy": "no"}
            arguments = SentenceTransformerTrainingArguments(folder, bf16=True, **options)
            trainer = SentenceTransformerTrainer(model, arguments, train_dataset=rows, loss=loss(model))
            trainer.train()
            seen = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
            assert len(seen) == 6 and seen[-1] < seen[0], seen
            on_npu(model)


@case("`CrossEncoder`: predict, rank")
def cross() -> None:
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        BertForSequenceClassification(BertConfig(**SMALL, num_labels=1)).save_pretrained(folder)
        tokenizer().save_pretrained(folder)
        npu, cpu = CrossEncoder(folder, max_length=32), CrossEncoder(folder, max_length=32, device="cpu")
        pairs = [(TEXTS[0], text) for text in TEXTS]
        close(npu.predict(pairs, convert_to_tensor=True), cpu.predict(pairs, convert_to_tensor=True))
        on_npu(npu.model)
        assert len(npu.rank(TEXTS[0], TEXTS)) == len(TEXTS)


if __name__ == "__main__":
    main("sentence-transformers")
