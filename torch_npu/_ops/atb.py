"""torch.ops.atb.*: the schemas of torch_npu/_cpu_ops/transformer_boost*.py, which are their kernels on every device.

Apart from it, so that ``import torch_npu`` registers names and imports no kernels. Schemas: those of Ascend's adapter, 2.13.0.
"""

from typing import Any, Callable

import torch

from torch_npu import _C
from torch_npu._ops.signature import signature

SCHEMAS = (
    "_npu_paged_attention(Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, int num_heads, float "
    "scale_value, Tensor block_table, Tensor context_lens, Tensor(a!) out, *, Tensor? workspace=None) -> ()",
    "_npu_paged_attention_get_workspace(Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, int "
    "num_heads, float scale_value, Tensor block_table, Tensor context_lens, Tensor(a!) out) -> Tensor",
    "_npu_paged_attention_mla(Tensor query, Tensor key_cache, int num_kv_heads, int num_heads, float scale_value, Tensor "
    "block_table, Tensor context_lens, int mla_vheadsize, Tensor(a!) out) -> ()",
    "_npu_paged_attention_splitfuse(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor "
    "context_lens, Tensor mask, Tensor seq_len, int num_kv_heads, int num_heads, float scale_value, Tensor(a!) out) -> ()",
    "_npu_paged_attention_splitfuse_v2(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor "
    "context_lens, Tensor mask, Tensor seq_len, int num_kv_heads, int num_heads, float scale_value, *, int? mask_type=5, "
    "Tensor(a!) out) -> ()",
    "_npu_flash_attention(Tensor query, Tensor key, Tensor value, Tensor mask, Tensor seq_len, float scale_value, int "
    "num_heads, int num_kv_heads, Tensor(a!) out) -> ()",
    "_npu_flash_attention_v3(Tensor query, Tensor key, Tensor value, Tensor mask, Tensor seq_len, float scale_value, int "
    "num_heads, int num_kv_heads, *, int? mask_type=3, Tensor(a!) out) -> ()",
    "_npu_flash_attention_unpad(Tensor query, Tensor key, Tensor value, Tensor seq_len, float scale_value, int num_heads, "
    "int num_kv_heads, Tensor(a!) out) -> ()",
    "_npu_flash_attention_unpad_v2(Tensor query, Tensor key, Tensor value, Tensor seq_len, float scale_value, int "
    "num_heads, int num_kv_heads, *, int? kernel_type=0, Tensor(a!) out) -> ()",
    "_npu_flash_attention_qlens(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor mask, Tensor "
    "seq_len, Tensor context_lens, int num_kv_heads, int num_heads, float scale_value, Tensor(a!) out) -> ()",
    "_npu_reshape_and_cache(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_indices) -> "
    "()",
    "_npu_reshape_and_cache_siso(Tensor key, Tensor(a!) key_cache, Tensor slot_indices) -> ()",
    "_npu_rotary_embedding(Tensor positions, Tensor(a!) query, Tensor(b!) key, int head_size, Tensor cos_sin_cache, bool "
    "is_neox_style) -> ()",
    "_npu_group_topk(Tensor(a!) self, int k=0, int group_num=1, int n=1) -> ()",
    "_npu_matmul_add_fp32(Tensor x, Tensor weight, Tensor(a!) C) -> ()",
    "_npu_quantize_per_tensor(Tensor x, Tensor scale, Tensor zero_point, Tensor(a!) y) -> ()",
    "npu_multi_head_latent_attention(Tensor q_nope, Tensor q_rope, Tensor ctkv, Tensor k_rope, Tensor block_tables, "
    "SymInt[] context_lens, int q_headnum, float qk_scale, int kv_headnum, *, Tensor? mask=None, SymInt[]? qseqlen=None, "
    "Tensor? qk_descale=None, Tensor? pv_descale=None, str? mask_type=None, str? calc_type=None, str? cache_mode=None) -> "
    "Tensor",
    "npu_multi_head_latent_attention.out(Tensor q_nope, Tensor q_rope, Tensor ctkv, Tensor k_rope, Tensor block_tables, "
    "SymInt[] context_lens, int q_headnum, float qk_scale, int kv_headnum, *, Tensor? mask=None, SymInt[]? qseqlen=None, "
    "Tensor? qk_descale=None, Tensor? pv_descale=None, str? mask_type=None, str? calc_type=None, str? cache_mode=None, "
    "Tensor(a!) output) -> Tensor(a!)",
    "npu_ring_mla(Tensor q_nope, Tensor q_rope, Tensor k_nope, Tensor k_rope, Tensor value, Tensor mask, Tensor seqlen, int "
    "head_num, int kv_head_num, *, Tensor? pre_out=None, Tensor? prev_lse=None, float qk_scale=1, str? kernel_type=None, "
    "str? mask_type=None, str? input_layout=None, str? calc_type=None) -> (Tensor, Tensor)",
    "npu_ring_mla.out(Tensor q_nope, Tensor q_rope, Tensor k_nope, Tensor k_rope, Tensor value, Tensor mask, Tensor seqlen, "
    "int head_num, int kv_head_num, *, Tensor? pre_out=None, Tensor? prev_lse=None, float qk_scale=1, str? "
    "kernel_type=None, str? mask_type=None, str? input_layout=None, str? calc_type=None, Tensor(a!) output, Tensor(b!) "
    "softmax_lse) -> (Tensor(a!), Tensor(b!))",
    "npu_paged_cache_load(Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor context_lens, *, Tensor? "
    "seq_starts=None, bool cumsum=False) -> (Tensor, Tensor)",
    "npu_paged_cache_load.out(Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor context_lens, *, Tensor? "
    "seq_starts=None, bool cumsum=False, Tensor(a!) key, Tensor(b!) value) -> (Tensor(a!), Tensor(b!))",
    "_npu_paged_attention_v2.out(Tensor query, Tensor key_cache, Tensor block_table, SymInt[] context_lens, *, Tensor? "
    "value_cache=None, Tensor? mask=None, int num_kv_heads=0, int num_heads=0, float scale_value=1.0, int mask_type=0, "
    "Tensor? workspace=None, Tensor(a!) out) -> Tensor(a!)",
    "_npu_paged_attention_v2_get_workspace(Tensor query, Tensor key_cache, Tensor block_table, SymInt[] context_lens, *, "
    "Tensor? value_cache=None, Tensor? mask=None, int num_kv_heads=0, int num_heads=0, float scale_value=1.0, int "
    "mask_type=0, Tensor(a!) out) -> Tensor",
    "_npu_paged_attention_quant(Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, int num_heads, float "
    "scale_value, Tensor block_table, Tensor context_lens, int quant_type, int outdata_type, Tensor k_descale, Tensor "
    "v_descale, Tensor(a!) out) -> ()",
    "_npu_flash_attention_v2.out(Tensor query, Tensor key, Tensor value, SymInt[] seq_len, *, Tensor? mask=None, Tensor? "
    "slopes=None, int kernel_type=0, int mask_type=2, float scale_value=1, int num_heads=0, int num_kv_heads=0, Tensor(a!) "
    "out) -> Tensor(a!)",
    "_npu_flash_attention_prefix_v2.out(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor "
    "mask, SymInt[] seq_len, SymInt[] context_lens, *, Tensor? slopes=None, int kernel_type=1, int mask_type=3, int "
    "num_kv_heads=0, int num_heads=0, float scale_value=1, Tensor(a!) out) -> Tensor(a!)",
    "npu_self_attention_prefix_encoder(Tensor query, Tensor key, Tensor value, Tensor block_tables, SymInt[] seqlen, "
    "SymInt[] kv_seqlen, int q_headnum, float qk_scale, int kv_headnum, *, Tensor? mask=None, Tensor? slopes=None, str? "
    "mask_type=None) -> Tensor",
    "npu_self_attention_prefix_encoder.out(Tensor query, Tensor key, Tensor value, Tensor block_tables, SymInt[] seqlen, "
    "SymInt[] kv_seqlen, int q_headnum, float qk_scale, int kv_headnum, *, Tensor? mask=None, Tensor? slopes=None, str? "
    "mask_type=None, Tensor(a!) output) -> Tensor(a!)",
    "_npu_quant_rms_norm(Tensor self, Tensor gamma, Tensor beta, Tensor scale, Tensor offset, Tensor(a!) output, float "
    "eps=1e-05) -> ()",
    "npu_fused_add_topk_div(Tensor x, Tensor add_num, *, Tensor? mapping_num=None, Tensor? mapping_table=None, str? "
    "activation_type=None, int group_num=1, int group_topk=1, int n=1, int k=1, bool is_norm=True, float scale=1, bool "
    "enable_expert_mapping=False) -> (Tensor, Tensor)",
    "npu_fused_add_topk_div.out(Tensor x, Tensor add_num, *, Tensor? mapping_num=None, Tensor? mapping_table=None, str? "
    "activation_type=None, int group_num=1, int group_topk=1, int n=1, int k=1, bool is_norm=True, float scale=1, bool "
    "enable_expert_mapping=False, Tensor(a!) y, Tensor(b!) indices) -> (Tensor(a!), Tensor(b!))",
    "npu_multi_head_latent_attention.lse(Tensor q_nope, Tensor q_rope, Tensor ctkv, Tensor k_rope, Tensor block_tables, "
    "SymInt[] context_lens, int q_headnum, float qk_scale, int kv_headnum, bool return_lse, *, Tensor? mask=None, SymInt[]? "
    "qseqlen=None, Tensor? qk_descale=None, Tensor? pv_descale=None, str? mask_type=None, str? calc_type=None, str? "
    "cache_mode=None, Tensor? workspace=None) -> (Tensor, Tensor)",
    "_npu_multi_head_latent_attention_get_workspace.lse(Tensor q_nope, Tensor q_rope, Tensor ctkv, Tensor k_rope, Tensor "
    "block_tables, SymInt[] context_lens, int q_headnum, float qk_scale, int kv_headnum, bool return_lse, *, Tensor? "
    "mask=None, SymInt[]? qseqlen=None, Tensor? qk_descale=None, Tensor? pv_descale=None, str? mask_type=None, str? "
    "calc_type=None, str? cache_mode=None) -> Tensor",
    "npu_multi_head_latent_attention.lse_out(Tensor q_nope, Tensor q_rope, Tensor ctkv, Tensor k_rope, Tensor block_tables, "
    "SymInt[] context_lens, int q_headnum, float qk_scale, int kv_headnum, bool return_lse, *, Tensor? mask=None, SymInt[]? "
    "qseqlen=None, Tensor? qk_descale=None, Tensor? pv_descale=None, str? mask_type=None, str? calc_type=None, str? "
    "cache_mode=None, Tensor? workspace=None, Tensor(a!) output, Tensor(b!) lse) -> (Tensor(a!), Tensor(b!))",
    "npu_mla_preprocess(Tensor input, Tensor gamma0, Tensor beta0, Tensor wdqkv, Tensor descale0, Tensor gamma1, Tensor "
    "beta1, Tensor wuq, Tensor descale1, Tensor gamma2, Tensor cos, Tensor sin, Tensor wuk, Tensor kv_cache, Tensor "
    "kv_cache_rope, Tensor slotmapping, *, Tensor? quant_scale0=None, Tensor? quant_offset0=None, Tensor? bias0=None, "
    "Tensor? quant_scale1=None, Tensor? quant_offset1=None, Tensor? bias1=None, Tensor? ctkv_scale=None, Tensor? "
    "q_nope_scale=None, str? cache_mode=None, str? quant_mode=None) -> (Tensor, Tensor, Tensor, Tensor)",
    "npu_mla_preprocess.out(Tensor input, Tensor gamma0, Tensor beta0, Tensor wdqkv, Tensor descale0, Tensor gamma1, Tensor "
    "beta1, Tensor wuq, Tensor descale1, Tensor gamma2, Tensor cos, Tensor sin, Tensor wuk, Tensor kv_cache, Tensor "
    "kv_cache_rope, Tensor slotmapping, *, Tensor? quant_scale0=None, Tensor? quant_offset0=None, Tensor? bias0=None, "
    "Tensor? quant_scale1=None, Tensor? quant_offset1=None, Tensor? bias1=None, Tensor? ctkv_scale=None, Tensor? "
    "q_nope_scale=None, str? cache_mode=None, str? quant_mode=None, Tensor(a!) q_out0, Tensor(b!) kv_cache_out0, Tensor(c!) "
    "q_out1, Tensor(d!) kv_cache_out1) -> (Tensor(a!), Tensor(b!), Tensor(c!), Tensor(d!))",
)

NAMES = {schema.partition("(")[0].partition(".")[0] for schema in SCHEMAS}


def register(kernel: Callable[[str], Callable]) -> None:
    """Defines the operators; ``kernel`` gives the function of an operator's name."""
    _C._define_operators("atb", SCHEMAS)
    _C._implement("atb", "CompositeImplicitAutograd", [schema.partition("(")[0] for schema in SCHEMAS], kernel)


def function(name: str) -> Callable:
    """``torch_npu.<name>`` and ``torch_npu.atb.<name>``."""
    from torch_npu import _cpu_ops

    packet = getattr(torch.ops.atb, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        return packet(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__module__ = "torch_npu"
    schema = next(schema for schema in SCHEMAS if schema.startswith((f"{name}(", f"{name}.")))
    call.__doc__ = _cpu_ops.find(schema.partition("(")[0]).__doc__
    call.__signature__ = signature(schema)
    return call
