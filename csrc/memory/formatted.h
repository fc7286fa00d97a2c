// Memory that holds a tensor in one of the NPU's internal formats.
//
// Note [Formats]
// The format belongs to the memory, not to the tensor: every view of it, every alias, must know that the bytes do not lie
// as its strides say. So the storage's DataPtr is a FormattedMemory around the allocator's own, recognised by its deleter;
// sizes and strides are always those of the base format. Whoever touches bytes asks internal_format() first: the
// descriptors of operators (op/formats.h), which convert what they read, and turn what they write back to the base format.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include "acl/acl_base.h"

namespace torch_npu::memory {

struct FormattedMemory {
  c10::DataPtr memory;  // as the allocator gave it
  aclFormat format;
  c10::ScalarType dtype;
  c10::SmallVector<int64_t, 5> sizes;     // in the base format, contiguous
  c10::SmallVector<int64_t, 8> physical;  // in `format`
};

// Whether bytes lie as sizes and strides say.
constexpr bool is_base_format(int64_t format) {
  return format == ACL_FORMAT_ND || format == ACL_FORMAT_NCHW || format == ACL_FORMAT_NHWC || format == ACL_FORMAT_HWCN ||
         format == ACL_FORMAT_NDHWC || format == ACL_FORMAT_NCDHW || format == ACL_FORMAT_NCL;
}

C10_EXPORT void free_formatted(void* context);
C10_EXPORT c10::DataPtr wrap_formatted(FormattedMemory&& memory);

// Null for ordinary memory.
inline const FormattedMemory* formatted(const c10::DataPtr& data) {
  return C10_LIKELY(data.get_deleter() != &free_formatted) ? nullptr : static_cast<const FormattedMemory*>(data.get_context());
}
// Null where the bytes lie as the strides of a tensor say.
inline const FormattedMemory* internal_format(const c10::DataPtr& data) {
  const auto* memory = formatted(data);
  return C10_UNLIKELY(memory != nullptr) && !is_base_format(memory->format) ? memory : nullptr;
}
// The allocator's own DataPtr.
inline const c10::DataPtr& underlying(const c10::DataPtr& data) {
  const auto* memory = formatted(data);
  return memory ? memory->memory : data;
}

}  // namespace torch_npu::memory
