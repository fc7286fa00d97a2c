"""Inputs of latent attention, delta rules and causal convolutions: CASES, as in cases.py."""
import torch
from case_inputs import call as _call, int8 as _int8, randn


def _prolog(dtype, quantized=False, by_name=False, cache_mode="PA_BSND", **more):
    """Arguments of npu_mla_prolog: 5 tokens, 2 heads."""
    hidden, low, heads, width, latent, rope = 16, 12, 2, 8, 32, 16
    index, caches = torch.tensor([0, 7, 2, 5, 11]), (randn(3, 4, 1, latent, dtype=dtype), randn(3, 4, 1, rope, dtype=dtype))
    up = randn(low, heads * (width + rope), dtype=dtype)
    if quantized:
        up, more = _int8(low, heads * (width + rope)), {"dequant_scale_w_uq_qr": torch.rand(1, heads * (width + rope)) / 20,
                                                        "smooth_scales_cq": torch.rand(1, low) + 0.5}
    args = (randn(5, hidden, dtype=dtype), randn(hidden, low, dtype=dtype), up, randn(heads, width, latent, dtype=dtype),
            randn(hidden, latent + rope, dtype=dtype), randn(low, dtype=dtype), randn(latent, dtype=dtype), randn(5, rope, dtype=dtype),
            randn(5, rope, dtype=dtype))
    if by_name:
        return _call(*args, *caches, cache_index=index, cache_mode=cache_mode, **more)
    return _call(*args, index, *caches, cache_mode=cache_mode, **more)


def _quantized_latent_attention(dtype):
    """Pages of 16 numbers, a rope of 4 and two scales."""
    numbers, rope, scales = _int8(5, 4, 1, 16), randn(5, 4, 1, 4).bfloat16().view(torch.int8), (torch.rand(5, 4, 1, 2) / 20).view(torch.int8)
    cache = torch.cat([numbers, rope, scales], -1)
    places = torch.tensor([[[0, 3, 1, -1]], [[4, 5, 2, 0]], [[0, -1, -1, -1]], [[1, 0, 4, 5]], [[6, 5, 0, 1]]], dtype=torch.int32)
    return _call(randn(5, 2, 20, dtype=dtype), cache, cache, places, 0.3, 2, 2, layout_query="TND", layout_kv="PA_BSND", tile_size=8,
                 rope_head_dim=4, actual_seq_lengths_query=torch.tensor([2, 5], dtype=torch.int32), attention_mode=2,
                 actual_seq_lengths_kv=torch.tensor([6, 7], dtype=torch.int32), block_table=torch.tensor([[3, 0], [1, 4]], dtype=torch.int32))


def _delta_rule(dtype):
    """Query, key and value of 5 tokens, 2 heads of keys and 4 of values."""
    return randn(5, 2, 8, dtype=dtype) * 0.3, randn(5, 2, 8, dtype=dtype) * 0.3, randn(5, 4, 5, dtype=dtype)


CASES = {
    "npu_mla_prolog": [lambda d: _prolog(d), lambda d: _prolog(d, cache_mode="PA_NZ")],
    "npu_mla_prolog_v2": [lambda d: _prolog(d), lambda d: _prolog(d, quantized=True)],
    "npu_mla_prolog_v3": [lambda d: _prolog(d, by_name=True, query_norm_flag=True, qc_qr_scale=0.5, kc_scale=2.0)],
    "npu_mla_prolog_v3_functional": [lambda d: _prolog(d, by_name=True)],
    "npu_kv_quant_sparse_flash_attention": [lambda d: _quantized_latent_attention(d)],
    "npu_recurrent_gated_delta_rule": [
        lambda d: _call(*_delta_rule(d), randn(6, 4, 5, 8, dtype=d), beta=torch.rand(5, 4).to(d), scale=0.4, g=-torch.rand(5, 4),
                        actual_seq_lengths=torch.tensor([2, 3], dtype=torch.int32), gk=-torch.rand(5, 4, 8),
                        ssm_state_indices=torch.tensor([3, 0, 5, 1, 2], dtype=torch.int32),
                        num_accepted_tokens=torch.tensor([1, 2], dtype=torch.int32))],
    "npu_recurrent_gated_delta_rule_functional": [lambda d: _call(*_delta_rule(d), randn(6, 4, 5, 8, dtype=d), beta=torch.rand(5, 4).to(d))],
    "npu_chunk_gated_delta_rule": [
        lambda d: _call(*_delta_rule(d), beta=torch.rand(5, 4).to(d), initial_state=randn(2, 4, 5, 8), scale=0.4, g=-torch.rand(5, 4),
                        actual_seq_lengths=torch.tensor([2, 3], dtype=torch.int32)),
        lambda d: _call(*_delta_rule(d))],
    "npu_fused_causal_conv1d": [
        lambda d: _call(randn(7, 6, dtype=d), randn(3, 6, dtype=d), randn(4, 3, 6, dtype=d), bias=randn(6, dtype=d), activation="silu",
                        query_start_loc=torch.tensor([0, 2, 7], dtype=torch.int32), cache_indices=torch.tensor([2, 0], dtype=torch.int32),
                        initial_state_mode=torch.tensor([1, 0], dtype=torch.int32)),
        lambda d: _call(randn(2, 2, 6, dtype=d), randn(3, 6, dtype=d), randn(4, 5, 6, dtype=d), residual_connection=1,
                        num_accepted_tokens=torch.tensor([1, 2], dtype=torch.int32)),
        lambda d: _call(randn(9, 6, dtype=d), randn(3, 6, dtype=d), randn(4, 2, 6, dtype=d), num_computed_tokens=torch.tensor([0, 1, 7], dtype=torch.int32),
                        query_start_loc=torch.tensor([0, 4, 5, 9], dtype=torch.int32), conv_mode="pangu")],
    "npu_fused_causal_conv1d_v2": [lambda d: _call(randn(2, 4, 6, dtype=d), randn(3, 6, dtype=d), randn(2, 2, 6, dtype=d))],
}
