"""torch.compile's backends for the NPU, and what the default one becomes."""
import copy
import subprocess
import sys
import threading
import warnings

import pytest
import torch
from torch._functorch import config as functorch_config

import torch_npu
from torch_npu._compile import backends, torchair


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    backends._tell.cache_clear()
    yield
    torch._dynamo.reset()


def losses(model, compiled):
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.1), []
    for i in range(4):
        loss = compiled(torch.full((3, 4), float(i), device="npu")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("backend", ["npu", "npugraphs", "npugraph_ex", "reduce-overhead"])
def test_training(backend, monkeypatch):
    chosen = {"mode": backend} if backend == "reduce-overhead" else {"backend": backend}
    replays = []
    replay = torch.npu.NPUGraph.replay
    monkeypatch.setattr(torch.npu.NPUGraph, "replay", lambda graph: (replays.append(graph), replay(graph))[1])
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).npu()
    other = copy.deepcopy(model)
    expected = losses(model, model)
    assert losses(other, torch.compile(other, **chosen)) == pytest.approx(expected, rel=1e-5)
    assert len(replays) == (0 if backend == "npu" else 6)  # forward and backward of the steps after the first
    assert len(set(replays)) == (0 if backend == "npu" else 2)


def test_what_cannot_be_captured_runs_all_the_same():
    noisy = torch.compile(lambda x: x + torch.rand_like(x), backend="npugraphs")
    first, second = noisy(torch.zeros(100, device="npu")), noisy(torch.zeros(100, device="npu"))
    assert not torch.equal(first, second) and 0 <= first.min() and first.max() < 1
    here = torch.compile(lambda x, y: (x + 1, y + 1), backend="npugraphs")
    x, y = here(torch.zeros(2, device="npu"), torch.zeros(2))
    assert x.tolist() == y.tolist() == [1, 1]


def test_results_are_not_overwritten():
    double = torch.compile(lambda x: x * 2, backend="npugraphs")
    results = [double(torch.full((2,), float(i), device="npu")) for i in range(3)]
    assert [result.tolist() for result in results] == [[0, 0], [2, 2], [4, 4]]


def test_a_graph_of_another_device_than_the_current_one():
    compiled = torch.compile(lambda x: torch.relu(x @ x) + 1, backend="npugraphs")
    for _ in range(3):
        x = torch.randn(4, 4, device="npu:1")
        assert torch.equal(compiled(x), torch.relu(x @ x) + 1) and torch.npu.current_device() == 0
    both = torch.compile(lambda x: (x + 1, x.to("npu:1") * 2), backend="npugraphs")
    for i in range(3):
        here, there = both(torch.full((2,), float(i), device="npu:0"))
        assert here.tolist() == [i + 1] * 2 and there.tolist() == [2 * i] * 2 and there.device.index == 1


def test_calls_of_several_threads_take_turns():
    compiled, wrong = torch.compile(lambda x: x @ x + 1, backend="npugraphs"), []
    compiled(torch.zeros(32, 32, device="npu"))

    def work(number):
        x = torch.full((32, 32), float(number), device="npu")
        wrong.extend(i for i in range(60) if compiled(x)[0, 0].item() != 32 * number**2 + 1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_call_that_fails_leaves_no_graph_of_former_inputs(monkeypatch):
    weight = torch.nn.Parameter(torch.ones(2, device="npu"))
    compiled, run_first = torch.compile(lambda x: x * weight, backend="npugraphs"), backends._Captured._run_first
    with torch.no_grad():
        compiled(torch.ones(2, device="npu"))
        weight.data = torch.full((2,), 3.0, device="npu")

        def fail(captured, inputs):
            run_first(captured, inputs)
            raise torch.OutOfMemoryError("none left")

        with monkeypatch.context() as patch:
            patch.setattr(backends._Captured, "_run_first", fail)
            with pytest.raises(torch.OutOfMemoryError):
                compiled(torch.ones(2, device="npu"))
        for value in (2.0, 4.0):
            assert compiled(torch.full((2,), value, device="npu")).tolist() == [3 * value] * 2


def test_calls_on_several_streams_take_turns():
    compiled, streams = torch.compile(lambda x: x @ x @ x, backend="npugraphs"), [torch.npu.Stream() for _ in range(2)]
    inputs = [torch.full((256, 256), float(i), device="npu") for i in range(16)]
    compiled(inputs[0])
    torch.npu.synchronize()
    found = []
    for i, x in enumerate(inputs):
        with torch.npu.stream(streams[i % 2]):
            found.append(compiled(x))
    torch.npu.synchronize()
    assert [y[0, 0].item() for y in found] == [float(i**3 * 2**16) for i in range(16)]


@pytest.mark.skipif(not hasattr(functorch_config, "force_autograd_cache"), reason="a setting of newer versions of torch")
@pytest.mark.parametrize("backend", ["npu", "npugraphs", "npugraph_ex", "torchair"])
def test_a_cache_that_is_forced_is_no_error(backend):
    """As vLLM's compiler forces it, around a backend of each part of a model."""
    if backend == "torchair":
        backend = torchair.get_npu_backend()
    with torch._functorch.config.patch(force_autograd_cache=True, bundled_autograd_cache=True, strict_autograd_cache=True,
                                       bypass_autograd_cache_key=True):
        compiled = torch.compile(lambda x: x.sin() + 1, backend=backend)
        x = torch.linspace(0, 3, 5, device="npu")
        for _ in range(2):
            torch.testing.assert_close(compiled(x).cpu(), x.cpu().sin() + 1)


def test_the_default_backend_runs_with_one_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for factor in (2, 3):
            torch._dynamo.reset()
            out = torch.compile(lambda x, factor=factor: (x * factor).relu())(torch.tensor([-1.0, 1.0], device="npu"))
            assert out.tolist() == [0, factor]
    assert [str(w.message).count("npugraphs") for w in caught if "default backend" in str(w.message)] == [1]


def test_a_program_may_import_the_published_inductor():
    """As vLLM for Ascend does where Triton is installed, before it compiles anything."""
    program = ("import torch, torch_npu._inductor\n"
               "assert torch_npu._inductor.npugraphs is torch_npu._compile.backends.npugraphs\n"
               "print(torch.compile(lambda x: x + 1)(torch.ones(2, device='npu')).tolist())")
    done = subprocess.run([sys.executable, "-W", "error::ImportWarning", "-c", program], capture_output=True, text=True)
    assert done.stdout == "[2.0, 2.0]\n" and done.stderr.count("generates no kernels") == 1, done.stderr


def test_compiling_ahead_of_time_is_refused(tmp_path):
    program = torch.export.export(torch.nn.Linear(4, 2).npu(), (torch.randn(3, 4, device="npu"),))
    with pytest.raises(NotImplementedError, match="AOTInductor generates code, and there is none for the NPU"):
        torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))


def test_settings_of_the_published_inductor():
    from torch._inductor import config

    assert (config.npu_backend, config.enable_shape_handling) == ("default", False)
    assert (config.shape_handling_configs, config.shape_handling_dict) == ([], None)
    with config.patch(npu_backend="dvm"):
        assert config.npu_backend == "dvm"
    options = {"npu_backend": "mlir", "enable_shape_handling": True, "triton.cudagraphs": False}
    assert torch.compile(lambda x: x + 1, options=options)(torch.ones(2, device="npu")).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="npu_backend"):
        torch.compile(lambda x: x + 1, options={"npu_backend": 3})


def test_the_refusal_comes_back(monkeypatch):
    monkeypatch.setenv("TORCHDYNAMO_NPU_DEFAULT", "error")
    with pytest.raises(Exception, match="NotImplementedError: .*there is none for the NPU"):
        torch.compile(lambda x: x + 1)(torch.zeros(2, device="npu"))


def test_a_captured_graph_runs_once_for_each_call(capfd):
    def double(x):
        y = x + x
        torch_npu.print_npugraph_tensor(y, tensor_name="seen")
        return y * 2

    compiled, x = torch.compile(double, backend="npugraph_ex", fullgraph=True), torch.ones(2, device="npu")
    for call in range(1, 4):
        assert compiled(x * call).tolist() == [4.0 * call] * 2
    torch.npu.synchronize()
    assert capfd.readouterr().out.count("seen=") == 3
