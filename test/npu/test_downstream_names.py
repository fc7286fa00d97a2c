"""What public projects use of torch_npu is there, and takes the keywords that they hand it, or is listed here with the reason."""
import inspect
import pathlib

import pytest
import torch
from dotted_names import resolve

import torch_npu  # noqa: F401

NAMES = {name: keywords for line in pathlib.Path(__file__).with_name("downstream_names.txt").read_text().splitlines()
         if not line.startswith("#") for name, *keywords in [line.split()]}

_OTHER = "the published torch_npu 2.13.0 has not got it either: older ones had, or newer ones will have"
_OWN = "an operator that the project's own library registers"
MISSING = {
    **dict.fromkeys((
        "torch.ops.npu.alloc_extend", "torch.ops.npu.apply_token_bitmask", "torch.ops.npu.assign_cache_op",
        "torch.ops.npu.batch_matmul_transpose", "torch.ops.npu.build_tree_kernel_efficient", "torch.ops.npu.cache_loc_assign",
        "torch.ops.npu.cache_loc_update", "torch.ops.npu.catlass_matmul_basic", "torch.ops.npu.causal_conv1d",
        "torch.ops.npu.causal_conv1d_update", "torch.ops.npu.compressor", "torch.ops.npu.helloworld", "torch.ops.npu.lightning_indexer",
        "torch.ops.npu.mega_chunk_gdn", "torch.ops.npu.mla_preprocess", "torch.ops.npu.npu_chunk_bwd_dqkwg",
        "torch.ops.npu.npu_chunk_bwd_dv_local", "torch.ops.npu.npu_chunk_fwd_o", "torch.ops.npu.npu_chunk_gated_delta_rule_bwd_dhu",
        "torch.ops.npu.npu_chunk_gated_delta_rule_fwd_h", "torch.ops.npu.npu_prepare_wy_repr_bwd_da",
        "torch.ops.npu.npu_prepare_wy_repr_bwd_full", "torch.ops.npu.npu_recompute_w_u_fwd", "torch.ops.npu.recurrent_gated_delta_rule",
        "torch.ops.npu.sgemmv_expand", "torch.ops.npu.sgemmv_shrink", "torch.ops.npu.sgl_kernel_npu_print_version",
        "torch.ops.npu.softfp8_w8a16_grouped_matmul", "torch.ops.npu.softfp8_w8a16_matmul", "torch.ops.npu.sparse_attn_sharedkv",
        "torch.ops.npu.sparse_attn_sharedkv.default._schema", "torch.ops.npu.sparse_attn_sharedkv_metadata_host",
        "torch.ops.npu.transfer_kv_dim_exchange", "torch.ops.npu.transfer_state_all_layer_direct_lf_pf",
        "torch.ops.npu.transfer_state_per_layer_direct_pf_lf", "torch.ops.npu.triangular_inverse",
    ), _OWN),
    **dict.fromkeys((
        "torch.npu.comm", "torch.npu.comm.broadcast_coalesced", "torch.npu.comm.reduce_add", "torch.npu.comm.reduce_add_coalesced",
        "torch.npu.disable_graph_mode", "torch.npu.enable_graph_mode", "torch.npu.global_step_inc", "torch.npu.launch_graph",
        "torch.npu.profile", "torch.npu.profiler.profile", "torch.npu.profiler.start", "torch.npu.profiler.stop", "torch.npu.set_iotion",
        "torch.npu.set_start_fuzz_compile_step", "torch_npu._C._VariableFunctionsClass", "torch_npu._npu_topk_topp_sampling",
        "torch_npu.npu.utils.clear_npu_diff_flag", "torch_npu.npu.utils.get_npu_diff_flag", "torch_npu.npu_apply_fused_ema_adamw",
        "torch_npu.npu_exp", "torch_npu.npu_flash_attention", "torch_npu.npu_groupmatmul_add_fp32", "torch_npu.npu_matmul_add_fp32",
        "torch_npu.npu_rotary_position_embedding", "torch_npu.npu_sparse_attention_score", "torch_npu.set_device",
        "torch_npu.synchronize", "torch_npu.utils.device_guard.torch_device_guard", "torch_npu.utils.path_manager.PathManager",
        "torch_npu.utils.path_manager.PathManager.make_dir_safety", "torch_npu.utils.path_manager.PathManager.remove_path_safety",
    ), _OTHER),
    "torch_npu.npu_matmul_compress_dequant": "refused: weights come compressed by a tool whose format is not public",
}
NOT_TAKEN = {
    ("torch.npu.set_compile_mode", "jit"): _OTHER,
    ("torch_npu.new_device", "index"): _OTHER,
    ("torch_npu.new_device", "type"): _OTHER,
    ("torch_npu.npu_grouped_matmul_swiglu_quant_v2", "swiglu_limit"): _OTHER,
    ("torch_npu.npu_grouped_matmul_swiglu_quant_v2", "use_mxfp_quant"): _OTHER,
    ("torch_npu.optim.NpuFusedLamb", "max_grad_norm"): "the published one has not got it either: it is NpuFusedBertAdam's",
}


def signatures(name):
    """The parameters of each form of what the name stands for: those of an operator's schemas, as its Python function takes those."""
    operator = getattr(torch.ops.npu, name.rpartition(".")[2], None) if name.count(".") == 1 else None
    value = operator or resolve(name)
    if isinstance(value, torch._ops.OpOverloadPacket):
        return [{argument.name: False for argument in getattr(value, form)._schema.arguments} for form in value.overloads()]
    if not callable(value):
        return []
    parameters = inspect.signature(value).parameters.values()
    return [{parameter.name: parameter.kind is parameter.VAR_KEYWORD for parameter in parameters}]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in MISSING])
def test_is_there(name, python):
    if "transfer_to_npu" in name:   # its import changes torch for the whole process
        done = python(f"from {name.rpartition('.')[0]} import {name.rpartition('.')[2]}")
        assert done.returncode == 0, done.stderr
        return
    resolve(name)
    for keyword in NAMES[name]:
        if (name, keyword) not in NOT_TAKEN:
            assert any(keyword in form or any(form.values()) for form in signatures(name)), keyword


@pytest.mark.parametrize("name", MISSING)
def test_the_list_names_only_what_is_missing(name):
    with pytest.raises((AttributeError, RuntimeError)):
        resolve(name)


@pytest.mark.parametrize("name, keyword", NOT_TAKEN)
def test_the_list_names_only_keywords_that_are_not_taken(name, keyword):
    assert not any(keyword in form or any(form.values()) for form in signatures(name))
