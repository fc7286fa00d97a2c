// Advanced indexing: x[i, j], x[mask], x[i] = v.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/one_hot_native.h>
#include <ATen/ops/stack.h>

#include "aten/argument_checks.h"
#include "aten/compose.h"
#include "aten/factory.h"
#include "aten/kernel.h"
#include "aten/mixed_dtypes.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnIndex);
NPU_OPERATOR(aclnnIndexPutImpl);
NPU_OPERATOR(aclnnInplaceMaskedFillScalar);
NPU_OPERATOR(aclnnInplaceMaskedFillTensor);

namespace {

using Indices = c10::List<std::optional<at::Tensor>>;

// Torch dispatches here by the number's device; a CPU tensor takes it as it takes one of its own.
bool is_number_for_host(const at::Tensor& self, const at::Tensor& value) {
  return self.is_cpu() && value.dim() == 0 && value.is_privateuseone();
}

// Masks become positions, all indices one shape and on self's device; a dimension without index is undefined.
std::vector<at::Tensor> resolve_indices(const at::Tensor& self, const Indices& given) {
  TORCH_CHECK_INDEX(given.size() <= static_cast<size_t>(self.dim()), "too many indices for tensor of dimension ", self.dim(),
                    " (got ", given.size(), ")");
  TORCH_CHECK(self.is_privateuseone(), "indices should be either on cpu or on the same device as the indexed tensor (",
              self.device(), ")");
  for (const std::optional<at::Tensor>& index : given) {
    TORCH_CHECK(!index || !index->defined() || index->is_cpu() || index->device() == self.device(),
                "indices should be either on cpu or on the same device as the indexed tensor (", self.device(), ")");
  }
  at::native::checkIndexTensorTypes(given, /*allow_int=*/true);
  auto indices = at::native::expandTensors(self, given);
  try {
    indices = at::expand_outplace(indices);
  } catch (const std::exception&) {
    TORCH_CHECK_INDEX(false, "shape mismatch: indexing tensors could not be broadcast together with shapes ",
                      at::native::shapes_as_str(indices));
  }
  for (auto& index : indices) {
    if (index.defined()) index = index.to(self.device());
  }
  return indices;
}

struct Picked {
  at::DimVector sizes;
  at::DimVector steps;  // of self's memory in each dimension, 0 in those of the indices
};

// Where the indexed dimensions' result goes: in their place when they are adjacent, in front otherwise.
Picked result_of(const at::Tensor& self, const std::vector<at::Tensor>& indices) {
  int64_t first = -1, last = -1, count = 0;
  at::IntArrayRef picked;
  for (int64_t dim = 0; dim < static_cast<int64_t>(indices.size()); ++dim) {
    if (!indices[dim].defined()) continue;
    if (first < 0) first = dim;
    last = dim;
    ++count;
    picked = indices[dim].sizes();
  }
  const bool adjacent = last - first + 1 == count;
  Picked result;
  const auto pick = [&] {
    result.sizes.append(picked.begin(), picked.end());
    result.steps.append(picked.size(), 0);
  };
  if (!adjacent) pick();
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    const bool indexed = dim < static_cast<int64_t>(indices.size()) && indices[dim].defined();
    if (!indexed) {
      result.sizes.push_back(self.size(dim));
      result.steps.push_back(self.stride(dim));
    }
    if (adjacent && dim == first) pick();
    if (indexed && self.size(dim) == 0) {
      TORCH_CHECK_INDEX(indices[dim].numel() == 0, "index is out of bounds for dimension with size 0");
    }
  }
  return result;
}

// CANN reads a tensor of shape [0] as "the whole dimension".
std::vector<at::Tensor> for_cann(std::vector<at::Tensor> indices, const at::Tensor& self) {
  for (auto& index : indices) {
    if (!index.defined()) index = empty_like_with(self, {0}, at::kLong);
  }
  return indices;
}

}  // namespace

at::Tensor& index_out(const at::Tensor& self, const Indices& given, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == self.scalar_type(), "index_out: self (", self.scalar_type(), ") and result (",
              out.scalar_type(), ") must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  const auto indices = resolve_indices(self, given);
  out.resize_(result_of(self, indices).sizes);
  if (out.numel() != 0) op::run(aclnnIndex, self, for_cann(indices, self), out);
  return out;
}

at::Tensor index_tensor(const at::Tensor& self, const Indices& given) {
  const auto indices = resolve_indices(self, given);
  const auto [sizes, steps] = result_of(self, indices);
  // What is left of self keeps the order of its memory.
  auto out = self.is_contiguous() ? empty_like_with(self, sizes)
                                  : create_out(sizes, at::infer_dense_strides(sizes, steps), self.options());
  if (out.numel() != 0) op::run(aclnnIndex, self, for_cann(indices, self), out);
  return out;
}

at::Tensor& _index_put_impl_(at::Tensor& self, const Indices& given, const at::Tensor& values, bool accumulate, bool unsafe) {
  TORCH_CHECK_INDEX(given.size() <= static_cast<size_t>(self.dim()), "too many indices for tensor of dimension ", self.dim(),
                    " (got ", given.size(), ")");
  if (const auto type = type_for(values, self); values.scalar_type() != type) {
    return native::_index_put_impl_(self, given, cast(values, type), accumulate, unsafe);
  }
  TORCH_CHECK(self.scalar_type() == values.scalar_type(), "Index put: values of ", values.scalar_type(),
              " would lose their imaginary part in a tensor of ", self.scalar_type());
  if (is_number_for_host(self, values)) return at::_index_put_impl_(self, given, values.cpu(), accumulate, unsafe);
  if (values.dim() != 0) check_same_device("_index_put_impl_", {"self", "values"}, self, values);
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    TORCH_WARN(
        "index_put_ writes to an expanded tensor, whose elements share memory: clone() it first. PyTorch will make this an "
        "error.");
  }
  if (!accumulate) {
    const auto [fits, mask] = at::native::canDispatchToMaskedFill(self, given, values);
    if (fits) return self.masked_fill_(mask, values.item());
  }
  const auto indices = resolve_indices(self, given);
  at::assert_no_overlap(self, values);
  for (const std::optional<at::Tensor>& index : given) {
    // A mask has been read by now.
    if (index && index->defined() && at::isIntegralType(index->scalar_type(), false) && index->scalar_type() != at::kByte) {
      at::assert_no_overlap(self, *index);
    }
  }
  const auto sizes = result_of(self, indices).sizes;
  if (c10::multiply_integers(sizes) == 0) return self;
  const auto source = values.to(self.device());
  TORCH_CHECK(at::is_expandable_to(source.sizes(), sizes), "shape mismatch: value tensor of shape ", source.sizes(),
              " cannot be broadcast to indexing result of shape ", sizes);
  // The operator's `unsafe` asks for a check of the indices; PyTorch's asks for none.
  op::run(aclnnIndexPutImpl, self, for_cann(indices, self), source.expand(sizes), accumulate, !unsafe);
  return self;
}

at::Tensor& masked_fill_tensor(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
  (void)number_for(self, value, "masked_fill_");
  if (mask.scalar_type() != at::kBool) return masked_fill_tensor(self, mask.to(at::kBool), value);
  if (is_number_for_host(self, value)) return self.masked_fill_(mask, value.item());
  const auto& chosen = fill_mask(self, mask);
  if (is_host_scalar(value)) {
    op::run(aclnnInplaceMaskedFillScalar, self, chosen, fitting(host_scalar(value), self));
  } else {
    op::run(aclnnInplaceMaskedFillTensor, self, chosen, cast(value, self.scalar_type()));
  }
  return self;
}

// PyTorch takes int64 only; the published torch_npu gives the rows the index's dtype. Where the classes are to be counted the
// host waits anyway and sees the smallest one too; else the device finds those that are out of range.
at::Tensor one_hot(const at::Tensor& self, int64_t num_classes) {
  if (self.is_complex()) return at::native::one_hot(self, num_classes);  // refused
  const auto classes = cast(self, at::kLong);
  if (num_classes == -1 && classes.numel() != 0) {
    const auto [smallest, largest] = at::aminmax(classes);
    const auto range = at::stack({smallest, largest}).cpu();
    const auto* ends = range.const_data_ptr<int64_t>();
    TORCH_CHECK(ends[0] >= 0, "Class values must be non-negative.");
    num_classes = ends[1] + 1;
  }
  return cast(at::native::one_hot(classes, num_classes), self.scalar_type());
}

at::Tensor& index_fill_int_tensor(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& value) {
  (void)one_number(value, "index_fill_");
  return self.index_fill_(dim, index, value.item());
}

void index_reduce_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                         std::string_view reduce, bool include_self, const at::Tensor& out) {
  auto& target = result(out);
  if (!target.is_same(self)) target.copy_(self);
  if (index.numel() == 0) return;
  auto indices = index.reshape({-1});
  if (source.dim() == 0) {
    target.view({1}).scatter_reduce_(0, indices, source.view({1}), reduce, include_self);
    return;
  }
  auto shape = at::DimVector(source.dim(), 1);
  shape[dim] = indices.numel();
  target.scatter_reduce_(dim, indices.view(shape).expand(source.sizes()), source, reduce, include_self);
}

}  // namespace torch_npu::native
