"""Settings, variables and numbers as programs for the published torch_npu use them."""
import logging
import os
import sys

import pytest
import torch

import torch_npu
from torch_npu import _environment, _options
from torch_npu.npu import settings
from torch_npu.utils import _error_code


@pytest.fixture(autouse=True)
def _as_before():
    yield
    torch.npu.set_compile_mode(jit_compile=False)
    torch.npu.set_mm_bmm_format_nd(True)
    torch.npu.use_compatible_impl(False)
    settings._task_queue = -1


@pytest.mark.parametrize("option,value", [
    ("ACL_PRECISION_MODE", "must_keep_origin_dtype"), ("ACL_OP_SELECT_IMPL_MODE", "high_precision"),
    ("ACL_OPTYPELIST_FOR_IMPLMODE", "Add"), ("ACL_OP_COMPILER_CACHE_MODE", "enable"), ("ACL_OP_COMPILER_CACHE_DIR", "/nowhere"),
    ("ACL_OP_DEBUG_LEVEL", "1"), ("ACL_AICORE_NUM", "20")])
def test_options_of_a_compiler_are_told_once(option, value, caplog):
    settings._told.clear()
    with caplog.at_level(logging.INFO, "torch_npu"):
        torch.npu.set_option({option: value})
        torch.npu.set_option({option: value})
    assert [option in record.message for record in caplog.records] == [True]


def test_bad_options():
    with pytest.raises(ValueError, match="(?s)high_precision.*ERR00003"):
        torch.npu.set_option({"ACL_OP_SELECT_IMPL_MODE": "good"})
    for value in ("on", None, 2):
        with pytest.raises(ValueError, match="(?s)ALLOW_CONV_HF32 is one of enable, disable.*ERR00003"):
            torch.npu.set_option({"ALLOW_CONV_HF32": value})
    for kind in (ValueError, RuntimeError):
        with pytest.raises(kind, match="unknown option nonsense"):
            torch.npu.set_option({"nonsense": "1"})
    with pytest.raises(TypeError, match="dict"):
        torch.npu.set_option("jitCompile")


def test_what_is_remembered():
    torch.npu.set_compile_mode(jit_compile=True)
    assert not torch.npu.is_jit_compile_false()
    torch.npu.set_option({"jitCompile": "disable"})
    assert torch.npu.is_jit_compile_false()
    assert torch.npu.get_mm_bmm_format_nd() is True
    torch.npu.set_option({"MM_BMM_ND_ENABLE": "disable"})
    assert torch.npu.get_mm_bmm_format_nd() is False
    torch.npu.use_compatible_impl(True)
    assert torch.npu.are_compatible_impl_enabled() is True


def test_task_queue(monkeypatch):
    monkeypatch.delenv("TASK_QUEUE_ENABLE", raising=False)
    assert torch.npu.get_task_queue_enable() == 1
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "2")
    assert torch.npu.get_task_queue_enable() == 2
    torch.npu.set_task_queue_enable(0)
    assert torch.npu.get_task_queue_enable() == 0
    with pytest.raises(RuntimeError, match="ERR00003"):
        torch.npu.set_task_queue_enable(3)
    settings._task_queue = -1
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "many")
    with pytest.raises(ValueError, match="TASK_QUEUE_ENABLE=many"):
        torch.npu.get_task_queue_enable()


def test_capability(monkeypatch):
    monkeypatch.delenv("TORCH_NPU_DEVICE_CAPABILITY", raising=False)
    assert torch.npu.get_device_capability() is None
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "8.0")
    assert torch.npu.get_device_capability() == (8, 0)
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "eight")
    with pytest.raises(ValueError, match="TORCH_NPU_DEVICE_CAPABILITY=eight"):
        torch.npu.get_device_capability()


def test_numbers_of_chips():
    numbers = sys.modules["torch_npu.npu.device"]._SOC_NUMBERS
    assert numbers["Ascend910B1"] == 220 and numbers["Ascend910B3"] == 223 and numbers["Ascend910B4-1"] == 225
    assert numbers["Ascend910_9391"] == 250 and numbers["Ascend310P3"] == 202 and numbers["Ascend950"] == 260
    assert torch.npu.get_soc_version() == torch.npu.utils.get_soc_version() == numbers.get(torch.npu.get_device_name(), -1)


def test_numbers_of_dtypes():
    assert (torch_npu.float8_e8m0fnu, torch_npu.float4_e2m1fn_x2, torch_npu.hifloat8, torch_npu.int4) == (293, 296, 290, 285)
    assert torch_npu.float8_e4m3fn == 292 and torch_npu.unsupported_dtype[0] is torch.quint8


def test_formats_have_names():
    x = torch.zeros(2, 3, 4, 5, device="npu")
    found = torch_npu.get_npu_format(x)
    assert found is torch_npu.Format.NCHW and found == 0 and str(found) == "NCHW"
    assert torch_npu.get_npu_format(x[0, 0]) in (torch_npu.Format.ND, torch_npu.Format.NCHW)
    assert torch.equal(torch_npu.npu_format_cast(x, torch_npu.Format.FRACTAL_NZ).cpu(), x.cpu())


def test_codes_of_errors():
    code = _error_code.ErrCode
    assert "ERR00001 PTA invalid parameter" in _error_code.pta_error(code.PARAM)
    assert "ERR02200 DIST call hccl api failed" in _error_code.dist_error(code.HCCL)
    assert code.ACL.code == 100 and code.ACL.msg == "call acl api failed"


def test_variables_without_effect_are_told():
    told = dict(_environment.accepted({"TASK_QUEUE_ENABLE": "1", "PROF_CONFIG_PATH": "x", "PER_STREAM_QUEUE": ""}))
    assert list(told) == ["TASK_QUEUE_ENABLE"] and "queue" in told["TASK_QUEUE_ENABLE"]
    with pytest.raises(ValueError, match="HOME"):
        _options.published("HOME")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no CPU affinity")
def test_affinity():
    from torch_npu.utils import affinity, reset_thread_affinity, set_thread_affinity

    before = os.sched_getaffinity(0)
    core = min(before)
    try:
        set_thread_affinity([core, core])
        assert os.sched_getaffinity(0) == {core}
        reset_thread_affinity()
        assert os.sched_getaffinity(0) == before
        affinity.apply_configuration(f"mode:1,npu0:{core}-{core}", 0)
        assert os.sched_getaffinity(0) == {core}
        for text in (f"1,npu0:{core}-{core}", f"1,lazy_bind:0,npu0:{core}-{core}"):
            reset_thread_affinity()
            affinity.apply_configuration(text, 0)
            assert os.sched_getaffinity(0) == {core}
        affinity.apply_configuration("mode:0", 0)
        for wrong in ("mode:9", "mode:1,npu0:many", "lazy_bind:0", "9,lazy_bind:0"):
            with pytest.raises(ValueError, match="CPU_AFFINITY_CONF"):
                affinity.apply_configuration(wrong, 0)
        with pytest.raises(ValueError, match="first, last"):
            set_thread_affinity([3, 1])
        with pytest.warns(UserWarning, match="this machine has"):
            set_thread_affinity([[core, core], [100000, 10**15]])
        assert os.sched_getaffinity(0) == {core}
    finally:
        os.sched_setaffinity(0, before)


def test_quiet_and_loud(python):
    code = ("import warnings, torch, torch_npu\n"
            "warnings.warn_explicit('noise', RuntimeWarning, 'x.py', 1, module='torch_npu.npu.device')\n"
            "torch.npu.set_option({'ACL_DEBUG_DIR': '/nowhere'})")
    loud = python(code, TORCH_NPU_LOGS="info")
    assert loud.returncode == 0 and "noise" in loud.stderr and "ACL_DEBUG_DIR is accepted" in loud.stderr
    quiet = python(code, TORCH_NPU_WARNING_DISABLE="1")
    assert quiet.returncode == 0 and "noise" not in quiet.stderr and "ACL_DEBUG_DIR" not in quiet.stderr
    assert "TORCH_NPU_LOGS=much" in python(code, TORCH_NPU_LOGS="much").stderr.replace("much:", "much")


def test_a_tuner_is_told_once(caplog, tmp_path):
    settings._told.clear()
    with caplog.at_level(logging.INFO, "torch_npu"):
        torch.npu.set_aoe(tmp_path)
        torch.npu.set_aoe(str(tmp_path))
    assert ["set_aoe" in record.message for record in caplog.records] == [True]
    with pytest.raises(TypeError):
        torch.npu.set_aoe(3)


def test_a_stress_test_is_not_run():
    with pytest.warns(UserWarning, match="nothing was tested"):
        assert torch.npu.stress_detect() == 1
