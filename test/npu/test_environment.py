"""Environment variables with wrong values: an error that names the variable, whatever the value, and never a crash."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

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


@pytest.mark.parametrize("first_use", [
    'torch.ones(2, device="npu")', "torch.ops.npu.npu_dropout_gen_mask((8,), 0.5)", "torch.ones(2).pin_memory()"])
def test_an_initialisation_that_fails_has_its_kind_and_code(python, first_use):
    done = python(f"""
import torch, torch_npu
try:
    {first_use}
except torch.AcceleratorError as error:
    print(error.error_code, str(error).splitlines()[0].split(" (")[0], "runtime was chosen because" in str(error))
""", SOFTCANN_FAULT="aclInit:nth=1:code=507015", TORCH_NPU_RUNTIME="softcann")
    assert done.stdout == "507015 aclInit failed with code 507015 True\n", done.stdout + done.stderr


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


# Each child of a process that has imported torch is the first to read the environment.
EACH_VARIABLE = """
import ctypes, os, sys, torch
for variable, value in {values}:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.environb[variable.encode()] = value
        try:
            {use}
        except ValueError as error:
            told = str(error)
        else:
            told = "nothing"
        print(variable, "is named" if variable in told else told)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


def wrong_values(variables):
    """Numbers and switches that are none; text that is no text."""
    return [(name, b"perhaps" if kind in ("bool", "int64_t", "Count", "Bytes", "Flag") else b"\xff") for name, kind in variables]


def test_each_variable_of_the_adapters_table_is_named(python):
    table = (ROOT / "csrc" / "core" / "options.def").read_text()
    options = re.findall(r'^NPU_OPTION\(([\w:]+), \w+, [^"]*(?:"[^"]*")?[^"]*"([A-Z_,0-9]+)"', table, re.M)
    values = wrong_values([(name, kind) for kind, names in options for name in names.split(",")])
    assert len(values) >= 30
    done = python(EACH_VARIABLE.format(values=values, use="import torch_npu"), TORCH_DEVICE_BACKEND_AUTOLOAD=0)
    assert done.stdout.splitlines() == [f"{name} is named" for name, _ in values], done.stdout + done.stderr


def test_each_variable_of_softcanns_table_is_named(python):
    table = (ROOT / "third_party" / "softcann" / "src" / "rt" / "base" / "options.def").read_text()
    options = re.findall(r'^SOFTCANN_OPTION\(\w+, "(\w+)", (\w+),', table, re.M)
    values = wrong_values([(name, kind) for name, kind in options if kind != "Text"])
    texts = ("SOFTCANN_GEMM", "SOFTCANN_CHECK", "SOFTCANN_TRANSPORT", "SOFTCANN_FAULT", "SOFTCANN_SOC")
    values += [(name, b"perhaps") for name in texts]
    library = ROOT / "torch_npu" / "softcann" / "lib" / "libascendcl.so"
    use = f"""acl = ctypes.CDLL({str(library)!r})
            acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
            if acl.aclInit(None):
                raise ValueError(acl.aclGetRecentErrMsg().decode())"""
    done = python(EACH_VARIABLE.format(values=values, use=use), TORCH_DEVICE_BACKEND_AUTOLOAD=0, SOFTCANN_HOST_TENSORS=None)
    assert done.stdout.splitlines() == [f"{name} is named" for name, _ in values], done.stdout + done.stderr
