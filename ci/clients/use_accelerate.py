"""Hugging Face accelerate: Accelerator on one NPU and on two, FSDP2, `accelerate launch`, `env`, `test`, big-model loading."""

from __future__ import annotations

import sys
import tempfile

import torch
from accelerate import Accelerator
from harness import case, main, on_npu, run


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def train(accelerator: Accelerator, steps: int = 12) -> torch.nn.Module:
    """Trains the network on all processes, from the same data, and returns what prepare() made of it."""
    torch.manual_seed(1)
    inputs = torch.randn(64, 8)
    rows = torch.utils.data.TensorDataset(inputs, inputs[:, :4].argmax(1))
    loader = torch.utils.data.DataLoader(rows, batch_size=8, shuffle=True)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    losses = []
    while len(losses) < steps:
        for batch, target in loader:
            on_npu(batch, target)
            with accelerator.accumulate(model), accelerator.autocast():
                loss = torch.nn.functional.cross_entropy(model(batch), target)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach()).mean().item())
    assert losses[-1] < losses[0], losses
    on_npu(model)
    return model


@case("`Accelerator`: fp32, fp16, bf16, accumulation, clipping, save and load of the state")
def one_process() -> None:
    for precision in ("no", "fp16", "bf16"):
        accelerator = Accelerator(mixed_precision=precision, gradient_accumulation_steps=2)
        assert accelerator.device.type == "npu", accelerator.device
        train(accelerator, 24)
        with tempfile.TemporaryDirectory() as folder:
            accelerator.save_state(folder)
            accelerator.load_state(folder)
        accelerator.free_memory()
        Accelerator()._reset_state() if hasattr(Accelerator, "_reset_state") else accelerator.state._reset_state(True)


@case("`infer_auto_device_map`, `dispatch_model`, `cpu_offload`, `load_checkpoint_and_dispatch`")
def big_models() -> None:
    from accelerate import cpu_offload, dispatch_model, infer_auto_device_map, load_checkpoint_and_dispatch
    from accelerate.utils import get_max_memory

    assert set(get_max_memory()) == {0, "cpu"}, get_max_memory()
    inputs = torch.randn(4, 8)
    wanted = network()(inputs)
    assert set(infer_auto_device_map(network()).values()) == {0}
    for model in (
        dispatch_model(network(), {"": "npu:0"}),
        dispatch_model(network(), {"0": "cpu", "1": 0, "2": 0}, main_device=0),
        cpu_offload(network(), torch.device("npu:0")),
    ):
        torch.testing.assert_close(model(inputs.npu()).cpu(), wanted, rtol=1e-4, atol=1e-4)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(network().state_dict(), f"{folder}/model.bin")
        model = load_checkpoint_and_dispatch(torch.nn.Sequential(*network()), f"{folder}/model.bin", device_map={"": 0})
        on_npu(model, model(inputs.npu()))


@case(
    "`dispatch_model(model, {'': 0})`",
    theirs="accelerate makes `npu:0` of the 0 and then moves nothing; `{'': 'npu:0'}` works",
    error="AssertionError: a tensor (32, 8) is on cpu",
)
def dispatch_by_index() -> None:
    from accelerate import dispatch_model

    on_npu(dispatch_model(network(), {"": 0}))


def launch(*options: str, processes: int = 2) -> str:
    return run("accelerate", "launch", "--num_processes", str(processes), "--num_machines", "1", "--dynamo_backend", "no",
               "--mixed_precision", "no", *options, __file__, "worker", devices=processes)  # fmt: skip


@case("`accelerate launch` with 2 processes: data parallel on hccl")
def launch_ddp() -> None:
    assert launch("--multi_gpu").count("worker on npu: MULTI_NPU hccl") == 2


@case("`accelerate launch --use_fsdp --fsdp_version 2` with 2 processes")
def launch_fsdp2() -> None:
    options = ("--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy", "SIZE_BASED_WRAP", "--fsdp_min_num_params", "1")
    assert launch(*options).count("worker on npu: FSDP hccl") == 2


@case("`accelerate launch --use_fsdp --fsdp_version 1` with 2 processes")
def launch_fsdp1() -> None:
    options = ("--use_fsdp", "--fsdp_version", "1", "--fsdp_auto_wrap_policy", "NO_WRAP", "--fsdp_sharding_strategy", "FULL_SHARD")
    assert launch(*options).count("worker on npu: FSDP hccl") == 2


@case("`accelerate env`")
def env() -> None:
    said = run("accelerate", "env")
    assert "PyTorch accelerator: NPU" in said, said
    assert "CANN version: " in said, said


@case("`accelerate test` with 2 processes")
def test() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/config.yaml"
        with open(path, "w") as file:
            file.write("compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_NPU\nnum_processes: 2\nnum_machines: 1\n"
                       "machine_rank: 0\nmixed_precision: 'no'\nuse_cpu: false\nmain_training_function: main\ngpu_ids: all\n")  # fmt: skip
        assert "success" in run("accelerate", "test", "--config_file", path, devices=2)


def worker() -> None:
    """What each process does under `accelerate launch`."""
    accelerator = Accelerator()
    assert accelerator.device == torch.device("npu", accelerator.local_process_index), accelerator.device
    model = train(accelerator, 8)
    gathered = accelerator.gather_for_metrics(torch.tensor([accelerator.process_index], device=accelerator.device))
    assert gathered.tolist() == list(range(accelerator.num_processes))
    assert accelerator.reduce(torch.ones(1, device=accelerator.device)).item() == accelerator.num_processes
    state = accelerator.get_state_dict(model)
    if accelerator.is_main_process:
        assert sum(value.numel() for value in state.values()) == 8 * 32 + 32 + 32 * 4 + 4
    kind = accelerator.distributed_type.name
    print(f"worker on npu: {kind} {torch.distributed.get_backend().split(':')[-1]}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        worker()
    else:
        main("accelerate")
