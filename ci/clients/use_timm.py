"""timm: models of its families train and evaluate as on the CPU, with its own optimizers, losses, averages and schedules."""

from __future__ import annotations

import copy

import timm
import timm.data
import timm.loss
import timm.optim
import timm.scheduler
import timm.utils
import torch
from harness import case, close, main, on_npu

CONVOLUTIONAL = ("resnet18", "resnetv2_50", "efficientnet_b0", "mobilenetv3_small_050", "regnetx_002", "convnext_atto", "ghostnet_050", "nf_resnet26")
# Trained for a step each, on pictures of 64 x 64: of each family a small one, with fewer layers.
RELATIVES: dict[str, dict[str, object]] = {
    "vit_tiny_patch16_224": {"depth": 3}, "deit3_small_patch16_224": {"depth": 2},
    "eva02_tiny_patch14_224": {"depth": 3}, "swin_tiny_patch4_window7_224": {"depths": (1, 2, 1, 1), "embed_dim": 48, "num_heads": (2, 4, 8, 16)},
    "swinv2_cr_tiny_224": {"depths": (1, 2, 1, 1), "embed_dim": 48, "num_heads": (2, 4, 8, 16)}, "xcit_nano_12_p16_224": {"depth": 3},
    "cait_xxs24_224": {"depth": 3}, "maxvit_rmlp_pico_rw_256": {}, "coatnet_pico_rw_224": {}, "levit_128s": {},
    "convit_tiny": {"depth": 4}, "pit_ti_224": {}, "efficientformerv2_s0": {}, "visformer_tiny": {}, "gcvit_xxtiny": {},
}  # fmt: skip
# timm's names for optimizers of libraries that are for CUDA alone: bitsandbytes' and apex'.
ELSEWHERE = ("bnb*", "fused*")
# Nothing to compare these with: AdaHessian and Kron draw random numbers on the parameters' device. Kron compiles its steps, too.
RANDOM = ("adahessian", "kron", "kronc", "kronw")
ATTENTIVE = {"vit_tiny_patch16_224": 64, "deit_tiny_patch16_224": 64, "mixer_s32_224": 224, "mobilevit_xxs": 64, "coat_lite_tiny": 224}


def compare(name: str, size: int, **options: object) -> None:
    """Results, and the gradient of the input, against the CPU's."""
    torch.manual_seed(0)
    model, x = timm.create_model(name, num_classes=10, **options).eval(), torch.randn(2, 3, size, size)
    results = []
    for device in ("cpu", "npu"):
        given = x.to(device, copy=True).requires_grad_()
        out = model.to(device)(given)
        torch.nn.functional.cross_entropy(out, torch.tensor([1, 2], device=device)).backward()
        results.append((out, given.grad))
    on_npu(model)
    for cpu, npu in zip(*results):
        close(npu, cpu, 1e-3)


@case("convolutional networks: ResNet, ResNetV2, EfficientNet, MobileNetV3, RegNet, ConvNeXt, GhostNet, NFNet; the CPU's results and gradients")
def convolutional() -> None:
    for name in CONVOLUTIONAL:
        compare(name, 64)


@case("Transformers and mixers: ViT, DeiT, Swin, MLP-Mixer, MobileViT, CoaT; the CPU's results and gradients")
def attentive() -> None:
    for name, size in ATTENTIVE.items():
        compare(name, size, **({"img_size": size} if name.startswith(("vit", "deit")) else {}))
    compare("swin_tiny_patch4_window7_224", 112, img_size=112)


def step(model: torch.nn.Module, device: str, dtype: torch.dtype, x: torch.Tensor) -> torch.Tensor:
    """A step of SGD in training mode, in float64 or float32 or under autocast in `dtype`: the loss and all gradients. They are float32
    where that is not, and the parameters must be finite after it."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    model = copy.deepcopy(model).to(device, wide).train()
    optimizer = timm.optim.create_optimizer_v2(model, opt="momentum", lr=0.1, weight_decay=0.0)
    with torch.autocast(device, torch.bfloat16 if dtype == wide else dtype, enabled=dtype != wide):
        out = model(x.to(device, wide))
    loss = torch.nn.functional.cross_entropy(out.to(wide), torch.tensor([1, 2, 3, 4], device=device))  # the CPU's autocast takes it in float32
    loss.backward()
    optimizer.step()
    gradients = torch.cat([loss.detach().view(1), *(one.grad.flatten() for one in model.parameters() if one.grad is not None)])
    if device == "npu":
        on_npu(model, loss, gradients)
    assert all(one.isfinite().all() for one in model.parameters())
    return gradients.cpu()


def apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Length of the difference by that of what is wanted."""
    return ((found - wanted).norm() / wanted.norm()).item()


@case("a step of training of 15 Transformers, ViT and Swin to LeViT, in float32 and under autocast: gradients as near to float64's as the CPU's")
def steps() -> None:
    for name, options in RELATIVES.items():
        torch.manual_seed(0)
        model = timm.create_model(name, num_classes=10, img_size=64, **options)
        for module in model.modules():  # nothing random, so that both devices compute the same
            if isinstance(module, timm.layers.DropPath):
                module.drop_prob = 0.0
        x = torch.randn(4, 3, 64, 64)
        told, wanted = [], step(model, "cpu", torch.float64, x)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            told += [apart(step(model, device, dtype, x), wanted) for device in ("npu", "cpu")]
            assert told[-2] < 1.5 * told[-1] + 1e-6, (name, dtype, told)
        print(name, *(f"{value:.1e}" for value in told), flush=True)


@case("every optimizer of `timm.optim` but those of apex and bitsandbytes: three steps of a small network, the CPU's parameters")
def optimizers() -> None:
    for name in timm.optim.list_optimizers(exclude_filters=list(ELSEWHERE)):
        on_both, losses = [], []
        for device in ("npu",) if name in RANDOM else ("cpu", "npu"):
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10)).to(device)
            x, y = torch.randn(16, 3, 8, 8).to(device), (torch.arange(16) % 10).to(device)
            optimizer = timm.optim.create_optimizer_v2(model, opt=name, lr=1e-2, weight_decay=0.01)
            for _ in range(3):
                loss = torch.nn.functional.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward(create_graph=getattr(optimizer, "is_second_order", False))
                optimizer.step()
                losses.append(loss.item())
            on_both.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
        on_npu(model)
        print(name, losses, flush=True)
        if name in RANDOM:
            assert losses[-1] < losses[0], (name, losses)
        else:
            close(on_both[1], on_both[0], 1e-3)


@case("training: AdamW, Lamb, Lion and others of `timm.optim`, mixup, label smoothing, EMA, gradient clipping, cosine schedule, AMP")
def training() -> None:
    for optimizer_name in ("adamw", "lamb", "lion", "adafactor", "nadamw", "sgd"):
        torch.manual_seed(0)
        model = timm.create_model("resnet18", num_classes=10).npu()
        optimizer = timm.optim.create_optimizer_v2(model, opt=optimizer_name, lr=1e-3, weight_decay=0.01)
        schedule = timm.scheduler.CosineLRScheduler(optimizer, t_initial=4, warmup_t=1)
        average, scaler, blur = timm.utils.ModelEmaV3(model, decay=0.9), torch.amp.GradScaler("npu"), timm.data.Mixup(mixup_alpha=0.2, num_classes=10)
        x, y = torch.randn(8, 3, 64, 64).npu(), torch.arange(8).npu()
        for step in range(3):
            mixed, target = blur(x, y.clone()) if step else (x, torch.nn.functional.one_hot(y, 10).float())
            with torch.autocast("npu", torch.float16):
                loss = timm.loss.SoftTargetCrossEntropy()(model(mixed), target)
            on_npu(loss)
            assert loss.isfinite(), (optimizer_name, step)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            timm.utils.dispatch_clip_grad(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            average.update(model)
            schedule.step(step)
        on_npu(average)
        model.eval()
        with torch.no_grad():
            accuracy, _ = timm.utils.accuracy(model(x), y, topk=(1, 5))
        on_npu(accuracy)
        assert timm.loss.LabelSmoothingCrossEntropy()(model(x), y).isfinite()


if __name__ == "__main__":
    main("timm", "torchvision")
