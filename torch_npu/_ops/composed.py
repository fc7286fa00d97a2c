"""Custom operators composed of others: their schemas; torch_npu/_cpu_ops has their functions, the kernels on every device.

Nothing of C++ knows them, so that adding one builds nothing. Those with a kernel in C++ are in codegen/custom_ops.yaml. Schemas:
those of Ascend's adapter, 2.13.0. The generators in docs/ read this module without torch.
"""

from typing import List, Tuple

# Their gradients are those of what they are made of.
DIFFERENTIABLE = (
    # Normalization
    "npu_group_norm_swish(Tensor input, int num_groups, Tensor weight, Tensor bias, float? eps=1e-5, float? "
    "swish_scale=1.0) -> (Tensor, Tensor, Tensor)",
    # Activations
    'npu_gelu(Tensor input, *, str approximate="none") -> Tensor',
    "npu_silu(Tensor input) -> Tensor",
    "npu_silu_(Tensor(a!) input) -> Tensor(a!)",
    "npu_mish(Tensor input) -> Tensor",
    "npu_clipped_swiglu(Tensor x, *, Tensor? group_index=None, int dim=-1, float alpha=1.702, float limit=7.0, float "
    "bias=1.0, bool interleaved=True) -> Tensor",
    "npu_softmax_cross_entropy_with_logits(Tensor input, Tensor labels) -> Tensor",
    # Shapes and types
    "npu_confusion_transpose(Tensor input, int[] perm, int[] shape, bool transpose_first) -> Tensor",
    "npu_transpose(Tensor input, int[] perm, bool require_contiguous=True) -> Tensor",
    "npu_broadcast(Tensor input, int[] size) -> Tensor",
    "npu_reshape(Tensor input, int[] shape, bool can_refresh=False) -> Tensor",
    "npu_slice(Tensor input, int[] offsets, int[] size) -> Tensor",
    "npu_stride_copy(Tensor input, int[] shape, int[] stride, Scalar storage_offset) -> Tensor",
    "npu_indexing(Tensor input, int[] begin, int[] end, int[] strides, int begin_mask=0, int end_mask=0, int "
    "ellipsis_mask=0, int new_axis_mask=0, int shrink_axis_mask=0) -> Tensor",
    "npu_pad(Tensor input, int[] paddings) -> Tensor",
    "npu_dtype_cast(Tensor input, int dtype, int? input_dtype=None) -> Tensor",
    "npu_dtype_cast_(Tensor(a!) input, Tensor src) -> Tensor(a!)",
    "npu_max.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "npu_min.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "npu_sort_v2(Tensor input, int dim=-1, bool descending=False) -> Tensor",
    "npu_scatter(Tensor input, Tensor indices, Tensor updates, int dim) -> Tensor",
    "npu_gather_sparse_index(Tensor input, Tensor index) -> Tensor",
    "npu_view_copy(Tensor(a!) input, Tensor other, bool non_blocking) -> Tensor(a!)",
    "copy_memory_(Tensor(a!) input, Tensor src, bool non_blocking=False) -> Tensor(a!)",
    "one_(Tensor(a!) input) -> Tensor(a!)",
    "npu_layer_norm_eval(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) "
    "-> Tensor",
    # Matrices and convolutions
    "npu_linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    "npu_bmmV2(Tensor input, Tensor mat2, int[] output_sizes) -> Tensor",
    "npu_conv2d(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> "
    "Tensor",
    "npu_conv3d(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> "
    "Tensor",
    "npu_convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) "
    "-> Tensor",
    "npu_conv_transpose2d(Tensor input, Tensor weight, Tensor? bias, int[] padding, int[] output_padding, int[] stride, "
    "int[] dilation, int groups) -> Tensor",
    "npu_convolution_transpose(Tensor input, Tensor weight, Tensor? bias, int[] padding, int[] output_padding, int[] "
    "stride, int[] dilation, int groups) -> Tensor",
    # Boxes
    "npu_iou(Tensor bboxes, Tensor gtboxes, int mode=0) -> Tensor",
    "npu_ptiou(Tensor bboxes, Tensor gtboxes, int mode=0) -> Tensor",
    "npu_giou(Tensor input, Tensor gtboxes, bool trans=False, bool is_cross=False, int mode=0) -> Tensor",
    "npu_diou(Tensor input, Tensor gtboxes, bool trans=False, bool is_cross=False, int mode=0) -> Tensor",
    "npu_ciou(Tensor input, Tensor gtboxes, bool trans=False, bool is_cross=True, int mode=0, bool atan_sub_flag=False) "
    "-> Tensor",
    "npu_bounding_box_encode(Tensor anchor_box, Tensor ground_truth_box, float means0, float means1, float means2, float "
    "means3, float stds0, float stds1, float stds2, float stds3) -> Tensor",
    "npu_bounding_box_decode(Tensor rois, Tensor deltas, float means0, float means1, float means2, float means3, float "
    "stds0, float stds1, float stds2, float stds3, int[1] max_shape, float wh_ratio_clip) -> Tensor",
    "npu_rotated_iou(Tensor input, Tensor query_boxes, bool trans=False, int mode=0, bool is_cross=True, float "
    "v_threshold=0.0, float e_threshold=0.0) -> Tensor",
    "npu_rotated_overlaps(Tensor input, Tensor query_boxes, bool trans=False) -> Tensor",
    "npu_roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, int sample_num, "
    "int roi_end_mode) -> Tensor",
    "npu_anchor_response_flags(Tensor input, int[2] featmap_size, int[2] stride, int num_base_anchors) -> Tensor",
    "npu_deformable_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor? bias, int[2] kernel_size, int[] stride, "
    "int[] padding, int[4] dilation=1, int groups=1, int deformable_groups=1, bool modulated=True) -> (Tensor, Tensor)",
    "npu_deformable_conv2dbk(Tensor input, Tensor grad_output, Tensor offset_out, Tensor weight, Tensor offset, int[2] "
    "kernel_size, int[] stride, int[] padding, int[4] dilation=1, int groups=1, int deformable_groups=1, bool "
    "modulated=True) -> (Tensor, Tensor, Tensor, Tensor)",
    "npu_grid_assign_positive(Tensor input, Tensor overlaps, Tensor box_responsible_flags, Tensor max_overlaps, Tensor "
    "argmax_overlaps, Tensor gt_max_overlaps, Tensor gt_argmax_overlaps, int num_gts, float pos_iou_thr, float "
    "min_pos_iou, bool gt_max_assign_all) -> Tensor",
    "npu_ps_roi_pooling(Tensor input, Tensor rois, float spatial_scale, int group_size, int output_dim) -> Tensor",
    "npu_ps_roi_pooling_backward(Tensor output_grad, Tensor rois, float spatial_scale, int group_size, int output_dim, "
    "SymInt[] input_size) -> Tensor",
    "npu_random_choice_with_mask(Tensor x, int count=256, int seed=0, int seed2=0) -> (Tensor, Tensor)",
    "npu_roi_alignbk(Tensor input, Tensor rois, int[] xdiff_shape, int pooled_width, int pooled_height, float "
    "spatial_scale, int sample_num, int? roi_end_mode=None) -> Tensor",
    "npu_rotated_box_decode(Tensor input, Tensor deltas, Tensor weight) -> Tensor",
    "npu_rotated_box_encode(Tensor input, Tensor gt_bboxes, Tensor weight) -> Tensor",
    "npu_sub_sample(Tensor input, int per_images, float positive_fraction) -> Tensor",
    "npu_yolo_boxes_encode(Tensor input, Tensor gt_bboxes, Tensor stride, bool performance_mode=False) -> Tensor",
    # Attention of older networks
    "npu_fused_attention_score(Tensor query_layer, Tensor key_layer, Tensor value_layer, Tensor attention_mask, Scalar "
    "scale, float keep_prob, bool query_transpose=False, bool key_transpose=False, bool bmm_score_transpose_a=False, bool "
    "bmm_score_transpose_b=False, bool value_transpose=False, bool dx_transpose=False) -> Tensor",
    "npu_fused_attention_score_backward(Tensor grad_output, Tensor softmax_output, Tensor query_layer, Tensor key_layer, "
    "Tensor value_layer, Tensor mask, Scalar scale, float keep_prob, bool query_transpose=False, bool "
    "key_transpose=False, bool value_transpose=False, bool dx_transpose=False) -> (Tensor, Tensor, Tensor)",
    "npu_fused_attention_score_fwd(Tensor query_layer, Tensor key_layer, Tensor value_layer, Tensor attention_mask, "
    "Scalar scale, float keep_prob, bool query_transpose=False, bool key_transpose=False, bool "
    "bmm_score_transpose_a=False, bool bmm_score_transpose_b=False, bool value_transpose=False, bool dx_transpose=False) "
    "-> (Tensor, Tensor, Tensor)",
    "npu_fused_attention_score_grad(Tensor grad_output, Tensor softmax_output, Tensor query_layer, Tensor key_layer, "
    "Tensor value_layer, Tensor mask, Scalar scale, float keep_prob, bool query_transpose=False, bool "
    "key_transpose=False, bool value_transpose=False, bool dx_transpose=False) -> (Tensor, Tensor, Tensor)",
    "npu_multi_head_attention(Tensor query, Tensor key, Tensor value, Tensor query_weight, Tensor key_weight, Tensor "
    "value_weight, Tensor attn_mask, Tensor out_proj_weight, Tensor? query_bias, Tensor? key_bias, Tensor? value_bias, "
    "Tensor? out_proj_bias, Tensor? dropout_mask, int attn_head_num, int attn_dim_per_head, int src_len, int tgt_len, "
    "float dropout_prob, bool softmax_use_float) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    # Products beside a collective
    # Cross entropy of a split vocabulary
    "npu_fused_cross_entropy_loss_with_max_sum(Tensor logits_max, Tensor sum_exp_logits, Tensor predicted_logits, *, "
    "float? label_smoothing=0.0, Tensor? input=None, Tensor? weight=None, Tensor? vocab_parallel_logits=None) -> (Tensor, "
    "Tensor)",
    "npu_fused_linear_cross_entropy_loss_with_max_sum_backward(Tensor grad, Tensor input, Tensor weight, Tensor "
    "target_mask, Tensor masked_target, float label_smoothing=0.0, Tensor? logits_max=None, Tensor? sum_exp_logits=None, "
    "Tensor? softmax=None) -> (Tensor, Tensor)",
    "npu_fused_linear_online_max_sum(Tensor input, Tensor weight, Tensor target, int vocab_start_index, int "
    "vocab_end_index, bool return_logits=False) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    # Hyper-connections
    "npu_mhc_post(Tensor x, Tensor? h_res, Tensor h_out, Tensor h_post) -> Tensor",
    "npu_mhc_post_backward(Tensor grad_y, Tensor x, Tensor? h_res, Tensor h_out, Tensor h_post) -> (Tensor, Tensor, "
    "Tensor, Tensor)",
    "npu_mhc_pre(Tensor x, Tensor phi, Tensor alpha, Tensor bias, *, Tensor? gamma=None, float norm_eps=1e-06, float "
    "hc_eps=1e-06, int out_flag=0, int inner_precise=0) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    "npu_mhc_pre_backward(Tensor x, Tensor phi, Tensor alpha, Tensor grad_h_in, Tensor grad_h_post, Tensor grad_h_res, "
    "Tensor inv_rms, Tensor h_mix, Tensor h_pre, Tensor h_post, Tensor? gamma=None, float hc_eps=1e-06, Tensor? "
    "grad_x_post=None, int inner_precise=0) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "npu_mhc_sinkhorn(Tensor x, *, float eps=1e-06, SymInt num_iters=20, int out_flag=0) -> (Tensor, Tensor, Tensor)",
    "npu_mhc_sinkhorn_backward(Tensor grad_y, Tensor norm, Tensor sum) -> Tensor",
    # Tokens by a map of experts
    "_npu_moe_token_unpermute_with_routing_map(Tensor permuted_tokens, Tensor sorted_indices, int[] restore_shape, *, "
    "Tensor? probs=None, Tensor? routing_map=None, bool drop_and_pad=False) -> (Tensor, Tensor, Tensor, Tensor)",
    "npu_moe_token_permute_with_routing_map(Tensor tokens, Tensor routing_map, *, Tensor? probs=None, int? "
    "num_out_tokens=None, bool drop_and_pad=False) -> (Tensor, Tensor, Tensor)",
    "npu_moe_token_permute_with_routing_map_grad(Tensor permuted_token_out_grad, Tensor? probs_grad, Tensor "
    "sorted_indices, Tensor routing_map, SymInt experts_num, SymInt tokens_num, bool drop_and_pad) -> (Tensor, Tensor)",
    "npu_moe_token_unpermute_with_routing_map(Tensor permuted_tokens, Tensor sorted_indices, int[] restore_shape, *, "
    "Tensor? probs=None, Tensor? routing_map=None, bool drop_and_pad=False) -> Tensor",
    "npu_moe_token_unpermute_with_routing_map_grad(Tensor unpermuted_tokens_grad, Tensor out_index, Tensor "
    "permuted_token_id, Tensor? routing_map, Tensor? permuted_tokens, Tensor? probs, bool drop_and_pad, int[] "
    "restore_shape) -> (Tensor, Tensor)",
    # Convolution along a sequence
    # Normalization in parts
    "batch_norm_gather_stats_update(Tensor input, Tensor mean, Tensor invstd, Tensor? running_mean, Tensor? running_var, "
    "float momentum, float eps, Tensor counts) -> (Tensor, Tensor)",
    "batch_norm_reduce(Tensor input, float eps) -> (Tensor, Tensor)",
    "npu_normalize_batch(Tensor input, Tensor seq_len, int normalize_type=0) -> Tensor",
    # Dropout with a byte an element
    "_dropout_with_byte_mask(Tensor input, float p) -> (Tensor, Tensor)",
    "_dropout_with_byte_mask_backward(Tensor grad_output, Tensor mask, float p) -> Tensor",
    "dropout_with_byte_mask(Tensor input, float p, bool train) -> Tensor",
    # Overflow
    "_amp_foreach_non_finite_check(Tensor[] scaled_grads) -> bool",
    "npu_alloc_float_status(Tensor input) -> Tensor",
    "npu_clear_float_status(Tensor input, int mode=0) -> Tensor",
    "npu_get_float_status(Tensor input, int mode=0) -> Tensor",
    # Storages, elements, marks
    "_npu_index_add(Tensor input, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
    "_npu_index_add_(Tensor(a!) input, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor(a!)",
    "empty_with_format(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
    "pin_memory=None, int acl_format=2, int? base_addr_aligned_kb=None) -> Tensor",
    "get_storage_size(Tensor input) -> int",
    "npu_attn_softmax_(Tensor(a!) input) -> Tensor(a!)",
    "npu_attn_softmax_backward_(Tensor(a!) input, Tensor grad_output, Tensor values) -> Tensor(a!)",
    "npu_change_data_ptr(Tensor dst, Tensor src, int index) -> int",
    "npu_masked_fill_range(Tensor input, Tensor start, Tensor end, Tensor value, int axis=-1) -> Tensor",
    "npu_prefetch(Tensor input, Tensor? dependency, int max_size, int offset=0) -> ()",
    "npu_stride_add(Tensor input, Tensor other, Scalar offset1, Scalar offset2, Scalar c1_len) -> Tensor",
    "print_npugraph_tensor(Tensor input, *, str? tensor_name=None) -> ()",
    "save_npugraph_tensor(Tensor input, *, str? save_path=None, bool overwrite=False) -> ()",
    "save_npugraph_tensor.tensor_list(Tensor[] input, *, str? save_path=None, bool overwrite=False) -> ()",
    "super_kernel_scope_begin(str? scope_name=None) -> ()",
    "super_kernel_scope_end(str? scope_name=None) -> ()",
    "unsafe_empty_with_format(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
    "pin_memory=None, int acl_format=2, bool keep_format=False) -> Tensor",
    # Gradients of torch's own operators
    "_conv_depthwise2d_backward(Tensor grad_output, Tensor input, Tensor weight, int[2] kernel_size, int[2] stride, "
    "int[2] padding, int[2] dilation, bool[2] output_mask) -> (Tensor grad_input, Tensor grad_weight)",
    "fft_c2r_backward(Tensor grad, int[] dim, int normalization) -> Tensor",
    "fft_r2c_backward(Tensor grad, int[] dim, int normalization, bool onesided, int last_dim_size) -> Tensor",
    "kl_div_backward(Tensor grad_output, Tensor input, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
    "kl_div_target_backward(Tensor grad_output, Tensor input, Tensor target, int reduction=1, *, bool log_target=False) "
    "-> Tensor",
    "l1_loss_backward(Tensor grad_output, Tensor input, Tensor target, int reduction) -> Tensor",
    "matmul_double_backward(Tensor? grad_self, Tensor? grad_other, Tensor grad_out, Tensor input, Tensor other, bool[3] "
    "mask) -> (Tensor, Tensor, Tensor)",
    "npu_binary_cross_entropy_with_logits_backward(Tensor grad_output, Tensor input, Tensor target, Tensor? weight_opt, "
    "Tensor? pos_weight_opt, int reduction) -> Tensor",
    "npu_bmm_v2_mat1_backward(Tensor grad, Tensor mat1, Tensor mat2, SymInt[] size) -> Tensor",
    "npu_bmm_v2_mat2_backward(Tensor grad, Tensor mat1, Tensor mat2, SymInt[] size) -> Tensor",
    "npu_ciou_backward(Tensor grad, Tensor bboxes, Tensor gtboxes, Tensor? atan_sub, bool trans=False, bool "
    "is_cross=True, int mode=0) -> (Tensor, Tensor)",
    "npu_confusion_transpose_backward(Tensor grad, int[] perm, SymInt[] shape, bool transpose_first) -> Tensor",
    "npu_conv2d_backward(Tensor input, Tensor grad_output, Tensor weight, int[] stride, int[] padding, int[] dilation, "
    "int groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    "npu_conv3d_backward(Tensor input, Tensor grad, Tensor weight, int[] stride, int[] padding, int[] dilation, int "
    "groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    "npu_conv_transpose2d_backward(Tensor input, Tensor grad_output, Tensor weight, int[] padding, int[] output_padding, "
    "int[] stride, int[] dilation, int groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    "npu_conv_transpose3d_backward(Tensor input, Tensor grad_output, Tensor weight, int[] padding, int[] output_padding, "
    "int[] stride, int[] dilation, int groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    "npu_convolution_backward(Tensor input, Tensor grad_output, Tensor weight, int[] stride, int[] padding, int[] "
    "dilation, int groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    "npu_convolution_transpose_backward(Tensor input, Tensor grad, Tensor weight, int[] padding, int[] output_padding, "
    "int[] stride, int[] dilation, int groups, bool[3] grad_input_mask) -> (Tensor, Tensor, Tensor)",
    "npu_diou_backward(Tensor grad, Tensor bboxes, Tensor gtboxes, bool trans=False, bool is_cross=False, int mode=0) -> "
    "(Tensor, Tensor)",
    "npu_dropout_with_add_softmax_backward(Tensor grad, Tensor mask, Tensor softmax_out, Scalar alpha, float prob, int "
    "dim) -> (Tensor, Tensor)",
    "_npu_dtype_cast_backward(Tensor grad, ScalarType dtype) -> Tensor",
    "npu_dtype_cast_backward(Tensor grad, ScalarType dtype, int? grad_dtype=None, int? input_dtype=None) -> Tensor",
    "npu_gather_backward(Tensor grad, SymInt[] self_size, int dim, Tensor index, bool sparse_grad) -> Tensor",
    "npu_gather_sparse_index_backward(Tensor grad, SymInt[] self_sizes, Tensor index) -> Tensor",
    'npu_gelu_backward(Tensor grad_output, Tensor input, *, str approximate="none") -> Tensor',
    "npu_giou_backward(Tensor grad, Tensor bboxes, Tensor gtboxes, bool trans=False, bool is_cross=False, int mode=0) -> "
    "(Tensor, Tensor)",
    "npu_group_norm_swish_grad(Tensor grad, Tensor input, int num_groups, Tensor weight, Tensor bias, Tensor mean, Tensor "
    "rstd, bool[3] grad_input_mask, float? swish_scale=1.0) -> (Tensor, Tensor, Tensor)",
    "npu_layernorm_grad(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, "
    "Tensor? bias) -> (Tensor, Tensor, Tensor)",
    "npu_linear_backward(Tensor grad, Tensor input, Tensor weight) -> (Tensor, Tensor)",
    "npu_max_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, bool keepdim) -> Tensor",
    "npu_min_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, bool keepdim) -> Tensor",
    "npu_mish_backward(Tensor grad, Tensor input) -> Tensor",
    "npu_renorm_backward(Tensor grad, Tensor input, Scalar p, int dim, Scalar maxnorm) -> Tensor",
    "npu_silu_backward(Tensor grad_output, Tensor x0, Tensor x1) -> Tensor",
    "npu_softmax_cross_entropy_with_logits_backward(Tensor grad, Tensor input, Tensor labels) -> Tensor",
    "repeat_interleave_backward_int(Tensor grad, Tensor input, SymInt repeats, int? dim=None) -> Tensor",
    "repeat_interleave_backward_tensor(Tensor grad, Tensor input, Tensor repeats, int? dim=None) -> Tensor",
    "slow_conv_dilated2d_backward(Tensor grad_output, Tensor input, Tensor weight, int[2] kernel_size, int[2] stride, "
    "int[2] padding, int[2] dilation, bool[3] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
    "slow_conv_transpose2d_backward(Tensor grad_output, Tensor input, Tensor weight, int[2] kernel_size, int[2] stride, "
    "int[2] padding, int[2] output_padding, int[2] dilation, bool[3] output_mask) -> (Tensor grad_input, Tensor "
    "grad_weight, Tensor grad_bias)",
    "stft_backward(Tensor grad_output, Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? "
    "window=None, bool normalized=False, bool? onesided=None, bool? return_complex=None) -> Tensor",
    # Dropout
    "npu_dropout_with_add_softmax(Tensor input, Tensor x1, Scalar alpha, float prob, int dim) -> (Tensor, Tensor, Tensor)",
    # Optimizers
    "npu_apply_adam(Scalar beta1_power, Scalar beta2_power, Scalar lr, Scalar beta1, Scalar beta2, Scalar epsilon, Tensor "
    "grad, bool? use_locking, bool? use_nesterov) -> (Tensor, Tensor, Tensor)",
    "npu_apply_adam_w(Scalar beta1_power, Scalar beta2_power, Scalar lr, Scalar weight_decay, Scalar beta1, Scalar beta2, "
    "Scalar epsilon, Tensor grad, Tensor? max_grad_norm, bool? amsgrad, bool? maximize) -> (Tensor, Tensor, Tensor)",
    # Recurrent layers
    "npu_lstm(Tensor input, Tensor weight, Tensor bias, Tensor seq_mask, Tensor h, Tensor c, bool has_biases, int "
    "num_layers, float dropout, bool train, bool bidirectional, bool batch_first, bool flag_seq, bool direction) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    "npu_gru(Tensor input, Tensor hx, Tensor weight_input, Tensor weight_hidden, Tensor bias_input, Tensor bias_hidden, "
    "Tensor seq_length, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    # Caches of keys and values
    "npu_advance_step_flashattn(Tensor(a!) input_tokens, Tensor sampled_token_ids, Tensor(b!) input_positions, Tensor(c!) "
    "seq_lens, Tensor(d!) slot_mapping, Tensor block_tables, int num_seqs, int num_queries, int block_size, *, Tensor? "
    "spec_token=None, Tensor? accepted_num=None) -> ()",
    # Quantised products
    "npu_add_rms_norm_v2_functional(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor)",
    "npu_convert_weight_to_int4pack(Tensor weight, int inner_k_tiles=0) -> Tensor",
    "npu_grouped_matmul.List(Tensor[] x, Tensor[] weight, *, Tensor[]? bias=None, Tensor[]? scale=None, Tensor[]? "
    "offset=None, Tensor[]? antiquant_scale=None, Tensor[]? antiquant_offset=None, Tensor[]? per_token_scale=None, int[]? "
    "group_list=None, Tensor[]? activation_input=None, Tensor[]? activation_quant_scale=None, Tensor[]? "
    "activation_quant_offset=None, int? split_item=0, int? group_type=None, int? group_list_type=0, int? act_type=0, "
    "ScalarType? output_dtype=None) -> Tensor[]",
    # Into given tensors, and by other names
    "_npu_dtype_cast(Tensor input, ScalarType dtype) -> Tensor",
    "_npu_ciou(Tensor input, Tensor gtboxes, bool trans=False, bool is_cross=True, int mode=0, bool atan_sub_flag=False) "
    "-> (Tensor, Tensor)",
    "_npu_moe_token_unpermute(Tensor permuted_tokens, Tensor sorted_indices, Tensor? probs=None, bool padded_mode=False, "
    "int[]? restore_shape=None) -> (Tensor unpermuted_tokens, Tensor permuted_tokens_for_backward)",
    "npu_moe_token_unpermute_grad_v2(Tensor grad_unpermuted_tokens, Tensor sorted_indices, SymInt permuted_tokens_size_0, "
    "ScalarType permuted_tokens_dtype, Tensor? probs=None, bool padded_mode=False, int[]? restore_shape=None, Tensor? "
    "permuted_tokens=None) -> (Tensor, Tensor)",
    "npu_moe_token_permute_grad_v2(Tensor grad_permuted_tokens, Tensor sorted_indices, SymInt tokens_size_0, ScalarType "
    "tokens_dtype, SymInt num_topK, bool padded_mode=False) -> Tensor",
    "npu_fusion_attention_v3(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, Tensor? pse=None, "
    "Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float keep_prob=1., int pre_tockens=2147483647, "
    "int next_tockens=2147483647, int inner_precise=0, SymInt[]? prefix=None, Tensor? actual_seq_qlen=None, Tensor? "
    'actual_seq_kvlen=None, int sparse_mode=0, bool gen_mask_parallel=True, bool sync=False, str softmax_layout="", '
    "Tensor? sink=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    "_npu_fusion_attention_v3_get_max_workspace(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, "
    "Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float keep_prob=1., int "
    "pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0, int[]? prefix=None, Tensor? "
    "actual_seq_qlen=None, Tensor? actual_seq_kvlen=None, int sparse_mode=0, bool gen_mask_parallel=True, bool "
    'sync=False, str softmax_layout="", Tensor? sink=None) -> Tensor',
    "_npu_fusion_attention_v3_infer_output(Tensor query, Tensor key, Tensor value, int head_num, str input_layout) -> "
    "(Tensor, Tensor, Tensor)",
    # Native sparse attention
    # Attention to some of the keys
    # Recurrent networks
    "npu_lstm_cell(Tensor input, Tensor w_ih, Tensor w_hh, Tensor h, Tensor c, Tensor? b_ih=None, Tensor? b_hh=None) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    "npu_lstm_data(Tensor input, Tensor batch_sizes, Tensor weight, Tensor bias, Tensor seq_mask, Tensor h, Tensor c, "
    "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first, bool flag_seq, "
    "bool direction) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
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
)

# Integers, places, quantized numbers, memory that is written, and gradients themselves.
OTHERS = (
    # Attention
    "_npu_fused_infer_attention_score_get_max_workspace(Tensor query, Tensor key, Tensor value, *, Tensor? "
    "pse_shift=None, Tensor? atten_mask=None, SymInt[]? actual_seq_lengths=None, SymInt[]? actual_seq_lengths_kv=None, "
    "Tensor? dequant_scale1=None, Tensor? quant_scale1=None, Tensor? dequant_scale2=None, Tensor? quant_scale2=None, "
    "Tensor? quant_offset2=None, Tensor? antiquant_scale=None, Tensor? antiquant_offset=None, Tensor? "
    "key_antiquant_scale=None, Tensor? key_antiquant_offset=None, Tensor? value_antiquant_scale=None, Tensor? "
    "value_antiquant_offset=None, Tensor? block_table=None, Tensor? query_padding_size=None, Tensor? "
    "kv_padding_size=None, Tensor? key_shared_prefix=None, Tensor? value_shared_prefix=None, SymInt[]? "
    "actual_shared_prefix_len=None, Tensor? query_rope=None, Tensor? key_rope=None, Tensor? "
    "key_rope_antiquant_scale=None, int num_heads=1, float scale=1., int pre_tokens=2147483647, int "
    'next_tokens=2147483647, str input_layout="BSH", int num_key_value_heads=0, int sparse_mode=0, int inner_precise=0, '
    "int block_size=0, int antiquant_mode=0, int key_antiquant_mode=0, int value_antiquant_mode=0, bool "
    "softmax_lse_flag=False) -> Tensor",
    "_npu_fused_infer_attention_score_v2_get_max_workspace(Tensor query, Tensor key, Tensor value, *, Tensor? "
    "query_rope=None, Tensor? key_rope=None, Tensor? pse_shift=None, Tensor? atten_mask=None, SymInt[]? "
    "actual_seq_qlen=None, SymInt[]? actual_seq_kvlen=None, Tensor? block_table=None, Tensor? dequant_scale_query=None, "
    "Tensor? dequant_scale_key=None, Tensor? dequant_offset_key=None, Tensor? dequant_scale_value=None, Tensor? "
    "dequant_offset_value=None, Tensor? dequant_scale_key_rope=None, Tensor? quant_scale_out=None, Tensor? "
    "quant_offset_out=None, Tensor? quant_scale_p=None, Tensor? learnable_sink=None, int num_query_heads=1, int "
    "num_key_value_heads=0, float softmax_scale=1., int pre_tokens=2147483647, int next_tokens=2147483647, str "
    'input_layout="BSH", int sparse_mode=0, int block_size=0, int query_quant_mode=0, int key_quant_mode=0, int '
    "value_quant_mode=0, int inner_precise=0, bool return_softmax_lse=False, int? query_dtype=None, int? key_dtype=None, "
    "int? value_dtype=None, int? query_rope_dtype=None, int? key_rope_dtype=None, int? key_shared_prefix_dtype=None, int? "
    "value_shared_prefix_dtype=None, int? dequant_scale_query_dtype=None, int? dequant_scale_key_dtype=None, int? "
    "dequant_scale_value_dtype=None, int? dequant_scale_key_rope_dtype=None, int? out_dtype=None) -> Tensor",
    '_npu_fused_infer_attention_score_infer_output(Tensor query, Tensor value, *, str input_layout="BSH", Tensor? '
    "quant_scale2=None, Tensor? block_table=None, int num_heads=1, int num_key_value_heads=0, bool "
    "softmax_lse_flag=False, Tensor? query_rope=None) -> (Tensor, Tensor)",
    "_npu_fused_infer_attention_score_v2_infer_output(Tensor query, Tensor value, *, int? query_dtype=None, int? "
    'value_dtype=None, str input_layout="BSH", Tensor? quant_scale_out=None, Tensor? block_table=None, int '
    "num_query_heads=1, int num_key_value_heads=0, bool return_softmax_lse=False, Tensor? query_rope=None, int? "
    "out_dtype=None) -> (Tensor, Tensor)",
    # Quantization
    "npu_sign_bits_pack(Tensor input, int size) -> Tensor",
    "npu_sign_bits_unpack(Tensor input, int size, ScalarType dtype) -> Tensor",
    # Boxes
    "npu_nms_with_mask(Tensor input, Scalar iou_threshold) -> (Tensor, Tensor, Tensor)",
    "npu_nms_v4(Tensor input, Tensor scores, Scalar max_output_size, Tensor iou_threshold, Tensor scores_threshold, bool "
    "pad_to_max_output_size=False) -> (Tensor, Tensor)",
    "npu_batch_nms(Tensor input, Tensor scores, float score_threshold, float iou_threshold, int max_size_per_class, int "
    "max_total_size, bool change_coordinate_frame=False, bool transpose_box=False) -> (Tensor, Tensor, Tensor, Tensor)",
    "npu_nms_rotated(Tensor input, Tensor scores, float iou_threshold, float scores_threshold=0, int max_output_size=-1, "
    "int mode=0) -> (Tensor, Tensor)",
    # Caches of keys and values
    "npu_scatter_pa_kv_cache_functional(Tensor key, Tensor value, Tensor key_cache, Tensor value_cache, Tensor "
    "slot_mapping, *, Tensor? compress_lens=None, Tensor? compress_seq_offsets=None, Tensor? seq_lens=None, str? "
    'cache_mode="PA_NZ") -> (Tensor, Tensor)',
    'npu_scatter_list(Tensor[] input, Tensor indices, Tensor updates, Tensor? mask=None, str reduce="update", int '
    "axis=-2) -> Tensor[]",
    "npu_quant_scatter(Tensor input, Tensor indices, Tensor updates, Tensor quant_scales, Tensor? quant_zero_points=None, "
    'int axis=-2, int quant_axis=-1, str reduce="update", int? dst_type=None, str? round_mode="rint") -> Tensor',
    "npu_quant_scatter_(Tensor(a!) input, Tensor indices, Tensor updates, Tensor quant_scales, Tensor? "
    'quant_zero_points=None, int axis=-2, int quant_axis=-1, str reduce="update", int? dst_type=None, str? '
    'round_mode="rint") -> Tensor(a!)',
    # Quantization in blocks
    'npu_dynamic_mx_quant(Tensor input, *, int axis=-1, str round_mode="rint", int dst_type=296, int block_size=32, int? '
    "scale_alg=0, float dst_type_max=0., float max_low_bound=0.) -> (Tensor, Tensor)",
    'npu_dynamic_mx_quant_with_dual_axis(Tensor input, *, str round_mode="rint", int dst_type=296, int scale_alg=0, '
    "float? dst_type_max=0.) -> (Tensor, Tensor, Tensor, Tensor)",
    'npu_dynamic_block_mx_quant(Tensor input, *, str round_mode="rint", int dst_type=296, int scale_alg=0, float '
    "dst_type_max=0.) -> (Tensor, Tensor, Tensor)",
    'npu_dynamic_dual_level_mx_quant(Tensor input, *, Tensor? smooth_scale=None, str round_mode="rint") -> (Tensor, '
    "Tensor, Tensor)",
    'npu_grouped_dynamic_mx_quant(Tensor x, Tensor group_index, *, str round_mode="rint", int dst_type=23, int '
    "blocksize=32, int? scale_alg=0, float? dst_type_max=0.) -> (Tensor, Tensor)",
    "npu_anti_mx_quant(Tensor x, Tensor mxscale, *, int? axis=-1, int? dst_type=15, int? src_type=292) -> Tensor",
    "npu_swiglu_mx_quant(Tensor x, *, Tensor? group_index=None, int activate_dim=-1, bool activate_left=False, int "
    "swiglu_mode=0, float clamp_limit=7., float glu_alpha=1.702, float glu_bias=1., int group_mode=0, int axis=-1, int "
    'dst_type=296, str round_mode="rint", int scale_alg=0, float max_dtype_value=0.) -> (Tensor, Tensor)',
    "npu_rms_norm_dynamic_mx_quant(Tensor x, Tensor gamma, *, Tensor? beta=None, float epsilon=1e-06, int scale_alg=0, "
    'str round_mode="rint", int dst_type=296) -> (Tensor, Tensor, Tensor)',
    "npu_add_rms_norm_dynamic_mx_quant(Tensor x1, Tensor x2, Tensor gamma, *, Tensor? beta=None, float epsilon=1e-06, int "
    'scale_alg=0, str round_mode="rint", int dst_type=296) -> (Tensor, Tensor, Tensor, Tensor)',
    # Quantised products
    "npu_rms_norm_quant_v2(Tensor x, Tensor gamma, Tensor scale, *, Tensor? offset=None, Tensor? beta=None, float "
    "epsilon=1e-06, bool div_mode=True, int? dst_dtype=None) -> (Tensor, Tensor)",
    "npu_quant_matmul_reduce_sum(Tensor x1, Tensor x2, *, Tensor? x1_scale=None, Tensor? x2_scale=None) -> Tensor",
    # Attention of latent and of linear kind
    "npu_mla_prolog(Tensor token_x, Tensor weight_dq, Tensor weight_uq_qr, Tensor weight_uk, Tensor weight_dkv_kr, Tensor "
    "rmsnorm_gamma_cq, Tensor rmsnorm_gamma_ckv, Tensor rope_sin, Tensor rope_cos, Tensor cache_index, Tensor kv_cache, "
    "Tensor kr_cache, *, Tensor? dequant_scale_x=None, Tensor? dequant_scale_w_dq=None, Tensor? "
    "dequant_scale_w_uq_qr=None, Tensor? dequant_scale_w_dkv_kr=None, Tensor? quant_scale_ckv=None, Tensor? "
    "quant_scale_ckr=None, Tensor? smooth_scales_cq=None, float rmsnorm_epsilon_cq=1e-05, float "
    'rmsnorm_epsilon_ckv=1e-05, str cache_mode="PA_BSND") -> (Tensor, Tensor, Tensor, Tensor)',
    "npu_recurrent_gated_delta_rule_functional(Tensor query, Tensor key, Tensor value, Tensor state, *, Tensor? "
    "beta=None, float? scale=None, Tensor? actual_seq_lengths=None, Tensor? ssm_state_indices=None, Tensor? "
    "num_accepted_tokens=None, Tensor? g=None, Tensor? gk=None) -> (Tensor, Tensor)",
    # Sampling, and experts on several ranks
    "_npu_distribute_barrier(Tensor x_ref, str group, int world_size, *, Tensor? time_out=None, Tensor? "
    "elastic_info=None) -> Tensor",
    # Into given tensors, and by other names
    "npu_broadcast.out(Tensor input, int[] size, *, Tensor(a!) out) -> Tensor(a!)",
    "npu_conv2d.out(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups, "
    "*, Tensor(a!) out) -> Tensor(a!)",
    "npu_conv3d.out(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups, "
    "*, Tensor(a!) out) -> Tensor(a!)",
    "npu_indexing.out(Tensor input, int[] begin, int[] end, int[] strides, int begin_mask=0, int end_mask=0, int "
    "ellipsis_mask=0, int new_axis_mask=0, int shrink_axis_mask=0, *, Tensor(a!) out) -> Tensor(a!)",
    "npu_reshape.out(Tensor input, int[] shape, bool can_refresh=False, *, Tensor(a!) out) -> Tensor(a!)",
    "npu_slice.out(Tensor input, int[] offsets, int[] size, *, Tensor(a!) out) -> Tensor(a!)",
    "npu_sort_v2.out(Tensor input, int dim=-1, bool descending=False, *, Tensor(a!) out) -> Tensor(a!)",
    "npu_stride_copy.out(Tensor input, int[] shape, int[] stride, Scalar storage_offset, *, Tensor(a!) out) -> Tensor(a!)",
    "npu_transpose.out(Tensor input, int[] perm, bool require_contiguous=True, *, Tensor(a!) out) -> Tensor(a!)",
    "_quantize_per_tensor_impl.out(Tensor inputs, Tensor scales, Tensor zero_points, ScalarType dtype, *, Tensor(a!) "
    "result) -> Tensor(a!)",
    "_quantize_per_channel_impl.out(Tensor inputs, Tensor scales, Tensor zero_points, int axis, ScalarType dtype, *, "
    "Tensor(a!) result) -> Tensor(a!)",
    "npu_swiglu_mx_quant_with_dual_axis(Tensor x, *, Tensor? group_index=None, bool activate_left=True, str "
    'round_mode="rint", int scale_alg=1, int dst_type=24, float dst_type_max=0.) -> (Tensor, Tensor, Tensor, Tensor)',
    "npu_dual_level_quant_matmul(Tensor x1, Tensor x2, Tensor x1_level0_scale, Tensor x2_level0_scale, Tensor "
    "x1_level1_scale, Tensor x2_level1_scale, *, Tensor? bias=None, int output_dtype=15) -> Tensor",
    "npu_quant_conv2d(Tensor input, Tensor weight, Tensor scale, int[2] strides=1, int[2] pads=0, int[2] dilations=1, int "
    'groups=1, int offset_x=0, str round_mode="rint", int? output_dtype=None, Tensor? bias=None, Tensor? offset=None, '
    "int? input_dtype=None, int? weight_dtype=None) -> Tensor",
    # Native sparse attention
    # Attention to some of the keys
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
    # Older layers and gates
    "npu_multi_head_attention_backward(Tensor query, Tensor key, Tensor value, Tensor query_weight, Tensor key_weight, "
    "Tensor value_weight, Tensor out_proj_weight, Tensor? query_bias, Tensor? key_bias, Tensor? value_bias, Tensor? "
    "out_proj_bias, Tensor query_res, Tensor key_res, Tensor value_res, Tensor attn_scores, Tensor attn_res, Tensor "
    "context, Tensor y_grad, Tensor dropout_mask, int attn_head_num, int attn_dim_per_head, int src_len, int tgt_len, "
    "float dropout_prob, bool softmax_use_float) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, "
    "Tensor, Tensor, Tensor)",
    "npu_fused_attention_qkv_grad(Tensor grad_output_query, Tensor grad_output_key, Tensor grad_output_value, Tensor "
    "query_kernel, Tensor key_kernel, Tensor value_kernel, Tensor hidden_states, Tensor grad_output_ln) -> Tensor[]",
    "npu_bert_apply_adam(Scalar lr, Scalar beta1, Scalar beta2, Scalar epsilon, Tensor grad, Scalar max_grad_norm, Scalar"
    " global_grad_norm, Scalar weight_decay, Scalar? step_size=None, int adam_mode=0) -> (Tensor var, Tensor m, Tensor v)",
    "npu_bert_apply_adam.out(Scalar lr, Scalar beta1, Scalar beta2, Scalar epsilon, Tensor grad, Scalar max_grad_norm, "
    "Scalar global_grad_norm, Scalar weight_decay, Scalar? step_size=None, int adam_mode=0, *, Tensor[] out) -> (Tensor, "
    "Tensor, Tensor)",
    "_npu_dropout_gen_mask.Tensor(Tensor input, int[] size, float p, int seed, int offset, *, bool? parallel=True, bool? "
    "sync=None) -> Tensor",
    "set_op_timeout_ms(int timeout) -> NoneType",
    # Quantization and compression
    "_npu_swiglu_backward_mx_quant_with_dual_axis(Tensor x, Tensor y_grad, *, Tensor? group_index=None, bool "
    'activate_left=True, str round_mode="rint", int scale_alg=1, int dst_type=24, float dst_type_max=0.) -> (Tensor, '
    "Tensor, Tensor, Tensor)",
    "npu_ifmr(Tensor data, Tensor data_min, Tensor data_max, Tensor cumsum, float min_percentile, float max_percentile, "
    "float search_start, float search_end, float search_step, bool with_offset) -> (Tensor, Tensor)",
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
