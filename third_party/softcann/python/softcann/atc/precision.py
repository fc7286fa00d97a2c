"""Which operators compute in half precision: --precision_mode, --precision_mode_v2 and the lists that amend them."""

import torch

from .program import Value

# Matrix and convolution operators: the "cube" unit's.
CUBE = {
    "Conv",
    "ConvTranspose",
    "Gemm",
    "MatMul",
    "LSTM",
    "GRU",
    "RNN",
    "Attention",
    "Einsum",
    "FusedMatMul",
    "NPUFusedAttentionScore",
    "NPUWeightQuantBatchMatmulV2",
}
# Their numbers are not the model's activations: quantised arithmetic, positions, sizes, conversions that the model asks for.
EXACT = {
    "Cast",
    "CastLike",
    "Range",
    "Shape",
    "Size",
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "QLinearConv",
    "QLinearMatMul",
    "ConvInteger",
    "MatMulInteger",
    "NonMaxSuppression",
    "DeformConv",
    "Det",
    "DFT",
    "STFT",
    "MelWeightMatrix",
    "BitCast",
    "IsNaN",
    "IsInf",
    "HannWindow",
    "HammingWindow",
    "BlackmanWindow",
    "Unique",
    "Bernoulli",
    "Multinomial",
    "QLinearAdd",
    "NPUQuantize",
    "NPUDynamicQuant",
    "NPUAntiQuant",
}
# Operators that torch does not compute in half precision on the CPU.
NO_HALF = {"aten::avg_pool3d", "aten::linalg_det", "aten::multinomial", "aten::fft_fft", "aten::_fft_r2c"}
UNTOUCHED = {"aten::to.dtype", "aten::_shape_as_tensor"}

MODES = {
    "force_fp16": ("half", torch.float16),
    "fp16": ("half", torch.float16),
    "force_fp32": ("float", torch.float16),
    "allow_fp32_to_fp16": ("keep", torch.float16),
    "allow_fp32_to_bf16": ("keep", torch.bfloat16),
    "must_keep_origin_dtype": ("keep", torch.float16),
    "origin": ("keep", torch.float16),
    "cube_fp16in_fp32out": ("cube", torch.float16),
    "allow_mix_precision": ("mixed", torch.float16),
    "allow_mix_precision_fp16": ("mixed", torch.float16),
    "mixed_float16": ("mixed", torch.float16),
    "allow_mix_precision_bf16": ("mixed", torch.bfloat16),
    "mixed_bfloat16": ("mixed", torch.bfloat16),
}


class Precision:
    """`white`, `black`: operators that a mixed mode computes in half precision or never does. `kept`: node names and types that
    stay as the model has them (--keep_dtype). `custom`: policies by node name or type, stronger (--customize_dtypes)."""

    def __init__(self, mode="force_fp16", white=(), black=(), gray=(), kept=(), clip=True, custom=None):
        self.mode, self.half = MODES[mode]
        self.clip = clip
        self.white = (CUBE | set(white)) - set(black) - set(gray)
        self.black, self.gray, self.kept, self.custom = set(black), set(gray), set(kept), custom or {}

    def policy(self, type, name):
        """half, float, cube (half in, float out) or keep."""
        if name in self.custom or type in self.custom:
            return self.custom.get(name) or self.custom[type]
        if type in EXACT or self.mode == "keep":
            return "keep"
        if name in self.kept or type in self.kept:
            return "float"
        if self.mode == "mixed":
            return "half" if type in self.white else "keep" if type in self.gray else "float"
        if self.mode == "cube":
            return "cube" if type in CUBE else "float"
        return self.mode

    def convert(self, builder, kernel, args):
        """The arguments of an operator, its floating point tensors in the type that the mode asks for."""
        if kernel in UNTOUCHED or kernel.startswith("softcann::"):
            return args
        policy = "float" if kernel in NO_HALF else self.policy(*builder.origin)
        if policy == "keep" or _sizes_only(args):
            return self._agree(builder, args)
        target = torch.float32 if policy == "float" else self.half

        def change(arg):
            if isinstance(arg, Value) and arg.dtype in (torch.float32, torch.float16, torch.bfloat16):
                arg = builder.cast(arg, target)
                return builder.cast(arg, torch.float32) if policy == "cube" else arg
            return [change(one) for one in arg] if isinstance(arg, (list, tuple)) else arg

        return [change(arg) for arg in args]

    def _agree(self, builder, args):
        """Floating point tensors of different types, which an operator before this one brought about, become the widest."""
        dtypes = {value.dtype for value in _floats(args)}
        if len(dtypes) < 2 or torch.float64 in dtypes:
            return args

        def change(arg):
            if isinstance(arg, Value) and arg.dtype in dtypes:
                return builder.cast(arg, torch.float32)
            return [change(one) for one in arg] if isinstance(arg, (list, tuple)) else arg

        return [change(arg) for arg in args]


def _sizes_only(args):
    """Whether the numbers follow from sizes and constants alone: they become sizes and places, which must stay exact."""
    values = _floats(args)
    return bool(values) and all(sample is not None and not sample.is_meta for value in values for sample in value.samples)


def _floats(arg):
    if isinstance(arg, Value):
        return [arg] if arg.dtype is not None and arg.dtype.is_floating_point else []
    return [value for one in arg for value in _floats(one)] if isinstance(arg, (list, tuple)) else []
