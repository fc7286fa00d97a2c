// What operators demand of their arguments, for those without a meta function in torch: errors of torch's types, at the
// call and not from the device later. Each returns the result's description, so that the registry can name it as a rule.
#pragma once

#include <functional>
#include <initializer_list>

#include "aten/shape_rules.h"

namespace torch_npu::native {

// What a caller gives by out=: a tensor and its name.
struct GivenOutput {
  const char* name;
  const at::Tensor& tensor;
};
// Throws unless the outputs are on the NPU that `input` is on (any NPU, if that is undefined or a number of the CPU), each of
// their elements with a place of its own.
C10_EXPORT void check_outputs(const char* op, std::initializer_list<GivenOutput> outputs, const at::Tensor& input = {});
// Throws if writing `out` would change a part of an input that is not the same tensor.
C10_EXPORT void check_apart(const at::Tensor& out, std::initializer_list<std::reference_wrapper<const at::Tensor>> inputs);
// The other operand; refused where writing `self` would change it while it is read.
C10_EXPORT const at::Tensor& disjoint(const at::Tensor& self, const at::Tensor& other);
// The same for a mask, which may be `self` itself: each place is read before it is written.
C10_EXPORT const at::Tensor& fill_mask(const at::Tensor& self, const at::Tensor& mask);

// dot, vdot: two vectors of one length and dtype.
OutSpec dot_product(const at::Tensor& self, const at::Tensor& other, const char* op);
OutSpec matrix_vector(const at::Tensor& self, const at::Tensor& vec);
// cdist: rows of one floating dtype.
OutSpec distances(const at::Tensor& x1, const at::Tensor& x2);
// complex, polar: two real tensors of one dtype, and a result whose dtype is their complex one.
OutSpec complex_of(const at::Tensor& real, const at::Tensor& imaginary, const at::Tensor& out);
// kthvalue: `k` counts from 1 within the dimension.
OutSpec median_of(const at::Tensor& self, int64_t dim, bool keepdim, at::ScalarType dtype);
OutSpec kth(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim, at::ScalarType dtype);
// flip: each dimension once.
OutSpec flipped(const at::Tensor& self, at::IntArrayRef dims);
// histc: at least one bin.
OutSpec binned(const at::Tensor& self, int64_t bins);
OutSpec rolled(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims);
OutSpec embedded(const at::Tensor& weight, const at::Tensor& indices);
OutSpec bucketized(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32);
OutSpec layer_normed(const at::Tensor& input, at::IntArrayRef normalized_shape, const std::optional<at::Tensor>& weight,
                     const std::optional<at::Tensor>& bias);
OutSpec unpooled(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size, int64_t rank);

// min and max of all elements: there has to be one.
OutSpec extreme(const at::Tensor& self, const char* op);

// The second factor of a product, of the first one's dtype.
const at::Tensor& factor(const at::Tensor& second, const at::Tensor& first);

// eye: a matrix of n rows and m columns.
OutSpec eyed(const at::Tensor& out, int64_t n, int64_t m);
OutSpec traced(const at::Tensor& self);

// The index; refused where it names a place in a dimension, or a tensor, that has none: without results the operator is not run
// and cannot tell.
const at::Tensor& places_in(const at::Tensor& self, int64_t dim, const at::Tensor& index);
const at::Tensor& places_in(const at::Tensor& self, const at::Tensor& index);

// group_norm and its gradient: the tensor, of N * C * HxW elements; an empty one is not run, so the device cannot tell.
const at::Tensor& of_groups(const at::Tensor& self, int64_t N, int64_t C, int64_t HxW);

// The value of a fill: one number, and one that the dtype can hold.
const at::Tensor& one_number(const at::Tensor& value, const char* op);
const at::Tensor& number_for(const at::Tensor& self, const at::Tensor& value, const char* op);
const at::Scalar& fitting(const at::Scalar& value, const at::Tensor& self);

}  // namespace torch_npu::native
