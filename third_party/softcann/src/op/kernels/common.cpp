
#include "op/kernels/common.h"

namespace softcann::op {

void put(const at::Tensor& out, const at::Tensor& value) {
  if (!out.defined() || !value.defined()) return;
  if (out.is_same(value)) return;
  const bool same_memory = out.numel() != 0 && out.const_data_ptr() == value.const_data_ptr();
  if (same_memory && out.scalar_type() == value.scalar_type() && out.sizes() == value.sizes() &&
      out.strides() == value.strides()) {
    return;
  }
  const bool one = out.numel() == 1 && value.numel() == 1;  // clients describe a number as [] or as [1]
  TORCH_CHECK(one || value.sizes() == out.sizes(), "the result has shape ", value.sizes(), ", not ", out.sizes());
  const at::Tensor source = same_memory ? value.clone() : value;
  out.copy_(one ? source.view(out.sizes()) : source);
}

void put_reshaped(const at::Tensor& out, const at::Tensor& value) {
  if (!out.defined() || !value.defined()) return;
  TORCH_CHECK(out.numel() == value.numel(), "the result has ", value.numel(), " elements, not those of ", out.sizes());
  put(out, value.reshape(out.sizes()));
}

PlainResult::PlainResult(const at::Tensor& target, bool wanted) : target_(target) {
  if (!wanted || !target.defined()) return;
  own_ = target.scalar_type() != wide_type(target) || !target.is_contiguous();
  value_ = own_ ? at::empty(target.sizes(), target.options().dtype(wide_type(target))) : target;
}

PlainResult::PlainResult(const at::Tensor& target, int64_t elements, bool wanted)
    : PlainResult(target, wanted && target.defined() && target.numel() != 0) {
  TORCH_CHECK(!value_.defined() || value_.numel() == elements, "a result of ", target.sizes(), " for ", elements, " elements");
}

std::vector<int64_t> spread(at::IntArrayRef values, size_t count) {
  if (values.size() == 1) return std::vector<int64_t>(count, values[0]);
  TORCH_CHECK(values.size() == count, "a list of ", values.size(), " numbers for ", count, " dimensions");
  return values.vec();
}

}  // namespace softcann::op
