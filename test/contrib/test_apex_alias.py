"""``import apex`` finds torch_npu's, and yields to a real one."""
import pytest

ASK = "import torch, torch_npu, torch_npu.contrib.apex_alias as alias\n"


def test_names(python):
    code = ASK + ("from apex import amp\nimport apex.amp\nfrom apex.optimizers import FusedAdam\n"
                  "from apex.optimizers import FusedLAMB, FusedNovoGrad, FusedSGD, FusedAdamW, NpuFusedSGD\n"
                  "from apex.optimizers import npu_fused_bert_adam\n"
                  "from apex.optimizers.npu_fused_adam import NpuFusedAdam\n"
                  "from torch_npu.optim.npu_fused_bert_adam import SCHEDULES\n"
                  "assert npu_fused_bert_adam.SCHEDULES is SCHEDULES and SCHEDULES['warmup_poly'](0.75, 0.1) == 0.5\n"
                  "assert npu_fused_bert_adam.NpuFusedBertAdam is apex.optimizers.NpuFusedBertAdam\n"
                  "from apex.contrib.combine_tensors import combine_npu, get_part_combined_tensor\n"
                  "from apex.normalization.fused_layer_norm import FusedLayerNorm\n"
                  "from apex.parallel import DistributedDataParallel, SyncBatchNorm, convert_syncbn_model\n"
                  "from torch_npu.optim import NpuFusedAdam, NpuFusedAdamW\nimport importlib.util\n"
                  "assert all(importlib.util.find_spec(name) for name in ('apex', 'apex.amp', 'apex.contrib', 'apex.optimizers'))\n"
                  "assert alias.installed and issubclass(FusedAdam, NpuFusedAdam) and callable(amp.initialize)\n"
                  "assert FusedAdamW is NpuFusedAdamW and apex.normalization.FusedLayerNorm is FusedLayerNorm\nprint('passed')")
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
