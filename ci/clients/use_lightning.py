"""Lightning with an accelerator "npu" that a program registers: fit, validate, predict, precision, checkpoints, two processes."""

from __future__ import annotations

import sys
import tempfile

import lightning
import torch
from harness import case, main, on_npu, ranks
from lightning.pytorch.accelerators import AcceleratorRegistry, NPUAccelerator


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        self.losses: list[float] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        on_npu(inputs)
        return self.net(inputs)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        inputs, target = batch
        on_npu(self, inputs)
        loss = torch.nn.functional.cross_entropy(self(inputs), target)
        self.log("loss", loss, sync_dist=True)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch: list[torch.Tensor], _: int) -> None:
        self.log("val", torch.nn.functional.cross_entropy(self(batch[0]), batch[1]), sync_dist=True)

    def predict_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        return self(batch[0])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def loader() -> torch.utils.data.DataLoader:
    torch.manual_seed(1)
    inputs = torch.randn(64, 8)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, inputs[:, :4].argmax(1)), batch_size=8)


def trainer(folder: str, **options: object) -> lightning.Trainer:
    common = {"max_epochs": 3, "logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "npu"}
    return lightning.Trainer(default_root_dir=folder, **{**common, **options})


def fit(**options: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model, run = Classifier(), trainer(folder, **options)
        assert isinstance(run.accelerator, NPUAccelerator), run.accelerator
        run.fit(model, loader(), loader())
        assert model.losses[-1] < model.losses[0], model.losses


@case("`Trainer(accelerator=\"npu\")`: fit, validate, predict, checkpoint, resume")
def one_device() -> None:
    assert "npu" in AcceleratorRegistry
    with tempfile.TemporaryDirectory() as folder:
        model, run = Classifier(), trainer(folder, devices=1)
        run.fit(model, loader(), loader())
        assert run.strategy.root_device == torch.device("npu", 0)
        assert model.losses[-1] < model.losses[0]
        assert run.validate(model, loader(), verbose=False)[0]["val"] < model.losses[0]
        assert len(run.predict(model, loader())) == 8  # the Trainer brings the results to the CPU
        again = trainer(folder, devices=1, max_epochs=4)
        again.fit(Classifier(), loader(), ckpt_path=run.checkpoint_callback.best_model_path, weights_only=False)
        assert again.global_step == 4 * 8


class Dtypes(lightning.Callback):
    """Notes the dtype of what the network computes."""

    def on_fit_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self.seen: set[torch.dtype] = set()
        module.net.register_forward_hook(lambda net, inputs, output: self.seen.add(output.dtype))


@case("`precision`: 16-mixed, bf16-mixed, bf16-true; clipping, accumulation")
def precision() -> None:
    for name, dtype in (("16-mixed", torch.float16), ("bf16-mixed", torch.bfloat16), ("bf16-true", torch.bfloat16)):
        watch = Dtypes()
        fit(devices=1, precision=name, gradient_clip_val=1.0, callbacks=[watch])
        assert watch.seen == {dtype}, (name, watch.seen)
    fit(devices=1, accumulate_grad_batches=2)


def fabric_training(**options: object) -> None:
    fabric = lightning.Fabric(accelerator="npu", devices=1, **options)
    fabric.launch()
    model = Classifier().net
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    losses = []
    for inputs, target in fabric.setup_dataloaders(loader()):
        on_npu(inputs, model)
        with fabric.autocast():
            product = inputs @ inputs.t()
            loss = torch.nn.functional.cross_entropy(model(inputs), target)
        assert not options or product.dtype == torch.bfloat16, f"autocast left {product.dtype}"
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0], losses


@case("`Fabric(accelerator=\"npu\")`, in float32 and `precision=\"bf16-mixed\"`")
def fabric() -> None:
    fabric_training()
    fabric_training(precision="bf16-mixed")


@case("`devices=2`, `strategy=\"ddp\"`: 2 processes on hccl under torchrun")
def ddp() -> None:
    assert ranks("use_lightning.py", "worker").count("worker on npu") == 2


@case("`ModelParallelStrategy`: FSDP2 over 2 processes on hccl under torchrun")
def sharded() -> None:
    assert ranks("use_lightning.py", "worker", "sharded").count("sharded on npu") == 2


@case(
    "`devices=2`, `strategy=\"fsdp\"`",
    theirs="`fsdp` (FSDP1) is for its CUDA accelerator alone; `ModelParallelStrategy` works",
    error="The strategy `fsdp` requires a GPU accelerator",
)
def fsdp1() -> None:
    with tempfile.TemporaryDirectory() as folder:
        trainer(folder, devices=1, strategy="fsdp")


class Sharded(Classifier):
    """Splits itself over the processes, as Lightning's manual has it."""

    def configure_model(self) -> None:
        from torch.distributed.fsdp import fully_shard

        fully_shard(self.net[0], mesh=self.device_mesh["data_parallel"])
        fully_shard(self.net, mesh=self.device_mesh["data_parallel"])


def sharded_worker() -> None:
    from lightning.pytorch.strategies import ModelParallelStrategy

    with tempfile.TemporaryDirectory() as folder:
        strategy = ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=1)
        model, run = Sharded(), trainer(folder, devices=2, strategy=strategy, enable_checkpointing=False)
        run.fit(model, loader())
        assert model.losses[-1] < model.losses[0], model.losses
        assert type(model.net[0].weight).__name__ == "DTensor", type(model.net[0].weight)
        on_npu(model.net[0].weight.to_local())
    assert torch.distributed.get_backend().endswith("hccl")
    print("sharded on npu", flush=True)


def worker() -> None:
    fit(devices=2)
    fit(devices=2, strategy="ddp")
    assert torch.distributed.get_backend() == "hccl"
    print("worker on npu", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        (sharded_worker if sys.argv[2:] == ["sharded"] else worker)()
    else:
        main("lightning")
