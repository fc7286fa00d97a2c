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
                  "from apex.fp16_utils import *\nassert issubclass(FP16_Optimizer, object) and callable(network_to_half)\n"
                  "from apex.fp16_utils import FP16_Optimizer as first\nfrom apex.optimizers import FP16_Optimizer as second, FusedAdagrad\n"
                  "from apex.contrib.optimizers import FP16_Optimizer as third, FusedAdam as same\n"
                  "assert first is FP16_Optimizer and second is third is not first and same is FusedAdam\n"
                  "from apex.optimizers.fused_lamb import FusedLAMB as lamb\nassert lamb is FusedLAMB\n"
                  "from apex.contrib import xentropy\nfrom apex.contrib.xentropy import SoftmaxCrossEntropyLoss\n"
                  "assert xentropy.SoftmaxCrossEntropyLoss is SoftmaxCrossEntropyLoss\n"
                  "from apex.parallel.LARC import LARC\nassert apex.parallel.LARC.LARC is LARC\n"
                  "from apex.parallel.distributed import flat_dist_call\nfrom apex.parallel import Reducer, create_syncbn_process_group\n"
                  "from apex.multi_tensor_apply import multi_tensor_applier\nassert not multi_tensor_applier.available\n"
                  "from apex.normalization.fused_layer_norm import FusedLayerNormAffineFunction, MixedFusedRMSNorm\n"
                  "import apex_C\nparts = [torch.ones(2, 2), torch.zeros(3)]\n"
                  "assert all(map(torch.equal, apex_C.unflatten(apex_C.flatten(parts), parts), parts))\n"
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
