// Collectives on whole tensors: one buffer in, one buffer out.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include "acl/hccl.h"
#include "core/compat.h"
#include "distributed/batch.h"
#include "distributed/enqueue.h"
#include "distributed/error.h"
#include "distributed/types.h"

namespace torch_npu::distributed {
namespace {

using c10d::OpType;

// A tensor whose memory HCCL may write in one piece: itself, or a stand-in that is copied back.
class Target {
 public:
  // `filled`: what is in the tensor matters.
  Target(const at::Tensor& tensor, bool filled)
      : tensor_(tensor),
        flat_(tensor.is_contiguous() ? tensor
              : filled               ? tensor.contiguous()
                                     : at::empty(tensor.sizes(), tensor.options())) {}
  const at::Tensor& flat() const { return flat_; }
  void write_back() const {
    if (!flat_.is_same(tensor_)) tensor_.copy_(flat_);
  }

 private:
  const at::Tensor& tensor_;
  at::Tensor flat_;
};

void launch_all_reduce(const at::Tensor& tensor, const Reduction& reduction, HcclComm comm, aclrtStream stream) {
  if (tensor.numel() == 0) return;
  const Target target(tensor, true);
  if (reduction.scales_input()) reduction.scale(target.flat());
  const auto buffer = reduction.buffer(target.flat());
  enqueue(acl::HcclAllReduce, buffer.data, buffer.data, buffer.count, buffer.type, reduction.op(), comm, stream);
  reduction.finish(target.flat());
  target.write_back();
}

void launch_all_gather(const at::Tensor& output, const at::Tensor& input, HcclComm comm, aclrtStream stream) {
  if (input.numel() == 0) return;
  const Target target(output, false);
  const auto source = input.contiguous();
  const auto from = moved_buffer(source), to = moved_buffer(target.flat());
  enqueue(acl::HcclAllGather, from.data, to.data, from.count, from.type, comm, stream);
  target.write_back();
}

void launch_reduce_scatter(const at::Tensor& output, const at::Tensor& input, const Reduction& reduction, HcclComm comm,
                           aclrtStream stream) {
  if (output.numel() == 0) return;
  const Target target(output, false);
  const auto source = reduction.scales_input() ? reduction.scaled(input.contiguous()) : input.contiguous();
  const auto from = reduction.buffer(source), to = reduction.buffer(target.flat());
  enqueue(acl::HcclReduceScatter, from.data, to.data, to.count, to.type, reduction.op(), comm, stream);
  reduction.finish(target.flat());
  target.write_back();
}

// Each rank's part becomes part of the whole.
void check_gathered(const at::Tensor& output, const at::Tensor& input, int ranks, const char* name) {
  NPU_CHECK_ARGUMENT_TYPE(output.scalar_type() == input.scalar_type(),
                          "output tensor must have the same type as input tensor: ", name, " got ", output.scalar_type(), " and ",
                          input.scalar_type());
  NPU_CHECK_ARGUMENT(output.numel() == input.numel() * ranks,
                     "output tensor size must be equal to world_size times input tensor size: ", name, " got ", output.numel(),
                     " elements on one side, which are not ", ranks, " times the ", input.numel(), " on the other");
}

// The whole is cut into each rank's part.
void check_scattered(const at::Tensor& output, const at::Tensor& input, int ranks, const char* name) {
  NPU_CHECK_ARGUMENT_TYPE(output.scalar_type() == input.scalar_type(),
                          "input tensor must be the same type as the output tensor: ", name, " got ", input.scalar_type(),
                          " and ", output.scalar_type());
  NPU_CHECK_ARGUMENT(input.numel() == output.numel() * ranks,
                     "input tensor must be the same size as output size times world size: ", name, " got ", input.numel(),
                     " elements on one side, which are not ", ranks, " times the ", output.numel(), " on the other");
}

}  // namespace

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allreduce(std::vector<at::Tensor>& tensors,
                                                           const c10d::AllreduceOptions& options) {
  const auto& tensor = only(tensors, "all_reduce");
  const Reduction reduction(options.reduceOp, tensor.scalar_type(), size_, "all_reduce");
  return run({OpType::ALLREDUCE, "all_reduce", options.timeout, options.asyncOp}, tensors, tensors,
             [&](HcclComm comm, aclrtStream stream) { launch_all_reduce(tensor, reduction, comm, stream); });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                                                     const c10d::AllreduceCoalescedOptions& options) {
  return run({OpType::ALLREDUCE_COALESCED, "allreduce_coalesced", options.timeout, options.asyncOp}, tensors, tensors,
             [&](HcclComm comm, aclrtStream stream) {
               for (const auto& tensor : tensors) {
                 launch_all_reduce(tensor, Reduction(options.reduceOp, tensor.scalar_type(), size_, "allreduce_coalesced"), comm,
                                   stream);
               }
             });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::broadcast(std::vector<at::Tensor>& tensors,
                                                           const c10d::BroadcastOptions& options) {
  const auto& tensor = only(tensors, "broadcast");
  const auto root = options.rootRank;
  NPU_CHECK_ARGUMENT(root >= 0 && root < size_, "broadcast: root ", root, " in a group of ", size_);
  return run({OpType::BROADCAST, "broadcast", options.timeout, options.asyncOp, static_cast<int>(root)}, tensors, tensors,
             [&](HcclComm comm, aclrtStream stream) {
               if (tensor.numel() == 0) return;
               const Target target(tensor, root == rank_);
               const auto buffer = moved_buffer(target.flat());
               enqueue(acl::HcclBroadcast, buffer.data, buffer.count, buffer.type, static_cast<uint32_t>(root), comm, stream);
               if (root != rank_) target.write_back();
             });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::reduce(std::vector<at::Tensor>& tensors, const c10d::ReduceOptions& options) {
  const auto& tensor = only(tensors, "reduce");
  const auto root = options.rootRank;
  NPU_CHECK_ARGUMENT(root >= 0 && root < size_, "reduce: root ", root, " in a group of ", size_);
  const Reduction reduction(options.reduceOp, tensor.scalar_type(), size_, "reduce");
  return run({OpType::REDUCE, "reduce", options.timeout, options.asyncOp, static_cast<int>(root)}, tensors, tensors,
             [&](HcclComm comm, aclrtStream stream) {
               if (tensor.numel() == 0) return;
               // Only the root's tensor changes.
               const auto source = reduction.scales_input() ? reduction.scaled(tensor.contiguous()) : tensor.contiguous();
               const Target target(tensor, false);
               const auto from = reduction.buffer(source), to = reduction.buffer(root == rank_ ? target.flat() : source);
               enqueue(acl::HcclReduce, from.data, to.data, from.count, from.type, reduction.op(), static_cast<uint32_t>(root),
                       comm, stream);
               if (root != rank_) return;
               reduction.finish(target.flat());
               target.write_back();
             });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                                 const c10d::AllgatherOptions& options) {
  check_gathered(output, input, size_, "all_gather_into_tensor");
  return run({OpType::_ALLGATHER_BASE, "_all_gather_base", options.timeout, options.asyncOp}, input, output,
             [&](HcclComm comm, aclrtStream stream) { launch_all_gather(output, input, comm, stream); });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allgather_into_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                                                 std::vector<at::Tensor>& inputs,
                                                                                 const c10d::AllgatherOptions& options) {
  NPU_CHECK_ARGUMENT(outputs.size() == inputs.size(), "all_gather_into_tensor_coalesced: ", outputs.size(), " outputs for ",
                     inputs.size(), " inputs");
  for (size_t i = 0; i < inputs.size(); ++i) check_gathered(outputs[i], inputs[i], size_, "all_gather_into_tensor_coalesced");
  return run({OpType::COALESCED, "all_gather_into_tensor_coalesced", options.timeout, options.asyncOp}, inputs, outputs,
             [&](HcclComm comm, aclrtStream stream) {
               for (size_t i = 0; i < inputs.size(); ++i) launch_all_gather(outputs[i], inputs[i], comm, stream);
             });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                      const c10d::ReduceScatterOptions& options) {
  check_scattered(output, input, size_, "reduce_scatter_tensor");
  const Reduction reduction(options.reduceOp, output.scalar_type(), size_, "reduce_scatter_tensor");
  return run({OpType::_REDUCE_SCATTER_BASE, "_reduce_scatter_base", options.timeout, options.asyncOp}, input, output,
             [&](HcclComm comm, aclrtStream stream) { launch_reduce_scatter(output, input, reduction, comm, stream); });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::reduce_scatter_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                                                 std::vector<at::Tensor>& inputs,
                                                                                 const c10d::ReduceScatterOptions& options) {
  NPU_CHECK_ARGUMENT(outputs.size() == inputs.size(), "reduce_scatter_tensor_coalesced: ", outputs.size(), " outputs for ",
                     inputs.size(), " inputs");
  for (size_t i = 0; i < inputs.size(); ++i) check_scattered(outputs[i], inputs[i], size_, "reduce_scatter_tensor_coalesced");
  return run({OpType::NPU_REDUCE_SCATTER_TENSOR_COALESCED, "reduce_scatter_tensor_coalesced", options.timeout, options.asyncOp},
             inputs, outputs, [&](HcclComm comm, aclrtStream stream) {
               for (size_t i = 0; i < inputs.size(); ++i) {
                 const Reduction reduction(options.reduceOp, outputs[i].scalar_type(), size_, "reduce_scatter_tensor_coalesced");
                 launch_reduce_scatter(outputs[i], inputs[i], reduction, comm, stream);
               }
             });
}

}  // namespace torch_npu::distributed
