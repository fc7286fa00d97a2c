"""diffusers: the networks of image and video models against the CPU, whole pipelines, schedulers, a step of training."""

from __future__ import annotations

import copy
import tempfile

import diffusers
import torch
from harness import case, close, main, on_npu

UNET = {
    "sample_size": 8, "in_channels": 4, "out_channels": 4, "layers_per_block": 1, "block_out_channels": (32, 64), "norm_num_groups": 8,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "cross_attention_dim": 32, "attention_head_dim": 8,
}  # fmt: skip
VAE = {
    "in_channels": 3, "out_channels": 3, "latent_channels": 4, "layers_per_block": 1, "block_out_channels": (32, 64), "norm_num_groups": 8,
    "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2,
}  # fmt: skip


def unet() -> diffusers.UNet2DConditionModel:
    torch.manual_seed(0)
    return diffusers.UNet2DConditionModel(**UNET).eval()


def both(model: torch.nn.Module, *inputs: torch.Tensor, **named: torch.Tensor) -> None:
    """The model's first result on the NPU against the CPU's."""
    moved = copy.deepcopy(model).npu()
    with torch.no_grad():
        found = moved(*(value.npu() for value in inputs), **{name: value.npu() for name, value in named.items()}, return_dict=False)[0]
        close(found, model(*inputs, **named, return_dict=False)[0], 1e-3)
    on_npu(moved)


@case("`UNet2DConditionModel`, `AutoencoderKL`, `AutoencoderKLCogVideoX`, DiT, SD3, Flux: the CPU's results")
def networks() -> None:
    both(unet(), torch.randn(2, 4, 8, 8), torch.tensor(7), torch.randn(2, 5, 32))
    torch.manual_seed(0)
    vae = diffusers.AutoencoderKL(**VAE).eval()
    both(vae, torch.randn(1, 3, 16, 16))
    transformer = diffusers.DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=2, sample_size=8, norm_num_groups=4).eval()
    both(transformer, torch.randn(2, 4, 8, 8), timestep=torch.tensor([3, 5]), class_labels=torch.tensor([1, 2]))
    sd3 = diffusers.SD3Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=4, joint_attention_dim=32,
        caption_projection_dim=32, pooled_projection_dim=16, out_channels=4,
    ).eval()  # fmt: skip
    both(sd3, torch.randn(2, 4, 8, 8), encoder_hidden_states=torch.randn(2, 6, 32), pooled_projections=torch.randn(2, 16), timestep=torch.tensor([3, 5]))
    flux = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=32,
        pooled_projection_dim=16, axes_dims_rope=(4, 4, 8),
    ).eval()  # fmt: skip
    both(
        flux, torch.randn(1, 16, 4), encoder_hidden_states=torch.randn(1, 5, 32), pooled_projections=torch.randn(1, 16),
        timestep=torch.tensor([0.3]), img_ids=torch.rand(16, 3), txt_ids=torch.zeros(5, 3),
    )  # fmt: skip
    video = diffusers.AutoencoderKLCogVideoX(
        block_out_channels=(8, 8, 8, 8), layers_per_block=1, norm_num_groups=2, latent_channels=4, temporal_compression_ratio=4
    ).eval()
    both(video, torch.randn(1, 3, 5, 16, 16))


@case("`DDPMPipeline`, `StableDiffusionPipeline` from embeddings, fp16, `enable_model_cpu_offload`, attention slicing, VAE tiling")
def pipelines() -> None:
    torch.manual_seed(0)
    net = diffusers.UNet2DModel(sample_size=8, block_out_channels=(32, 64), norm_num_groups=8, layers_per_block=1, down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    pipe = diffusers.DDPMPipeline(net, diffusers.DDPMScheduler()).to("npu")
    pipe.set_progress_bar_config(disable=True)
    cpu = diffusers.DDPMPipeline(copy.deepcopy(net).cpu(), diffusers.DDPMScheduler())
    cpu.set_progress_bar_config(disable=True)
    images = [one(num_inference_steps=3, generator=torch.Generator("cpu").manual_seed(5), output_type="np").images for one in (pipe, cpu)]
    on_npu(pipe.unet)
    assert abs(images[0] - images[1]).max() < 1e-3
    for half, offload in ((False, False), (True, False), (False, True)):
        stable = diffusers.StableDiffusionPipeline(
            diffusers.AutoencoderKL(**VAE), None, None, unet(), diffusers.DPMSolverMultistepScheduler(), None, None, requires_safety_checker=False
        )
        stable.set_progress_bar_config(disable=True)
        dtype = torch.float16 if half else torch.float32
        stable.to(dtype)
        if offload:
            stable.enable_model_cpu_offload(device="npu")
        else:
            stable.to("npu")
            stable.enable_attention_slicing()
            stable.vae.enable_tiling()
        prompt = torch.randn(1, 5, 32).to("npu", dtype)
        latents = stable(prompt_embeds=prompt, negative_prompt_embeds=prompt, height=16, width=16, num_inference_steps=3, output_type="latent").images
        on_npu(latents)
        assert stable(prompt_embeds=prompt, negative_prompt_embeds=prompt, height=16, width=16, num_inference_steps=2, output_type="np").images.shape == (1, 16, 16, 3)


@case("`set_attention_backend(\"_native_npu\")`, `AttnProcessorNPU`")
def attention() -> None:
    from diffusers.models.attention_processor import AttnProcessorNPU

    inputs = torch.randn(2, 4, 8, 8), torch.tensor(7), torch.randn(2, 5, 32)
    with torch.no_grad():
        wanted = unet()(*inputs)[0]
        net = unet().npu()
        net.set_attn_processor(AttnProcessorNPU())
        found = net.half()(*(value.npu().half() if value.is_floating_point() else value.npu() for value in inputs))[0]
        close(found, wanted, 2e-2)
        torch.manual_seed(0)
        options = {"patch_size": 1, "in_channels": 4, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16, "num_attention_heads": 2, "joint_attention_dim": 32, "pooled_projection_dim": 16, "axes_dims_rope": (4, 4, 8)}
        flux = diffusers.FluxTransformer2DModel(**options).eval().bfloat16().npu()
        named = {
            "hidden_states": torch.randn(1, 16, 4), "encoder_hidden_states": torch.randn(1, 5, 32), "pooled_projections": torch.randn(1, 16),
            "timestep": torch.tensor([0.3]), "img_ids": torch.rand(16, 3), "txt_ids": torch.zeros(5, 3),
        }  # fmt: skip
        named = {name: value.to("npu", torch.bfloat16) for name, value in named.items()}
        wanted = flux(**named)[0]
        flux.set_attention_backend("_native_npu")
        close(flux(**named)[0], wanted.cpu(), 3e-2)


@case("schedulers: DDIM, Euler, ancestral Euler, Heun, DPM++, UniPC, LCM, flow matching, with tensors on the NPU")
def schedulers() -> None:
    names = ("DDIM", "EulerDiscrete", "EulerAncestralDiscrete", "HeunDiscrete", "DPMSolverMultistep", "UniPCMultistep", "LCM", "FlowMatchEulerDiscrete")
    for name in names:
        results = []
        for device in ("cpu", "npu"):
            scheduler = getattr(diffusers, f"{name}Scheduler")()
            scheduler.set_timesteps(4, device=device)
            torch.manual_seed(3)
            sample = torch.randn(1, 4, 8, 8).to(device)
            generator = torch.Generator("cpu").manual_seed(4)
            for step in scheduler.timesteps:
                scaled = scheduler.scale_model_input(sample, step) if hasattr(scheduler, "scale_model_input") else sample
                options = {"generator": generator} if name in ("EulerAncestralDiscrete", "LCM") else {}
                sample = scheduler.step(scaled * 0.1, step, sample, **options).prev_sample
            results.append(sample)
        close(results[1], results[0], 1e-3)


@case("training: noise prediction with EMA, gradient checkpointing, save and load")
def training() -> None:
    from diffusers.training_utils import EMAModel

    net = unet().npu().train()
    net.enable_gradient_checkpointing()
    average = EMAModel(net.parameters(), decay=0.9)
    average.to("npu")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    noise_scheduler = diffusers.DDPMScheduler()
    torch.manual_seed(0)
    clean, noise, text = torch.randn(4, 4, 8, 8).npu(), torch.randn(4, 4, 8, 8).npu(), torch.randn(4, 5, 32).npu()
    steps = torch.tensor([10, 200, 500, 900]).npu()
    losses = []
    for _ in range(6):
        loss = torch.nn.functional.mse_loss(net(noise_scheduler.add_noise(clean, noise, steps), steps, text).sample, noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.step(net.parameters())
        losses.append(loss.item())
    assert losses[-1] < losses[0], losses
    on_npu(net)
    with tempfile.TemporaryDirectory() as folder:
        net.save_pretrained(folder)
        on_npu(diffusers.UNet2DConditionModel.from_pretrained(folder, device_map="npu"))


if __name__ == "__main__":
    main("diffusers")
