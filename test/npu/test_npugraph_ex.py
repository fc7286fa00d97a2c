"""torch.npu.npugraph_ex: replacements in compiled graphs, compiled functions, settings for a part of a program."""
import pytest
import torch

import torch_npu
from torch_npu._compile import backends
from torch_npu.npu import npugraph_ex


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    backends.replacements.cache_clear()
    yield
    torch._dynamo.reset()
    backends.replacements.cache_clear()


def test_replacements_are_made():
    wanted = []
    x, y = torch.tensor([1.0, 2.0], device="npu"), torch.tensor([3.0, 5.0], device="npu")
    npugraph_ex.register_replacement(
        lambda a, b: torch.sub(torch.mul(a, b), b), lambda a, b: torch.neg(a), [torch.empty_like(x), torch.empty_like(y)],
        extra_check=lambda match: bool(wanted))
    function = torch.compile(lambda a, b: (a * b - b) + 100, backend="npugraph_ex")
    with torch.no_grad():
        assert function(x, y).tolist() == [100, 105]   # refused by extra_check
        wanted.append(True)
        torch._dynamo.reset()
        assert function(x, y).tolist() == [99, 98]     # neg takes the place
        assert torch.compile(lambda a, b: a * b + 100, backend="npugraph_ex")(x, y).tolist() == [103, 110]


def test_compile_fx_is_a_compiler_of_graphs():
    def mine(graph, inputs):
        return npugraph_ex.compile_fx(graph, inputs)

    x = torch.arange(4.0, device="npu")
    with torch.no_grad():
        assert torch.compile(lambda t: t * 3, backend=mine)(x).tolist() == [0, 3, 6, 9]


def test_compiled_functions_of_inference(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cached = torch.npu.npugraph_ex.inference.cache_compile(self.body, dynamic=False, cache_dir=str(tmp_path))

        def body(self, x):
            return x.relu() + 1

        def forward(self, x):
            return self.cached(x)

    with torch.no_grad():
        assert Model()(torch.tensor([-2.0, 2.0], device="npu")).tolist() == [1, 3]
    with pytest.raises(NotImplementedError, match="x.bin was not written here"):
        npugraph_ex.inference.readable_cache("x.bin")


def test_settings_hold_for_the_block():
    stream, level = torch.npu.current_stream(), torch.npu._get_deterministic_level
    before = torch.npu.get_stream_limit(stream)
    with npugraph_ex.scope.limit_core_num(4, 8), npugraph_ex.scope.deterministic(1):
        assert torch.npu.get_stream_limit(stream) == {"cube_core_num": 4, "vector_core_num": 8} and level() == 1
    assert torch.npu.get_stream_limit(stream) == before and level() == 0
    with pytest.raises(ValueError, match="cube_num is 0"), npugraph_ex.scope.limit_core_num(0, 8):
        pass


def test_the_packages_names():
    import npugraph_ex as package
    from npugraph_ex.configs.compiler_config import CompilerConfig

    assert package.compile_fx is npugraph_ex.compile_fx and package.scope.deterministic is npugraph_ex.scope.deterministic
    assert package.CompilerConfig is CompilerConfig
    replays, replay = [], torch.npu.NPUGraph.replay
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(torch.npu.NPUGraph, "replay", lambda graph: (replays.append(graph), replay(graph))[1])
        x = torch.arange(3.0, device="npu")
        compiled = torch.compile(lambda t: t + 1, backend=package.get_npu_backend())
        for _ in range(2):
            assert compiled(x).tolist() == [1, 2, 3]
    assert len(replays) == 1


def test_dynamos_names():
    import torch_npu.dynamo.torchair as torchair
    from torch_npu.dynamo.torchair.configs.compiler_config import CompilerConfig

    assert torchair.CompilerConfig is CompilerConfig is torch_npu.dynamo.torchair.CompilerConfig
    backend = torch_npu.dynamo._get_default_backend("npu")
    assert backend is torch_npu.dynamo._get_global_npu_backend() is backends.npu
    assert torch_npu.dynamo.npugraph_ex is npugraph_ex
    with torch.no_grad():
        assert torch.compile(lambda t: t * 2, backend=backend)(torch.ones(2, device="npu")).tolist() == [2, 2]
    with pytest.raises(ValueError, match="no default backend 'gpu'"):
        torch_npu.dynamo._get_default_backend("gpu")


def test_options_are_known_ones():
    x = torch.ones(3, device="npu")
    captures = []

    def compiled(**options):
        torch._dynamo.reset()
        return torch.compile(lambda t: t * 3 + 1, backend="npugraph_ex", options=options)(x).tolist()

    original = torch.npu.NPUGraph.capture_begin
    torch.npu.NPUGraph.capture_begin = lambda self, *args, **kwargs: captures.append(1) or original(self, *args, **kwargs)
    try:
        with torch.no_grad():
            assert compiled(clone_input=False, capture_limit=8, frozen_parameter=True) == [4.0] * 3 and len(captures) == 1
            assert compiled(force_eager=True) == [4.0] * 3 and len(captures) == 1
    finally:
        torch.npu.NPUGraph.capture_begin = original
    for options, text in (({"bogus": 1}, "no option 'bogus'"), ({"clone_input": "x"}, "clone_input: the option takes False, True"),
                          ({"mode": "reduce-overhead"}, "mode: ")):
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=text):
            compiled(**options)
