"""Custom operators composed of others: their schemas; torch_npu/_cpu_ops has their functions, the kernels on every device.

Nothing of C++ knows them, so that adding one builds nothing. Those with a kernel in C++ are in codegen/custom_ops.yaml. Schemas:
those of Ascend's adapter, 2.13.0; composed_without_gradient.py has the others. The generators in docs/ read both without torch.
"""

# Their gradients are those of what they are made of.
DIFFERENTIABLE = (
    # Activations
    'npu_gelu(Tensor input, *, str approximate="none") -> Tensor',
    "npu_silu(Tensor input) -> Tensor",
    "npu_silu_(Tensor(a!) input) -> Tensor(a!)",
    "npu_mish(Tensor input) -> Tensor",
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
    # Hyper-connections
    "npu_mhc_post(Tensor x, Tensor? h_res, Tensor h_out, Tensor h_post) -> Tensor",
    "npu_mhc_post_backward(Tensor grad_y, Tensor x, Tensor? h_res, Tensor h_out, Tensor h_post) -> (Tensor, Tensor, "
    "Tensor, Tensor)",
    "npu_mhc_pre(Tensor x, Tensor phi, Tensor alpha, Tensor bias, *, Tensor? gamma=None, float norm_eps=1e-06, float "
    "hc_eps=1e-06, int out_flag=0, int inner_precise=0) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    "npu_mhc_pre_backward(Tensor x, Tensor phi, Tensor alpha, Tensor grad_h_in, Tensor grad_h_post, Tensor grad_h_res, "
    "Tensor inv_rms, Tensor h_mix, Tensor h_pre, Tensor h_post, Tensor? gamma=None, float hc_eps=1e-06, Tensor? "
    "grad_x_post=None, int inner_precise=0) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    # Tokens by a map of experts
    "npu_moe_token_unpermute_with_routing_map(Tensor permuted_tokens, Tensor sorted_indices, int[] restore_shape, *, "
    "Tensor? probs=None, Tensor? routing_map=None, bool drop_and_pad=False) -> Tensor",
    # Normalization in parts
    "batch_norm_gather_stats_update(Tensor input, Tensor mean, Tensor invstd, Tensor? running_mean, Tensor? running_var, "
    "float momentum, float eps, Tensor counts) -> (Tensor, Tensor)",
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
}
