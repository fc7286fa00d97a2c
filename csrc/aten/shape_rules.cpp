#include "aten/shape_rules.h"

#include <algorithm>
#include <cmath>

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/core/Reduction.h>
#include <ATen/native/Pool.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/result_type.h>

#include "aten/compose.h"
#include "aten/factory.h"
#include "aten/kept.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnInplaceOne);

namespace {

at::DimVector to_dims(at::IntArrayRef sizes) { return at::DimVector(sizes.begin(), sizes.end()); }

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

// Results --------------------------------------------------------------------------------------------

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
  OutSpec spec{to_dims(tensor.sizes()), {}, options_of(tensor)};
  if (tensor.is_contiguous()) return spec;
  // Gaps go, the order of the dimensions stays.
  spec.strides =
      to_dims(tensor.is_non_overlapping_and_dense() ? tensor.strides()
                                                    : at::IntArrayRef(at::infer_dense_strides(tensor.sizes(), tensor.strides())));
  return spec;
}

OutSpec like(const at::Tensor& tensor, at::ScalarType dtype) {
  auto spec = like(tensor);
  spec.options = spec.options.dtype(dtype);
  return spec;
}

OutSpec shaped(const at::Tensor& tensor, at::IntArrayRef sizes) { return {to_dims(sizes), {}, options_of(tensor)}; }

OutSpec shaped(const at::Tensor& tensor, at::IntArrayRef sizes, at::ScalarType dtype) {
  return {to_dims(sizes), {}, options_of(tensor).dtype(dtype)};
}

OutSpec formatted(const at::Tensor& tensor, at::IntArrayRef sizes) { return formatted(tensor, sizes, tensor.scalar_type()); }

OutSpec formatted(const at::Tensor& tensor, at::IntArrayRef sizes, at::ScalarType dtype) {
  return {to_dims(sizes), {}, options_of(tensor).dtype(dtype).memory_format(tensor.suggest_memory_format())};
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

// Sizes ----------------------------------------------------------------------------------------------

at::DimVector resized_dim(const at::Tensor& self, int64_t dim, int64_t size) {
  auto sizes = to_dims(self.sizes());
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (!sizes.empty()) sizes[dim] = size;
  return sizes;
}

at::DimVector padded(const at::Tensor& self, at::IntArrayRef padding) {
  auto sizes = to_dims(self.sizes());
  TORCH_CHECK(padding.size() % 2 == 0 && padding.size() / 2 <= sizes.size(), "Length of pad must be even and at most twice ",
              "the number of dimensions of the input, pad has length ", padding.size(), ", the input ", sizes.size(),
              " dimensions");
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    auto& size = sizes[sizes.size() - 1 - i];
    const auto before = size;
    size += padding[2 * i] + padding[2 * i + 1];
    TORCH_CHECK(size >= 0, "The input size ", before, ", plus negative padding ", padding[2 * i], " and ", padding[2 * i + 1],
                " resulted in a negative output size, which is invalid. Check dimension ", sizes.size() - 1 - i,
                " of your input.");
  }
  return sizes;
}

at::DimVector with_tail(const at::Tensor& self, int64_t leading, at::IntArrayRef tail) {
  auto sizes = to_dims(self.sizes().slice(0, leading));
  sizes.append(tail.begin(), tail.end());
  return sizes;
}

at::DimVector layer_norm_stats(const at::Tensor& input, at::IntArrayRef normalized_shape) {
  const auto kept = input.dim() - static_cast<int64_t>(normalized_shape.size());
  TORCH_CHECK(!normalized_shape.empty() && kept >= 0 && input.sizes().slice(kept) == normalized_shape,
              "Given normalized_shape=", normalized_shape, ", expected input with shape [*, ", normalized_shape,
              "], but got input of size ", input.sizes());
  auto sizes = to_dims(input.sizes().slice(0, kept));
  sizes.append(normalized_shape.size(), 1);
  return sizes;
}

at::DimVector pooled(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
                     at::IntArrayRef dilation, bool ceil_mode) {
  const auto rank = static_cast<int64_t>(kernel.size());
  TORCH_CHECK(self.dim() == rank + 1 || self.dim() == rank + 2, "pooling over ", rank, " dimensions expects an input of ",
              rank + 1, " or ", rank + 2, " dimensions, got ", self.sizes());
  for (int64_t i = 0; i < rank; ++i) {
    TORCH_CHECK(padding[i] >= 0, "pad must be non-negative, but got pad: ", padding[i]);
    TORCH_CHECK(padding[i] <= ((kernel[i] - 1) * dilation[i] + 1) / 2,
                "pad should be at most half of effective kernel size, but got pad=", padding[i], ", kernel_size=", kernel[i],
                " and dilation=", dilation[i]);
  }
  for (int64_t d = self.dim() == rank + 2 ? 1 : 0; d < self.dim(); ++d) {
    TORCH_CHECK(self.size(d) > 0, "max_pool", rank,
                "d: Expected input's non-batch dimensions to have positive length, but input has a shape of ", self.sizes(),
                " and non-batch dimension ", d, " has length zero!");
  }
  auto sizes = to_dims(self.sizes());
  for (int64_t i = 0; i < rank; ++i) {
    auto& size = sizes[self.dim() - rank + i];
    size = at::native::pooling_output_shape<int64_t>(size, kernel[i], padding[i], stride[i], dilation[i], ceil_mode);
    TORCH_CHECK(size > 0, "max_pool", rank, "d: Given input size ", self.sizes(), ", the output size would be ", size,
                ": too small");
  }
  return sizes;
}

at::DimVector cdist_sizes(const at::Tensor& x1, const at::Tensor& x2) {
  auto sizes = at::infer_size_dimvector(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
  sizes.push_back(x1.size(-2));
  sizes.push_back(x2.size(-2));
  return sizes;
}

at::DimVector im2col_sizes(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                           at::IntArrayRef stride) {
  TORCH_CHECK(self.dim() == 3 || self.dim() == 4, "Expected 3D or 4D tensor for input, got ", self.sizes());
  TORCH_CHECK(kernel.size() == 2 && dilation.size() == 2 && padding.size() == 2 && stride.size() == 2,
              "kernel_size, dilation, padding and stride need 2 numbers each");
  int64_t blocks = 1;
  for (int64_t i = 0; i < 2; ++i) {
    const auto count = (self.size(self.dim() - 2 + i) + 2 * padding[i] - (dilation[i] * (kernel[i] - 1) + 1)) / stride[i] + 1;
    TORCH_CHECK(count > 0, "Given input ", self.sizes(), " and kernel ", kernel, ", the output would have no blocks");
    blocks *= count;
  }
  auto sizes = to_dims(self.sizes().slice(0, self.dim() - 3));
  sizes.push_back(self.size(-3) * kernel[0] * kernel[1]);
  sizes.push_back(blocks);
  return sizes;
}

at::DimVector col2im_sizes(const at::Tensor& self, at::IntArrayRef output, at::IntArrayRef kernel) {
  TORCH_CHECK(self.dim() == 2 || self.dim() == 3, "Expected 2D or 3D tensor for input, got ", self.sizes());
  TORCH_CHECK(output.size() == 2 && kernel.size() == 2, "output_size and kernel_size need 2 numbers each");
  TORCH_CHECK(self.size(-2) % (kernel[0] * kernel[1]) == 0, "Expected size of input's dimension ", self.dim() - 2,
              " to be divisible by the product of kernel_size, but got input of size ", self.sizes(),
              " and kernel_size=", kernel);
  auto sizes = to_dims(self.sizes().slice(0, self.dim() - 2));
  sizes.push_back(self.size(-2) / (kernel[0] * kernel[1]));
  sizes.append(output.begin(), output.end());
  return sizes;
}

int64_t arange_size(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::ScalarType dtype) {
  return dtype == at::kLong ? at::native::compute_arange_size<int64_t>(start, end, step)
                            : at::native::compute_arange_size<double>(start, end, step);
}

int64_t range_size(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step) {
  at::native::arange_check_bounds(start, end, step);
  return static_cast<int64_t>((end.toDouble() - start.toDouble()) / step.toDouble() + 1);
}

// Dtypes ---------------------------------------------------------------------------------------------

at::ScalarType float_type(const at::Tensor& self) {
  return at::isIntegralType(self.scalar_type(), true) ? at::typeMetaToScalarType(at::get_default_dtype()) : self.scalar_type();
}

at::ScalarType real_type(const at::Tensor& self) { return at::toRealValueType(self.scalar_type()); }

at::ScalarType sum_type(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  if (dtype) return *dtype;
  return at::isIntegralType(self.scalar_type(), true) ? at::kLong : self.scalar_type();
}

at::ScalarType stats_type(const at::Tensor& self) {
  return self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16 ? at::kFloat : self.scalar_type();
}

at::ScalarType variance_type(const at::Tensor& self) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()) || at::isComplexType(self.scalar_type()),
              "std and var only support floating point and complex dtypes");
  return real_type(self);
}

// Arguments ------------------------------------------------------------------------------------------

int div_mode(const std::optional<std::string_view>& rounding_mode) {
  if (!rounding_mode) return 0;
  if (*rounding_mode == "trunc") return 1;
  TORCH_CHECK(*rounding_mode == "floor", "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '",
              *rounding_mode, "'");
  return 2;
}

int64_t scatter_mode(std::string_view reduce) {
  if (reduce == "add" || reduce == "sum") return 1;
  if (reduce == "multiply" || reduce == "prod") return 2;
  if (reduce == "amax") return 3;
  if (reduce == "amin") return 4;
  TORCH_CHECK(reduce == "mean", "reduce argument must be either sum, prod, mean, amax or amin, got ", reduce, ".");
  return 5;
}

int64_t gelu_mode(std::string_view approximate) {
  if (approximate == "none") return 0;
  TORCH_CHECK(approximate == "tanh", "approximate argument must be either none or tanh.");
  return 1;
}

at::DimVector dims_or_all(const at::Tensor& self, at::OptionalIntArrayRef dims) {
  at::DimVector result;
  if (!dims || dims->empty()) {
    for (int64_t i = 0; i < self.dim(); ++i) result.push_back(i);
  } else {
    for (const auto dim : *dims) result.push_back(at::maybe_wrap_dim(dim, self.dim()));
  }
  return result;
}

at::DimVector dims_or_all(const at::Tensor& self, std::optional<int64_t> dim) {
  return dim ? dims_or_all(self, at::IntArrayRef(*dim)) : dims_or_all(self, at::OptionalIntArrayRef());
}

at::DimVector spatial(at::IntArrayRef values, int64_t rank) {
  if (values.size() == 1) return at::DimVector(rank, values[0]);
  TORCH_CHECK(values.size() == static_cast<size_t>(rank), "expected 1 or ", rank, " numbers for a window, got ", values);
  return to_dims(values);
}

at::DimVector spatial(at::IntArrayRef stride, at::IntArrayRef kernel_size, int64_t rank) {
  return spatial(stride.empty() ? kernel_size : stride, rank);
}

at::Tensor cast(const at::Tensor& tensor, at::ScalarType dtype) {
  return tensor.scalar_type() == dtype ? tensor : tensor.to(dtype);
}

const at::Tensor& bool_mask(const at::Tensor& mask, const char* op) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, op, " only supports boolean masks, but got mask with dtype ", mask.scalar_type());
  return mask;
}

at::Tensor class_weights(const std::optional<at::Tensor>& weight, const at::Tensor& scores) {
  if (weight && weight->defined()) return *weight;
  constexpr int64_t most_kept = 1024;
  const int64_t classes = scores.dim() == 1 ? scores.size(0) : scores.size(1);
  const auto ones = [&](int64_t count) {
    const auto made = empty_like_with(scores, {count});
    op::run(aclnnInplaceOne, made);
    return made;
  };
  if (classes > most_kept || scores.scalar_type() != at::kFloat) return ones(classes);
  static KeptTensor kept;
  return at::native::as_strided_tensorimpl(kept.of(scores.device().index(), [&] { return ones(most_kept); }), {classes}, {1});
}

at::Tensor upload(at::ArrayRef<at::Scalar> values, const at::Tensor& like) {
  auto host = at::detail::empty_cpu({static_cast<int64_t>(values.size())}, at::kDouble, false, std::nullopt);
  auto* data = host.mutable_data_ptr<double>();
  for (size_t i = 0; i < values.size(); ++i) data[i] = values[i].toDouble();
  return at::Tensor(host).to(like.scalar_type()).to(like.device());
}

bool all_equal(at::ArrayRef<at::Scalar> values) {
  const double first = values[0].toDouble();  // there is one for each tensor of a list that is not empty
  return std::all_of(values.begin(), values.end(), [&](const at::Scalar& value) {
    return value.toDouble() == first && std::signbit(value.toDouble()) == std::signbit(first);
  });
}

double finite_limit(const at::Tensor& self, int sign) {
  switch (at::toRealValueType(self.scalar_type())) {
    case at::kHalf:
      return sign * 65504.0;
    case at::kBFloat16:
      return sign * static_cast<double>(std::numeric_limits<at::BFloat16>::max());
    default:  // CANN takes a float here, so a double's limit would be infinite
      return sign * static_cast<double>(std::numeric_limits<float>::max());
  }
}

bool uniform_lists(std::initializer_list<at::TensorList> lists, at::ArrayRef<at::Scalar> numbers) {
  const auto& first = *lists.begin();
  if (first.empty()) return false;
  const auto dtype = first[0].scalar_type();
  const auto device = first[0].device();
  if (!at::isFloatingType(dtype)) return false;
  for (const auto& list : lists) {
    if (list.size() != first.size()) return false;
    for (size_t i = 0; i < list.size(); ++i) {
      const auto& tensor = list[i];
      if (tensor.scalar_type() != dtype || tensor.device() != device || tensor.sizes() != first[i].sizes()) return false;
    }
  }
  if (!numbers.empty() && numbers.size() != 1 && numbers.size() != first.size()) return false;
  return std::none_of(numbers.begin(), numbers.end(), [](const at::Scalar& number) { return number.isComplex(); });
}

bool uniform_lists(std::initializer_list<at::TensorList> lists, const at::Tensor& number) {
  return uniform_lists(lists) && number.dim() == 0 && number.scalar_type() == (*lists.begin())[0].scalar_type() &&
         number.device() == (*lists.begin())[0].device();
}

}  // namespace torch_npu::native
