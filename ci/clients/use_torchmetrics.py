"""torchmetrics: metrics whose states and updates are on the NPU, against the CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch
import torchmetrics
from harness import case, main, on_npu, ranks
from torchmetrics import Metric, classification, image, regression, retrieval, text


def compare(metric: Metric, *inputs: torch.Tensor) -> None:
    """Two updates on the CPU and on the NPU, the same result; then merged and reset."""
    wanted = metric.clone()
    found = metric.clone().to("npu")
    for shift in (0, 1):
        wanted.update(*(value.roll(shift, 0) for value in inputs))
        found.update(*(value.roll(shift, 0).npu() for value in inputs))
    for here, there in zip(flat(found.compute()), flat(wanted.compute())):
        on_npu(here)
        torch.testing.assert_close(here.cpu(), there, rtol=1e-4, atol=1e-4)
    found.reset()


def flat(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    else:
        for item in value.values() if isinstance(value, dict) else value:
            yield from flat(item)


@case("classification: accuracy, F1, AUROC, average precision, confusion matrix, calibration, ROC, kappa, MCC")
def classes() -> None:
    torch.manual_seed(0)
    scores, target = torch.randn(40, 5).softmax(1), torch.randint(0, 5, (40,))
    options = {"num_classes": 5}
    for name in ("Accuracy", "F1Score", "AUROC", "AveragePrecision", "ConfusionMatrix", "CalibrationError", "ROC", "CohenKappa", "MatthewsCorrCoef"):
        extra = {"n_bins": 5} if name == "CalibrationError" else {"thresholds": 20} if name == "ROC" else {}
        compare(getattr(classification, f"Multiclass{name}")(**options, **extra), scores, target)
    compare(classification.BinaryAUROC(), scores[:, 0], target.clamp(max=1))
    compare(classification.MultilabelF1Score(5), scores, (scores.roll(1, 0) > 0.2).long())


@case("regression, images, retrieval, perplexity, aggregation")
def others() -> None:
    torch.manual_seed(0)
    found, target = torch.randn(30), torch.randn(30)
    for name in ("MeanSquaredError", "MeanAbsoluteError", "R2Score", "PearsonCorrCoef", "SpearmanCorrCoef", "ExplainedVariance", "ConcordanceCorrCoef"):
        compare(getattr(regression, name)(), found, target)
    pictures = torch.rand(2, 3, 32, 32), torch.rand(2, 3, 32, 32)
    compare(image.StructuralSimilarityIndexMeasure(data_range=1.0), *pictures)
    compare(image.PeakSignalNoiseRatio(data_range=1.0), *pictures)
    compare(retrieval.RetrievalMAP(), found, target > 0, torch.randint(0, 4, (30,)))
    compare(text.Perplexity(), torch.randn(2, 6, 9), torch.randint(0, 9, (2, 6)))
    compare(torchmetrics.MeanMetric(), found)


@case("`MetricCollection`, synchronised between 2 processes on hccl")
def synchronised() -> None:
    assert ranks("use_torchmetrics.py", "worker").count("worker on npu") == 2


def worker() -> None:
    torch.distributed.init_process_group("hccl")
    rank = torch.distributed.get_rank()
    torch.npu.set_device(rank)
    metrics = torchmetrics.MetricCollection([classification.BinaryAccuracy(), classification.BinaryF1Score()]).to("npu")
    metrics.update(torch.full((10,), 0.9).npu(), torch.full((10,), rank).npu())
    result = metrics.compute()["BinaryAccuracy"]
    on_npu(result)
    assert result.item() == 0.5, result
    print("worker on npu", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        worker()
    else:
        main("torchmetrics")
