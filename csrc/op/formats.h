// Storage formats: their layouts, and conversions between them. See Note [Formats] in memory/formatted.h.
#pragma once

#include <ATen/core/Tensor.h>

#include "memory/formatted.h"

namespace torch_npu::op {

using memory::is_base_format;
// Throws for a format that is unknown or does not suit the number of dimensions.
C10_EXPORT at::DimVector physical_sizes(at::IntArrayRef sizes, int64_t format, c10::ScalarType dtype);

// Whether tensors may take internal formats: the option, or what suits the chip.
C10_EXPORT bool internal_formats_allowed();
// The base format that stands for an internal one in a tensor of `rank` dimensions. Throws for a format that is unknown.
C10_EXPORT int64_t base_format(int64_t format, int64_t rank);

// The format of a tensor's memory; for ordinary memory the base format of its rank.
C10_EXPORT int64_t format_of(const at::Tensor& tensor);
// Whether its bytes lie in `format` as they do now: both are base formats.
C10_EXPORT bool same_bytes(const at::Tensor& tensor, int64_t format);
// A copy in another format, contiguous in the base format's sizes.
C10_EXPORT at::Tensor cast_to_format(const at::Tensor& tensor, int64_t format);

// Null where the bytes of the tensor lie as its strides say.
inline const memory::FormattedMemory* internal_format(const c10::TensorImpl& impl) {
  return memory::internal_format(impl.unsafe_storage().data_ptr());
}
// The bytes of a tensor's storage as they lie in the device's memory, as uint8 on the CPU.
C10_EXPORT at::Tensor raw_memory(const at::Tensor& tensor);
// The same view of a copy in the base format.
C10_EXPORT at::Tensor normalized(const at::Tensor& tensor);
// A storage of the same bytes in the same internal format; null for one in a base format.
C10_EXPORT c10::Storage formatted_copy(const c10::Storage& storage);
// Leaves `to` with the memory of `from`, which is empty after it.
C10_EXPORT void take_memory(const c10::Storage& to, const c10::Storage& from);
// Gives the storage itself the base format, for whoever writes to it.
C10_EXPORT void normalize_storage(const c10::Storage& storage);

}  // namespace torch_npu::op
