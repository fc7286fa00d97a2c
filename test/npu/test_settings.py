"""Options by their own and their published names, and autocast's state."""

import re

import pytest
import torch

import torch_npu
from torch_npu import _options


@pytest.fixture(autouse=True)
def _restore():
    before = {option["name"]: option["value"] for option in _options.describe()}
    yield
    for name, value in before.items():
        _options.set(name, value)


def test_cube_math_type(python, tmp_path):
    """What each product says, in softcann's trace; a process of its own, for there is no way back to None."""
    trace = tmp_path / "trace"
    done = python("""
import torch, torch_npu
from torch_npu.npu import CubeMathType, matmul
x = torch.ones(2, 2, device="npu")
assert matmul.cube_math_type is None
x @ x
for wrong in (3, "USE_HF32", None):
    try:
        matmul.cube_math_type = wrong
        raise SystemExit(f"{wrong!r} is taken")
    except TypeError as error:
        assert "CubeMathType" in str(error)
for kind in (CubeMathType.USE_HF32, CubeMathType.KEEP_DTYPE, CubeMathType.USE_FP16):
    matmul.cube_math_type = kind
    assert matmul.cube_math_type is kind and not matmul.allow_hf32
    x @ x
print("passed")
""", SOFTCANN_TRACE=trace)
    assert done.stdout.split() == ["passed"], done.stdout + done.stderr
    assert re.findall(r'aclnnM.*"cubeMathType":(\d)', trace.read_text()) == ["0", "3", "0", "2"]


def test_hf32_flags():
    assert torch.npu.matmul.allow_hf32 is False and torch.npu.conv.allow_hf32 is True
    torch.npu.matmul.allow_hf32 = True
    torch.npu.conv.allow_hf32 = False
    assert torch.npu.matmul.allow_hf32 is True and torch.npu.conv.allow_hf32 is False
    with pytest.raises(TypeError):
        torch.npu.matmul.allow_hf32 = "yes"


def test_set_option():
    torch.npu.set_option({"ALLOW_MATMUL_HF32": "enable", "jitCompile": "disable", "fallback_warning": False})
    assert torch.npu.matmul.allow_hf32 is True
    assert torch.npu.get_option("fallback_warning") is False
    with pytest.raises(ValueError, match="unknown option nonsense"):
        torch.npu.set_option({"ALLOW_CONV_HF32": "disable", "nonsense": 1})
    assert torch.npu.conv.allow_hf32 is True  # nothing is set when a name is wrong
    with pytest.raises(ValueError, match="fallback_warning"):
        torch.npu.set_option({"fallback_warning": "perhaps"})


def test_internal_formats():
    by_chip = not torch.npu.is_bf16_supported()
    assert torch.npu.config.allow_internal_format is by_chip
    torch.npu.set_option({"ALLOW_INTERNAL_FORMAT": "enable"})
    assert torch.npu.config.allow_internal_format is True
    torch.npu.config.allow_internal_format = False
    assert torch.npu.config.allow_internal_format is False
    torch.npu.set_option({"allow_internal_format": -1})
    assert torch.npu.config.allow_internal_format is by_chip


def test_what_is_not_there_says_so():
    torch.npu.set_compile_mode(jit_compile=False)
    assert torch.npu.is_jit_compile_false()
    with pytest.warns(UserWarning, match="blas handle"):
        assert torch.npu.current_blas_handle() is None


def test_forbidden_fallback():
    torch.npu.set_option({"fallback_forbidden": True})
    try:
        with pytest.raises(RuntimeError):
            torch.linalg.eigvals(torch.eye(2, device="npu"))
    finally:
        torch.npu.set_option({"fallback_forbidden": False})


def test_ledger_counts_fallbacks():
    torch_npu.reset_fallbacks()
    assert torch_npu.fallbacks() == {}
    x = torch.tensor([[2.0, 0.0], [0.0, 3.0]], device="npu")
    torch.linalg.eigvals(x)
    record = [value for name, value in torch_npu.fallbacks().items() if "eig" in name]
    assert len(record) == 1
    assert record[0]["calls"] == 1 and record[0]["bytes"] >= 16 and record[0]["seconds"] > 0
    torch_npu.reset_fallbacks()
    assert torch_npu.fallbacks() == {}


def test_option_from_the_environment(python):
    run = python("import torch_npu._options as o; print(o.get('fallback_forbidden'))", TORCH_NPU_FALLBACK_CPU_DISABLE="1")
    assert run.stdout.strip() == "True", run.stderr
    run = python("import torch; torch.ones(1, device='npu')", TORCH_NPU_FALLBACK_CPU_DISABLE="perhaps")
    assert run.returncode != 0 and "TORCH_NPU_FALLBACK_CPU_DISABLE=perhaps" in run.stderr


def test_autocast_state():
    assert torch.npu.get_amp_supported_dtype() == [torch.float16, torch.bfloat16, torch.float32]
    with torch.autocast("npu", dtype=torch.float32):
        x = torch.ones(2, 2, device="npu", dtype=torch.float16)
        assert torch.npu.is_autocast_enabled() and (x @ x).dtype == torch.float32
    assert torch.npu.is_bf16_supported()
    assert not torch.npu.is_autocast_enabled()
    with torch.npu.amp.autocast(dtype=torch.bfloat16):
        assert torch.npu.is_autocast_enabled() and torch.npu.get_autocast_dtype() == torch.bfloat16
        assert torch.is_autocast_enabled("npu")
    assert not torch.npu.is_autocast_enabled()
    before = torch.npu.get_autocast_dtype()
    torch.npu.set_autocast_dtype(torch.bfloat16)
    assert torch.get_autocast_dtype("npu") == torch.bfloat16
    torch.npu.set_autocast_dtype(before)


def test_grad_scaler_skips_a_step_with_infinities():
    scaler = torch.npu.amp.GradScaler(init_scale=4.0)
    weight = torch.nn.Parameter(torch.ones(2, device="npu"))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler.scale((weight * 3).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [-2.0, -2.0] and scaler.get_scale() == 4.0
    optimizer.zero_grad()
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [-2.0, -2.0] and scaler.get_scale() == 2.0


def test_fuzzy_compile_blacklist_changes_nothing():
    x = torch.arange(6.0, device="npu").view(2, 3)
    torch.npu.set_option({"NPU_FUZZY_COMPILE_BLACKLIST": "Add,DynamicGRUV2"})
    assert (x + x).tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]


def test_torch_distributed_has_the_published_names():
    import torch.distributed as dist

    from torch_npu.distributed import ProcessGroupHCCL
    assert dist.is_hccl_available() and dist.ProcessGroupHCCL is ProcessGroupHCCL
    assert dist.distributed_c10d.ProcessGroupHCCL is ProcessGroupHCCL
