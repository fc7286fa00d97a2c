"""Kernels of torch that serve every device: of sparse, nested and quantized tensors.

torch's table of kernels names one function for the CPU and for CUDA where that function is made of other operators and of
bookkeeping, and says nothing of the memory. Such a function serves the NPU too, so it is registered as it stands. What
torch wrote for the CPU alone runs there: csrc/aten/layouts.cpp.
"""
from typing import Dict, List, Tuple

# Dense operators, by name, for most operators of dense tensors are in the registry: those whose results are of such a
# layout, and one that serves every layout and is made of other operators alone.
DENSE = ("_to_sparse", "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc", "_nested_tensor_from_mask",
         "_nested_tensor_from_mask_left_aligned", "_transformer_encoder_layer_fwd")
# CUDA has a kernel of its own; the CPU's is made of other operators and serves here.
CPU_SERVES = {"": ("_nested_from_padded",), "NestedTensor": ("to_padded_tensor",)}
# One function for both, which asks at run time for a kernel that only the CPU and CUDA have.
EXCEPT = {
    "Sparse": ("sparse_mask", "_sparse_mask_projection", "isnan", "any"),
    "SparseCsr": ("normal_", "sparse_mask", "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc"),
    "NestedTensor": ("native_layer_norm", "native_layer_norm_backward", "_test_autograd_multiple_dispatch"),
    # The three that allocate take the CPU's memory when QNNPACK is the engine.
    "Quantized": ("dequantize", "clone", "flip", "fill_", "_empty_affine_quantized", "_empty_per_channel_affine_quantized",
                  "empty"),
}
KEYS = {"Sparse": "SparsePrivateUse1", "SparseCsr": "SparseCsrPrivateUse1", "NestedTensor": "NestedTensorPrivateUse1",
        "Quantized": "QuantizedPrivateUse1", "": "PrivateUse1"}


def shared(backend_indices, functions) -> Dict[str, Dict[str, object]]:
    """Layout -> overload -> torch's metadata of the kernel that the CPU and CUDA share. "" is the dense layout."""
    from torchgen.model import DispatchKey

    kernels = {}
    for layout in KEYS:
        cpu, cuda = (backend_indices[DispatchKey[layout + device]] for device in ("CPU", "CUDA"))
        found = kernels[layout] = {}
        for function in functions:
            mine, other = cpu.get_kernel(function), cuda.get_kernel(function)
            root = function.root_name
            if mine is None or mine.structured:
                continue
            if root in CPU_SERVES.get(layout, ()):
                found[str(function.func.name)] = mine
                continue
            if other is None or mine.kernel != other.kernel:
                continue
            if (root in DENSE) if layout == "" else (root not in EXCEPT[layout]):
                found[str(function.func.name)] = mine
    return kernels


def calls(schemas) -> Tuple[List[str], Dict[str, List[str]]]:
    """The headers that declare them, and for each dispatch key the C++ calls that register them."""
    from torchgen.api.types import NativeSignature
    from torchgen.context import native_function_manager

    headers = set()
    by_key: Dict[str, List[str]] = {}
    for layout, kernels in schemas.shared.items():
        for overload, kernel in sorted(kernels.items()):
            function = schemas.functions[overload]
            headers.add(f"{function.root_name}_native.h")
            with native_function_manager(function):
                signature = NativeSignature(function.func, symint=kernel.supports_symint()).ptr_type()
            by_key.setdefault(KEYS[layout], []).append(
                f'r.impl("{overload}", &Guarded<static_cast<{signature}>(&at::native::{kernel.kernel})>::call);')
    return sorted(headers), by_key
