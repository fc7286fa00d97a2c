"""Scripts for CUDA on the NPU: torch_npu.contrib.transfer_to_npu. It changes the process, so each runs in its own."""
import textwrap

import pytest


@pytest.fixture
def run(python):
    def run(script, prelude="import torch, torch_npu\nfrom torch_npu.contrib import transfer_to_npu\n", **environment):
        done = python(prelude + textwrap.dedent(script), **environment)
        assert done.returncode == 0, done.stderr[-3000:]
    return run


TRAINING = """
    import torch
    assert torch.cuda.is_available() and torch.cuda.device_count() >= 1
    torch.cuda.manual_seed_all(0)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()
    scaler = torch.cuda.amp.GradScaler()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        x = torch.randn(16, 4, device="cuda")
        y = torch.randint(0, 2, (16,)).to(device, non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.cuda.synchronize()
    assert x.is_cuda and x.device.type == "npu" and isinstance(device, torch.device)
    assert torch.cuda.memory_allocated() > 0
"""


def test_a_training_script_for_cuda(run):
    run(TRAINING)


def test_streams_events_and_generators(run):
    run("""
    stream, start, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream):
        start.record()
        x = torch.ones(8, device=torch.device("cuda", 0)).mul_(2)
        end.record()
    torch.cuda.current_stream().wait_stream(stream)
    end.synchronize()
    assert start.elapsed_time(end) >= 0 and x.sum().item() == 16
    g = torch.Generator(device="cuda").manual_seed(1)
    a = torch.rand(4, device="cuda", generator=g)
    assert torch.equal(a, torch.rand(4, device="cuda", generator=g.manual_seed(1)))
    with torch.device("cuda"):
        assert torch.zeros(2).device.type == "npu"
    """)


def test_loading_and_recurrent_layers(run):
    run("""
    import io
    lstm = torch.nn.LSTM(4, 8).cuda()
    file = io.BytesIO()
    torch.save(lstm.state_dict(), file)
    file.seek(0)
    state = torch.load(file, map_location="cuda:0")
    assert all(tensor.is_cuda for tensor in state.values())
    lstm.load_state_dict(state)
    assert lstm(torch.randn(3, 2, 4).cuda())[0].is_cuda
    assert not torch.zeros(1).is_cuda
    """)


def test_other_devices_are_left_alone(run):
    run("""
    assert torch.device("cpu").type == "cpu" and torch.zeros(1, device="meta").is_meta
    assert torch.zeros(2, device="cpu").to("cpu").device.type == "cpu"
    assert torch.tensor([1.0], dtype=torch.float64).to(torch.float32).dtype == torch.float32
    """)


def test_the_variable_does_it_without_a_change(run):
    run(TRAINING, prelude="", TORCH_TRANSFER_TO_NPU="1")


@pytest.mark.parametrize("value", ["0", ""])
def test_nothing_happens_unasked(run, value):
    run("""
    assert not torch.cuda.is_available() or torch.device("cuda").type == "cuda"
    assert torch.device("cuda").type == "cuda"
    """, prelude="import torch, torch_npu\n", TORCH_TRANSFER_TO_NPU=value)
