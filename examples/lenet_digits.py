"""Trains LeNet on scikit-learn's handwritten digits and tests it: the program behind ci/demo.sh.

    python examples/lenet_digits.py [--device npu|cpu] [--epochs N] [--plot FILE] [--amp O0|O1|O2|fp16|bf16] [--log-every N]
    torchrun --nproc_per_node=2 examples/lenet_digits.py      one process a device, each with a part of every batch

The images (1797 of 8x8) come with scikit-learn: nothing is downloaded. Every device starts from the same weights and
sees the same batches. Exits with 1 when the test accuracy is below 0.95.
"""
import argparse
import os
import sys
import time

import torch
from mixed_precision import KINDS, Precision
from models.lenet import LeNet
from pace import Pace
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

REQUIRED_ACCURACY = 0.95


def load_digits(seed: int):
    """(train, test) of images [N, 1, 32, 32] in 0..1 and their labels; a fifth is for the test."""
    from sklearn.datasets import load_digits as bundled
    from sklearn.model_selection import train_test_split
    digits = bundled()
    images = torch.from_numpy(digits.images).float().unsqueeze(1) / 16
    images = F.interpolate(images, size=(32, 32), mode="bilinear", align_corners=False)
    labels = torch.from_numpy(digits.target).long()
    train, test = train_test_split(range(len(labels)), test_size=0.2, random_state=seed, stratify=digits.target)
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def ranks() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    return os.environ.get("RANK", "0") == "0"


class Progress:
    """A bar on a terminal, one line an epoch elsewhere."""

    def __init__(self, epochs: int, steps: int):
        self.epochs, self.steps, self.live = epochs, steps, sys.stdout.isatty()
        self.silent = not is_first()
        self.start = time.perf_counter()

    def show(self, epoch: int, step: int, text: str) -> None:
        last = step == self.steps
        if self.silent or not (self.live or last):
            return
        filled = 24 * step // self.steps
        line = f"epoch {epoch:2}/{self.epochs} [{'#' * filled:<24}] {step:3}/{self.steps}  {text}"
        if last:
            line += f"  {time.perf_counter() - self.start:.1f} s"
        print(("\r" if self.live else "") + line, end="\n" if last else "", flush=True)


def evaluate(model, loader, device, precision) -> float:
    """Share of images classified rightly."""
    model.eval()
    right = torch.zeros((), dtype=torch.long, device=device)
    with torch.no_grad(), precision.region():
        for images, labels in loader:
            right += (model(images.to(device)).argmax(1) == labels.to(device)).sum()
    model.train()
    return right.item() / len(loader.dataset)


def train(model, optimizer, loader, test_loader, device, epochs: int, precision, log_every: int):
    """Trains in place; returns the loss of each step and the test accuracy after each epoch."""
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=6e-3, total_steps=epochs * len(loader))
    progress, pace = Progress(epochs, len(loader)), Pace(log_every if is_first() else 0, epochs * len(loader))
    losses, accuracies = [], []
    for epoch in range(1, epochs + 1):
        if ranks() > 1:
            loader.sampler.set_epoch(epoch)
        for step, (images, labels) in enumerate(loader, 1):
            pace.read()
            images = images.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            with precision.region():
                loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            precision.step(loss, optimizer)
            schedule.step()
            losses.append(loss.item())
            text = f"loss {losses[-1]:.4f}"
            pace.done(len(labels) * ranks(), f"epoch {epoch:2}/{epochs}  {step:3}/{len(loader)}  {text}")
            if step == len(loader):
                accuracies.append(evaluate(model, test_loader, device, precision))
                text += f"  test accuracy {accuracies[-1]:.3f}"
                pace.resume()
            progress.show(epoch, step, text)
    return losses, accuracies


def plot(path: str, losses, accuracies, title: str) -> None:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.5))
    left.plot(range(1, len(losses) + 1), losses, linewidth=1)
    left.set(xlabel="step", ylabel="training loss", yscale="log")
    right.plot(range(1, len(accuracies) + 1), accuracies, marker="o", markersize=3)
    right.axhline(REQUIRED_ACCURACY, color="grey", linewidth=1, linestyle="--")
    right.set(xlabel="epoch", ylabel="test accuracy")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    print(f"curves: {path}")


def open_device(name: str):
    """(device, how it is called in the report)."""
    if name == "cpu":
        return torch.device("cpu"), "cpu"
    import torch_npu
    runtime = torch_npu.runtime_info()["runtime"]
    device = torch.device("npu", int(os.environ.get("LOCAL_RANK", "0")))
    torch.npu.set_device(device)
    return device, f"{device} ({runtime}, {torch.npu.get_device_name(device)})"


def distribute(model, train_set, options, device):
    """The model as DistributedDataParallel, and a loader of this rank's part of each batch."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data.distributed import DistributedSampler
    dist.init_process_group("hccl" if device.type == "npu" else "gloo")
    sampler = DistributedSampler(train_set, seed=options.seed)
    loader = DataLoader(train_set, max(1, options.batch_size // ranks()), sampler=sampler, pin_memory=device.type == "npu")
    return DistributedDataParallel(model, device_ids=[device] if device.type == "npu" else None), loader


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("npu", "cpu"), default="npu")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", metavar="FILE", help="save the curves of loss and accuracy as a picture")
    parser.add_argument("--amp", choices=KINDS, help="mixed precision: a level of Apex, or autocast in that type")
    parser.add_argument("--log-every", type=int, metavar="N",
                        help="print costs, speed and ETA every N iterations (10 with --amp, else never)")
    options = parser.parse_args()
    if options.epochs < 1 or options.batch_size < 1:
        parser.error("--epochs and --batch-size are at least 1")
    if options.log_every is None:
        options.log_every = 10 if options.amp else 0

    device, title = open_device(options.device)
    torch.manual_seed(options.seed)
    train_set, test_set = load_digits(options.seed)
    model = LeNet(image_size=32).to(device)
    if is_first():
        print(f"LeNet on {title}: {sum(p.numel() for p in model.parameters())} parameters, "
              f"{len(train_set)} images to train, {len(test_set)} to test")
    precision = Precision(options.amp, device)
    model, optimizer = precision.prepare(model, torch.optim.Adam(model.parameters()))   # before the model is wrapped
    if ranks() > 1:
        model, loader = distribute(model, train_set, options, device)
    else:
        loader = DataLoader(train_set, options.batch_size, shuffle=True, pin_memory=options.device == "npu",
                            generator=torch.Generator().manual_seed(options.seed))
    test_loader = DataLoader(test_set, batch_size=512)
    losses, accuracies = train(model, optimizer, loader, test_loader, device, options.epochs, precision, options.log_every)
    if options.plot and is_first():
        plot(options.plot, losses, accuracies, f"LeNet on {title}")
    if ranks() > 1:
        torch.distributed.destroy_process_group()
        title = f"{ranks()} ranks, the first on {title}"
    if is_first():
        print(f"test accuracy: {accuracies[-1]:.3f} on {title}")
    return 0 if accuracies[-1] >= REQUIRED_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
