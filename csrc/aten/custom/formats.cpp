// npu_format_cast and its kin; op/formats.h does the work.
#include "generated/torch_npu_custom_functions.h"
#include "op/formats.h"

namespace torch_npu::native {
namespace {

// The format that is given where `wanted` is asked for.
int64_t allowed(const at::Tensor& self, int64_t wanted, const std::optional<int64_t>& dtype) {
  TORCH_CHECK_NOT_IMPLEMENTED(!dtype || *dtype == static_cast<int64_t>(self.scalar_type()),
                              "npu_format_cast: customize_dtype is not supported");
  if (op::is_base_format(wanted)) return wanted;
  if (op::internal_formats_allowed()) {
    op::physical_sizes(self.sizes(), wanted, self.scalar_type());  // throws for one that does not suit
    return wanted;
  }
  TORCH_WARN_ONCE("npu_format_cast: the tensor keeps its base format, because torch.npu.config.allow_internal_format is False");
  return op::base_format(wanted, self.dim());
}

void check_whole(const at::Tensor& self) {
  TORCH_CHECK(self.is_contiguous() && self.storage_offset() == 0,
              "npu_format_cast_: the tensor must be contiguous and begin where its storage does");
}

}  // namespace

at::Tensor npu_format_cast(const at::Tensor& self, int64_t acl_format, std::optional<int64_t> customize_dtype,
                           std::optional<int64_t> /*input_dtype*/) {
  return op::cast_to_format(self, allowed(self, acl_format, customize_dtype));
}

at::Tensor npu_format_cast_like(const at::Tensor& self, const at::Tensor& dst, std::optional<int64_t> customize_dtype,
                                std::optional<int64_t> input_dtype) {
  return npu_format_cast(self, op::format_of(dst), customize_dtype, input_dtype);
}

at::Tensor& npu_format_cast_(at::Tensor& self, int64_t acl_format, std::optional<int64_t> customize_dtype,
                             std::optional<int64_t> /*input_dtype*/) {
  check_whole(self);
  op::take_memory(self.storage(), op::cast_to_format(self, allowed(self, acl_format, customize_dtype)).storage());
  return self;
}

at::Tensor& npu_format_cast_like_(at::Tensor& self, const at::Tensor& src, std::optional<int64_t> customize_dtype,
                                  std::optional<int64_t> input_dtype) {
  return npu_format_cast_(self, op::format_of(src), customize_dtype, input_dtype);
}

at::Tensor npu_format_cast_backward(const at::Tensor& grad) { return grad.clone(); }

int64_t get_npu_format(const at::Tensor& self) { return op::format_of(self); }

}  // namespace torch_npu::native
