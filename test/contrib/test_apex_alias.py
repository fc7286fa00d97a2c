"""``import apex`` finds torch_npu's, and yields to a real one."""
import pytest

ASK = "import torch, torch_npu, torch_npu.contrib.apex_alias as alias\n"


def test_names(python):
    code = ASK + ("from apex import amp\nimport apex.amp\nfrom apex.optimizers import FusedAdam\n"
                  "from torch_npu.optim import NpuFusedAdam\n"
                  "assert alias.installed and FusedAdam is NpuFusedAdam and callable(amp.initialize)\nprint('passed')")
    result = python(code)
    assert "passed" in result.stdout, result.stderr


def test_a_real_apex_stays(python, tmp_path):
    (tmp_path / "apex").mkdir()
    (tmp_path / "apex" / "__init__.py").write_text("real = True\n")
    result = python(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + ASK
                    + "import apex\nassert apex.real and not alias.installed\nprint('passed')")
    assert "passed" in result.stdout, result.stderr


def test_nobody_who_does_not_ask(python):
    code = "import torch, torch_npu, torch_npu.contrib.apex, importlib.util\nprint(importlib.util.find_spec('apex'))"
    if python("import apex").returncode == 0:
        pytest.skip("a real Apex is installed")
    assert python(code).stdout.strip().endswith("None")
