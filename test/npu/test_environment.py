"""Environment variables with wrong values: an error that names the variable, whatever the value, and never a crash."""

import pytest

USE = "import torch, torch_npu; print(torch.ones(2, device='npu').tolist())"


@pytest.mark.parametrize("name, value", [
    ("TORCH_NPU_FALLBACK_OPS", "\udcff"), ("ACL_DEVICE_SYNC_TIMEOUT_MS", "\udcff"), ("ASCEND_LAUNCH_BLOCKING", "perhaps"),
    ("TORCH_NPU_RUNTIME", "\udcff"), ("ASCEND_HOME_PATH", "/no\udcff"), ("LOCAL_WORLD_SIZE", "two"),
    ("SOFTCANN_MEMORY", "\udcff"), ("SOFTCANN_DEVICE_COUNT", "0"), ("SOFTCANN_FAULT", "aclrtMalloc:nth=1")])
def test_the_variable_is_named(python, name, value):
    environment = {"SOFTCANN_DEVICE_COUNT": None, "TORCH_NPU_RUNTIME": None, "ASCEND_HOME_PATH": None, name: value}
    done = python(USE, **environment)
    assert done.returncode == 1 and name in "".join(done.stderr.splitlines()[-2:]), done.stderr
    assert "UnicodeDecodeError" not in done.stderr and "SystemError" not in done.stderr


@pytest.mark.parametrize("variable, value", [
    ("PYTORCH_NPU_ALLOC_CONF", "max_split_size_mb:1"), ("PYTORCH_NPU_ALLOC_CONF", "no_such_key:1"), ("PYTORCH_NPU_ALLOC_CONF", "x"),
    ("PYTORCH_NPU_ALLOC_CONF", "pinned_use_background_threads:maybe"), ("PYTORCH_NPU_ALLOC_CONF", "\udcff:1"),
    ("PYTORCH_ALLOC_CONF", "garbage_collection_threshold:2")])
def test_the_allocators_settings(python, variable, value):
    done = python(USE, **{variable: value})
    assert done.returncode == 1 and variable in done.stderr.splitlines()[-1], done.stderr
    assert "UnicodeDecodeError" not in done.stderr


@pytest.mark.parametrize("kind, value", [("oom_snapshot_path", b"\xff"), ("launch_blocking", b"\xe2\x28"), ("sync_timeout_ms", b"\xf0")])
def test_values_that_are_no_text(kind, value):
    import torch_npu

    with pytest.raises(ValueError, match=f"{kind}=.*not text in UTF-8"):
        torch_npu._C._set_option(kind, value)


def test_text_beyond_ascii():
    import torch_npu

    before = torch_npu._options.get("oom_snapshot_path")
    try:
        torch_npu._C._set_option("oom_snapshot_path", "/tmp/日本 é 😀")
        assert torch_npu._options.get("oom_snapshot_path") == "/tmp/日本 é 😀"
    finally:
        torch_npu._C._set_option("oom_snapshot_path", before)
