"""Inputs of the custom operators: CASES has, for each, functions that make arguments in a floating dtype."""
import cases_composed
import cases_serving
import cases_training
import torch
from case_inputs import boxes as _boxes, call as _call, int8 as _int8, randn


def _rotated(count, dtype):
    return torch.cat([torch.rand(count, 2) * 20, 1 + torch.rand(count, 2) * 15, torch.rand(count, 1) * 360 - 180], 1).to(dtype)


def _adam(dtype, *numbers, extra=()):
    """The arguments of a step, and what it writes: a parameter and its moments."""
    out = (randn(3, 5, dtype=dtype), randn(3, 5, dtype=dtype), torch.rand(3, 5).to(dtype))
    return _call(*numbers, randn(3, 5, dtype=dtype), *extra, out=out)


def _moe_rows(tokens, k):
    return torch.arange(tokens * k, dtype=torch.int32).view(k, tokens).t().contiguous()


def _rotary(dtype, size=8):
    angle = torch.rand(1, 5, 1, size) * 3
    return angle.cos().to(dtype), angle.sin().to(dtype)


def _attention(layout, dtype, heads=4, kv_heads=2, rows=6, columns=6, size=8):
    q, k, v = randn(2, heads, rows, size), randn(2, kv_heads, columns, size), randn(2, kv_heads, columns, size)
    move = {"BNSD": lambda t: t, "BSND": lambda t: t.transpose(1, 2), "BSH": lambda t: t.transpose(1, 2).flatten(2),
            "SBH": lambda t: t.transpose(1, 2).flatten(2).transpose(0, 1)}[layout]
    return tuple(move(t).contiguous().to(dtype) for t in (q, k, v))


def _tokens(dtype):
    """Query, key and value of two sequences in the layout TND."""
    return randn(7, 4, 8, dtype=dtype), randn(9, 2, 8, dtype=dtype), randn(9, 2, 8, dtype=dtype)


_CAUSAL = torch.ones(6, 6, dtype=torch.bool).triu(1)
_CAUSAL_STANDARD = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
_ENDS = dict(actual_seq_qlen=[2, 7], actual_seq_kvlen=[3, 7])
_MEANS = (0.0, 0.1, 0.0, 0.1, 0.5, 1.0, 0.5, 1.0)


_EXPERTS = torch.tensor([[1, 0], [2, 1], [0, 3], [1, 2]], dtype=torch.int32)


def _packed(rows, columns):
    """int4 [rows, columns], eight in an int32."""
    return torch.randint(-2**31, 2**31, (rows, columns // 8), dtype=torch.int32)


CASES = {
    "npu_rms_norm": [lambda d: _call(randn(3, 5, 8, dtype=d), randn(8, dtype=d), 1e-5),
                     lambda d: _call(randn(3, 4, 2, dtype=d), randn(4, 2, dtype=d))],
    "npu_gemma_rms_norm": [lambda d: _call(randn(3, 8, dtype=d), randn(8, dtype=d))],
    "npu_add_rms_norm": [lambda d: _call(randn(3, 8, dtype=d), randn(3, 8, dtype=d), randn(8, dtype=d))],
    "npu_add_rms_norm_cast": [lambda d: _call(randn(3, 8, dtype=d), randn(3, 8, dtype=d), randn(8, dtype=d))],
    "npu_add_rms_norm_v2": [lambda d: _call(randn(3, 8, dtype=d), randn(3, 8, dtype=d), randn(8, dtype=d))],
    "npu_deep_norm": [lambda d: _call(randn(3, 8, dtype=d), randn(3, 8, dtype=d), randn(8, dtype=d), randn(8, dtype=d), 0.5)],
    "npu_add_layer_norm": [lambda d: _call(randn(3, 8, dtype=d), randn(3, 8, dtype=d), randn(8, dtype=d), randn(8, dtype=d),
                                           additional_output=True),
                           lambda d: _call(randn(3, 8, dtype=d), randn(3, 8), randn(8), randn(8), additional_output=True)],
    "npu_group_norm_silu": [lambda d: _call(randn(2, 4, 5, dtype=d), randn(4, dtype=d), randn(4, dtype=d), 2)],
    "npu_layer_norm_eval": [lambda d: _call(randn(3, 8, dtype=d), [8], randn(8, dtype=d), randn(8, dtype=d))],
    "npu_clipped_swiglu": [lambda d: _call(randn(3, 8, dtype=d) * 8), lambda d: _call(randn(3, 8, 2, dtype=d), dim=1, interleaved=False),
                           lambda d: _call(randn(3, 2, 8, dtype=d) * 8, group_index=torch.tensor([2, 1, 2]))],
    "npu_softmax_cross_entropy_with_logits": [lambda d: _call(randn(3, 8, dtype=d), torch.rand(3, 8).softmax(1).to(d))],
    "npu_group_norm_swish": [lambda d: _call(randn(2, 4, 5, dtype=d), 2, randn(4, dtype=d), randn(4, dtype=d), 1e-5, 2.0),
                             lambda d: _call(randn(2, 4, 5, dtype=d), 2, randn(4), randn(4))],
    "npu_gather_sparse_index": [lambda d: _call(randn(5, 3, dtype=d), torch.tensor([[0, 4], [2, 2]]))],
    "npu_view_copy": [lambda d: _call(randn(3, 4, dtype=d), randn(3, 4), False)],
    "copy_memory_": [lambda d: _call(randn(3, 4, dtype=d), randn(3, 4, dtype=d))],
    "one_": [lambda d: _call(randn(3, 4, dtype=d))],
    "npu_transpose_batchmatmul": [lambda d: _call(randn(5, 2, 3, dtype=d), randn(2, 3, 4, dtype=d), perm_x1=[1, 0, 2])],
    "npu_swiglu": [lambda d: _call(randn(3, 8, dtype=d)), lambda d: _call(randn(4, 3, dtype=d), 0)],
    "npu_geglu": [lambda d: _call(randn(3, 8, dtype=d)), lambda d: _call(randn(3, 8, dtype=d), -1, 0, True)],
    "npu_fast_gelu": [lambda d: _call(randn(3, 8, dtype=d))],
    "fast_gelu": [lambda d: _call(randn(3, 8, dtype=d))],
    "npu_gelu": [lambda d: _call(randn(3, 8, dtype=d), approximate="tanh")],
    "npu_gelu_mul": [lambda d: _call(randn(3, 8, dtype=d))],
    "npu_silu": [lambda d: _call(randn(3, 8, dtype=d))],
    "npu_silu_": [lambda d: _call(randn(3, 8, dtype=d))],
    "npu_mish": [lambda d: _call(randn(3, 8, dtype=d))],
    "npu_scaled_masked_softmax": [
        lambda d: _call(randn(2, 3, 4, 4, dtype=d), torch.rand(2, 1, 4, 4) > 0.6, 0.5),
        lambda d: _call(randn(2, 3, 4, 4, dtype=d), torch.zeros(2, 1, 4, 4, dtype=torch.bool), 0.5, True)],
    "npu_masked_softmax_with_rel_pos_bias": [
        lambda d: _call(randn(2, 3, 2, 4, 4, dtype=d), randn(3, 4, 4, dtype=d), randn(2, 4, 4, dtype=d), 0.5)],
    "npu_rotary_mul": [lambda d, mode=mode: _call(randn(2, 5, 3, 8, dtype=d), *_rotary(d), mode)
                       for mode in ("half", "interleave", "quarter", "interleave-half")],
    "npu_apply_rotary_pos_emb": [lambda d: _call(randn(2, 5, 3, 8, dtype=d), randn(2, 5, 1, 8, dtype=d), *_rotary(d))],
    "npu_interleave_rope": [lambda d: _call(randn(2, 3, 5, 8, dtype=d), randn(2, 1, 5, 8, dtype=d), randn(2, 1, 5, 8, dtype=d))],
    "npu_fusion_attention": [
        *(lambda d, layout=layout: _call(*_attention(layout, d), 4, layout, scale=0.4) for layout in ("BNSD", "BSND", "BSH", "SBH")),
        lambda d: _call(*_attention("BNSD", d), 4, "BNSD", atten_mask=_CAUSAL, scale=0.4),
        lambda d: _call(*_attention("BNSD", d), 4, "BNSD", atten_mask=_CAUSAL, scale=0.4, pre_tockens=2, next_tockens=0),
        lambda d: _call(*_attention("BNSD", d), 4, "BNSD", pse=randn(2, 4, 6, 6, dtype=d), scale=0.4),
        lambda d: _call(*_attention("BNSD", d, columns=9), 4, "BNSD", atten_mask=_CAUSAL_STANDARD, scale=0.4, sparse_mode=3),
        lambda d: _call(*_attention("BNSD", d), 4, "BNSD", atten_mask=_CAUSAL_STANDARD, scale=0.4, sparse_mode=2),
        lambda d: _call(randn(7, 2, 8, dtype=d), randn(7, 2, 8, dtype=d), randn(7, 2, 8, dtype=d), 2, "TND", scale=0.4, **_ENDS),
        lambda d: _call(*_tokens(d), 4, "TND", scale=0.4, actual_seq_qlen=[2, 7], actual_seq_kvlen=[3, 9], softmax_layout="TND")],
    "npu_prompt_flash_attention": [
        lambda d: _call(*_attention("BSH", d), num_heads=4, num_key_value_heads=2, scale_value=0.4, next_tokens=65535),
        lambda d: _call(*_attention("BNSD", d), num_heads=4, num_key_value_heads=2, scale_value=0.4, input_layout="BNSD_BSND",
                        atten_mask=_CAUSAL, next_tokens=65535)],
    "npu_incre_flash_attention": [
        lambda d: _call(*_attention("BSH", d, rows=1), num_heads=4, num_key_value_heads=2, scale_value=0.4,
                        actual_seq_lengths=[3, 6]),
        lambda d: _call(randn(2, 4, 1, 8, dtype=d), randn(5, 2, 4, 8, dtype=d), randn(5, 2, 4, 8, dtype=d), num_heads=4,
                        num_key_value_heads=2, scale_value=0.4, block_table=torch.tensor([[3, 0], [1, 4]], dtype=torch.int32),
                        actual_seq_lengths=[5, 8], block_size=4, input_layout="BNSD")],
    "npu_fused_infer_attention_score": [
        lambda d: _call(*_attention("BNSD", d), num_heads=4, num_key_value_heads=2, scale=0.4, input_layout="BNSD",
                        atten_mask=_CAUSAL, softmax_lse_flag=True),
        lambda d: _call(*_attention("BSND", d, columns=9), num_heads=4, num_key_value_heads=2, scale=0.4, input_layout="BSND",
                        atten_mask=_CAUSAL_STANDARD, sparse_mode=3, softmax_lse_flag=True),
        lambda d: _call(randn(2, 1, 32, dtype=d), randn(5, 4, 16, dtype=d), randn(5, 4, 16, dtype=d), num_heads=4,
                        num_key_value_heads=2, scale=0.4, block_table=torch.tensor([[3, 0, -1], [1, 4, 2]], dtype=torch.int32),
                        actual_seq_lengths_kv=[6, 11], block_size=4, softmax_lse_flag=True),
        lambda d: _call(randn(7, 4, 8, dtype=d), randn(5, 4, 16, dtype=d), randn(5, 4, 16, dtype=d), num_heads=4,
                        num_key_value_heads=2, scale=0.4, block_table=torch.tensor([[3, 0, -1], [1, 4, 2]], dtype=torch.int32),
                        actual_seq_lengths=[3, 7], actual_seq_lengths_kv=[6, 11], block_size=4, input_layout="TND",
                        atten_mask=_CAUSAL_STANDARD, sparse_mode=3, softmax_lse_flag=True),
        lambda d: _call(*_attention("BSH", d), num_heads=4, num_key_value_heads=2, scale=0.4, key_shared_prefix=randn(1, 5, 16, dtype=d),
                        value_shared_prefix=randn(1, 5, 16, dtype=d), actual_shared_prefix_len=[4], softmax_lse_flag=True)],
    "_npu_fused_infer_attention_score_infer_output": [
        lambda d: _call(*_attention("BNSD", d)[::2], num_heads=4, num_key_value_heads=2, input_layout="BNSD_BSND", softmax_lse_flag=True)],
    "_npu_fused_infer_attention_score_v2_infer_output": [
        lambda d: _call(*_attention("BSND", d)[::2], num_query_heads=4, num_key_value_heads=2, input_layout="BSND_NBSD")],
    "_npu_fused_infer_attention_score_v2_get_max_workspace": [lambda d: _call(*_attention("BNSD", d))],
    "_npu_fused_infer_attention_score_get_max_workspace": [lambda d: _call(*_attention("BNSD", d))],
    "npu_confusion_transpose": [lambda d: _call(randn(2, 3, 4, dtype=d), [0, 2, 1], [2, 12], True),
                                lambda d: _call(randn(2, 12, dtype=d), [0, 2, 1], [2, 3, 4], False)],
    "npu_transpose": [lambda d: _call(randn(2, 3, 4, dtype=d), [2, 0, 1])],
    "npu_broadcast": [lambda d: _call(randn(2, 1, dtype=d), [3, 2, 4])],
    "npu_reshape": [lambda d: _call(randn(2, 6, dtype=d), [3, 4])],
    "npu_slice": [lambda d: _call(randn(4, 6, dtype=d), [1, 2], [2, -1])],
    "npu_stride_copy": [lambda d: _call(randn(4, 6, dtype=d), [3, 2], [1, 6], 2)],
    "npu_indexing": [lambda d: _call(randn(4, 6, dtype=d), [1, 0], [4, 5], [2, 2], 0, 2)],
    "npu_pad": [lambda d: _call(randn(2, 3, dtype=d), [1, 0, 2, 1])],
    "npu_one_hot": [lambda d: _call(torch.tensor([5, 3, 0, 1], dtype=torch.int32), depth=4, on_value=2, off_value=-1),
                    lambda d: _call(torch.tensor([[1, 3], [0, 2]]), 0, 4)],
    "npu_dtype_cast": [lambda d: _call(randn(3, 4, dtype=d), torch.float64), lambda d: _call(randn(3, 4, dtype=d), torch.int32)],
    "npu_dtype_cast_": [lambda d: _call(torch.zeros(3, 4), randn(3, 4, dtype=d))],
    "npu_max": [lambda d: _call(randn(3, 4, dtype=d), 1)],
    "npu_min": [lambda d: _call(randn(3, 4, dtype=d), 0, True)],
    "npu_sort_v2": [lambda d: _call(randn(3, 7, dtype=d), -1, True)],
    "npu_scatter": [lambda d: _call(randn(3, 4, dtype=d), torch.tensor([0, 3, 1]), randn(3, dtype=d), 1)],
    "npu_scatter_nd_update": [lambda d: _call(randn(4, 3, dtype=d), torch.tensor([[2], [0]]), randn(2, 3, dtype=d))],
    "npu_scatter_nd_update_": [lambda d: _call(randn(4, 3, dtype=d), torch.tensor([[2, 1], [0, 0]]), randn(2, dtype=d))],
    "npu_linear": [lambda d: _call(randn(3, 4, dtype=d), randn(5, 4, dtype=d), randn(5, dtype=d))],
    "npu_bmmV2": [lambda d: _call(randn(2, 3, 4, dtype=d), randn(2, 4, 5, dtype=d), [])],
    "npu_conv2d": [lambda d: _call(randn(2, 4, 6, 6, dtype=d), randn(6, 2, 3, 3, dtype=d), randn(6, dtype=d), [2, 2], [1, 1], [1, 1], 2)],
    "npu_conv3d": [lambda d: _call(randn(1, 2, 4, 4, 4, dtype=d), randn(3, 2, 2, 2, 2, dtype=d), None, [1] * 3, [0] * 3, [1] * 3, 1)],
    "npu_convolution": [lambda d: _call(randn(2, 4, 6, 6, dtype=d), randn(6, 4, 3, 3, dtype=d), None, [1, 1], [0, 0], [1, 1], 1)],
    "npu_conv_transpose2d": [lambda d: _call(randn(2, 4, 5, 5, dtype=d), randn(4, 3, 3, 3, dtype=d), None, [1, 1], [0, 0], [2, 2], [1, 1], 1)],
    "npu_convolution_transpose": [lambda d: _call(randn(2, 4, 5, 5, dtype=d), randn(4, 3, 3, 3, dtype=d), None, [0, 0], [0, 0], [1, 1], [1, 1], 1)],
    "npu_fused_matmul": [lambda d: _call(randn(3, 4, dtype=d), randn(4, 5, dtype=d), x3=randn(3, 5, dtype=d), fused_op_type="add")],
    "npu_cross_entropy_loss": [
        lambda d: _call(randn(5, 7, dtype=d), torch.tensor([0, 6, 3, -100, 2])),
        lambda d: _call(randn(5, 7, dtype=d), torch.tensor([0, 6, 3, 1, 2]), torch.rand(7), "sum", label_smoothing=0.1),
        lambda d: _call(randn(5, 7, dtype=d), torch.tensor([0, 6, 3, -100, 2]), lse_square_scale_for_zloss=0.3, return_zloss=True),
        lambda d: _call(randn(5, 7, dtype=d), torch.tensor([0, 6, 3, 1, 2]), reduction="none", lse_square_scale_for_zloss=0.2),
        lambda d: _call(randn(5, 7, dtype=d), torch.tensor([0, 6, 3, 1, 2]), reduction="none")],
    "npu_moe_gating_top_k_softmax": [
        lambda d: _call(randn(6, 8, dtype=d), None, 3),
        lambda d: _call(randn(6, 8, dtype=d), torch.tensor([False, True, False, False, True, False]), 2),
        lambda d: _call(randn(2, 3, 8, dtype=d), torch.tensor([[False, True, False], [False, True, False]]), 2)],
    "npu_moe_gating_top_k": [
        lambda d: _call(randn(6, 8, dtype=d), 3, out_flag=True),
        lambda d: _call(randn(6, 8, dtype=d), 2, bias=randn(8, dtype=d), k_group=2, group_count=4, group_select_mode=1,
                        norm_type=1, routed_scaling_factor=2.5, out_flag=True),
        lambda d: _call(randn(6, 8, dtype=d), 2, input_ids=torch.tensor([0, 3, 1, 1, 2, 0]), out_flag=True, norm_type=1,
                        tid2eid=torch.tensor([[7, 1], [2, 0], [4, 6], [5, 3]], dtype=torch.int32))],
    "npu_moe_init_routing": [
        lambda d: _call(randn(4, 5, dtype=d), _moe_rows(4, 2), torch.tensor([[1, 0], [2, 1], [0, 2], [1, 2]], dtype=torch.int32), 4),
        lambda d: _call(randn(4, 5, dtype=d), _moe_rows(4, 2), torch.tensor([[1, 0], [2, 1], [0, 2], [1, 2]], dtype=torch.int32), 3)],
    "npu_moe_compute_expert_tokens": [lambda d: _call(torch.tensor([0, 0, 1, 3, 3], dtype=torch.int32), 5)],
    "npu_moe_finalize_routing": [
        lambda d: _call(randn(8, 5, dtype=d), randn(4, 5, dtype=d), None, randn(3, 5, dtype=d), randn(4, 2, dtype=d),
                        torch.randperm(8).int(), torch.tensor([[1, 0], [2, 1], [0, 2], [1, 2]], dtype=torch.int32))],
    "npu_moe_token_permute": [lambda d: _call(randn(4, 5, dtype=d), torch.tensor([[1, 0], [2, 1], [0, 2], [1, 2]])),
                              lambda d: _call(randn(4, 5, dtype=d), torch.tensor([1, 2, 0, 1]), 3)],
    "npu_moe_token_unpermute": [
        lambda d: _call(randn(8, 5, dtype=d), torch.randperm(8).int(), torch.rand(4, 2).to(d)),
        lambda d: _call(randn(4, 5, dtype=d), torch.randperm(4).int())],
    "npu_grouped_matmul": [
        lambda d: _call([randn(3, 4, dtype=d), randn(2, 5, dtype=d)], [randn(4, 6, dtype=d), randn(5, 7, dtype=d)],
                        bias=[randn(6, dtype=d), randn(7, dtype=d)]),
        lambda d: _call([randn(7, 4, dtype=d)], [randn(3, 4, 6, dtype=d)], group_list=torch.tensor([2, 2, 6]), split_item=3, group_type=0),
        lambda d: _call([randn(3, 4, dtype=d), randn(2, 4, dtype=d)], [randn(4, 6, dtype=d), randn(4, 6, dtype=d)], split_item=2, group_type=0),
        lambda d: _call([randn(3, 4, dtype=d), randn(2, 4, dtype=d)], [randn(4, 6, dtype=d), randn(4, 6, dtype=d)],
                        bias=[randn(6, dtype=d), randn(6, dtype=d)], group_list=torch.tensor([3, 5]), split_item=3, group_type=0),
        lambda d: _call([randn(7, 4, dtype=d)], [randn(3, 4, 6, dtype=d)], group_list=torch.tensor([2, 0, 5]), split_item=2, group_type=0,
                        group_list_type=1, act_type=5),
        lambda d: _call([randn(3, 6, dtype=d)], [randn(6, 4, dtype=d)], group_list=torch.tensor([2, 6]), split_item=3, group_type=2)],
    "npu_dynamic_quant": [lambda d: _call(randn(4, 6, dtype=d)), lambda d: _call(randn(4, 6, dtype=d), smooth_scales=torch.rand(6).to(d)),
        lambda d: _call(randn(2, 3, 16, dtype=d), dst_type=torch.quint4x2),
        lambda d: _call(randn(5, 6, dtype=d), smooth_scales=torch.rand(2, 6).to(d), group_index=torch.tensor([2, 5], dtype=torch.int32))],
    "npu_quantize": [
        lambda d: _call(randn(3, 4, dtype=d), torch.rand(4) + 0.1, torch.zeros(4, dtype=torch.int32), torch.qint8, 1),
        lambda d: _call(randn(3, 4, dtype=d), torch.tensor([0.05]), torch.tensor([3], dtype=torch.int32), torch.quint8, 1),
        lambda d: _call(randn(3, 4, dtype=d), torch.rand(4) * 50, None, torch.qint8, -1, False),
        lambda d: _call(randn(2, 3, 4, dtype=d), torch.rand(4).to(d) * 50, None, torch.qint8, div_mode=False),
        lambda d: _call(randn(2, 3, 4, dtype=d), torch.rand(3).to(d) * 50, None, torch.qint8, -2, False)],
    "npu_anti_quant": [lambda d: _call(_int8(3, 4), torch.rand(4), offset=torch.rand(4))],
    "npu_trans_quant_param": [lambda d: _call(torch.rand(5), torch.tensor([300.0, -3.0, 7.0, 0.0, -400.0]), 1),
                              lambda d: _call(torch.rand(1), torch.tensor([1.0, -3.0, 7.0])),
                              lambda d: _call(torch.rand(5)), lambda d: _call(torch.rand(5), torch.tensor([1.0, -3.0, 7.0, 0.0, 2.0]))],
    "npu_quant_matmul": [
        lambda d: _call(_int8(3, 8), _int8(8, 5), torch.rand(5) / 100, output_dtype=torch.bfloat16, pertoken_scale=torch.rand(3)),
        lambda d: _call(_int8(3, 8), _int8(5, 8).t(), torch.rand(5) / 100, offset=torch.rand(5), bias=torch.randint(-9, 9, (5,), dtype=torch.int32)),
        lambda d: _call(_int8(3, 8), _int8(8, 5), torch.rand(5), output_dtype=torch.int32),
        lambda d: _call(_int8(3, 8), _int8(8, 5), torch.rand(5) / 100, output_dtype=torch.float16)],
    "npu_weight_quant_batchmatmul": [
        lambda d: _call(randn(3, 16, dtype=d), _packed(16, 8), torch.rand(1, 8).to(d), torch.rand(1, 8).to(d)),
        lambda d: _call(randn(3, 16, dtype=d), _packed(8, 16).t(), torch.rand(1, 8).to(d), torch.rand(1, 8).to(d)),
        lambda d: _call(randn(3, 8, dtype=d), _int8(8, 5), torch.rand(5).to(d) / 10, torch.rand(5).to(d), bias=randn(5)),
        lambda d: _call(randn(3, 8, dtype=d), _int8(8, 5), torch.rand(2, 5).to(d) / 10, antiquant_group_size=4)],
    "npu_top_k_top_p": [lambda d: _call(randn(3, 9, dtype=d), torch.tensor([0.5, 0.9, 0.1]).to(d), torch.tensor([3, 9, 2], dtype=torch.int32)),
                        lambda d: _call(randn(3, 9, dtype=d), None, torch.tensor([3, 9, 2], dtype=torch.int32))],
    "npu_ring_attention_update": [
        lambda d: _call(randn(5, 2, 12, dtype=d), torch.rand(2, 3, 5, 1).expand(2, 3, 5, 8).contiguous(),
                        1 + torch.rand(2, 3, 5, 1).expand(2, 3, 5, 8), randn(5, 2, 12, dtype=d),
                        torch.rand(2, 3, 5, 1).expand(2, 3, 5, 8).contiguous(), 1 + torch.rand(2, 3, 5, 1).expand(2, 3, 5, 8))],
    "npu_iou": [lambda d: _call(_boxes(4, d), _boxes(3, d)), lambda d: _call(_boxes(4, d), _boxes(3, d), 1)],
    "npu_ptiou": [lambda d: _call(_boxes(4, d), _boxes(3, d))],
    "npu_giou": [lambda d: _call(_boxes(7, d), _boxes(7, d)),
                 lambda d: _call(_boxes(4, d).t().contiguous(), _boxes(4, d).t().contiguous()),
                 lambda d: _call(_boxes(4, d).t().contiguous(), _boxes(3, d).t().contiguous(), True, True)],
    "npu_diou": [lambda d: _call(_boxes(4, d).t().contiguous(), _boxes(4, d).t().contiguous())],
    "npu_ciou": [lambda d: _call(_boxes(4, d).t().contiguous(), _boxes(3, d).t().contiguous())],
    "npu_bounding_box_encode": [lambda d: _call(_boxes(4, d), _boxes(4, d), *_MEANS)],
    "npu_bounding_box_decode": [lambda d: _call(_boxes(4, d), randn(4, 4, dtype=d), *_MEANS, (30, 40), 0.1)],
    "npu_nms_with_mask": [lambda d: _call(torch.cat([_boxes(6, d), torch.rand(6, 1).sort(0, True).values.to(d)], 1), 0.2)],
    "npu_nms_v4": [lambda d: _call(_boxes(8, d), torch.rand(8).to(d), 5, torch.tensor(0.3), torch.tensor(0.1)),
                   lambda d: _call(_boxes(8, d), torch.rand(8).to(d), 5, torch.tensor(0.1), torch.tensor(0.4), True)],
    "npu_rotated_iou": [lambda d: _call(_rotated(8, d).view(2, 4, 5), _rotated(6, d).view(2, 3, 5)),
                        lambda d: _call(_rotated(4, d).view(1, 4, 5), _rotated(4, d).view(1, 4, 5), False, 1, False)],
    "npu_nms_rotated": [lambda d: _call(_rotated(9, d), torch.rand(9).to(d), 0.2),
                        lambda d: _call(_rotated(9, d), torch.rand(9).to(d), 0.1, 0.3, 2)],
    "npu_apply_adam": [lambda d: _adam(d, 0.9 ** 3, 0.99 ** 3, 0.1, 0.9, 0.99, 1e-4, extra=(False, nesterov)) for nesterov in (False, True)],
    "npu_apply_adam_w": [lambda d: _adam(d, 0.9 ** 3, 0.99 ** 3, 0.1, 0.01, 0.9, 0.99, 1e-4, extra=(None, False, True)),
                         lambda d: _adam(d, 0.9, 0.99, 0.1, 0.0, 0.9, 0.99, 1e-4, extra=(torch.rand(3, 5).to(d), True, False))],
    "npu_roi_align": [lambda d: _call(randn(2, 3, 8, 8, dtype=d), torch.tensor([[0, 1.0, 1, 6, 5], [1, 0, 0, 7, 7]]), 0.5, 2, 3, 2, 0)],
    "npu_dropout_backward": [lambda d: _call(randn(10, 13, dtype=d), torch.randint(0, 256, (32,), dtype=torch.uint8), 0.3)],
    "npu_dropout_do_mask": [lambda d: _call(randn(10, 13, dtype=d), torch.randint(0, 256, (32,), dtype=torch.uint8), 0.3)],
    "npu_add_rms_norm_quant": [
        lambda d: _call(randn(2, 3, 8, dtype=d), randn(2, 3, 8, dtype=d), randn(3, 8, dtype=d), torch.rand(3, 8) + 0.1,
                        torch.randint(-9, 9, (3, 8), dtype=torch.int32), randn(3, 8, dtype=d)),
        lambda d: _call(randn(3, 8, dtype=d), randn(3, 8, dtype=d), randn(8, dtype=d), torch.rand(8).to(d) / 20, torch.randint(-9, 9, (8,), dtype=torch.int32)),
        lambda d: _call(randn(3, 8, dtype=d), randn(3, 8, dtype=d), randn(8, dtype=d), torch.rand(8).to(d) * 20, None, None,
                        torch.rand(8).to(d) * 30, div_mode=False)],
    "npu_mrope": [
        lambda d: _call(torch.tensor([4, 0, 9, 9, 1]), randn(5, 24, dtype=d), randn(5, 8, dtype=d), randn(10, 6, dtype=d), 8),
        lambda d: _call(torch.randint(0, 10, (3, 5)), randn(5, 24, dtype=d), randn(5, 8, dtype=d), randn(10, 8, dtype=d), 8,
                        mrope_section=[1, 1, 2]),
        lambda d: _call(torch.tensor([4, 0, 9]), randn(3, 8, dtype=d), randn(3, 8, dtype=d), randn(10, 8, dtype=d), 8, rotary_mode="interleave")],
    "scatter_update": [lambda d: _call(randn(3, 2, 6, 4, dtype=d), torch.tensor([4, 0, 2]), randn(3, 2, 2, 4, dtype=d), -2)],
    "scatter_update_": [lambda d: _call(randn(3, 6, 4, dtype=d), torch.tensor([4, 0, 2], dtype=torch.int32), randn(3, 1, 4, dtype=d), 1)],
    "npu_scatter_list_": [
        lambda d: _call([randn(2, 6, 4, dtype=d), randn(2, 5, 4, dtype=d)], torch.tensor([3, 0]), randn(2, 2, 2, 4, dtype=d), torch.tensor([1, 1], dtype=torch.uint8)),
        lambda d: _call([randn(2, 6, 4, dtype=d), randn(2, 5, 4, dtype=d)], torch.tensor([[3, 1], [0, 2]]), randn(2, 2, 2, 4, dtype=d),
                        torch.tensor([1, 0], dtype=torch.uint8))],
    "npu_scatter_pa_kv_cache": [
        lambda d: _call(randn(3, 2, 16, dtype=d), randn(3, 2, 16, dtype=d), randn(4, 2, 5, 16, dtype=d), randn(4, 2, 5, 16, dtype=d),
                        torch.tensor([7, -1, 12], dtype=torch.int32)),
        lambda d: _call(_int8(3, 2, 64), _int8(3, 2, 32), _int8(4, 2, 2, 5, 32), _int8(4, 2, 1, 5, 32), torch.tensor([7, -1, 12], dtype=torch.int32)),
        lambda d: _call(randn(3, 2, 8, dtype=d), randn(3, 2, 6, dtype=d), randn(4, 5, 2, 8, dtype=d), randn(4, 5, 2, 6, dtype=d),
                        torch.tensor([7, 0, 12], dtype=torch.int32), cache_mode="Norm")],
    "npu_moe_gating_top_k_softmax_v2": [
        lambda d: _call(randn(6, 8, dtype=d), k=3, output_softmax=True),
        lambda d: _call(randn(6, 8, dtype=d), k=2, finished=torch.tensor([False, True, False, False, True, False]), renorm=1)],
    "npu_moe_init_routing_v2": [
        lambda d: _call(randn(4, 5, dtype=d), _EXPERTS, expert_num=4, expert_tokens_num_flag=True),
        lambda d: _call(randn(4, 5, dtype=d), _EXPERTS, scale=torch.rand(4), expert_num=4, active_num=5, expert_tokens_num_flag=True,
                        expert_tokens_num_type=1, row_idx_type=1),
        lambda d: _call(randn(4, 5, dtype=d), _EXPERTS, expert_num=4, expert_tokens_num_flag=True, expert_tokens_num_type=2,
                        active_expert_range=[1, 3]),
        lambda d: _call(randn(4, 5, dtype=d), _EXPERTS, scale=torch.rand(2, 5), expert_num=4, active_expert_range=[1, 3], row_idx_type=1,
                        quant_mode=1, expert_tokens_num_flag=True),
        lambda d: _call(randn(4, 5, dtype=d), _EXPERTS, expert_num=4, quant_mode=1),
        lambda d: _call(randn(4, 5, dtype=d), _EXPERTS, expert_num=4, scale=torch.rand(1) * 40, offset=torch.rand(1), quant_mode=0),
        lambda d: _call(randn(4, 5, dtype=d), _EXPERTS, scale=torch.rand(4), expert_num=4, expert_capacity=2, drop_pad_mode=1,
                        expert_tokens_num_flag=True, expert_tokens_num_type=1),
        lambda d: _call(randn(4, 5, dtype=d), _EXPERTS, scale=torch.rand(4, 5), expert_num=4, expert_capacity=2, drop_pad_mode=1,
                        quant_mode=1)],
    "npu_moe_re_routing": [
        lambda d: _call(randn(9, 5, dtype=d), torch.tensor([[2, 0, 1], [1, 3, 2]]), per_token_scales=torch.rand(9)),
        lambda d: _call(randn(9, 5, dtype=d), torch.tensor([[2, 0], [0, 1], [3, 1]], dtype=torch.int32))],
    "npu_grouped_matmul_add": [
        lambda d: _call(randn(3, 4, 6), randn(7, 4, dtype=d), randn(7, 6, dtype=d), torch.tensor([2, 2, 6])),
        lambda d: _call(randn(12, 6), randn(7, 4, dtype=d), randn(7, 6, dtype=d), torch.tensor([2, 0, 5]), group_list_type=1)],
    "npu_grouped_matmul_add_": [lambda d: _call(randn(3, 4, 6), randn(7, 4, dtype=d), randn(7, 6, dtype=d), torch.tensor([2, 2, 6]))],
    "npu_dynamic_quant_asymmetric": [
        lambda d: _call(randn(4, 6, dtype=d)), lambda d: _call(randn(4, 6, dtype=d), smooth_scales=torch.rand(6).to(d)),
        lambda d: _call(randn(2, 3, 16, dtype=d), dst_type=torch.quint4x2),
        lambda d: _call(randn(2, 3, 6, dtype=d), smooth_scales=torch.rand(3, 6).to(d), group_index=torch.tensor([1, 4, 6], dtype=torch.int32))],
    "npu_swiglu_quant": [
        lambda d: _call(randn(5, 8, dtype=d), quant_mode=1),
        lambda d: _call(randn(5, 8, dtype=d), smooth_scales=torch.rand(2, 4), group_index=torch.tensor([2, 4]), activate_left=True, quant_mode=1),
        lambda d: _call(randn(5, 8, dtype=d), smooth_scales=torch.rand(2, 4), group_index=torch.tensor([1, 4]), group_list_type=1, quant_mode=1),
        lambda d: _call(randn(5, 8, dtype=d), smooth_scales=torch.rand(2, 4) * 9, offsets=torch.rand(2, 4) * 9, group_index=torch.tensor([2, 4])),
        lambda d: _call(randn(5, 8, dtype=d), smooth_scales=torch.rand(2) * 9, offsets=torch.rand(2) * 9, group_index=torch.tensor([2, 5]))],
    "npu_dequant_swiglu_quant": [
        lambda d: _call(torch.randint(-999, 999, (5, 8), dtype=torch.int32), weight_scale=torch.rand(8) / 99, activation_scale=torch.rand(5),
                        quant_scale=torch.rand(4), bias=torch.randint(-99, 99, (8,), dtype=torch.int32), activate_left=True, quant_mode=1),
        lambda d: _call(torch.randint(-999, 999, (5, 8), dtype=torch.int32), weight_scale=torch.rand(2, 8) / 99, activation_scale=torch.rand(5),
                        quant_scale=torch.rand(2, 4), bias=randn(2, 8), group_index=torch.tensor([3, 1]), quant_mode=1),
        lambda d: _call(torch.randint(-999, 999, (5, 8), dtype=torch.int32), weight_scale=torch.rand(1, 8) / 9, activation_scale=torch.rand(5),
                        quant_scale=torch.rand(1, 4), group_index=torch.tensor([5]), quant_mode=1, swiglu_mode=1),
        lambda d: _call(torch.randint(-999, 999, (5, 8), dtype=torch.int32), weight_scale=torch.rand(8) / 9, activation_scale=torch.rand(5),
                        quant_scale=torch.rand(4) * 5, quant_offset=torch.rand(4), swiglu_mode=2, clamp_limit=3.0, glu_alpha=1.2, glu_bias=0.5)],
    "npu_batch_nms": [
        lambda d: _call(_boxes(16, d).view(2, 8, 1, 4), torch.rand(2, 8, 3).to(d), 0.3, 0.2, 3, 5),
        lambda d: _call(_boxes(36, d).view(2, 6, 3, 4), torch.rand(2, 6, 3).to(d), 0.1, 0.1, 4, 20)],
    "npu_lstm": [
        lambda d: _call(randn(3, 2, 5, dtype=d), randn(9, 16, dtype=d), randn(16, dtype=d), torch.zeros(0, dtype=torch.int32),
                        randn(1, 2, 4, dtype=d), randn(1, 2, 4, dtype=d), True, 1, 0.0, False, False, False, False, False),
        lambda d: _call(randn(2, 3, 5, dtype=d), randn(9, 16, dtype=d), randn(16, dtype=d), torch.tensor([3, 1], dtype=torch.int32),
                        randn(1, 2, 4, dtype=d), randn(1, 2, 4, dtype=d), False, 1, 0.0, True, False, True, True, True)],
    "npu_gru": [
        lambda d: _call(randn(3, 2, 5, dtype=d), randn(1, 2, 4, dtype=d), randn(5, 12, dtype=d), randn(4, 12, dtype=d), randn(12, dtype=d),
                        randn(12, dtype=d), torch.tensor([3, 2], dtype=torch.int32), True, 1, 0.0, False, False, False),
        lambda d: _call(randn(2, 3, 5, dtype=d), randn(1, 2, 4, dtype=d), randn(5, 12, dtype=d), randn(4, 12, dtype=d), randn(12, dtype=d),
                        randn(12, dtype=d), torch.tensor([3, 3], dtype=torch.int32), False, 1, 0.0, True, False, True)],
    "npu_fusion_attention_v2": [
        lambda d: _call(*_attention("BNSD", d), 4, "BNSD", pse=randn(2, 4, 6, 6, dtype=d), scale=0.4, pse_type=0),
        lambda d: _call(*_attention("BNSD", d), 4, "BNSD", pse=randn(2, 4, 6, 6, dtype=d), atten_mask=_CAUSAL, scale=0.4),
        lambda d: _call(*_attention("BSH", d), 4, "BSH", scale=0.4, atten_mask=_CAUSAL, pre_tokens=2, next_tokens=0, pse_type=0),
        lambda d: _call(*_attention("BNSD", d), 4, "BNSD", pse=torch.rand(2, 4), scale=0.4, pse_type=3, kv_start_idx=[2]),
        lambda d: _call(*_attention("BSH", d), 4, "BSH", pse=torch.rand(4), atten_mask=_CAUSAL, scale=0.4, pse_type=2, q_start_idx=[6]),
        lambda d: _call(randn(7, 2, 8, dtype=d), randn(7, 2, 8, dtype=d), randn(7, 2, 8, dtype=d), 2, "TND", scale=0.4,
                        pse=torch.rand(len(_ENDS["actual_seq_qlen"]), 2), pse_type=2, kv_start_idx=[1], **_ENDS),
        lambda d: _call(randn(7, 4, 8, dtype=d), randn(7, 2, 8, dtype=d), randn(7, 2, 8, dtype=d), 4, "TND", scale=0.4, sparse_mode=3,
                        query_rope=randn(7, 4, 4, dtype=d), key_rope=randn(7, 2, 4, dtype=d),
                        atten_mask=torch.ones(2048, 2048, dtype=torch.bool).triu(1), **_ENDS),   # some rows see no key
        lambda d: _call(randn(7, 2, 8, dtype=d), randn(7, 2, 8, dtype=d), randn(7, 2, 8, dtype=d), 2, "TND", scale=0.4, **_ENDS)],
    "npu_fused_infer_attention_score_v2": [
        lambda d: _call(*_attention("BSND", d, columns=9), num_query_heads=4, num_key_value_heads=2, softmax_scale=0.4,
                        input_layout="BSND", atten_mask=_CAUSAL_STANDARD, sparse_mode=3, return_softmax_lse=True),
        lambda d: _call(randn(2, 1, 32, dtype=d), randn(5, 4, 16, dtype=d), randn(5, 4, 16, dtype=d), num_query_heads=4,
                        num_key_value_heads=2, softmax_scale=0.4, block_table=torch.tensor([[3, 0, -1], [1, 4, 2]], dtype=torch.int32),
                        actual_seq_kvlen=[6, 11], block_size=4, return_softmax_lse=True),
        lambda d: _call(*_tokens(d), num_query_heads=4, num_key_value_heads=2, softmax_scale=0.4, input_layout="TND",
                        actual_seq_qlen=[2, 7], actual_seq_kvlen=[3, 9], atten_mask=_CAUSAL_STANDARD, sparse_mode=3,
                        learnable_sink=randn(4, dtype=d), return_softmax_lse=True),
        lambda d: _call(*_tokens(d), num_query_heads=4, num_key_value_heads=2, softmax_scale=0.4, input_layout="TND_NTD",
                        actual_seq_qlen=[2, 7], actual_seq_kvlen=[3, 9], query_rope=randn(7, 4, 4, dtype=d),
                        key_rope=randn(9, 2, 4, dtype=d)),
        lambda d: _call(*_attention("BNSD", d, columns=9), num_query_heads=4, num_key_value_heads=2, softmax_scale=0.4,
                        input_layout="BNSD", quant_scale_out=torch.tensor([30.0]), actual_seq_qlen=[4, 6], actual_seq_kvlen=[9, 7]),
        lambda d: _call(randn(2, 4, 1, 16, dtype=d), _int8(5, 2, 4, 16), _int8(5, 2, 4, 16), num_query_heads=4, input_layout="BNSD",
                        num_key_value_heads=2, softmax_scale=0.4, block_table=torch.tensor([[3, 0, -1], [1, 4, 2]], dtype=torch.int32),
                        actual_seq_kvlen=[6, 11], block_size=4, dequant_scale_key=torch.rand(2, 16).to(d) / 9,
                        dequant_scale_value=torch.rand(2, 16).to(d) / 9)],
    "npu_attention_update": [
        lambda d: _call([randn(5), randn(5), randn(5)], [randn(5, 8, dtype=d), randn(5, 8, dtype=d), randn(5, 8, dtype=d)], 1),
        lambda d: _call([randn(5), randn(5)], [randn(5, 8, dtype=d), randn(5, 8, dtype=d)], 0)],
    "npu_ffn": [
        lambda d: _call(randn(2, 3, 4, dtype=d), randn(4, 6, dtype=d), randn(6, 5, dtype=d), "gelu", bias1=randn(6), bias2=randn(5)),
        lambda d: _call(randn(6, 4, dtype=d), randn(3, 4, 6, dtype=d), randn(3, 6, 5, dtype=d), "silu", expert_tokens=[2, 0, 3],
                        bias1=randn(3, 6), bias2=randn(3, 5)),
        lambda d: _call(randn(6, 4, dtype=d), randn(2, 4, 6, dtype=d), randn(2, 6, 5, dtype=d), "relu", expert_tokens_index=[2, 6]),
        *[lambda d, gated=gated: _call(randn(3, 4, dtype=d), randn(4, 12, dtype=d), randn(6, 5, dtype=d), gated, bias1=randn(12))
          for gated in ("geglu", "swiglu", "reglu")],
        lambda d: _call(_int8(3, 8), _int8(8, 6), _int8(6, 5), "gelu", bias1=torch.randint(-9, 9, (6,), dtype=torch.int32),
                        scale=torch.tensor([3.0]), offset=torch.tensor([1.0]), deq_scale1=torch.rand(6) / 99, deq_scale2=torch.rand(5) / 99),
        lambda d: _call(_int8(5, 8), _int8(2, 8, 6), _int8(2, 6, 5), "silu", expert_tokens=[2, 1], scale=torch.rand(2, 6),
                        deq_scale1=torch.rand(2, 6).bfloat16() / 99, deq_scale2=torch.rand(2, 5).bfloat16() / 99, output_dtype=torch.bfloat16),
        lambda d: _call(randn(5, 8, dtype=d), _int8(2, 8, 6), _int8(2, 6, 5), "relu", expert_tokens=[2, 3], antiquant_scale1=torch.rand(2, 6).to(d) / 99,
                        antiquant_scale2=torch.rand(2, 5).to(d) / 99, antiquant_offset1=randn(2, 6, dtype=d), antiquant_offset2=randn(2, 5, dtype=d)),
        lambda d: _call(randn(3, 8, dtype=d), _int8(8, 6), _int8(6, 5), "relu", antiquant_scale1=torch.rand(2, 6).to(d) / 99,
                        antiquant_scale2=torch.rand(3, 5).to(d) / 99)],
    "npu_rotated_overlaps": [lambda d: _call(_rotated(8, d).view(2, 4, 5), _rotated(6, d).view(2, 3, 5))],
    "npu_sign_bits_pack": [lambda d: _call(randn(24, dtype=d), 3), lambda d: _call(randn(21, dtype=d), 1)],
    "npu_sign_bits_unpack": [lambda d: _call(torch.randint(0, 256, (6,), dtype=torch.uint8), 2, d)],
    "npu_scatter_pa_kv_cache_functional": [
        lambda d: _call(randn(3, 2, 8, dtype=d), randn(3, 2, 6, dtype=d), randn(4, 5, 2, 8, dtype=d), randn(4, 5, 2, 6, dtype=d),
                        torch.tensor([7, 0, 12], dtype=torch.int32), cache_mode="Norm")],
    "npu_scatter_pa_cache": [
        lambda d: _call(randn(3, 2, 8, dtype=d), torch.tensor([7, -1, 12], dtype=torch.int32), key_cache=randn(4, 5, 2, 8, dtype=d))],
    "npu_gather_pa_kv_cache": [
        lambda d: _call(randn(5, 4, 2, 8, dtype=d), randn(5, 4, 2, 6, dtype=d), torch.tensor([[3, 0], [1, 4]], dtype=torch.int32),
                        torch.tensor([3, 6], dtype=torch.int32), randn(9, 2, 8, dtype=d), randn(9, 2, 6, dtype=d),
                        seq_offset=torch.tensor([1, 2], dtype=torch.int32)),
        lambda d: _call(randn(5, 2, 4, 16, dtype=d), randn(5, 2, 4, 16, dtype=d), torch.tensor([[3, 0], [1, 4]], dtype=torch.int32),
                        torch.tensor([0, 3, 9], dtype=torch.int32), randn(9, 1, 32, dtype=d), randn(9, 1, 32, dtype=d),
                        is_seq_lens_cumsum=True)],
    "npu_gather_pa_kv_cache_functional": [
        lambda d: _call(randn(5, 4, 2, 8, dtype=d), randn(5, 4, 2, 6, dtype=d), torch.tensor([[3, 0], [1, 4]], dtype=torch.int32),
                        torch.tensor([3, 6], dtype=torch.int32), randn(9, 2, 8, dtype=d), randn(9, 2, 6, dtype=d))],
    "npu_scatter_list": [lambda d: _call([randn(2, 6, 3, dtype=d), randn(2, 6, 3, dtype=d)], torch.tensor([1, 4]), randn(2, 2, 2, 3, dtype=d))],
    "npu_quant_scatter_": [
        lambda d: _call(_int8(3, 6, 4), torch.tensor([1, 0, 4], dtype=torch.int32), randn(3, 2, 4, dtype=d), torch.rand(1, 1, 4) + 0.1,
                        torch.randint(-3, 3, (1, 1, 4), dtype=torch.int32))],
    "npu_quant_scatter": [
        lambda d: _call(_int8(3, 6, 4), torch.tensor([[2, 1], [0, 3]], dtype=torch.int32), randn(2, 2, 4, dtype=d), torch.rand(4) + 0.1)],
    "npu_kv_rmsnorm_rope_cache": [
        lambda d: _call(randn(2, 1, 3, 48, dtype=d), randn(32, dtype=d), randn(2, 1, 3, 16, dtype=d), randn(2, 1, 3, 16, dtype=d),
                        torch.tensor([[0, 1, 2], [3, 4, 5]]), randn(2, 1, 6, 16, dtype=d), randn(2, 1, 6, 32, dtype=d)),
        *(lambda d, mode=mode: _call(randn(2, 1, 3, 48, dtype=d), randn(32, dtype=d), randn(2, 1, 3, 16, dtype=d), randn(2, 1, 3, 16, dtype=d),
                                     torch.tensor([0, 5, 7, 2, -1, 11]), randn(3, 4, 1, 16, dtype=d), randn(3, 4, 1, 32, dtype=d),
                                     cache_mode=mode, is_output_kv=True) for mode in ("PA", "PA_NZ")),
        lambda d: _call(randn(2, 1, 3, 64, dtype=d), randn(32, dtype=d), randn(2, 1, 3, 32, dtype=d), randn(2, 1, 3, 32, dtype=d),
                        torch.tensor([0, 8]), _int8(3, 4, 1, 32), _int8(3, 4, 1, 32), cache_mode="PA_BLK_NZ",
                        k_rope_scale=torch.rand(32) * 20, c_kv_scale=torch.rand(32) * 20)],
    "npu_kv_rmsnorm_rope_cache_v2": [
        lambda d: _call(randn(2, 1, 3, 48, dtype=d), randn(32, dtype=d), randn(2, 1, 3, 16, dtype=d), randn(2, 1, 3, 16, dtype=d),
                        torch.tensor([0, 5, 7, 2, 1, 11]), randn(3, 4, 1, 16, dtype=d), randn(3, 4, 1, 32, dtype=d), cache_mode="PA_BNSD",
                        is_output_kv=True)],
    "npu_kv_rmsnorm_rope_cache_v2_functional": [
        lambda d: _call(randn(2, 1, 3, 48, dtype=d), randn(32, dtype=d), randn(2, 1, 3, 16, dtype=d), randn(2, 1, 3, 16, dtype=d),
                        torch.tensor([0, 5, 7, 2, 1, 11]), randn(3, 4, 1, 16, dtype=d), randn(3, 4, 1, 32, dtype=d), cache_mode="PA")],
    "npu_qkv_rms_norm_rope_cache": [
        lambda d: _call(randn(6, 64, dtype=d), randn(16, dtype=d), randn(16, dtype=d), randn(6, 16, dtype=d), randn(6, 16, dtype=d),
                        torch.tensor([0, 5, 7, 2, 1, 11]), torch.zeros(6, 32, dtype=d), randn(3, 1, 4, 16, dtype=d),
                        randn(3, 1, 4, 16, dtype=d), [2, 3, 4, 16], [2, 1, 1], is_output_qkv=True)],
    "npu_qkv_rms_norm_rope_cache_functional": [
        lambda d: _call(randn(6, 64, dtype=d), randn(16, dtype=d), randn(16, dtype=d), randn(6, 16, dtype=d), randn(6, 16, dtype=d),
                        torch.tensor([0, 5, 7, 2, 1, 11]), torch.zeros(6, 32, dtype=d), randn(3, 4, 1, 16, dtype=d),
                        randn(3, 4, 1, 16, dtype=d), [2, 3, 4, 16], [2, 1, 1], cache_mode="PA")],
    "npu_rope_quant_kvcache": [
        lambda d: _call(randn(2, 3, 64, dtype=d), randn(2, 3, 1, 16, dtype=d), randn(2, 3, 1, 16, dtype=d), _int8(2, 6, 1, 16),
                        _int8(2, 6, 1, 16), torch.tensor([0, 3], dtype=torch.int32), torch.rand(16) + 0.1, torch.rand(16) + 0.1,
                        [32, 16, 16], kv_output=True)],
    "npu_dequant_rope_quant_kvcache": [
        lambda d: _call(torch.randint(-99, 99, (2, 3, 64), dtype=torch.int32), randn(2, 3, 1, 16, dtype=d), randn(2, 3, 1, 16, dtype=d),
                        _int8(2, 6, 1, 16), _int8(2, 6, 1, 16), torch.tensor([0, 3], dtype=torch.int32), torch.rand(16) + 0.1,
                        torch.rand(16) + 0.1, [32, 16, 16], weight_scale=torch.rand(64) / 50, activation_scale=torch.rand(6),
                        bias=torch.randint(-9, 9, (64,), dtype=torch.int32))],
    "npu_advance_step_flashattn": [
        lambda d: _call(torch.tensor([9, 8, 7]), torch.tensor([[4], [5]]), torch.tensor([2, 3, 4]), torch.tensor([3, 4, 5], dtype=torch.int32),
                        torch.tensor([0, 0, 0]), torch.tensor([[3, 0], [1, 4], [2, 5]], dtype=torch.int32), 3, 2, 4),
        lambda d: _call(torch.zeros(6).long(), torch.tensor([[4, 5, -1], [6, 7, 8]]), torch.tensor([2, 3, 4, 1, 2, 3]), torch.zeros(6).long(),
                        torch.zeros(6).long(), torch.tensor([[3, 0, 6], [1, 4, 2]]), 2, 2, 4, spec_token=torch.tensor([[21, 22], [31, 32]]),
                        accepted_num=torch.tensor([1, 2]))],
    "npu_dynamic_mx_quant": [
        *(lambda d, kind=kind: _call(randn(3, 70, dtype=d), dst_type=kind) for kind in (296, 297, 23, 24)),
        lambda d: _call(randn(40, 6, dtype=d), axis=0, dst_type=296, round_mode="floor"),
        lambda d: _call(randn(3, 64, dtype=d), dst_type=24, scale_alg=1)],
    "npu_dynamic_mx_quant_with_dual_axis": [lambda d: _call(randn(2, 40, 66, dtype=d), dst_type=24)],
    "npu_dynamic_block_mx_quant": [lambda d: _call(randn(40, 66, dtype=d), dst_type=24), lambda d: _call(randn(2, 33, 64, dtype=d))],
    "npu_dynamic_dual_level_mx_quant": [lambda d: _call(randn(3, 600, dtype=d))],
    "npu_grouped_dynamic_mx_quant": [lambda d: _call(randn(140, 6, dtype=d), torch.tensor([40, 40, 120], dtype=torch.int32))],
    "npu_dynamic_block_quant": [
        lambda d: _call(randn(3, 130, dtype=d)), lambda d: _call(randn(130, 130, dtype=d), dst_type=24, row_block_size=128)],
    "npu_grouped_dynamic_block_quant": [
        lambda d: _call(randn(14, 130, dtype=d), torch.tensor([3, 3, 12], dtype=torch.int32), dst_type=292, row_block_size=4)],
    "npu_anti_mx_quant": [
        lambda d: _call(randn(3, 64).to(torch.float8_e4m3fn), torch.randint(120, 130, (3, 1, 2), dtype=torch.uint8)),
        lambda d: _call(torch.randint(0, 256, (3, 32), dtype=torch.uint8), torch.randint(120, 130, (3, 1, 2), dtype=torch.uint8), src_type=296,
                        dst_type=6)],
    "npu_swiglu_mx_quant": [lambda d: _call(randn(3, 128, dtype=d), dst_type=24), lambda d: _call(randn(3, 128, dtype=d), swiglu_mode=1)],
    "npu_rms_norm_dynamic_mx_quant": [lambda d: _call(randn(3, 64, dtype=d), randn(64, dtype=d), beta=randn(64, dtype=d), dst_type=24)],
    "npu_add_rms_norm_dynamic_mx_quant": [lambda d: _call(randn(3, 64, dtype=d), randn(3, 64, dtype=d), randn(64, dtype=d))],
    "npu_add_rms_norm_dynamic_quant": [
        lambda d: _call(randn(3, 8, dtype=d), randn(3, 8, dtype=d), randn(8, dtype=d)),
        lambda d: _call(randn(3, 8, dtype=d), randn(3, 8, dtype=d), randn(8, dtype=d), smooth_scale1=torch.rand(8).to(d),
                        smooth_scale2=torch.rand(8).to(d), beta=randn(8, dtype=d)),
        lambda d: _call(randn(3, 8, dtype=d), randn(3, 8, dtype=d), randn(8, dtype=d), output_mask=[False, True])],
    "npu_rms_norm_quant": [lambda d: _call(randn(3, 8, dtype=d), randn(8, dtype=d), randn(8, dtype=d), torch.tensor([20.0]).to(d),
                                           torch.tensor([3], dtype=torch.int8))],
    "npu_rms_norm_quant_v2": [lambda d: _call(randn(3, 8, dtype=d), randn(8, dtype=d), torch.rand(1) + 0.1, beta=randn(8, dtype=d))],
    "npu_add_rms_norm_v2_functional": [lambda d: _call(randn(3, 8, dtype=d), randn(3, 8, dtype=d), randn(8, dtype=d))],
    "npu_gelu_quant": [lambda d: _call(randn(3, 8, dtype=d), input_scale=torch.rand(8)),
                       lambda d: _call(randn(3, 8, dtype=d), input_scale=torch.rand(1) * 50, input_offset=torch.rand(1), quant_mode="static",
                                       approximate="tanh")],
    "npu_group_quant": [lambda d: _call(randn(5, 8, dtype=d), torch.rand(2, 8) * 50, torch.tensor([2, 5]), offset=torch.tensor([2.0]))],
    "npu_dequant_bias": [
        lambda d: _call(torch.randint(-999, 999, (3, 8), dtype=torch.int32), torch.rand(8) / 99, torch.rand(3),
                        torch.randint(-9, 9, (8,), dtype=torch.int32), output_dtype=torch.bfloat16)],
    "npu_quant_matmul_gelu": [lambda d: _call(_packed(3, 16), _packed(16, 8), torch.rand(3), torch.rand(8) / 50),
                              lambda d: _call(_int8(3, 8), _int8(8, 5), torch.rand(3), torch.rand(5) / 50, bias=randn(5, dtype=d))],
    "npu_quant_matmul_reduce_sum": [
        lambda d: _call(_int8(2, 3, 8), _int8(2, 8, 5), x1_scale=torch.rand(2, 3), x2_scale=torch.rand(5).bfloat16())],
    "npu_quant_matmul_dequant": [
        lambda d: _call(randn(3, 8, dtype=d), _int8(5, 8), torch.rand(5) / 50, bias=torch.randint(-9, 9, (5,), dtype=torch.int32)),
        lambda d: _call(randn(3, 8, dtype=d), _int8(5, 8), torch.rand(5) / 50, x_scale=torch.tensor([0.03]), quant_mode="pertensor")],
    "npu_quant_grouped_matmul_dequant": [
        lambda d: _call(randn(6, 8, dtype=d), _int8(2, 5, 8), torch.rand(2, 5) / 50, torch.tensor([2, 5]), smooth_scale=torch.rand(2, 8))],
    "npu_transpose_quant_batchmatmul": [
        lambda d: _call(randn(3, 2, 8).to(torch.float8_e4m3fn), randn(2, 8, 5).to(torch.float8_e4m3fn), torch.bfloat16, x1_scale=torch.rand(3),
                        x2_scale=torch.rand(5), perm_x1=[1, 0, 2], perm_y=[1, 0, 2])],
    "npu_convert_weight_to_int4pack": [lambda d: _call(torch.randint(-8, 8, (3, 16), dtype=torch.int32))],
    "npu_kronecker_quant": [lambda d: _call(randn(3, 4, 8, dtype=d), randn(4, 4, dtype=d), randn(8, 8, dtype=d), 0.9)],
    "npu_rotate_quant": [lambda d: _call(randn(3, 16, dtype=d), randn(8, 8, dtype=d))],
    "npu_quant_max": [lambda d: _call(randn(3, 16, dtype=d), torch.tensor([20.0])),
                      lambda d: _call(randn(5, 16, dtype=d), torch.tensor([20.0, 9.0]), dst_dtype=24, group_list=torch.tensor([2, 5]))],
    "npu_grouped_matmul_swiglu_quant": [
        lambda d: _call(_int8(6, 8), _int8(2, 8, 12), torch.tensor([2, 5]), torch.rand(2, 12) / 50, torch.rand(6)),
        lambda d: _call(_int8(6, 8), torch.stack([_packed(8, 16), _packed(8, 16)]), torch.tensor([2, 5]), torch.rand(2, 2, 16) / 50, torch.rand(6),
                        bias=randn(2, 16))],
    "npu_grouped_matmul_swiglu_quant_v2": [
        lambda d: _call(_int8(6, 8), [_packed(8, 16), _packed(8, 16)], [torch.rand(16) / 50, torch.rand(16) / 50], torch.rand(6),
                        torch.tensor([2, 6]), weight_assist_matrix=[randn(16), randn(16)]),
        lambda d: _call(_int8(6, 8), [_int8(2, 8, 12)], [torch.rand(2, 12) / 50], torch.rand(6), torch.tensor([2, 3]), group_list_type=1),
        lambda d: _call(_int8(6, 8), [_int8(8, 12), _int8(8, 12)], [torch.rand(12) / 50, torch.rand(12) / 50], torch.rand(6),
                        torch.tensor([2, 6]), smooth_scale=torch.rand(2)),
        *(lambda d, kind=kind: _call(randn(6, 8).to(kind), [randn(2, 8, 12).to(kind)], [torch.rand(2, 12)], torch.rand(6), torch.tensor([2, 5]),
                                     quant_dtype=kind) for kind in (torch.float8_e4m3fn, torch.float8_e5m2)),
        *(lambda d, kind=kind: _call(randn(6, 96).to(kind), [randn(2, 96, 256).to(kind)], [torch.randint(120, 128, (2, 2, 256, 2), dtype=torch.uint8)],
                                     torch.randint(124, 130, (6, 2, 2), dtype=torch.uint8), torch.tensor([5, 0]), group_list_type=1, dequant_mode=2,
                                     quant_mode=2, quant_dtype=kind) for kind in (torch.float8_e4m3fn, torch.float8_e5m2)),
        lambda d: _call(torch.randint(-2**31, 2**31 - 1, (6, 2), dtype=torch.int32), [torch.randint(-2**31, 2**31 - 1, (2, 16, 2), dtype=torch.int32)],
                        [torch.rand(2, 16) / 50], torch.rand(6), torch.tensor([2, 6]), smooth_scale=torch.rand(2, 8))],
    "npu_grouped_matmul_finalize_routing": [
        lambda d: _call(_int8(6, 8), _int8(2, 8, 12), torch.tensor([2, 4]), scale=torch.rand(2, 12) / 50, pertoken_scale=torch.rand(6),
                        shared_input=randn(2, 12, dtype=d), logit=torch.rand(6), row_index=torch.tensor([0, 1, 3, 2, 0, 1]), output_bs=4,
                        shared_input_weight=0.5, shared_input_offset=1)],
    "npu_moe_init_routing_quant": [
        lambda d: _call(randn(4, 8, dtype=d), _EXPERTS, scale=torch.rand(4, 8), active_num=8, expert_num=4, expert_tokens_num_mode=2),
        lambda d: _call(randn(4, 8, dtype=d), _EXPERTS, scale=torch.tensor([20.0]), offset=torch.tensor([1.0]), active_num=5, expert_num=4,
                        quant_mode=0, expert_tokens_num_mode=1)],
    "npu_moe_update_expert": [
        lambda d: _call(_EXPERTS, torch.tensor([[1, 7, 0, 0], [2, 3, 4, 0], [3, 0, 1, 2], [1, 6, 0, 0]], dtype=torch.int32),
                        expert_scales=torch.rand(4, 2).to(d), pruning_threshold=torch.tensor([[0.3, 0.5]]), local_rank_id=1, world_size=4),
        lambda d: _call(_EXPERTS, torch.tensor([[1, 7, 0, 0], [2, 3, 4, 0], [3, 0, 1, 2], [1, 6, 0, 0]], dtype=torch.int32), balance_mode=1)],
    "npu_add_quant_matmul_": [
        lambda d: _call(randn(3, 5), randn(3, 64).to(torch.float8_e4m3fn), randn(64, 5).to(torch.float8_e4m3fn),
                        torch.randint(125, 129, (1, 5, 2), dtype=torch.uint8), x1_scale=torch.randint(125, 129, (3, 1, 2), dtype=torch.uint8))],
    "npu_add_quant_matmul": [
        lambda d: _call(randn(3, 5), randn(3, 8).to(torch.float8_e5m2), randn(8, 5).to(torch.float8_e5m2), torch.rand(5), x1_scale=torch.rand(3))],
    "npu_add_quant_gmm_": [
        lambda d: _call(randn(2, 3, 5), randn(3, 8).to(torch.float8_e5m2), randn(8, 5).to(torch.float8_e5m2), torch.rand(2), torch.tensor([3, 8]),
                        x1_scale=torch.rand(2))],
    "npu_add_quant_gmm": [
        lambda d: _call(randn(2, 3, 5), randn(3, 8).to(torch.float8_e5m2), randn(8, 5).to(torch.float8_e5m2), torch.rand(2), torch.tensor([3, 8]))],
    "npu_lightning_indexer": [
        lambda d: _call(randn(2, 3, 4, 8), randn(2, 6, 1, 8), randn(2, 3, 4), sparse_count=5, return_value=True),
        lambda d: _call(randn(5, 4, 8), randn(5, 4, 1, 8), randn(5, 4), actual_seq_lengths_query=torch.tensor([2, 5], dtype=torch.int32),
                        actual_seq_lengths_key=torch.tensor([6, 7], dtype=torch.int32), layout_query="TND", layout_key="PA_BSND",
                        block_table=torch.tensor([[3, 0], [1, 4]], dtype=torch.int32), sparse_count=4, sparse_mode=0)],
    "npu_quant_lightning_indexer": [
        lambda d: _call(_int8(2, 3, 4, 8), _int8(2, 6, 1, 8), randn(2, 3, 4), torch.rand(2, 3, 4), torch.rand(2, 6, 1), 0, 0, sparse_count=5)],
    "npu_top_k_top_p_sample": [
        lambda d: _call(randn(4, 9, dtype=d), torch.tensor([3, 0, 9, 5], dtype=torch.int32), torch.tensor([0.7, 0.5, 1.0, 0.0]).to(d),
                        torch.rand(4, 9) + 0.1, is_need_logits=True),
        lambda d: _call(randn(4, 9, dtype=d), torch.tensor([3, 0, 9, 5], dtype=torch.int32), torch.tensor([0.7, 0.5, 1.0, 0.0]).to(d),
                        min_ps=torch.tensor([0.1, 0.2, 0.3, 0.4]).to(d), is_need_logits=True, post_sample="None"),
        lambda d: _call(randn(4, 9, dtype=d), torch.tensor([3, 0, 9, 5], dtype=torch.int32), torch.tensor([0.7, 0.5, 1.0, 0.0]).to(d),
                        torch.rand(4, 9) + 0.1, post_sample="None")],
    "_npu_dtype_cast": [lambda d: _call(randn(3, 4, dtype=d), torch.int32)],
    "_npu_ciou": [lambda d: _call(_boxes(5, d).t().contiguous(), _boxes(5, d).t().contiguous(), False, False, 0, True)],
    "_npu_moe_token_unpermute": [
        lambda d: _call(randn(8, 5, dtype=d), torch.randperm(8).int(), torch.rand(4, 2).to(d)),
        lambda d: _call(randn(4, 5, dtype=d), torch.randperm(4).int())],
    "npu_moe_token_unpermute_grad_v2": [
        lambda d: _call(randn(4, 5, dtype=d), torch.randperm(8).int(), 8, d, torch.rand(4, 2).to(d), permuted_tokens=randn(8, 5, dtype=d))],
    "npu_moe_token_permute_grad_v2": [lambda d: _call(randn(6, 5, dtype=d), torch.randperm(8).int(), 4, d, 2)],
    "npu_fusion_attention_v3": [
        lambda d: _call(*_attention("BNSD", d), 4, "BNSD", scale=0.4),
        lambda d: _call(randn(7, 2, 8, dtype=d), randn(7, 2, 8, dtype=d), randn(7, 2, 8, dtype=d), 2, "TND", scale=0.4,
                        actual_seq_qlen=torch.tensor([2, 7]), actual_seq_kvlen=torch.tensor([3, 7]))],
    "_npu_fusion_attention_v3_get_max_workspace": [lambda d: _call(*_attention("BNSD", d), 4, "BNSD")],
    "_npu_fusion_attention_v3_infer_output": [lambda d: _call(*_attention("BSH", d), 4, "BSH")],
    "npu_swiglu_mx_quant_with_dual_axis": [lambda d: _call(randn(40, 128, dtype=d)), lambda d: _call(randn(2, 6, 64, dtype=d), activate_left=False)],
    "npu_dual_level_quant_matmul": [
        lambda d: _call(torch.randint(0, 256, (3, 32), dtype=torch.uint8), torch.randint(0, 256, (5, 32), dtype=torch.uint8), torch.rand(3, 1),
                        torch.rand(5, 1), torch.randint(124, 129, (3, 1, 2), dtype=torch.uint8),
                        torch.randint(124, 129, (5, 1, 2), dtype=torch.uint8), bias=randn(5), output_dtype=5)],
    "npu_batch_gather_matmul_": [
        lambda d: _call(randn(3, 8, dtype=d), randn(3, 6, dtype=d), randn(2, 1, 5, 4, dtype=d), torch.tensor([1, -1, 0], dtype=torch.int32),
                        randn(2, 1, 4, 6, dtype=d), 0, 0.5, 2, 5)],
    "npu_batch_gather_matmul": [
        lambda d: _call(randn(3, 5, dtype=d), randn(3, 4, dtype=d), randn(2, 2, 5, 4, dtype=d), torch.tensor([1, 1, 0], dtype=torch.int32),
                        layer_idx=1, scale=1.0)],
    "npu_quant_conv2d": [
        lambda d: _call(_int8(1, 2, 6, 6), _int8(3, 2, 3, 3), torch.rand(3) / 50, [2, 2], [1, 1], [1, 1], offset_x=1,
                        bias=torch.randint(-99, 99, (3,), dtype=torch.int32)),
        lambda d: _call(_int8(1, 4, 6, 6), _int8(4, 2, 3, 3), torch.rand(1) / 50, groups=2, output_dtype=15)],
}

CASES.update(cases_serving.CASES)
CASES.update(cases_training.CASES)
CASES.update(cases_composed.CASES)
