#include "aten/argument_checks.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/layer_norm.h>

#include "aten/kernel.h"

namespace torch_npu::native {

void check_outputs(const char* op, std::initializer_list<GivenOutput> outputs, const at::Tensor& input) {
  const bool known = input.defined() && input.is_privateuseone();
  for (const auto& [name, out] : outputs) {
    if (!out.defined()) continue;
    if (C10_UNLIKELY(known ? out.device() != input.device() : !out.is_privateuseone())) {
      const c10::Device expected = known ? input.device() : c10::Device(c10::DeviceType::PrivateUse1, core::current_device());
      throw_devices_differ(op, expected, out.device(), name);
    }
    at::assert_no_internal_overlap(out);
  }
}

void check_apart(const at::Tensor& out, std::initializer_list<std::reference_wrapper<const at::Tensor>> inputs) {
  for (const at::Tensor& input : inputs) {
    if (!out.is_same(input) && input.defined()) at::assert_no_partial_overlap(out, input);
  }
}

const at::Tensor& disjoint(const at::Tensor& self, const at::Tensor& other) {
  at::assert_no_overlap(self, other);
  return other;
}

const at::Tensor& fill_mask(const at::Tensor& self, const at::Tensor& mask) {
  at::assert_no_partial_overlap(self, bool_mask(mask, "masked_fill_"));
  return mask;
}

OutSpec dot_product(const at::Tensor& self, const at::Tensor& other, const char* op) {
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, op, ": 1D tensors expected, but got ", self.dim(), "D and ", other.dim(),
              "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), op, ": expected both vectors to have same dtype, but found ",
              self.scalar_type(), " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), op, ": inconsistent tensor size, expected tensor [", self.numel(), "] and src [",
              other.numel(), "] to have the same number of elements, but got ", self.numel(), " and ", other.numel(),
              " elements respectively");
  return shaped(self, {});
}

OutSpec matrix_vector(const at::Tensor& self, const at::Tensor& vec) {
  TORCH_CHECK(self.dim() == 2 && vec.dim() == 1, "vector + matrix @ vector expected, got 1, ", self.dim(), ", ", vec.dim());
  TORCH_CHECK(self.size(1) == vec.size(0), "size mismatch, got input (", self.size(0), "), mat (", self.size(0), "x",
              self.size(1), "), vec (", vec.size(0), ")");
  TORCH_CHECK(self.scalar_type() == vec.scalar_type(), "mv input tensors must have the same dtype, but got ", self.scalar_type(),
              " and ", vec.scalar_type());
  return shaped(self, {self.size(0)});
}

OutSpec distances(const at::Tensor& x1, const at::Tensor& x2) {
  for (const auto* x : {&x1, &x2}) {
    TORCH_CHECK(at::isFloatingType(x->scalar_type()), "cdist only supports floating-point dtypes, ", x == &x1 ? "X1" : "X2",
                " got: ", x->scalar_type());
  }
  TORCH_CHECK(x1.scalar_type() == x2.scalar_type(), "cdist: expected scalar type ", x1.scalar_type(), " but found ",
              x2.scalar_type());
  return shaped(x1, cdist_sizes(x1, x2));
}

OutSpec extreme(const at::Tensor& self, const char* op) {
  TORCH_CHECK(
      self.numel() > 0, op,
      "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.");
  return shaped(self, {});
}

const at::Tensor& factor(const at::Tensor& second, const at::Tensor& first) {
  TORCH_CHECK(second.scalar_type() == first.scalar_type(), "expected m1 and m2 to have the same dtype, but got: ", first.dtype(),
              " != ", second.dtype());
  return second;
}

OutSpec complex_of(const at::Tensor& real, const at::Tensor& imaginary, const at::Tensor& out) {
  TORCH_CHECK(at::isFloatingType(real.scalar_type()) && real.scalar_type() != at::kBFloat16 &&
                  at::isFloatingType(imaginary.scalar_type()) && imaginary.scalar_type() != at::kBFloat16,
              "Expected both inputs to be Half, Float or Double tensors but got ", real.scalar_type(), " and ",
              imaginary.scalar_type());
  TORCH_CHECK(real.scalar_type() == imaginary.scalar_type(), "Expected object of scalar type ", real.scalar_type(),
              " but got scalar type ", imaginary.scalar_type(), " for second argument");
  const auto wanted = c10::toComplexType(real.scalar_type());
  TORCH_CHECK(out.scalar_type() == wanted, "Expected object of scalar type ", wanted, " but got scalar type ", out.scalar_type(),
              " for argument 'out'");
  return binary(real, imaginary, wanted);
}

OutSpec kth(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim, at::ScalarType dtype) {
  const auto wrapped = c10::maybe_wrap_dim(dim, self.dim());
  at::native::zero_numel_check_dims(self, wrapped, "kthvalue()");
  const int64_t size = self.dim() == 0 ? 1 : self.size(wrapped);
  TORCH_CHECK(k >= 1 && k <= size, "kthvalue(): selected number k out of range for dimension ", wrapped);
  return reduced(self, dim, keepdim, dtype);
}

OutSpec median_of(const at::Tensor& self, int64_t dim, bool keepdim, at::ScalarType dtype) {
  at::native::zero_numel_check_dims(self, c10::maybe_wrap_dim(dim, self.dim()), "median()");
  return reduced(self, dim, keepdim, dtype);
}

OutSpec flipped(const at::Tensor& self, at::IntArrayRef dims) {
  at::dim_list_to_bitset(dims, self.dim());
  return like(self);
}

OutSpec binned(const at::Tensor& self, int64_t bins) {
  TORCH_CHECK(bins > 0, "histc: bins must be > 0, got ", bins);
  return shaped(self, {bins});
}

OutSpec rolled(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (!dims.empty() || shifts.size() != 1) {
    TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
                ", dims:", dims.size());
    for (const auto dim : dims) {
      TORCH_CHECK_INDEX(self.dim() != 0, "Dimension specified as ", dim, " but tensor has no dimensions");
      c10::maybe_wrap_dim(dim, self.dim());
    }
  }
  return shaped(self, self.sizes());
}

OutSpec embedded(const at::Tensor& weight, const at::Tensor& indices) {
  TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D");
  TORCH_CHECK(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt,
              "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got ",
              indices.scalar_type(), " instead (while checking arguments for embedding)");
  return shaped(weight, with_tail(indices, indices.dim(), {weight.size(1)}));
}

OutSpec eyed(const at::Tensor& out, int64_t n, int64_t m) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  return shaped(out, {n, m});
}

OutSpec bucketized(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32) {
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(), ")");
  return shaped(self, self.sizes(), out_int32 ? at::kInt : at::kLong);
}

OutSpec layer_normed(const at::Tensor& input, at::IntArrayRef normalized_shape, const std::optional<at::Tensor>& weight,
                     const std::optional<at::Tensor>& bias) {
  at::native::_check_layer_norm_inputs(input, normalized_shape, weight ? *weight : at::Tensor(), bias ? *bias : at::Tensor());
  return shaped(input, input.sizes());
}

OutSpec unpooled(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size, int64_t rank) {
  TORCH_CHECK(indices.scalar_type() == at::kLong, "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(static_cast<int64_t>(output_size.size()) == rank, "There should be exactly ", rank,
              " elements in output_size, but got ", output_size.size(), " elements.");
  TORCH_CHECK(self.dim() == rank + 1 || self.dim() == rank + 2, "Input to max_unpooling", rank, "d should be a ", rank + 1,
              "d or ", rank + 2, "d Tensor, but got a tensor with ", self.dim(), " dimensions.");
  TORCH_CHECK(self.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (", self.sizes(),
              ") but got indices tensor with shape: ", indices.sizes());
  return shaped(self, with_tail(self, self.dim() - rank, output_size));
}

OutSpec traced(const at::Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  return shaped(self, {}, sum_type(self));
}

const at::Tensor& places_in(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  if (self.numel() == 0 && index.numel() != 0) {
    TORCH_CHECK(self.size(dim) != 0, "an index is out of bounds for dimension ", c10::maybe_wrap_dim(dim, self.dim()),
                " with size 0");
  }
  return index;
}

const at::Tensor& places_in(const at::Tensor& self, const at::Tensor& index) {
  TORCH_CHECK_INDEX(self.numel() != 0 || index.numel() == 0, "put_(): Tried to put elements into an empty tensor");
  return index;
}

const at::Tensor& of_groups(const at::Tensor& self, int64_t N, int64_t C, int64_t HxW) {
  TORCH_CHECK(self.numel() == N * C * HxW, "group_norm of N = ", N, ", C = ", C, ", HxW = ", HxW, " takes ", N * C * HxW,
              " elements, but got a tensor of shape ", self.sizes());
  return self;
}

const at::Tensor& one_number(const at::Tensor& value, const char* op) {
  TORCH_CHECK(value.dim() == 0, op, " only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
              " dimension(s).");
  return value;
}

const at::Tensor& number_for(const at::Tensor& self, const at::Tensor& value, const char* op) {
  TORCH_CHECK(!value.is_complex() || self.is_complex(), op, ": value cannot be converted to type ", self.scalar_type(),
              " without overflow");
  return one_number(value, op);
}

const at::Scalar& fitting(const at::Scalar& value, const at::Tensor& self) {
  // Converting throws torch's error.
  if (at::isFloatingType(self.scalar_type()) || self.is_complex() || at::isIntegralType(self.scalar_type(), true)) {
    AT_DISPATCH_V2(self.scalar_type(), "masked_fill_", AT_WRAP([&] { (void)value.to<scalar_t>(); }),
                   AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), at::kHalf, at::kBFloat16, at::kBool, at::kComplexHalf,
                   AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), AT_EXPAND(AT_FLOAT8_TYPES));
  }
  return value;
}

}  // namespace torch_npu::native
