"""Modules of the published torch_npu, made of PyTorch's operators and torch_npu's; they run on every device."""

from torch_npu import _lazy

_HERE = "torch_npu.contrib.module."
NAMES = {
    **dict.fromkeys(("Mish", "SiLU", "Swish"), _HERE + "activations"),
    **dict.fromkeys(("FastBatchNorm1d", "FastBatchNorm2d", "FastBatchNorm3d", "FastSyncBatchNorm"), _HERE + "batch_norm"),
    **dict.fromkeys(("DropoutWithByteMask", "NpuCachedDropout", "NpuDropPath", "NpuFairseqDropout", "NpuPreGenDropout"),
                    _HERE + "dropout"),
    **dict.fromkeys(("LinearA8W8Quant", "LinearQuant", "LinearWeightQuant", "QuantConv2d"), _HERE + "quantized"),
    **dict.fromkeys(("DCNv2", "ModulatedDeformConv"), _HERE + "deform_conv"),
    **dict.fromkeys(("ChannelShuffle", "Focus"), _HERE + "shuffle"),
    **dict.fromkeys(("PSROIPool", "ROIAlign"), _HERE + "regions"),
    "BiLSTM": _HERE + "recurrent",
    "FusedColorJitter": _HERE + "color_jitter",
    "LabelSmoothingCrossEntropy": _HERE + "loss",
    "MultiheadAttention": _HERE + "attention",
    "Prefetcher": _HERE + "prefetcher",
}
_lazy.alias(__name__, {name: _HERE + target for name, target in {
    "batchnorm_with_int32_count": "batch_norm", "bidirectional_lstm": "recurrent", "channel_shuffle": "shuffle",
    "crossentropy": "loss", "drop_path": "dropout", "ensemble_dropout": "dropout", "focus": "shuffle",
    "fusedcolorjitter": "color_jitter", "linear_a8w8_quant": "quantized", "linear_quant": "quantized",
    "linear_weight_quant": "quantized", "multihead_attention": "attention", "npu_modules": "dropout",
    "ps_roi_pooling": "regions", "quant_conv2d": "quantized", "roi_align": "regions",
    "_batchnorm_with_int32_count": "batch_norm", "_ensemble_dropout": "dropout"}.items()})

__all__ = sorted(NAMES)
__getattr__ = _lazy.lazy(__name__, NAMES)
__dir__ = _lazy.listing(__name__, NAMES)
