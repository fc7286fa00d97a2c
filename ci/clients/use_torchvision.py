"""torchvision on the NPU: its operators against its own kernels for the CPU, its models, and the programs of pytorch/examples that import
it, unmodified. Where torch has no CUDA, ci/clients.sh lets its wheel be loaded all the same (cuda_stand_ins.py)."""

from __future__ import annotations

import io
import re
import shutil
import struct
import tempfile
from pathlib import Path

import torch
import torchvision
from harness import case, close, main, on_npu
from programs import TREES, program, watched, write
from torchvision import ops


def boxes(count: int, size: float = 40.0) -> torch.Tensor:
    corner = torch.rand(count, 2) * size
    return torch.cat([corner, corner + 1 + torch.rand(count, 2) * size / 2], 1)


@case("`ops.nms`, `batched_nms`: the CPU's boxes, one for one")
def suppression() -> None:
    found, scores, classes = boxes(3000, 200.0), torch.rand(3000), torch.randint(0, 5, (3000,))
    for threshold in (0.1, 0.3, 0.5, 0.7):
        kept = ops.nms(found.npu(), scores.npu(), threshold)
        on_npu(kept)
        assert torch.equal(kept.cpu(), ops.nms(found, scores, threshold))
    assert torch.equal(ops.batched_nms(found.npu(), scores.npu(), classes.npu(), 0.5).cpu(), ops.batched_nms(found, scores, classes, 0.5))


def on_both(operator, *tensors: torch.Tensor) -> None:
    """Results and gradients of the NPU against the CPU's."""
    results = []
    for device in ("cpu", "npu"):
        given = [tensor.to(device, copy=True).requires_grad_() for tensor in tensors]
        out = operator(*given)
        (out * torch.linspace(-1, 1, out.numel(), device=device).view_as(out)).sum().backward()
        results.append([out, *(tensor.grad for tensor in given)])
    for cpu, npu in zip(*results):
        close(npu, cpu, 1e-4)


@case("`ops.roi_align` with gradients: aligned and not, fixed and adaptive samples, float16 under autocast")
def regions() -> None:
    maps, rois = torch.randn(2, 4, 24, 30), torch.cat([torch.randint(0, 2, (20, 1)).float(), boxes(20)], 1)
    for aligned in (False, True):
        for samples in (-1, 2):
            on_both(lambda x, a=aligned, s=samples: ops.roi_align(x, rois.to(x.device), (3, 5), 0.5, s, a), maps)
    with torch.autocast("npu", torch.float16):
        found = ops.roi_align(maps.npu().half(), rois.npu(), (3, 5), 0.5, 2, True)
    assert found.dtype == torch.float16
    close(found, ops.roi_align(maps.half().float(), rois, (3, 5), 0.5, 2, True), 2e-3)


@case("`ops.deform_conv2d` with gradients, with and without a mask")
def deformed() -> None:
    x, weight, bias, offset, mask = torch.randn(2, 4, 9, 8), torch.randn(6, 2, 3, 3), torch.randn(6), torch.randn(2, 36, 9, 8), torch.rand(2, 18, 9, 8)
    on_both(lambda *t: ops.deform_conv2d(t[0], t[1], t[2], t[3], padding=1), x, offset, weight, bias)
    on_both(lambda *t: ops.deform_conv2d(t[0], t[1], t[2], t[3], padding=1, mask=t[4]), x, offset, weight, bias, mask)


@case("`models`: resnet18, mobilenet_v3_small, shufflenet, densenet121, vit, swin, convnext: the CPU's results")
def classification() -> None:
    for name in ("resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5", "densenet121", "vit_b_32", "swin_t", "convnext_tiny"):
        model, x = torchvision.models.get_model(name, num_classes=10).eval(), torch.randn(1, 3, 224, 224)
        with torch.no_grad():
            cpu = model(x)
            close(model.npu()(x.npu()), cpu, 1e-3)


@case("`models.detection`: Faster R-CNN trains, and finds what the CPU finds")
def detection() -> None:
    torch.manual_seed(0)
    model = torchvision.models.get_model("fasterrcnn_mobilenet_v3_large_320_fpn", weights=None, weights_backbone=None, num_classes=4, min_size=96, max_size=128)
    image = torch.rand(3, 96, 128)
    model.eval()
    with torch.no_grad():
        cpu, npu = model([image])[0], model.npu()([image.npu()])[0]
    assert len(cpu["boxes"]) == len(npu["boxes"]) > 0
    close(npu["boxes"], cpu["boxes"], 1e-2)
    close(npu["scores"], cpu["scores"], 1e-3)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    target = {"boxes": torch.tensor([[10.0, 10.0, 60.0, 50.0], [30.0, 20.0, 90.0, 90.0]]).npu(), "labels": torch.tensor([1, 2]).npu()}
    for _ in range(2):
        losses = model([image.npu()], [target])
        on_npu(*losses.values())
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()


@case("`transforms.v2` of images on the NPU")
def transforms() -> None:
    from torchvision.transforms import v2

    image = torch.randint(0, 256, (3, 40, 50), dtype=torch.uint8)
    chain = v2.Compose([v2.CenterCrop(32), v2.ToDtype(torch.float32, scale=True), v2.Resize(24, antialias=True), v2.Grayscale(3),
                        v2.Normalize([0.5] * 3, [0.5] * 3)])  # fmt: skip
    close(chain(image.npu()), chain(image), 1e-4)


def pictures() -> dict[str, bytes]:
    """Two classes of pictures that differ in colour, for ImageFolder."""
    from PIL import Image

    files = {}
    for part, count in (("train", 16), ("val", 4)):
        for kind, colour in (("red", (220, 30, 30)), ("blue", (30, 30, 220))):
            for i in range(count):
                data = io.BytesIO()
                Image.new("RGB", (64 + i, 64), tuple(c + i for c in colour)).save(data, "png")
                files[f"pictures__{part}__{kind}__{i}_DOT_png"] = data.getvalue()
    return files


@case("pytorch/examples `imagenet`: trains, validates, saves and resumes on pictures, and trains on `--dummy`")
def imagenet() -> None:
    with tempfile.TemporaryDirectory() as place:
        here = Path(place) / "imagenet"
        shutil.copytree(TREES / "examples" / "imagenet", here)
        write(here, pictures())
        options = ("main.py", "-a", "resnet18", "-b", "8", "-j", "0", "-p", "1", "--lr", "0.01")
        said = watched(here, *options, "--epochs", "1", "pictures")
        assert "Using device: npu" in said and re.search(r"\* +Acc@1", said), said[-2000:]
        said = watched(here, *options, "--epochs", "2", "--resume", "checkpoint.pth.tar", "pictures")
        assert "loaded checkpoint 'checkpoint.pth.tar' (epoch 1)" in said and "Epoch: [1]" in said, said[-2000:]
        watched(here, *options, "--epochs", "1", "--dummy", steps=3)


@case("pytorch/examples `dcgan --dataset fake`")
def dcgan() -> None:
    said = program("examples", "dcgan", "main.py", "--dataset", "fake", "--accel", "--dry-run", "--workers", "0", "--batchSize", "8", "--ngf", "8", "--ndf", "8")
    assert "Using device: npu" in said and "Loss_D" in said, said[-2000:]


def digits() -> dict[str, bytes]:
    """MNIST's four files, small: of each picture the label's row is white."""
    files = {}
    for name, count in (("train", 128), ("t10k", 64)):
        labels = bytes(i % 10 for i in range(count))
        images = b"".join(bytes(255 if row == 2 * label else 0 for row in range(28) for _ in range(28)) for label in labels)
        files[f"{name}-images-idx3-ubyte"] = struct.pack(">4i", 2051, count, 28, 28) + images
        files[f"{name}-labels-idx1-ubyte"] = struct.pack(">2i", 2049, count) + labels
    return files


@case("pytorch/examples `mnist`, `mnist_rnn`, `vae`, `siamese_network`, on generated digits")
def mnist() -> None:
    epoch = ("--epochs", "1", "--batch-size", "32")
    for folder, options in (("mnist", epoch), ("mnist_rnn", (*epoch, "--accel")), ("vae", epoch), ("siamese_network", (*epoch, "--dry-run"))):
        with tempfile.TemporaryDirectory() as place:
            here = Path(place) / folder
            shutil.copytree(TREES / "examples" / folder, here)
            (here / "results").mkdir(exist_ok=True)
            raw = Path(place) / "data" / "MNIST" / "raw"
            raw.mkdir(parents=True)
            for name, data in digits().items():
                (raw / name).write_bytes(data)
            watched(here, "main.py", *options)


if __name__ == "__main__":
    main("torchvision")
