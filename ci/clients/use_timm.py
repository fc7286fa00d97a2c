"""timm: models of its families train and evaluate as on the CPU, with its own optimizers, losses, averages and schedules."""

from __future__ import annotations

import timm
import timm.data
import timm.loss
import timm.optim
import timm.scheduler
import timm.utils
import torch
from harness import case, close, main, on_npu

CONVOLUTIONAL = ("resnet18", "resnetv2_50", "efficientnet_b0", "mobilenetv3_small_050", "regnetx_002", "convnext_atto", "ghostnet_050", "nf_resnet26")
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
