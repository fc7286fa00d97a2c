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
    # Attention to some of the keys
    "npu_sparse_flash_attention(Tensor query, Tensor key, Tensor? value, Tensor sparse_indices, float scale_value, *, "
    "Tensor? block_table=None, Tensor? actual_seq_lengths_query=None, Tensor? actual_seq_lengths_kv=None, Tensor? "
    'query_rope=None, Tensor? key_rope=None, int sparse_block_size=1, str layout_query="BSND", str layout_kv="BSND", int '
    "sparse_mode=3, int pre_tokens=9223372036854775807, int next_tokens=9223372036854775807, int attention_mode=0, bool "
    "return_softmax_lse=False, Tensor? sinks=None) -> (Tensor, Tensor, Tensor)",
    "npu_block_sparse_attention(Tensor query, Tensor key, Tensor value, Tensor block_sparse_mask, int[] block_shape, *, "
    'str q_input_layout="TND", str kv_input_layout="TND", int num_key_value_heads=1, float scale_value=0., int '
    "inner_precise=1, int[]? actual_seq_lengths=None, int[]? actual_seq_lengths_kv=None, int? softmax_lse_flag=0) -> "
    "(Tensor, Tensor)",
    # Recurrent networks
    "npu_lstm_cell(Tensor input, Tensor w_ih, Tensor w_hh, Tensor h, Tensor c, Tensor? b_ih=None, Tensor? b_hh=None) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    "npu_lstm_data(Tensor input, Tensor batch_sizes, Tensor weight, Tensor bias, Tensor seq_mask, Tensor h, Tensor c, "
    "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first, bool flag_seq, "
    "bool direction) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    "_lstm_npu(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional, *, bool? batch_first=False, Tensor? batch_sizes=None) -> (Tensor, Tensor, Tensor, Tensor, "
    "Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    "_gru_npu(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool "
    "bidirectional, *, bool? batch_first=False, Tensor? batch_sizes=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor, "
    "Tensor, Tensor)",
    # Fused attention
    "npu_fusion_attention_v3.out(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, Tensor? "
    "pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float keep_prob=1., int "
    "pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0, int[]? prefix=None, Tensor? "
    "actual_seq_qlen=None, Tensor? actual_seq_kvlen=None, int sparse_mode=0, bool gen_mask_parallel=True, bool "
    'sync=False, str softmax_layout="", Tensor? sink=None, Tensor? workspace=None, *, Tensor[] out) -> (Tensor, Tensor, '
    "Tensor, Tensor, Tensor, Tensor)",
    # Older layers and gates
    "npu_fused_attention_layernorm_qkv_fwd(Tensor x, Tensor kernel_query, Tensor kernel_key, Tensor kernel_value, Tensor "
    "gamma, Tensor beta, Tensor? bias_query=None, Tensor? bias_key=None, Tensor? bias_value=None, int seq_len=128, int "
    "num_heads=12, float eps=1.0000000000000001e-05) -> Tensor[]",
    "_npu_format_cast(Tensor input, int acl_format) -> Tensor",
    "_npu_format_cast.aclnn(Tensor input, int acl_format, int customize_dtype) -> Tensor",
    "_npu_format_cast.input_dtype(Tensor input, int acl_format, int customize_dtype, int input_dtype) -> Tensor",
    "npu_swiglu_group_quant(Tensor x, *, Tensor? weight=None, Tensor? group_index=None, Tensor? scale=None, int "
    "dst_type=291, int quant_mode=0, int block_size=0, bool round_scale=False, float clamp_limit=-1., float "
    "dst_type_max=15., bool output_origin=False) -> (Tensor, Tensor, Tensor)",
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
    # Attention to some of the keys
    "npu_sparse_flash_attention_grad(Tensor query, Tensor key, Tensor? value, Tensor sparse_indices, Tensor d_out, Tensor"
    " out, Tensor softmax_max, Tensor softmax_sum, float scale_value, int sparse_block_size, Tensor? query_rope=None, "
    'Tensor? key_rope=None, Tensor? actual_seq_qlen=None, Tensor? actual_seq_kvlen=None, str? layout="BSND", int? '
    "sparse_mode=3, int? pre_tokens=9223372036854775807, int? next_tokens=9223372036854775807, int? attention_mode=0) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor)",
    "npu_block_sparse_attention_backward(Tensor d_out, Tensor query, Tensor key, Tensor value, Tensor attention_out, "
    "Tensor softmax_lse, Tensor block_sparse_mask, int[]? block_shape, int[]? actual_seq_lengths, int[]? "
    "actual_seq_lengths_kv, str q_input_layout, str kv_input_layout, int num_key_value_heads, float scale_value) -> "
    "(Tensor, Tensor, Tensor)",
    "npu_lightning_indexer_grad(Tensor query, Tensor key, Tensor dy, Tensor sparse_indices, Tensor weights, Tensor? "
    'actual_seq_lengths_query=None, Tensor? actual_seq_lengths_key=None, str? layout="BSND", int? sparse_mode=3, int? '
    "pre_tokens=9223372036854775807, int? next_tokens=9223372036854775807) -> (Tensor, Tensor, Tensor)",
    "npu_dense_lightning_indexer_softmax_lse(Tensor query_index, Tensor key_index, Tensor weights, *, SymInt[]? "
    'actual_seq_qlen=None, SymInt[]? actual_seq_klen=None, str? layout="BSND", int? sparse_mode=3, int? '
    "pre_tokens=9223372036854775807, int? next_tokens=9223372036854775807) -> (Tensor, Tensor)",
    "npu_dense_lightning_indexer_grad_kl_loss(Tensor query, Tensor key, Tensor query_index, Tensor key_index, Tensor "
    "weights, Tensor softmax_max, Tensor softmax_sum, Tensor softmax_max_index, Tensor softmax_sum_index, float "
    "scale_value, *, Tensor? query_rope=None, Tensor? key_rope=None, SymInt[]? actual_seq_qlen=None, SymInt[]? "
    'actual_seq_klen=None, str? layout="BSND", int? sparse_mode=3, int? pre_tokens=9223372036854775807, int? '
    "next_tokens=9223372036854775807) -> (Tensor, Tensor, Tensor, Tensor)",
    "npu_sparse_lightning_indexer_grad_kl_loss(Tensor query, Tensor key, Tensor query_index, Tensor key_index, Tensor "
    "weights, Tensor sparse_indices, Tensor softmax_max, Tensor softmax_sum, float scale_value, *, Tensor? "
    "query_rope=None, Tensor? key_rope=None, SymInt[]? actual_seq_qlen=None, SymInt[]? actual_seq_klen=None, str? "
    'layout="BSND", int? sparse_mode=3, int? pre_tokens=9223372036854775807, int? next_tokens=9223372036854775807, '
    "Tensor? sinks=None) -> (Tensor, Tensor, Tensor, Tensor)",
    # Recurrent networks
    "npu_lstm_cell_backward(Tensor? grady, Tensor? gradh, Tensor? gradc, Tensor input, Tensor w_ih, Tensor w_hh, Tensor "
    "h, Tensor c, Tensor y_output, Tensor h_output, Tensor c_output, Tensor i, Tensor j, Tensor f, Tensor o, Tensor "
    "tanhc) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    "npu_lstm_backward(Tensor? grady, Tensor? gradh, Tensor? gradc, Tensor input, Tensor weight, Tensor bias, Tensor hx, "
    "Tensor cx, Tensor y_output, Tensor h_output, Tensor c_output, Tensor i, Tensor j, Tensor f, Tensor o, Tensor tanhc) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "npu_lstm_data_backward(Tensor? grady_opt, Tensor? gradh_opt, Tensor? gradc_opt, Tensor input, Tensor batch_sizes, "
    "Tensor weight, Tensor bias, Tensor init_h, Tensor init_c, Tensor y, Tensor h, Tensor c, Tensor i, Tensor j, Tensor "
    "f, Tensor o, Tensor tanhc, bool flag_direction) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "npu_gru_backward(Tensor? grady, Tensor? gradh, Tensor input, Tensor weight_input, Tensor weight_hidden, Tensor "
    "bias_input, Tensor bias_hidden, Tensor seq_length, Tensor hx, Tensor y_output, Tensor h_output, Tensor "
    "output_updata, Tensor output_reset, Tensor output_new, Tensor hidden_new) -> (Tensor, Tensor, Tensor, Tensor, "
    "Tensor, Tensor)",
    "_lstm_npu_backward(Tensor grad_y, Tensor grad_hy, Tensor grad_cy, Tensor input, Tensor[] hx, Tensor[] params, Tensor"
    " i, Tensor j, Tensor f, Tensor o, Tensor h, Tensor c, Tensor tanhc, bool has_biases, int num_layers, float dropout, "
    "bool train, bool bidirectional, *, bool? batch_first=False, Tensor? batch_sizes=None) -> (Tensor, Tensor[], "
    "Tensor[])",
    "_gru_npu_backward(Tensor grad_y, Tensor grad_h, Tensor input, Tensor hx, Tensor[] params, Tensor r, Tensor z, Tensor"
    " n, Tensor h_n, Tensor h, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, *, bool? "
    "batch_first=False, Tensor? batch_sizes=None) -> (Tensor, Tensor, Tensor[])",
    # Fused attention
    "npu_fusion_attention_grad_v3(Tensor query, Tensor key, Tensor value, Tensor dy, int head_num, str input_layout, *, "
    "Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, Tensor? softmax_max=None, Tensor? "
    "softmax_sum=None, Tensor? softmax_in=None, Tensor? attention_in=None, float scale_value=1., float keep_prob=1., int "
    "pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0, Tensor? seed=None, Tensor? offset=None, "
    "SymInt[]? prefix=None, Tensor? actual_seq_qlen=None, Tensor? actual_seq_kvlen=None, int sparse_mode=0, bool "
    'gen_mask_parallel=True, bool sync=False, str softmax_layout="", Tensor? sink=None) -> (Tensor, Tensor, Tensor, '
    "Tensor, Tensor)",
    "npu_fusion_attention_grad_v3.out(Tensor query, Tensor key, Tensor value, Tensor dy, int head_num, str input_layout, "
    "*, Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, Tensor? softmax_max=None, Tensor? "
    "softmax_sum=None, Tensor? softmax_in=None, Tensor? attention_in=None, float scale_value=1., float keep_prob=1., int "
    "pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0, Tensor? seed=None, Tensor? offset=None, "
    "int[]? prefix=None, Tensor? actual_seq_qlen=None, Tensor? actual_seq_kvlen=None, int sparse_mode=0, bool "
    'gen_mask_parallel=True, bool sync=False, str softmax_layout="", Tensor? sink=None, Tensor? workspace=None, Tensor[] '
    "out) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "_npu_fusion_attention_grad_v3_get_max_workspace(Tensor query, Tensor key, Tensor value, Tensor dy, int head_num, str"
    " input_layout, *, Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, Tensor? softmax_max=None, "
    "Tensor? softmax_sum=None, Tensor? softmax_in=None, Tensor? attention_in=None, float scale_value=1., float "
    "keep_prob=1., int pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0, Tensor? seed=None, "
    "Tensor? offset=None, int[]? prefix=None, Tensor? actual_seq_qlen=None, Tensor? actual_seq_kvlen=None, int "
    'sparse_mode=0, bool gen_mask_parallel=True, bool sync=False, str softmax_layout="", Tensor? sink=None) -> Tensor',
    "_npu_fusion_attention_grad_v3_infer_output(Tensor query, Tensor key, Tensor value, Tensor? pse=None, Tensor? "
    "sink=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    # Faults that nothing else notices
    "_npu_silent_check(Tensor(a!) input_grad, Tensor val, Tensor(b!) pre_val, Tensor(c!) min_val, Tensor(d!) max_val, "
    "Tensor val_counter, int c_min_steps, float c_thresh_l1, float c_coeff_l1, float c_thresh_l2, float c_coeff_l2) -> "
    "Tensor",
    "_npu_silent_check_v2(Tensor val, Tensor(a!) input_grad, Tensor(b!) sfda, Tensor(c!) step, int c_min_steps, float "
    "c_thresh_l1, float c_coeff_l1, float c_thresh_l2, float c_coeff_l2, int npu_asd_detect) -> Tensor",
    "_npu_silent_check_v3(Tensor val, Tensor(a!) input_grad, Tensor(b!) step, Tensor(c!) max, Tensor(d!) avg, float "
    "c_thresh_l1, float c_thresh_l2, float betal, int npu_asd_detect) -> Tensor",
    "_npu_matmul_abft_verify(Tensor a, Tensor b, Tensor c, Tensor checksum_weight, *, float e_max=0.001) -> Tensor",
    # Older layers and gates
    "npu_multi_head_attention_backward(Tensor query, Tensor key, Tensor value, Tensor query_weight, Tensor key_weight, "
    "Tensor value_weight, Tensor out_proj_weight, Tensor? query_bias, Tensor? key_bias, Tensor? value_bias, Tensor? "
    "out_proj_bias, Tensor query_res, Tensor key_res, Tensor value_res, Tensor attn_scores, Tensor attn_res, Tensor "
    "context, Tensor y_grad, Tensor dropout_mask, int attn_head_num, int attn_dim_per_head, int src_len, int tgt_len, "
    "float dropout_prob, bool softmax_use_float) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, "
    "Tensor, Tensor, Tensor)",
    "npu_fused_attention_qkv_grad(Tensor grad_output_query, Tensor grad_output_key, Tensor grad_output_value, Tensor "
    "query_kernel, Tensor key_kernel, Tensor value_kernel, Tensor hidden_states, Tensor grad_output_ln) -> Tensor[]",
    "npu_moe_gating_top_k_backward(Tensor x_norm, Tensor grad_y, Tensor expertIdx, *, int renorm=0, int norm_type=0, "
    "float routed_scaling_factor=1., float eps=9.9999999999999995e-21) -> Tensor",
    "npu_bert_apply_adam(Scalar lr, Scalar beta1, Scalar beta2, Scalar epsilon, Tensor grad, Scalar max_grad_norm, Scalar"
    " global_grad_norm, Scalar weight_decay, Scalar? step_size=None, int adam_mode=0) -> (Tensor var, Tensor m, Tensor v)",
    "npu_bert_apply_adam.out(Scalar lr, Scalar beta1, Scalar beta2, Scalar epsilon, Tensor grad, Scalar max_grad_norm, "
    "Scalar global_grad_norm, Scalar weight_decay, Scalar? step_size=None, int adam_mode=0, *, Tensor[] out) -> (Tensor, "
    "Tensor, Tensor)",
    "_npu_dropout_gen_mask.Tensor(Tensor input, int[] size, float p, int seed, int offset, *, bool? parallel=True, bool? "
    "sync=None) -> Tensor",
    "set_op_timeout_ms(int timeout) -> NoneType",
    # Quantization and compression
    "_npu_rms_norm_backward_quant(Tensor dy, Tensor x, Tensor rstd, Tensor gamma, Tensor scale_x, *, Tensor? "
    'offset_x=None, bool? div_mode=True, str quant_mode="static", int? dst_type=1) -> (Tensor, Tensor)',
    "_npu_swiglu_backward_mx_quant_with_dual_axis(Tensor x, Tensor y_grad, *, Tensor? group_index=None, bool "
    'activate_left=True, str round_mode="rint", int scale_alg=1, int dst_type=24, float dst_type_max=0.) -> (Tensor, '
    "Tensor, Tensor, Tensor)",
    "npu_swiglu_group_quant_backward(Tensor grad_y, Tensor x, *, Tensor? weight=None, Tensor? y_origin=None, Tensor? "
    "group_index=None, float clamp_limit=0.) -> (Tensor, Tensor)",
    "npu_ifmr(Tensor data, Tensor data_min, Tensor data_max, Tensor cumsum, float min_percentile, float max_percentile, "
    "float search_start, float search_end, float search_step, bool with_offset) -> (Tensor, Tensor)",
    "npu_hans_encode.out(Tensor input, bool statistic=False, bool reshuff=False, *, Tensor[] out) -> (Tensor, Tensor, "
    "Tensor, Tensor)",
    "npu_hans_decode.out(Tensor mantissa, Tensor fixed, Tensor var, Tensor pdf, bool reshuff=False, *, Tensor(a!) out) ->"
    " Tensor(a!)",
    "npu_quant_fusion_attention(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, *, Tensor "
    "d_scale_q, Tensor d_scale_k, Tensor d_scale_v, Tensor? p_scale=None, float scale=1., int? query_dtype=None) -> "
    "(Tensor, Tensor, Tensor, Tensor, int, int, int)",
    "npu_quant_fusion_attention_backward(Tensor query, Tensor key, Tensor value, Tensor dy, int head_num, str "
    "input_layout, Tensor d_scale_q, Tensor d_scale_k, Tensor d_scale_v, Tensor d_scale_dy, *, Tensor? p_scale=None, "
    "Tensor? ds_scale=None, Tensor? softmax_max=None, Tensor? softmax_sum=None, Tensor? attention_in=None, float "
    "scale_value=1., int? query_dtype=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    # An engine that is not here
    "obfuscation_initialize(int hidden_size, int tp_rank, int cmd, *, ScalarType? data_type=None, int? "
    "model_obf_seed_id=0, int? data_obf_seed_id=0, int? thread_num=4, float? obf_coefficient=1.) -> Tensor",
    "obfuscation_calculate(Tensor fd, Tensor x, Tensor param, *, float? obf_coefficient=1.) -> Tensor",
    "obfuscation_finalize(Tensor fd_to_close) -> Tensor",
    # Products of quantised matrices beside collectives
    "npu_all_gather_quant_mm(Tensor input, Tensor x2, str hcom, int world_size, *, Tensor? bias=None, Tensor? "
    "x1_scale=None, Tensor? x2_scale=None, Tensor? quant_scale=None, int block_size=0, int gather_index=0, bool "
    "gather_output=True, int comm_turn=0, int[]? group_sizes=None, bool amax_output=False, int? y_dtype=None, int? "
    "x1_dtype=None, int? x2_dtype=None, int? x1_scale_dtype=None, int? x2_scale_dtype=None, str? comm_mode=None) -> "
    "(Tensor, Tensor, Tensor)",
    'npu_quant_mm_reduce_scatter(Tensor input, Tensor x2, str hcom, int world_size, *, str reduce_op="sum", Tensor? '
    "bias=None, Tensor? x1_scale=None, Tensor? x2_scale=None, Tensor? quant_scale=None, int block_size=0, int "
    "comm_turn=0, int[]? group_sizes=None, bool amax_output=False, int? y_dtype=None, int? x1_dtype=None, int? "
    "x2_dtype=None, int? x1_scale_dtype=None, int? x2_scale_dtype=None, str? comm_mode=None) -> (Tensor, Tensor)",
    "npu_all_to_all_quant_matmul(Tensor x1, Tensor x2, str hcom, int world_size, *, bool all2all_out_flag=True, Tensor? "
    "bias=None, Tensor? x1_scale=None, Tensor? x2_scale=None, Tensor? common_scale=None, Tensor? x1_offset=None, Tensor? "
    "x2_offset=None, int? x1_quant_mode=None, int? x2_quant_mode=None, int? common_quant_mode=None, int[]? "
    "group_sizes=None, int[]? all2all_axes=None, int? comm_quant_dtype=None, int? x1_quant_dtype=None, int? "
    "x1_dtype=None, int? x2_dtype=None, int? x1_scale_dtype=None, int? x2_scale_dtype=None, int? output_scale_dtype=None,"
    " int? comm_scale_dtype=None, int? y_dtype=None, str? comm_mode=None) -> (Tensor, Tensor)",
    "npu_quant_matmul_all_to_all(Tensor x1, Tensor x2, str hcom, int world_size, Tensor? bias=None, Tensor? "
    "x1_scale=None, Tensor? x2_scale=None, Tensor? common_scale=None, Tensor? x1_offset=None, Tensor? x2_offset=None, "
    "int? x1_quant_mode=None, int? x2_quant_mode=None, int? common_quant_mode=None, int[]? group_sizes=None, int[]? "
    "all2all_axes=None, int? comm_quant_dtype=None, int? x1_dtype=None, int? x2_dtype=None, int? x1_scale_dtype=None, "
    "int? x2_scale_dtype=None, int? output_scale_dtype=None, int? comm_scale_dtype=None, int? y_dtype=None, str? "
    "comm_mode=None) -> Tensor",
    "npu_alltoallv_quant_gmm(Tensor gmm_x, Tensor gmm_weight, Tensor gmm_x_scale, Tensor gmm_weight_scale, str hcom, int "
    "ep_world_size, int[] send_counts, int[] recv_counts, int gmm_y_dtype, *, Tensor? send_counts_tensor=None, Tensor? "
    "recv_counts_tensor=None, Tensor? mm_x=None, Tensor? mm_weight=None, Tensor? mm_x_scale=None, Tensor? "
    "mm_weight_scale=None, int? gmm_x_quant_mode=None, int? gmm_weight_quant_mode=None, int? mm_x_quant_mode=None, int? "
    "mm_weight_quant_mode=None, bool permute_out_flag=False, int[]? group_size=None, int? gmm_x_dtype=None, int? "
    "gmm_weight_dtype=None, int? gmm_x_scale_dtype=None, int? gmm_weight_scale_dtype=None, int? mm_x_dtype=None, int? "
    "mm_weight_dtype=None, int? mm_x_scale_dtype=None, int? mm_weight_scale_dtype=None, int? mm_y_dtype=None, str? "
    "comm_mode=None) -> (Tensor, Tensor, Tensor)",
    "npu_quant_gmm_alltoallv(Tensor gmm_x, Tensor gmm_weight, Tensor gmm_x_scale, Tensor gmm_weight_scale, str hcom, int "
    "ep_world_size, int[] send_counts, int[] recv_counts, int gmm_y_dtype, *, Tensor? send_counts_tensor=None, Tensor? "
    "recv_counts_tensor=None, Tensor? mm_x=None, Tensor? mm_weight=None, Tensor? mm_x_scale=None, Tensor? "
    "mm_weight_scale=None, Tensor? comm_quant_scale=None, int? gmm_x_quant_mode=None, int? gmm_weight_quant_mode=None, "
    "int? mm_x_quant_mode=None, int? mm_weight_quant_mode=None, int? comm_quant_mode=None, int[]? group_size=None, int? "
    "gmm_x_dtype=None, int? gmm_weight_dtype=None, int? gmm_x_scale_dtype=None, int? gmm_weight_scale_dtype=None, int? "
    "mm_x_dtype=None, int? mm_weight_dtype=None, int? mm_x_scale_dtype=None, int? mm_weight_scale_dtype=None, int? "
    "comm_quant_dtype=None, int? mm_y_dtype=None, str? comm_mode=None) -> (Tensor, Tensor)",
    # Quantised weights
    "npu_weight_quant_preprocess(Tensor weight, Tensor weight_scale, int x_dtype, int weight_dtype, int "
    "weight_scale_dtype, Tensor? weight_offset=None, Tensor? bias=None, int? x_scale_dtype=None, int? k_group_size=0) -> "
    "(Tensor, Tensor, Tensor, Tensor)",
)

# Operators of the published adapter that are not there: why, and what to use instead. Ten at most.
_WINDOWS = (
    "attention and FFN on ranks of their own hand tokens over in windows of each other's memory, which are not open to "
    "operators here; npu_moe_distribute_dispatch_v2 and npu_moe_distribute_combine_v2 send tokens to experts and back"
)
REFUSED = {
    "attention_worker_scheduler": _WINDOWS,
    "attention_worker_scheduler_": _WINDOWS,
    "ffn_worker_scheduler": _WINDOWS,
    "ffn_worker_scheduler_": _WINDOWS,
    "npu_attention_to_ffn": _WINDOWS,
    "npu_ffn_to_attention": _WINDOWS,
    "npu_attention_worker_combine": _WINDOWS,
    "npu_ffn_worker_batching": _WINDOWS,
    "npu_matmul_compress_dequant": (
        "weights come compressed by a tool whose format is not public; npu_quant_matmul takes the int8 weights as they are"
    ),
    "empty_with_swapped_memory": (
        "operators read no memory of the host; keep the tensor in torch.empty(..., pin_memory=True), copy it non_blocking"
    ),
}


def operators() -> List[Tuple[str, str, str]]:
    """[(name with overload, schema, how it runs)], in the form of _C._custom_ops()."""
    return [(schema.partition("(")[0], schema, "composed") for schema in (*DIFFERENTIABLE, *OTHERS)]
