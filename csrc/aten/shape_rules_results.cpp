// aten/shape_rules.h: results.
#include "aten/shape_rules.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/core/Reduction.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/result_type.h>

#include "aten/compose.h"
#include "aten/factory.h"

namespace torch_npu::native {
namespace {

at::TensorOptions options_of(const at::Tensor& tensor) {
  return at::TensorOptions().dtype(tensor.dtype()).device(tensor.device());
}

// Sizes and order of memory as TensorIterator's, which is asked where an operand's memory is out of order. A zero-dim CPU
// operand decides nothing.
OutSpec broadcast(std::initializer_list<const at::Tensor*> operands, at::ScalarType dtype) {
  const at::Tensor* device = *operands.begin();
  at::DimVector sizes;
  const at::Tensor& first = **operands.begin();
  bool ordered = true, alike = first.is_non_overlapping_and_dense();
  for (const auto* each : operands) {
    if (device->device().is_cpu()) device = each;
    sizes = at::infer_size_dimvector(sizes, each->sizes());
    ordered = ordered && each->is_contiguous();
    alike = alike && each->sizes() == first.sizes() && each->strides() == first.strides();
  }
  if (ordered) return shaped(*device, sizes, dtype);
  if (alike) return like(*device, dtype);
  const at::Tensor undefined;
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).check_all_same_device(false);
  config.declare_static_dtype_and_device(dtype, at::kMeta).add_output(undefined);
  for (const auto* each : operands) config.add_const_input(*each);
  auto spec = like(config.build().output());
  spec.options = options_of(*device).dtype(dtype);
  return spec;
}

bool same_layout(const at::Tensor& self, const at::Tensor& other) {
  return self.sizes() == other.sizes() &&
         (self.is_contiguous() ? other.is_contiguous()
                               : self.is_non_overlapping_and_dense() && self.strides() == other.strides());
}

}  // namespace

at::Tensor make(const OutSpec& spec) { return create_out(spec.sizes, spec.strides, spec.options); }

std::vector<at::Tensor> make(const std::vector<OutSpec>& specs) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(specs.size());
  for (const auto& spec : specs) tensors.push_back(make(spec));
  return tensors;
}

namespace {

void check_writable(const at::Tensor& out, const OutSpec& spec) {
  TORCH_CHECK(spec.options.device() == out.device(), "Expected out tensor to have device ", spec.options.device(), ", but got ",
              out.device(), " instead");
  at::assert_no_internal_overlap(out);
}

}  // namespace

void resize_output(const at::Tensor& out, const OutSpec& spec) {
  TORCH_CHECK(spec.options.dtype() == out.dtype(), "Expected out tensor to have dtype ", spec.options.dtype(), ", but got ",
              out.dtype(), " instead");
  check_writable(out, spec);
  if (out.sizes() == at::IntArrayRef(spec.sizes)) return;
  at::native::resize_output(out, spec.sizes);
  if (!spec.strides.empty()) {
    out.unsafeGetTensorImpl()->set_sizes_and_strides(spec.sizes, spec.strides);
  } else if (const auto format = spec.options.memory_format_opt()) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
}

void check_output(const at::Tensor& out, const OutSpec& spec, const at::Tensor& input) {
  const at::IntArrayRef sizes(spec.sizes);
  if (out.sizes() == sizes) {
    if (!out.is_same(input)) at::assert_no_partial_overlap(out, input);
  } else if (out.is_same(input)) {  // any other tensor gets memory of its own
    if (c10::multiply_integers(sizes) <= out.numel()) at::assert_no_overlap(out, input);
    TORCH_CHECK(false, "output with shape ", out.sizes(), " doesn't match the broadcast shape ", sizes);
  }
}

bool CastOutput::beside(const OutSpec& spec) {
  if (spec.options.dtype() == out_.dtype()) return false;
  const auto own = c10::typeMetaToScalarType(spec.options.dtype());
  TORCH_CHECK(at::canCast(own, out_.scalar_type()), "result type ", own, " can't be cast to the desired output type ",
              out_.scalar_type());
  check_writable(out_, spec);
  value_ = make(spec);
  return true;
}

at::Tensor& CastOutput::give() { return value_.is_same(out_) ? out_ : native::give(out_, value_); }

OutSpec like(const at::Tensor& tensor) {
  OutSpec spec{at::DimVector(tensor.sizes()), {}, options_of(tensor)};
  if (tensor.is_contiguous()) return spec;
  // Gaps go, the order of the dimensions stays.
  spec.strides = at::DimVector(tensor.is_non_overlapping_and_dense()
                                   ? tensor.strides()
                                   : at::IntArrayRef(at::infer_dense_strides(tensor.sizes(), tensor.strides())));
  return spec;
}

OutSpec like(const at::Tensor& tensor, at::ScalarType dtype) {
  auto spec = like(tensor);
  spec.options = spec.options.dtype(dtype);
  return spec;
}

OutSpec shaped(const at::Tensor& tensor, at::IntArrayRef sizes) { return {at::DimVector(sizes), {}, options_of(tensor)}; }

OutSpec shaped(const at::Tensor& tensor, at::IntArrayRef sizes, at::ScalarType dtype) {
  return {at::DimVector(sizes), {}, options_of(tensor).dtype(dtype)};
}

OutSpec row_like(const at::Tensor& tensor, int64_t count) {
  return tensor.numel() == count ? like(tensor) : shaped(tensor, {count});
}

OutSpec formatted(const at::Tensor& tensor, at::IntArrayRef sizes) { return formatted(tensor, sizes, tensor.scalar_type()); }

OutSpec formatted(const at::Tensor& tensor, at::IntArrayRef sizes, at::ScalarType dtype) {
  return {at::DimVector(sizes), {}, options_of(tensor).dtype(dtype).memory_format(tensor.suggest_memory_format())};
}

OutSpec binary(const at::Tensor& self, const at::Tensor& other) { return binary(self, other, at::result_type(self, other)); }

OutSpec binary(const at::Tensor& self, const at::Tensor& other, at::ScalarType dtype) {
  if (same_layout(self, other)) return like(self.device().is_cpu() ? other : self, dtype);
  return broadcast({&self, &other}, dtype);
}

OutSpec outer(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2) {
  const auto dtype = at::promote_types(self.scalar_type(), at::promote_types(vec1.scalar_type(), vec2.scalar_type()));
  TORCH_CHECK(vec1.dim() == 1, "addr: Expected 1-D argument vec1, but got ", vec1.dim(), "-D");
  TORCH_CHECK(vec2.dim() == 1, "addr: Expected 1-D argument vec2, but got ", vec2.dim(), "-D");
  const auto matrix = self.expand({vec1.size(0), vec2.size(0)}), column = vec1.unsqueeze(1);
  return broadcast({&matrix, &column, &vec2}, dtype);
}

OutSpec selected(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  return broadcast({&condition, &self, &other}, at::result_type(self, other));
}

OutSpec reduced(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim) {
  return reduced(self, dims, keepdim, self.scalar_type());
}

OutSpec reduced(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, at::ScalarType dtype) {
  auto mask = at::dim_list_to_bitset(dims, self.dim());
  if (!dims || dims->empty()) mask.set();
  at::DimVector sizes;
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (!mask[i])
      sizes.push_back(self.size(i));
    else if (keepdim)
      sizes.push_back(1);
  }
  return shaped(self, sizes, dtype);
}

OutSpec loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  (void)at::infer_size_dimvector(self.sizes(), target.sizes());
  return reduction == at::Reduction::None ? binary(self, target) : shaped(self, {}, at::result_type(self, target));
}

OutSpec loss_gradient(const at::Tensor& self, const at::Tensor& target) {
  if (self.sizes() == target.sizes()) return like(self);
  const auto sizes = at::infer_size_dimvector(self.sizes(), target.sizes());
  return self.sizes() == at::IntArrayRef(sizes) ? like(self) : shaped(self, sizes);
}

at::Tensor like_if(bool wanted, const std::optional<at::Tensor>& tensor) {
  return wanted && tensor && tensor->defined() ? make(like(*tensor)) : at::Tensor();
}

at::Tensor shaped_if(bool wanted, const at::Tensor& tensor, at::IntArrayRef sizes) {
  return wanted ? make(shaped(tensor, sizes)) : at::Tensor();
}

at::Tensor batch_norm_gradient(bool wanted, const at::Tensor& input, const std::optional<at::Tensor>& weight) {
  if (!wanted) return at::Tensor();
  const auto dtype = weight && weight->defined() ? weight->scalar_type() : input.scalar_type();
  return make(shaped(input, {input.size(1)}, dtype));
}

std::vector<OutSpec> like_list(at::TensorList tensors) {
  std::vector<OutSpec> specs;
  specs.reserve(tensors.size());
  for (const auto& tensor : tensors) specs.push_back(like(tensor));
  return specs;
}

std::vector<OutSpec> scalar_list(at::TensorList tensors) {
  std::vector<OutSpec> specs;
  specs.reserve(tensors.size());
  for (const auto& tensor : tensors) specs.push_back(shaped(tensor, {}));
  return specs;
}

}  // namespace torch_npu::native
