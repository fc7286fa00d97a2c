"""torch_npu.utils, torch_npu.asd, torch_npu.jit and their kin: values."""
import copy

import pytest
import torch

import torch_npu
from torch_npu import utils
from torch_npu.jit.fusion_pass import fast_gelu


def test_versions():
    assert utils.get_cann_version() == torch_npu.runtime_info()["cann_version"] == utils.get_cann_version("RUNTIME")
    assert utils.get_cann_version("NOTHING") == "" and torch.version.cann == utils.get_cann_version()
    assert not hasattr(torch.version, "nothing")
    assert torch.npu.utils._is_gte_cann_version("5.0.0") and not torch.npu.utils._is_gte_cann_version("99.0.0")
    report = utils.collect_env.get_pretty_env_info()
    assert f"Torch-npu version: {torch_npu.__version__}" in report and utils.get_cann_version() in report


def test_combined_tensors():
    parts = [torch.randn(2, 3).npu(), torch.randn(4).npu(), torch.randn(3, 2).npu().t()]
    values = [part.cpu() for part in parts]
    combined = utils.npu_combine_tensors(parts)
    assert combined.shape == (16,) and utils.is_combined_tensor_valid(combined, parts)
    assert all(torch.equal(part.cpu(), value) for part, value in zip(parts, values))
    assert torch.equal(utils.get_part_combined_tensor(combined, 6, 4).cpu(), values[1])
    combined.zero_()
    assert not any(part.any() for part in parts)
    assert not utils.is_combined_tensor_valid(combined, parts[::-1])
    with pytest.raises(ValueError, match="dtype|float16|torch"):
        utils.npu_combine_tensors([parts[0], parts[1].half()])
    assert utils.npu_combine_tensors([]) is None


def test_flops():
    counter = utils.FlopsCounter()
    counter.start()
    x = torch.ones(4, 5, device="npu", requires_grad=True)
    y = torch.ones(5, 6, device="npu")
    (x @ y).sum().backward()
    assert counter.get_flops() == [480, 480]
    counter.pause()
    x @ y
    counter.resume()
    assert counter.get_flops() == [480, 720]
    counter.stop()
    x @ y
    assert counter.get_flops() == [480, 720]


def test_save_async(tmp_path):
    tensors = {"w": torch.arange(5.0, device="npu"), "step": 3}
    thread = utils.save_async(tensors, tmp_path / "state.pt")
    tensors["w"].zero_()
    thread.result()
    loaded = torch.load(tmp_path / "state.pt")
    assert loaded["step"] == 3 and loaded["w"].is_npu and loaded["w"].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises((RuntimeError, OSError)):
        utils.save_async({}, tmp_path / "no" / "folder.pt").result()


def test_save_async_keeps_what_torch_save_keeps(tmp_path):
    """Whole modules, as they are now; tied weights, which stay one; what autograd made."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)).npu()
    model[1].weight = model[0].weight
    made = model[0].weight * 2
    expected = model[0].weight.tolist()
    thread = utils.save_async({"model": model, "state": model.state_dict(), "made": made}, tmp_path / "state.pt")
    with torch.no_grad():
        model[0].weight.zero_()
    thread.result()
    loaded = torch.load(tmp_path / "state.pt", weights_only=False)
    assert loaded["model"][0].weight is loaded["model"][1].weight and isinstance(loaded["model"][0].weight, torch.nn.Parameter)
    assert loaded["model"][0].weight.tolist() == loaded["state"]["0.weight"].tolist() == expected
    assert loaded["state"]["0.weight"].data_ptr() == loaded["state"]["1.weight"].data_ptr()
    assert loaded["made"].tolist() == (2 * torch.tensor(expected)).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_checksum(dtype):
    a, b = torch.randn(8, 16).npu().to(dtype), torch.randn(16, 12).npu().to(dtype)
    c = a @ b
    assert not torch_npu.matmul_checksum(a, b, c)
    wrong = copy.copy(c.clone())
    wrong[3, 4] += 100
    assert torch_npu.matmul_checksum(a, b, wrong)
    wrong[3, 4] = float("nan")
    assert torch_npu.matmul_checksum(a, b, wrong)


def test_silent_faults(caplog):
    from torch_npu.asd import SilentFaultDetector

    detector = SilentFaultDetector(sigmas=5, warm_up=10)
    generator = torch.Generator().manual_seed(0)
    values = (1 + 0.1 * torch.randn(200, generator=generator)).tolist()
    assert not any(detector.step(value) for value in values)
    assert detector.step(50.0) and detector.step(float("inf")) and not detector.step(1.1)

    weight = torch.nn.Parameter(torch.ones(3, device="npu"))
    for factor in [1.0] * 101 + [1e6]:
        x = torch.ones(3, device="npu", requires_grad=True)
        utils.register_asd_hook(x, weight)
        (x * factor).sum().backward()
    assert "may have failed" in caplog.text
    assert utils.register_asd_hook(torch.ones(1), weight) is None


def test_fast_gelu_in_torchscript():
    class Gelu(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.sigmoid(1.702 * x) + 1

    x = torch.randn(8).npu()
    module = torch_npu.jit.optimize(torch.jit.trace(Gelu(), x))
    assert "npu::fast_gelu" in str(module.graph)
    torch.testing.assert_close(module(x), Gelu()(x), rtol=1e-4, atol=1e-4)
    with pytest.raises(TypeError, match="ScriptModule"):
        torch_npu.jit.optimize(Gelu())


def test_fast_gelu_for_gelu_in_torchscript():
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch._C._nn.gelu(x) + torch._C._nn.gelu(x, approximate="tanh")

    x = torch.randn(8).npu()
    scripted = torch.jit.script(function)
    fast_gelu.fast_gelu_pass(scripted)
    text = str(scripted.graph)
    assert text.count("npu::fast_gelu") == 1 and text.count("aten::gelu") == 1
    torch.testing.assert_close(scripted(x), torch_npu.fast_gelu(x) + torch.nn.functional.gelu(x, approximate="tanh"))


def test_flops_of_a_block():
    x = torch.ones(4, 8, device="npu")
    with torch_npu.utils.FlopsCounter() as counter:
        x @ x.t()
    assert counter.get_flops() == [2 * 4 * 8 * 4] * 2


def test_sdp_switches():
    assert torch.npu.flash_sdp_enabled()
    with torch.npu.sdp_kernel(enable_flash=False):
        assert not torch.npu.flash_sdp_enabled() and torch.npu.math_sdp_enabled()
    assert torch.npu.flash_sdp_enabled()
    assert torch.npu.preferred_linalg_library() == torch._C._LinalgBackend.Default
    with pytest.warns(UserWarning, match="preferred_linalg_library"):
        assert torch.npu.preferred_linalg_library("magma") == torch._C._LinalgBackend.Default
    with pytest.raises(RuntimeError, match="unknown"):
        torch.npu.preferred_linalg_library("unknown")
    with pytest.raises(RuntimeError, match="unknown library of linear algebra 3"):
        torch.npu.preferred_linalg_library(3)


def test_determinism_of_a_part():
    seen = []
    x = torch.ones(2, device="npu", requires_grad=True)
    begin = torch.npu.enable_deterministic_with_backward(x)
    seen.append(torch.are_deterministic_algorithms_enabled())
    inner = begin * 2
    inner.register_hook(lambda grad: seen.append(torch.are_deterministic_algorithms_enabled()))
    end = torch.npu.disable_deterministic_with_backward(inner)
    seen.append(torch.are_deterministic_algorithms_enabled())
    end.sum().backward()
    assert seen == [True, False, True] and not torch.are_deterministic_algorithms_enabled()


def test_bert_adam_defaults():
    from torch_npu.optim import NpuFusedBertAdam

    parameter = torch.nn.Parameter(torch.ones(2, device="npu"))
    with pytest.raises(ValueError, match="lr"):
        NpuFusedBertAdam([parameter])
    group = NpuFusedBertAdam([parameter], lr=0.1).param_groups[0]
    assert group["b2"] == 0.999 and group["max_grad_norm"] == 1.0


def test_modules_under_their_published_names():
    """A module may have the name of what is in it, and the package's attribute is that."""
    from torch_npu.contrib.function.fuse_add_softmax_dropout import fuse_add_softmax_dropout
    from torch_npu.contrib.function.roll import roll
    from torch_npu.npu._format import Format
    from torch_npu.npu._npugraph_handlers import NpuGraphOpHandler
    from torch_npu.npu.mstx import mstx

    from torch_npu.contrib.function import roll as function

    assert roll is function and torch_npu.contrib.fuse_add_softmax_dropout is fuse_add_softmax_dropout
    assert mstx is torch.npu.mstx and Format is torch_npu.Format and NpuGraphOpHandler is torch.npu.NpuGraphOpHandler
    assert torch_npu.npu.utils.set_dump is torch.npu.set_dump and torch.npu._get_device_index("npu:1") == 1


def test_cast_weight():
    modules = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.MultiheadAttention(16, 2, kdim=8, vdim=8))
    assert modules.cast_weight("npu") is None and modules[0].weight.device.type == "cpu"   # as published: products read base formats
    before = torch.npu.config.allow_internal_format
    torch.npu.config.allow_internal_format = True
    torch.npu.set_mm_bmm_format_nd(False)
    try:
        expected = modules[0].weight.detach().clone()
        modules.cast_weight("npu")
        for weight in (modules[0].weight, modules[1].k_proj_weight):
            assert torch_npu.get_npu_format(weight) == torch_npu.Format.FRACTAL_NZ
        assert modules[0].weight.cpu().equal(expected) and modules[0].bias.device.type == "cpu"
    finally:
        torch.npu.set_mm_bmm_format_nd(True)
        torch.npu.config.allow_internal_format = before


def test_path_manager(tmp_path):
    from torch_npu.utils._path_manager import PathManager

    folder, file, link = tmp_path / "a" / "b", tmp_path / "file", tmp_path / "link"
    PathManager.make_dir_safety(str(folder))
    PathManager.create_file_safety(str(file))
    link.symlink_to(folder)
    assert folder.is_dir() and file.read_bytes() == b"" and file.stat().st_mode & 0o137 == 0
    PathManager.check_directory_path_readable(str(folder))
    PathManager.check_directory_path_writeable(str(folder))
    PathManager.check_input_directory_path(str(tmp_path / "new"))
    PathManager.check_input_file_path(str(tmp_path / "new"))
    for check, path in [(PathManager.check_directory_path_readable, tmp_path / "none"), (PathManager.check_input_directory_path, file),
                        (PathManager.check_input_file_path, folder), (PathManager.remove_path_safety, link), (PathManager.make_dir_safety, link),
                        (PathManager.check_input_file_path, tmp_path / ("x" * 256)), (PathManager.make_dir_safety, file / "below")]:
        with pytest.raises(RuntimeError, match=str(path)[-20:]):
            check(str(path))
    PathManager.remove_file_safety(str(file))
    PathManager.remove_path_safety(str(tmp_path / "a"))
    PathManager.remove_path_safety(str(tmp_path / "a"))
    assert not file.exists() and not (tmp_path / "a").exists()
