"""What CANN has an operator for is one launch of it, besides copies and fills; gradients too where it has them."""
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "third_party" / "softcann" / "python"))
from softcann import trace  # noqa: E402

LAUNCHED = {
    "npu_mla_prolog_v2": "MlaPrologV2WeightNz", "npu_mla_prolog_v3": "MlaPrologV3WeightNz",
    "npu_mla_prolog_v3_functional": "MlaPrologV3WeightNz", "npu_kv_rmsnorm_rope_cache": "KvRmsNormRopeCache",
    "npu_kv_rmsnorm_rope_cache_v2": "KvRmsNormRopeCache", "npu_kv_rmsnorm_rope_cache_v2_functional": "KvRmsNormRopeCache",
    "npu_qkv_rms_norm_rope_cache": "QkvRmsNormRopeCache", "npu_qkv_rms_norm_rope_cache_functional": "QkvRmsNormRopeCache",
    "npu_rope_quant_kvcache": "DequantRopeQuantKvcache", "npu_dequant_rope_quant_kvcache": "DequantRopeQuantKvcache",
    "npu_gather_pa_kv_cache_functional": "GatherPaKvCache", "npu_scatter_pa_cache": "ScatterPaCache",
    "npu_fused_causal_conv1d": "FusedCausalConv1d", "npu_fused_causal_conv1d_v2": "InplaceFusedCausalConv1d",
    "npu_masked_causal_conv1d": "MaskedCausalConv1d", "npu_masked_causal_conv1d_backward": "MaskedCausalConv1dBackward",
    "npu_grouped_matmul_swiglu_quant_v2": "GroupedMatmulSwigluQuantV2", "npu_quant_grouped_matmul_dequant": "QuantGroupedMatmulDequant",
    "npu_add_quant_gmm": "QuantGroupedMatmulInplaceAdd", "npu_add_quant_gmm_": "QuantGroupedMatmulInplaceAdd",
    "npu_add_quant_matmul": "QuantBatchMatmulInplaceAdd", "npu_add_quant_matmul_": "QuantBatchMatmulInplaceAdd",
    "npu_transpose_quant_batchmatmul": "TransposeQuantBatchMatMul", "npu_quant_matmul_gelu": "FusedQuantMatmul",
    "npu_top_k_top_p_sample": "TopKTopPSampleV2", "npu_rotate_quant": "RotateQuant", "npu_kronecker_quant": "FlatQuantV2",
    "npu_transpose_batchmatmul": "TransposeBatchMatMul", "npu_fused_matmul": "FusedMatmul", "npu_batch_gather_matmul": "AddLora",
    "npu_batch_gather_matmul_": "AddLora", "npu_grouped_matmul_finalize_routing": "GroupedMatmulFinalizeRoutingV3",
    "npu_sparse_flash_attention": "SparseFlashAttention", "npu_sparse_flash_attention_grad": "SparseFlashAttentionGrad",
    "_lstm_npu": "LSTM", "_lstm_npu_backward": "LstmBackward", "_gru_npu": "GRU", "_gru_npu_backward": "GRUBackward",
}
BACKWARD = {"npu_masked_causal_conv1d": "MaskedCausalConv1dBackward", "npu_sparse_flash_attention": "SparseFlashAttentionGrad",
            "_lstm_npu": "LstmBackward", "_gru_npu": "GRUBackward"}
MOVES = {f"aclnn{name}" for name in ("InplaceCopy", "InplaceZero", "InplaceOne", "InplaceFillScalar", "InplaceFillTensor", "Cast")}
PROGRAM = """
import os, sys
import torch, torch_npu
from torch.utils._pytree import tree_flatten, tree_map
from cases import CASES
lines = open(os.environ["SOFTCANN_TRACE"], "a")
gradients = sys.argv[1] == "gradients"
def begin(text):
    torch.npu.synchronize()
    print("case", text, file=lines, flush=True)
for name in sys.argv[2:]:
    torch.manual_seed(0)
    given = tree_map(lambda v: v.npu() if isinstance(v, torch.Tensor) else v, CASES[name][0](torch.float16))
    if gradients:
        for leaf in tree_flatten(given)[0]:
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
                leaf.requires_grad_()
    begin(name)
    out = tree_flatten(getattr(torch_npu, name)(*given[0], **given[1]))[0][0]
    if gradients:
        begin(name + ".backward")
        out.backward(torch.ones_like(out))
    begin("none")
"""


PACKED_ATTENTION = """
import os
import torch, torch_npu
lines = open(os.environ["SOFTCANN_TRACE"], "a")
for pse_type in (0, 1):
    for layout in ("", "TND"):
        q = torch.randn(7, 2, 16, device="npu", requires_grad=True)
        torch.npu.synchronize()
        print("case", f"{pse_type}{layout}", file=lines, flush=True)
        options = dict(actual_seq_qlen=[2, 7], actual_seq_kvlen=[2, 7], pse_type=pse_type, softmax_layout=layout)
        torch_npu.npu_fusion_attention_v2(q, q, q, 2, "TND", **options)[0].sum().backward()
"""


def launched(folder, kind, names, environment, program=PROGRAM):
    path = folder / "trace"
    done = subprocess.run([sys.executable, "-c", program, kind, *names], capture_output=True, text=True, cwd=pathlib.Path(__file__).parent,
                          env={**environment, "SOFTCANN_TRACE": str(path)})
    assert done.returncode == 0, done.stderr
    return {name: [launch.op[len("aclnn"):] for launch in case.launches if launch.op not in MOVES]
            for name, case in trace.cases(path).items() if name not in ("none", trace.BEFORE_CASES)}


@pytest.fixture
def environment():
    import os

    return {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parent)}


def test_one_launch(tmp_path, environment):
    assert launched(tmp_path, "values", LAUNCHED, environment) == {name: [op] for name, op in LAUNCHED.items()}


def test_one_launch_for_gradients(tmp_path, environment):
    found = launched(tmp_path, "gradients", BACKWARD, environment)
    assert {name: found[name] for name in BACKWARD} == {name: [LAUNCHED[name]] for name in BACKWARD}
    assert {name: [op for op in found[f"{name}.backward"] if op in BACKWARD.values()] for name in BACKWARD} == {
        name: [op] for name, op in BACKWARD.items()}


def test_packed_attention_goes_to_a_version_that_knows_the_pse_type(tmp_path, environment):
    found = launched(tmp_path, "", [], environment, PACKED_ATTENTION)
    versions = {name: [op for op in ops if op.startswith("FlashAttention")] for name, ops in found.items()}
    assert versions == {name: [f"FlashAttentionVarLenScore{version}", f"FlashAttentionUnpaddingScoreGrad{version}"]
                        for name, version in {"0": "V2", "0TND": "V5", "1": "", "1TND": "V4"}.items()}
