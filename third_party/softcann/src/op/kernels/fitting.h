// Shapes that CANN refuses in phase 1, of the operators that are given wrong ones most often: a client raises where the call
// stands and goes on. The kernels would notice in phase 2, after which the published torch_npu computes nothing any more.
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>

#include <algorithm>

#include "op/call_cost.h"
#include "op/kernel.h"

namespace softcann::op {

// What operators without a cost of their own are taken to cost: a call, and memory streamed once.
template <class... T>
double streamed_cost(const T&... tensors) {
  return call_ns + ns_per_byte * (bytes(tensors) + ...);
}

inline bool same_length(const at::Tensor& a, int64_t of_a, const at::Tensor& b, int64_t of_b) {
  return a.size(of_a) == b.size(of_b);
}

// The factors of a product, both of at least one dimension.
inline void require_factors(const at::Tensor& a, const at::Tensor& b) {
  if (!same_length(a, -1, b, b.dim() > 1 ? -2 : 0)) {
    invalid("factors of %s and %s do not fit: a row of the first has another length than a column of the second",
            c10::str(a.sizes()).c_str(), c10::str(b.sizes()).c_str());
  }
  const auto batches = [](const at::Tensor& tensor) { return tensor.sizes().slice(0, static_cast<size_t>(tensor.dim() - 2)); };
  if (a.dim() > 2 && b.dim() > 2 && batches(a) != batches(b)) at::infer_size(batches(a), batches(b));  // or throws
}

// Tensors that are joined at `dim`; those that are empty and of one dimension, as torch.cat has them, join anything.
inline void require_joinable(at::TensorList tensors, int64_t dim) {
  const at::Tensor* first = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || (tensor.dim() == 1 && tensor.size(0) == 0)) continue;
    if (first == nullptr) {
      first = &tensor;
      dim = at::maybe_wrap_dim(dim, tensor.dim());
    }
    bool fits = tensor.dim() == first->dim();
    for (int64_t i = 0; fits && i < tensor.dim(); ++i) fits = i == dim || same_length(tensor, i, *first, i);
    if (!fits) {
      invalid("%s and %s do not join at dimension %ld", c10::str(first->sizes()).c_str(), c10::str(tensor.sizes()).c_str(),
              long(dim));
    }
  }
}

inline void require_stackable(at::TensorList tensors, int64_t dim) {
  if (!tensors.empty()) at::maybe_wrap_dim(dim, tensors[0].dim() + 1);  // or throws
  for (const at::Tensor& tensor : tensors) {
    if (tensor.sizes() != tensors[0].sizes())
      invalid("%s and %s do not stack", c10::str(tensors[0].sizes()).c_str(), c10::str(tensor.sizes()).c_str());
  }
}

// An index for each element that is taken along `dim`.
inline void require_index_within(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  if (std::max<int64_t>(self.dim(), 1) != std::max<int64_t>(index.dim(), 1))
    invalid("the index has %ld dimensions, not %ld", long(index.dim()), long(self.dim()));
  if (self.dim() == 0 || index.dim() == 0 || index.numel() == 0) return;
  dim = at::maybe_wrap_dim(dim, self.dim());
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (i != dim && index.size(i) > self.size(i))
      invalid("the index of %s leads out of %s", c10::str(index.sizes()).c_str(), c10::str(self.sizes()).c_str());
  }
}

inline void require_count_within(const at::Tensor& self, int64_t dim, int64_t count) {
  const int64_t length = self.dim() == 0 ? 1 : self.size(at::maybe_wrap_dim(dim, self.dim()));
  if (count < 0 || count > length) invalid("%ld of a dimension of %ld", long(count), long(length));
}

// The dimensions at the end that the weights of a norm cover.
inline void require_trailing(const at::Tensor& x, const at::Tensor& gamma) {
  if (gamma.dim() == 0 || gamma.dim() > x.dim() || x.sizes().slice(static_cast<size_t>(x.dim() - gamma.dim())) != gamma.sizes())
    invalid("gamma of %s does not go with %s", c10::str(gamma.sizes()).c_str(), c10::str(x.sizes()).c_str());
}

inline void require_whole_numbers(const char* name, const at::Tensor& tensor) {
  if (!c10::isIntegralType(tensor.scalar_type(), false))
    invalid("%s is of %s, not of whole numbers", name, c10::toString(tensor.scalar_type()));
}
inline void require_fractions(const char* name, const at::Tensor& tensor) {
  if (c10::isIntegralType(tensor.scalar_type(), true))
    invalid("%s is of %s, which has no fractions", name, c10::toString(tensor.scalar_type()));
}

}  // namespace softcann::op
