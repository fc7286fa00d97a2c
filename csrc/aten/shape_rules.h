// Helpers that the registry's entries use: shapes of results without a meta function, and arguments
// whose form at the C interface is another than ATen's.
//
// An `out:` rule describes a result (OutSpec); make() allocates it, resize_output() fits a given tensor to it.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>

namespace torch_npu::native {

// Results --------------------------------------------------------------------------------------------

struct OutSpec {
  at::DimVector sizes;
  at::DimVector strides;  // empty: contiguous
  at::TensorOptions options;
};

at::Tensor make(const OutSpec& spec);
std::vector<at::Tensor> make(const std::vector<OutSpec>& specs);
inline at::Tensor make(at::Tensor tensor) { return tensor; }
inline std::vector<at::Tensor> make(std::vector<at::Tensor> tensors) { return tensors; }
// Throws unless `out` has the rule's dtype and device; warns, as torch does, when it resizes a non-empty tensor.
void resize_output(const at::Tensor& out, const OutSpec& spec);
// And checks what is written against what is read: it may be the same tensor, if that has the right shape already, but not
// share some memory with it.
void check_output(const at::Tensor& out, const OutSpec& spec, const at::Tensor& input);
template <class... Inputs>
void resize_output(const at::Tensor& out, const OutSpec& spec, const Inputs&... inputs) {
  (check_output(out, spec, inputs), ...);
  resize_output(out, spec);
}

// The output of an operator whose result torch casts to the dtype of the tensor given for it: computed in that tensor, or
// beside it where the dtypes differ. Throws where such a cast would lose more than precision.
class CastOutput {
 public:
  template <class... Inputs>
  CastOutput(at::Tensor& out, const OutSpec& spec, const Inputs&... inputs) : out_(out) {
    if (beside(spec)) return;
    resize_output(out, spec, inputs...);
    value_ = out;
  }
  const at::Tensor& value() const { return value_; }
  at::Tensor& give();

 private:
  bool beside(const OutSpec& spec);

  at::Tensor& out_;
  at::Tensor value_;
};

// Shape, dtype and, where it is dense, memory layout of `tensor`.
OutSpec like(const at::Tensor& tensor);
OutSpec like(const at::Tensor& tensor, at::ScalarType dtype);
// Contiguous in another shape; dtype and device of `tensor` unless given.
OutSpec shaped(const at::Tensor& tensor, at::IntArrayRef sizes);
OutSpec shaped(const at::Tensor& tensor, at::IntArrayRef sizes, at::ScalarType dtype);
// A row of `count` numbers; a tensor that has so many elements is taken in its own shape.
OutSpec row_like(const at::Tensor& tensor, int64_t count);
// Images of another size: in `tensor`'s memory format, channels last or contiguous.
OutSpec formatted(const at::Tensor& tensor, at::IntArrayRef sizes);
OutSpec formatted(const at::Tensor& tensor, at::IntArrayRef sizes, at::ScalarType dtype);
// Two operands broadcast and promoted as an elementwise operator does it.
OutSpec binary(const at::Tensor& self, const at::Tensor& other);
OutSpec binary(const at::Tensor& self, const at::Tensor& other, at::ScalarType dtype);
// addr: a matrix, or what broadcasts to one, and the product of a column and a row.
OutSpec outer(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2);
// where(): the condition broadcasts too, but does not promote.
OutSpec selected(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other);
// `dims` (none: all) reduced, or kept with size 1.
OutSpec reduced(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim);
OutSpec reduced(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, at::ScalarType dtype);
// A loss of `reduction` (0 none, 1 mean, 2 sum).
OutSpec loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction);
// The gradient of a loss: like `self`, or of the shape that `self` and `target` broadcast to; autograd sums it.
OutSpec loss_gradient(const at::Tensor& self, const at::Tensor& target);
// A gradient that is not asked for, or of a tensor that is not there, stays undefined.
at::Tensor like_if(bool wanted, const std::optional<at::Tensor>& tensor);
at::Tensor shaped_if(bool wanted, const at::Tensor& tensor, at::IntArrayRef sizes);
// Gradient of a batch norm's weight or bias: one number per channel, in the weight's dtype where there is one.
at::Tensor batch_norm_gradient(bool wanted, const at::Tensor& input, const std::optional<at::Tensor>& weight);
// One result like each tensor of a list; foreach norms give a zero-dim tensor for each.
std::vector<OutSpec> like_list(at::TensorList tensors);
std::vector<OutSpec> scalar_list(at::TensorList tensors);

// Sizes ----------------------------------------------------------------------------------------------

// `self` with the size of `dim` replaced.
at::DimVector resized_dim(const at::Tensor& self, int64_t dim, int64_t size);
// Padding given from the last dimension backwards, (before, after) for each.
at::DimVector padded(const at::Tensor& self, at::IntArrayRef padding);
// Leading sizes of `self`, then `tail`.
at::DimVector with_tail(const at::Tensor& self, int64_t leading, at::IntArrayRef tail);
// Statistics of a layer norm: leading sizes, and 1 for each normalized dimension.
at::DimVector layer_norm_stats(const at::Tensor& input, at::IntArrayRef normalized_shape);
at::DimVector pooled(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
                     at::IntArrayRef dilation, bool ceil_mode);
at::DimVector cdist_sizes(const at::Tensor& x1, const at::Tensor& x2);
at::DimVector im2col_sizes(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                           at::IntArrayRef stride);
at::DimVector col2im_sizes(const at::Tensor& self, at::IntArrayRef output, at::IntArrayRef kernel);
// Number of values of arange, computed in `dtype` as torch does, and of range, which includes the end.
int64_t arange_size(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::ScalarType dtype);
int64_t range_size(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step);

// Dtypes ---------------------------------------------------------------------------------------------

// Integers become the default floating dtype; of complex, the real one.
at::ScalarType float_type(const at::Tensor& self);
at::ScalarType real_type(const at::Tensor& self);
// The dtype a sum or product is kept in: int64 for integers and bool.
at::ScalarType sum_type(const at::Tensor& self, std::optional<at::ScalarType> dtype = std::nullopt);
// Statistics of a normalization: float32 for half precision and integers.
at::ScalarType stats_type(const at::Tensor& self);
// real_type(), but throws torch's error unless floating or complex.
at::ScalarType variance_type(const at::Tensor& self);

// Arguments ------------------------------------------------------------------------------------------

// Rounding of a division: 0 true quotient, 1 trunc, 2 floor.
int div_mode(const std::optional<std::string_view>& rounding_mode);
// Reduction of a scatter: 1 add/sum, 2 multiply/prod, 3 amax, 4 amin, 5 mean.
int64_t scatter_mode(std::string_view reduce);

// 0 none, 1 tanh.
int64_t gelu_mode(std::string_view approximate);

// Dimensions to reduce, non-negative; none given means all of them.
at::DimVector dims_or_all(const at::Tensor& self, at::OptionalIntArrayRef dims);
at::DimVector dims_or_all(const at::Tensor& self, std::optional<int64_t> dim);

// Window parameters in full: torch allows one number for all `rank` dimensions, and no stride for "the kernel's size".
at::DimVector spatial(at::IntArrayRef values, int64_t rank);
at::DimVector spatial(at::IntArrayRef stride, at::IntArrayRef kernel_size, int64_t rank);

// `tensor` in another dtype; itself when it has it already.
at::Tensor cast(const at::Tensor& tensor, at::ScalarType dtype);
// `mask`, which must be bool; `op` names the operator in the error.
const at::Tensor& bool_mask(const at::Tensor& mask, const char* op);
// Weight of each class; undefined means 1 for each, which CANN wants spelled out.
at::Tensor class_weights(const std::optional<at::Tensor>& weight, const at::Tensor& scores);
// Numbers as a 1-D tensor of the device: copied in one go, filled in one by one while the stream is being captured, since the
// copy would be awaited.
at::Tensor numbers_on(at::Device device, at::ScalarType dtype, at::ArrayRef<at::Scalar> values);
inline at::Tensor upload(at::ArrayRef<at::Scalar> values, const at::Tensor& like) {
  return numbers_on(like.device(), like.scalar_type(), values);
}
// True of a list of one number many times over, as optimizers give it: no upload is needed then.
bool all_equal(at::ArrayRef<at::Scalar> values);
// Largest finite value (sign 1) or smallest (sign -1) of a dtype.
double finite_limit(const at::Tensor& self, int sign);

// Whether a foreach operator can take whole lists: equal lengths, one device, one floating dtype, element by element
// the same sizes, and numbers that do not promote. Otherwise torch's own loop over the tensors runs.
bool uniform_lists(std::initializer_list<at::TensorList> lists, at::ArrayRef<at::Scalar> numbers = {});
// The same, with one zero-dim device tensor of the lists' dtype.
bool uniform_lists(std::initializer_list<at::TensorList> lists, const at::Tensor& number);

}  // namespace torch_npu::native
