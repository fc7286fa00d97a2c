"""Scripts for CUDA on the NPU: torch_npu.contrib.transfer_to_npu. It changes the process, so each runs in its own."""
import subprocess
import sys
import textwrap

import pytest
import torch


@pytest.fixture
def run(python):
    def run(script, prelude="import torch, torch_npu\nfrom torch_npu.contrib import transfer_to_npu\n", **environment):
        done = python(prelude + textwrap.dedent(script), **environment)
        assert done.returncode == 0, done.stderr[-3000:]
    return run


@pytest.fixture
def run_file(tmp_path):
    """For what reads the source of a function, or imports the script again."""
    def run_file(script):
        path = tmp_path / "script.py"
        path.write_text("import torch\nfrom torch_npu.contrib import transfer_to_npu\n" + textwrap.dedent(script))
        done = subprocess.run([sys.executable, str(path)], stderr=subprocess.PIPE, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
    return run_file


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
    with torch.cuda.stream(stream):
        assert torch._C._cuda_getCurrentRawStream(0) == stream.cuda_stream
    assert torch._C._cuda_getCurrentRawStream(0) == torch.cuda.current_stream().cuda_stream != stream.cuda_stream
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


def test_graphs_written_by_torch(run):
    run("""
    from torch.fx.experimental.proxy_tensor import make_fx

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(10, 4)

        def forward(self, i):
            position = torch.arange(i.shape[1], device=i.device)
            x = self.embedding(i) + self.embedding(position) + torch.zeros(4, device="cuda")
            return x + torch.ones(4, device=torch.device("cuda:0")) if x.is_cuda else x

    net, i = Net().cuda(), torch.zeros(2, 3, dtype=torch.long, device="cuda")
    expected = net(i)
    assert torch.equal(torch.compile(net, backend="aot_eager", fullgraph=True)(i), expected)
    assert torch.equal(torch.export.export(net, (i,)).module()(i), expected)
    assert torch.equal(make_fx(net)(i)(i), expected)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def product(x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return x.cuda() @ x.to("cuda")
    assert product(torch.ones(2, 2, device="cuda")).dtype == torch.bfloat16
    torch.set_default_device("cuda")
    assert torch.compile(lambda: torch.zeros(2) + 1, backend="aot_eager", fullgraph=True)().is_cuda
    """)


def test_torchscript_and_custom_operators(run_file):
    run_file("""
    def made(x: torch.Tensor, device: torch.device):
        if torch.is_autocast_enabled():
            return x
        return torch.zeros(2, device=device) + torch.fft.fftfreq(2, device=x.device) + torch.normal(0., 0., (2,), device=device)
    x = torch.ones(2, device="cuda")
    scripted = torch.jit.script(made)
    assert torch.equal(scripted(x, x.device), made(x, torch.device("cuda")))

    @torch.library.custom_op("transfer::twice", mutates_args=(), device_types="cuda")
    def twice(x: torch.Tensor, device: torch.device) -> torch.Tensor:
        return x * 2
    assert twice(x, torch.device("cuda")).tolist() == [2, 2]
    """)


def test_a_class_with_torch_function_sees_what_the_program_names(run):
    run("""
    seen = []
    class Marked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})
    x = torch.ones(2).as_subclass(Marked)
    assert isinstance(x.to("cuda"), Marked) and seen == [torch.Tensor.to]
    assert torch.zeros_like(x, device="cuda").is_cuda and torch.zeros_like in seen
    assert "torch.zeros_like(x)" in torch.fx.symbolic_trace(lambda x: torch.zeros_like(x)).code
    """)


PICKLED = """
    import argparse, copy, io, pickle
    import torch.multiprocessing as mp
    def report(rank, device, make, queue):
        queue.put((device, make(2, device=device).device.type))
    if __name__ == "__main__":
        for device in (torch.device("cuda:0"), torch.device("cpu")):
            assert pickle.loads(pickle.dumps(device)) == copy.deepcopy(device) == device
        for function in (torch.device, torch.Generator, torch.Stream, torch.zeros, torch.load, torch.Tensor.to,
                         torch.nn.Module.to, torch.amp.custom_fwd, torch.fft.fftfreq, torch.distributed.init_process_group,
                         torch.cuda.nvtx.mark):
            assert pickle.loads(pickle.dumps(function)) is function
        generator = torch.Generator().manual_seed(3)
        assert pickle.loads(pickle.dumps(generator)).initial_seed() == 3
        file = io.BytesIO()
        torch.save(argparse.Namespace(device=torch.device("cuda")), file)
        file.seek(0)
        assert torch.load(file, weights_only=False).device == torch.device("npu")
        file = io.BytesIO()
        torch.save({"device": torch.device("cuda", 0), "sparse": torch.ones(2).to_sparse()}, file)
        file.seek(0)
        assert torch.load(file)["device"] == torch.device("npu", 0)
        queue = mp.get_context("spawn").SimpleQueue()
        mp.spawn(report, (torch.device("cuda:0"), torch.zeros, queue), nprocs=1)
        assert queue.get() == (torch.device("cuda:0"), "npu")
"""


def test_layers_without_a_shape_yet(run):
    run("""
    for move in (lambda m: m.to("cuda"), lambda m: m.cuda(), lambda m: m.cuda(0).half().to(device="cuda:0", dtype=torch.float32)):
        layers = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.LazyBatchNorm1d())
        move(layers)
        assert layers(torch.ones(2, 3, device="cuda")).device.type == "npu" and layers[0].weight.shape == (4, 3)
    try:
        torch.nn.LazyLinear(4).weight.new_ones(2)
    except ValueError as error:
        assert "uninitialized" in str(error)
    else:
        raise AssertionError
    """)


def test_devices_are_pickled_and_sent_to_spawned_processes(run_file):
    run_file(PICKLED)


def test_autocast_where_cuda_goes_without_saying(run):
    run("""
    from torch.cuda.amp import custom_fwd
    class Scaled(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx, x):
            assert not torch.is_autocast_enabled("cuda") and x.dtype == torch.float32
            return x * 300

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, gradient):
            return gradient * 300
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
        assert torch.get_autocast_gpu_dtype() == torch.get_autocast_dtype("cuda") == torch.bfloat16
        x = torch.full((2,), 300., device="cuda", dtype=torch.half, requires_grad=True)
        y = Scaled.apply(x)
        assert y.tolist() == [90000, 90000]
    y.sum().backward()
    assert not torch.is_autocast_enabled() and torch.amp.is_autocast_available("cuda")
    assert torch.amp.autocast_mode.is_autocast_available(device_type="cuda")
    torch.set_autocast_gpu_dtype(torch.bfloat16)
    assert torch.get_autocast_dtype("npu") == torch.bfloat16
    for arguments in (True,), ("cuda", True):
        torch.set_autocast_enabled(*arguments)
        assert torch.is_autocast_enabled("npu")
        torch.set_autocast_enabled("cuda", False)
    assert not torch.is_autocast_enabled("npu")
    """)


def test_where_checkpoints_are_loaded(run):
    run("""
    import io
    def saved(tag):
        original, file = torch.serialization.location_tag, io.BytesIO()
        torch.serialization.location_tag = lambda storage: tag
        torch.save(torch.ones(2), file)
        torch.serialization.location_tag = original
        return file
    def loaded(file, *args, **kwargs):
        file.seek(0)
        return torch.load(file, *args, **kwargs).device
    npu = [torch.device("npu", i) for i in range(2)]
    torch.cuda.set_device(1)
    here = io.BytesIO()
    torch.save(torch.ones(2, device="cuda:0"), here)
    for file in (here, saved("cuda:0")):
        assert loaded(file) == npu[0]
        assert loaded(file, map_location={"cuda:0": "cuda:1"}) == npu[1]
        assert loaded(file, {"cuda:%d" % 0: "cpu"}).type == "cpu"
        assert loaded(file, "cuda:1") == loaded(file, map_location=torch.device("cuda", 1)) == npu[1]
        tags = []
        assert loaded(file, map_location=lambda storage, tag: tags.append(tag)) == npu[0] and tags == ["cuda:0"]
        assert loaded(file, map_location=lambda storage, tag: storage.cuda(1)) == npu[1]
    assert loaded(saved("cuda")) == npu[1] and loaded(saved("cpu")).type == "cpu"
    assert torch.serialization.load is torch.load
    """, SOFTCANN_DEVICE_COUNT=2)


def test_torch_cuda_and_its_submodules(run):
    run("""
    assert torch.cuda.default_generators == ()
    from torch.cuda.memory import memory_allocated, _snapshot
    from torch.cuda.random import get_rng_state
    from torch.cuda.streams import Event, Stream
    from torch.cuda.amp.autocast_mode import autocast
    from torch.cuda._utils import _get_device_index
    torch.cuda._lazy_init()
    x = torch.ones(1 << 20, device="cuda")
    assert memory_allocated() == torch.cuda.memory_allocated() >= 1 << 22
    assert torch.equal(get_rng_state(), torch.cuda.get_rng_state())
    assert Stream is torch.cuda.Stream and Event is torch.cuda.Event and autocast is torch.npu.amp.autocast
    assert _get_device_index("cuda:0") == 0 and "segments" in _snapshot()
    assert torch.cuda.default_generators == torch.npu.default_generators != () and torch.cuda._initialized
    assert isinstance(torch.cuda.default_generators[0], torch.Generator) and not hasattr(torch.cuda, "no_such_name")
    stream = torch.cuda.current_stream()
    assert stream.cuda_stream == stream.npu_stream and torch.cuda.is_current_stream_capturing() is False
    torch.cuda.nvtx.range_push("a")
    torch.cuda.nvtx.range_pop()
    with torch.cuda.nvtx.range("step {}", 1), torch.cuda.profiler.profile():
        torch.cuda.nvtx.mark("b")
        torch.cuda._sleep(1000)
    torch.cuda.check_error(torch.cuda.cudart().cudaProfilerStart())
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        x + 1
    assert profiled.use_device == "npu"
    """)


@pytest.mark.skipif(not hasattr(torch.cuda.graphs, "Callable"), reason="torch.cuda imports it in newer versions of torch")
def test_what_torch_cuda_only_imports_stays(run):
    """It would be replaced in every module of torch, and not all modules of settings can be set: torch._dynamo.config."""
    run("""
        import torch._dynamo.config
        import collections.abc
        assert torch.cuda.graphs.Callable is torch._dynamo.config.Callable is collections.abc.Callable
        from torch_npu.contrib import transfer_to_npu
        assert torch.cuda.graphs.Callable is torch._dynamo.config.Callable is collections.abc.Callable
        assert torch.cuda.memory_allocated is torch.npu.memory_allocated
    """, prelude="import torch, torch_npu\n")


def test_other_calls_with_a_device(run):
    run("""
    class Mine(torch.Generator):
        pass
    assert Mine("cuda").device.type == "npu" and isinstance(Mine(), torch.Generator) and not isinstance(torch.Generator(), Mine)
    assert torch.Stream("cuda").device.type == torch.Event("cuda:0").device.type == "npu"
    assert isinstance(torch.cuda.Stream(), torch.Stream) and issubclass(torch.cuda.Event, torch.Event)
    assert torch.normal(0., 1., (2,), device="cuda").is_cuda
    assert torch.fft.fftfreq(4, device="cuda").is_cuda and torch.fft.rfftfreq(4, device="cuda").is_cuda
    tensors = [torch.ones(2), torch.ones(3)]
    assert torch.nested.nested_tensor(tensors, device="cuda").is_cuda
    assert torch.nested.as_nested_tensor(tensors, None, "cuda").is_cuda
    x = torch.ones(2)
    assert x.pin_memory("cuda").is_pinned("cuda") and x.untyped_storage().pin_memory("cuda").is_pinned("cuda")
    assert x.type("torch.cuda.HalfTensor").is_cuda and x.type(torch.cuda.HalfTensor).dtype == torch.half
    assert torch.UntypedStorage(4, device="cuda").is_cuda and x.cuda().untyped_storage().is_cuda
    assert not x.untyped_storage().is_cuda
    torch.set_default_tensor_type("torch.cuda.DoubleTensor")
    assert torch.ones(2).is_cuda and torch.ones(2).dtype == torch.double
    torch.set_default_tensor_type(torch.FloatTensor)
    assert torch.ones(2).device.type == "cpu" and torch.ones(2).dtype == torch.float
    """)


def test_process_groups_layers_and_checkpoints_of_many_devices(run):
    run("""
    import tempfile
    import torch.distributed as dist
    assert dist.is_nccl_available() and dist.is_backend_available("nccl")
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("cpu:gloo,cuda:nccl", init_method=f"file://{folder}/cuda", rank=0, world_size=1,
                                device_id=torch.device("cuda:0"))
        assert dist.get_backend() in ("hccl", "cpu:gloo,npu:hccl")
        assert dist.get_backend(dist.new_group([0], None, "nccl", dist.ProcessGroupNCCL.Options())) == "hccl"
        assert dist.DeviceMesh("cuda", [0]).device_type == dist.init_device_mesh("cuda", (1,)).device_type == "npu"
        x = torch.randn(4, 3, device="cuda")
        assert torch.nn.SyncBatchNorm(3).cuda()(x).is_cuda
        import torch.distributed.checkpoint as dcp
        from torch.distributed._state_dict_utils import _create_cpu_state_dict
        assert _create_cpu_state_dict({"x": x}, pin_memory=True, share_memory=True)["x"].shape == x.shape
        dcp.save({"x": x}, checkpoint_id=folder + "/checkpoint")
        loaded = {"x": torch.zeros(4, 3, device="cuda")}
        dcp.load(loaded, checkpoint_id=folder + "/checkpoint")
        assert torch.equal(loaded["x"], x)
        dist.destroy_process_group()
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
