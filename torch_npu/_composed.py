"""Custom operators that are Python alone: their schemas; torch_npu/_cpu_ops has their functions, the kernels on every device.

Nothing of C++ knows them, so that adding one builds nothing. What the C++ part registers is in codegen/custom_ops.yaml. Schemas:
those of Ascend's adapter, 2.13.0. The generators in docs/ read this module without torch.
"""

from typing import List, Tuple

# Their gradients are those of what they are made of.
DIFFERENTIABLE = (
    # Native sparse attention
    "npu_nsa_compress(Tensor input, Tensor weight, int compress_block_size, int compress_stride, *, int[]? "
    "actual_seq_len=None) -> Tensor",
    "npu_nsa_compress_attention(Tensor query, Tensor key, Tensor value, float scale_value, int head_num, int "
    "compress_block_size, int compress_stride, int select_block_size, int select_block_count, *, Tensor? topk_mask=None, "
    "Tensor? atten_mask=None, int[]? actual_seq_qlen=None, int[]? actual_cmp_seq_kvlen=None, int[]? "
    "actual_sel_seq_kvlen=None) -> (Tensor, Tensor, Tensor, Tensor)",
    "npu_nsa_select_attention(Tensor query, Tensor key, Tensor value, Tensor topk_indices, float scale_value, int "
    "head_num, int select_block_size, int select_block_count, *, Tensor? atten_mask=None, int[]? actual_seq_qlen=None, "
    "int[]? actual_seq_kvlen=None) -> (Tensor, Tensor, Tensor)",
)

# Integers, places, quantized numbers, memory that is written, and gradients themselves.
OTHERS = (
    # Native sparse attention
    "npu_nsa_compress_grad(Tensor grad, Tensor input, Tensor weight, int compress_block_size, int compress_stride, *, "
    "int[]? actual_seq_len=None) -> (Tensor, Tensor)",
    "npu_nsa_compress_infer.cache(Tensor input, Tensor weight, Tensor slot_mapping, int compress_block_size, int "
    "compress_stride, int page_block_size, *, Tensor? block_table=None, int[]? actual_seq_len=None, Tensor(a!) cache) -> "
    "Tensor(a!)",
    "npu_nsa_compress_attention_infer(Tensor query, Tensor key, Tensor value, float scale_value, int head_num, int "
    "key_value_head_num, int select_block_size, int select_block_count, int page_block_size, int compress_block_size, int"
    ' compress_stride, *, str layout="TND", Tensor? atten_mask=None, Tensor? block_table=None, Tensor? topk_mask=None, '
    "int[]? actual_seq_qlen=None, int[]? actual_cmp_seq_kvlen=None, int[]? actual_sel_seq_kvlen=None) -> (Tensor, Tensor)",
    "npu_nsa_select_attention_grad(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor attention_out, Tensor "
    "softmax_max, Tensor softmax_sum, Tensor topk_indices, float scale_value, int head_num, int select_block_size, int "
    "select_block_count, *, Tensor? atten_mask=None, int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None) -> "
    "(Tensor, Tensor, Tensor)",
    "npu_nsa_select_attention_infer(Tensor query, Tensor key, Tensor value, Tensor topk_indices, float scale_value, int "
    "head_num, int key_value_head_num, int select_block_size, int select_block_count, int page_block_size, *, str "
    'layout="BSND", Tensor? atten_mask=None, Tensor? block_table=None, int[]? actual_seq_qlen=None, int[]? '
    "actual_seq_kvlen=None) -> Tensor",
)


def operators() -> List[Tuple[str, str, str]]:
    """[(name with overload, schema, how it runs)], in the form of _C._custom_ops()."""
    return [(schema.partition("(")[0], schema, "composed") for schema in (*DIFFERENTIABLE, *OTHERS)]
