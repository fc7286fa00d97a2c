// How torch's dtypes and reductions are said in HCCL.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "distributed/arguments.h"
#include "hccl/hccl.h"

namespace torch_npu::distributed {

// The tensor of a list that must have one. Throws InvalidArgument that names the collective.
inline const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* name) {
  NPU_CHECK_ARGUMENT(!tensors.empty(), "Tensor list must be nonempty: ", name, " takes one tensor");
  NPU_CHECK_ARGUMENT(tensors.size() == 1, name, ": one tensor, got ", tensors.size());
  return tensors[0];
}

// Of all tensors together.
inline int64_t elements(at::TensorList tensors) {
  int64_t sum = 0;
  for (const auto& tensor : tensors) sum += tensor.numel();
  return sum;
}

// A tensor's memory as HCCL sees it: `count` elements of `type`.
struct Buffer {
  void* data = nullptr;
  uint64_t count = 0;
  HcclDataType type = HCCL_DATA_TYPE_RESERVED;
};

// For collectives that only move data: each dtype will do; those HCCL does not know travel as bytes.
Buffer moved_buffer(const at::Tensor& tensor);
// HCCL elements for each element of a tensor of this dtype, when it is moved.
uint64_t moved_factor(at::ScalarType dtype);

// A torch reduction on one dtype: what HCCL does, and what is left to do around it.
//   AVG = SUM, then divide (float16: divide, then SUM); PREMUL_SUM = multiply, then SUM; bool has SUM as "or"; complex is summed
//   by parts.
class Reduction {
 public:
  // Throws InvalidArgument or InvalidType for what has no meaning or no HCCL counterpart; `where` names the
  // collective in the message.
  Reduction(const c10d::ReduceOp& op, at::ScalarType dtype, int ranks, const char* where);

  HcclReduceOp op() const { return op_; }
  // The elements of a contiguous tensor as they are reduced.
  Buffer buffer(const at::Tensor& tensor) const;

  bool scales_input() const { return scale_; }
  // The factor times the input; a new tensor.
  at::Tensor scaled(const at::Tensor& input) const;
  // In place.
  void scale(const at::Tensor& tensor) const;
  // To be called on the result, on the stream of the collective.
  void finish(const at::Tensor& result) const;

 private:
  void hold_factor() const;

  HcclReduceOp op_ = HCCL_REDUCE_SUM;
  HcclDataType type_ = HCCL_DATA_TYPE_RESERVED;
  bool complex_ = false;
  bool divide_ = false;
  bool scale_ = false;
  int ranks_;
  at::Tensor tensor_factor_;
  double factor_ = 1;
};

}  // namespace torch_npu::distributed
