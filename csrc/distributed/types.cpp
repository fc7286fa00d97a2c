#include "distributed/types.h"

#include <ATen/ops/div.h>
#include <ATen/ops/mul.h>
#include <c10/util/Exception.h>

#include "core/compat.h"
#include "core/stream.h"
#include "memory/device_allocator.h"

namespace torch_npu::distributed {
namespace {

HcclDataType data_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kChar:
      return HCCL_DATA_TYPE_INT8;
    case at::kByte:
    case at::kBool:
      return HCCL_DATA_TYPE_UINT8;
    case at::kShort:
      return HCCL_DATA_TYPE_INT16;
    case at::kUInt16:
      return HCCL_DATA_TYPE_UINT16;
    case at::kInt:
      return HCCL_DATA_TYPE_INT32;
    case at::kUInt32:
      return HCCL_DATA_TYPE_UINT32;
    case at::kLong:
      return HCCL_DATA_TYPE_INT64;
    case at::kUInt64:
      return HCCL_DATA_TYPE_UINT64;
    case at::kHalf:
    case at::kComplexHalf:
      return HCCL_DATA_TYPE_FP16;
    case at::kBFloat16:
      return HCCL_DATA_TYPE_BFP16;
    case at::kFloat:
    case at::kComplexFloat:
      return HCCL_DATA_TYPE_FP32;
    case at::kDouble:
    case at::kComplexDouble:
      return HCCL_DATA_TYPE_FP64;
    default:
      return HCCL_DATA_TYPE_RESERVED;
  }
}

const char* name_of(c10d::ReduceOp::RedOpType op) {
  constexpr const char* names[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
  return op < std::size(names) ? names[op] : "an unknown operation";
}

}  // namespace

uint64_t moved_factor(at::ScalarType dtype) {
  if (at::isComplexType(dtype)) return 2;
  return data_type(dtype) == HCCL_DATA_TYPE_RESERVED ? c10::elementSize(dtype) : 1;
}

Buffer moved_buffer(const at::Tensor& tensor) {
  const auto dtype = tensor.scalar_type();
  const auto type = data_type(dtype);
  return {tensor.data_ptr(), static_cast<uint64_t>(tensor.numel()) * moved_factor(dtype),
          type == HCCL_DATA_TYPE_RESERVED ? HCCL_DATA_TYPE_UINT8 : type};
}

Reduction::Reduction(const c10d::ReduceOp& op, at::ScalarType dtype, int ranks, const char* where)
    : type_(data_type(dtype)), complex_(at::isComplexType(dtype)), ranks_(ranks) {
  using Op = c10d::ReduceOp;
  const auto kind = static_cast<Op::RedOpType>(op);
  NPU_CHECK_ARGUMENT_TYPE(type_ != HCCL_DATA_TYPE_RESERVED, where, ": HCCL cannot reduce tensors of ", dtype,
                          "; convert to another dtype first");
  NPU_CHECK_ARGUMENT(!complex_ || kind == Op::SUM || kind == Op::AVG || kind == Op::PREMUL_SUM, where, ": ", name_of(kind),
                     " has no meaning for complex tensors");
  const bool logical = dtype == at::kBool;
  switch (kind) {
    case Op::SUM:
      op_ = logical ? HCCL_REDUCE_MAX : HCCL_REDUCE_SUM;
      return;
    case Op::PRODUCT:
      op_ = logical ? HCCL_REDUCE_MIN : HCCL_REDUCE_PROD;
      return;
    case Op::MIN:
      op_ = HCCL_REDUCE_MIN;
      return;
    case Op::MAX:
      op_ = HCCL_REDUCE_MAX;
      return;
    case Op::AVG:
      NPU_CHECK_ARGUMENT_TYPE(!logical, where, ": AVG has no meaning for bool tensors");
      NPU_CHECK_ARGUMENT_TYPE(!at::isBarebonesUnsignedType(dtype), where, ": nothing divides tensors of ", dtype,
                              "; reduce them with SUM, or convert to another dtype first");
      if (type_ == HCCL_DATA_TYPE_FP16) {
        scale_ = true;  // the sum may be beyond 65504 where the average is not
        factor_ = 1.0 / ranks;
      } else {
        divide_ = true;
      }
      return;
    case Op::PREMUL_SUM: {
      NPU_CHECK_ARGUMENT_TYPE(at::isFloatingType(dtype) || complex_, where, ": PREMUL_SUM needs floating-point tensors, got ",
                              dtype);
      const auto* supplement = dynamic_cast<const c10d::NPU_PREMUL_SUPPLEMENT*>(op.supplement_.get());
      NPU_CHECK_ARGUMENT(supplement, where,
                         ": PREMUL_SUM without its factor; make it with torch.distributed._make_nccl_premul_sum");
      scale_ = true;
      tensor_factor_ = supplement->tensor_factor;
      factor_ = supplement->double_factor;
      return;
    }
    default:
      NPU_CHECK_ARGUMENT(false, "Cannot use ReduceOp.", name_of(kind), " with HCCL: ", where,
                         " takes SUM, AVG, PRODUCT, MIN, MAX or PREMUL_SUM");
  }
}

Buffer Reduction::buffer(const at::Tensor& tensor) const {
  return {tensor.data_ptr(), static_cast<uint64_t>(tensor.numel()) * (complex_ ? 2 : 1), type_};
}

at::Tensor Reduction::scaled(const at::Tensor& input) const {
  if (!tensor_factor_.defined()) return at::mul(input, factor_);
  hold_factor();
  return at::mul(input, tensor_factor_).to(input.scalar_type());
}

// The caller may let go of it before the collective's stream, which is the current one, has come to the multiplication.
void Reduction::hold_factor() const {
  if (tensor_factor_.device().is_privateuseone()) {
    memory::record_stream(tensor_factor_.storage().data_ptr(), core::current_stream(tensor_factor_.device().index()));
  }
}

void Reduction::scale(const at::Tensor& tensor) const {
  if (tensor_factor_.defined()) {
    hold_factor();
    tensor.mul_(tensor_factor_);
  } else {
    tensor.mul_(factor_);
  }
}

void Reduction::finish(const at::Tensor& result) const {
  if (!divide_) return;
  if (at::isIntegralType(result.scalar_type(), false)) {
    result.div_(ranks_, "trunc");
  } else {
    result.div_(ranks_);
  }
}

}  // namespace torch_npu::distributed
