// Operators that communicate. See Note [Operators that communicate].
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <vector>

#include "op/kernel.h"
#include "rt/collectives.h"

namespace softcann::op {

// Note [Operators that communicate]
// Such an operator names a communicator. Phase 1 makes a plan: which collectives run, of how many elements. The kernel runs in
// stages, one more than there are collectives: each but the last fills what the next collective sends, each but the first finds
// what the last one has received. What is sent and received lies in the workspace, which is the client's, so that a stage is a
// task of the stream like any other, and the collectives are those that clients call: in the same order at all ranks, with the
// same errors. Stages follow each other: slices whose collectives run beside the next slice's product gain nothing where the
// ranks share their processors, which docs/performance.md has the figures of.
//
// OP_COLLECTIVE(aclnnX, plan(group, x)) { switch (stage().number) ... }
struct Exchange {
  HcclCMDType kind;  // ALLREDUCE, ALLGATHER, REDUCE_SCATTER, ALLTOALLV
  HcclDataType type;
  uint64_t count;                         // as in the collective's call; 0 for ALLTOALLV
  std::vector<uint64_t> sends, receives;  // ALLTOALLV: elements by rank
  size_t among = 0;                       // which of the plan's communicators

  // The sum takes the place of the addend.
  bool in_place() const { return kind == HCCL_CMD_ALLREDUCE; }
  uint64_t send_bytes(uint32_t ranks) const;
  uint64_t receive_bytes(uint32_t ranks) const;
};

struct Communicator {
  const char* group;
  uint32_t ranks, rank;
};

// Of one communicator, or of two, the operator's own and `second`.
struct Plan : Communicator {
  std::vector<Exchange> exchanges;
  std::optional<Communicator> second;

  const Communicator& communicator(size_t which) const { return which == 0 ? *this : *second; }

  // Where what exchange `i` sends lies in the workspace, and what it receives.
  uint64_t send_place(size_t i) const;
  uint64_t receive_place(size_t i) const;
  uint64_t workspace() const { return send_place(exchanges.size()); }
};

// Throws where this process has no communicator called `group`, which refuses phase 1.
Communicator communicator_called(const char* group);
// A plan without exchanges.
inline Plan plan_of(const char* group) { return {communicator_called(group), {}, std::nullopt}; }
// Bytes that each rank gives to all.
Exchange gather_bytes(int64_t count);
inline int64_t bytes_of(const at::Tensor& tensor) { return tensor.numel() * static_cast<int64_t>(tensor.itemsize()); }
inline int64_t bytes_of_row(const at::Tensor& tensor) { return tensor.size(-1) * static_cast<int64_t>(tensor.itemsize()); }
// The sum of as many elements of this dtype: at all ranks, or a part of `count` at each.
Exchange sum_of(HcclCMDType kind, at::ScalarType dtype, int64_t count);
// Rows of `row_bytes`, so many to and from each rank.
Exchange rows_of(uint64_t row_bytes, std::vector<uint64_t> sends, std::vector<uint64_t> receives);

// Phase 1's refusal of an argument that softcann does not serve.
void require_absent(const at::Tensor& tensor, const char* what);
// The same of a reduceOp; an empty one is the sum.
void require_sum(const char* op);

// The stage of the kernel that runs on this thread.
struct Stage {
  uint32_t number;
  const Plan& plan;
  char* workspace;

  // What exchange `number` will send, to be written; and what one before has received.
  at::Tensor sent(at::IntArrayRef sizes, at::ScalarType dtype) const;
  at::Tensor received(size_t exchange, at::IntArrayRef sizes, at::ScalarType dtype) const;
};
const Stage& stage();

// Makes stage() known while a kernel runs; nothing for operators without a plan.
class StageScope {
 public:
  explicit StageScope(const aclOpExecutor& executor);
  ~StageScope();
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  alignas(Stage) char storage_[sizeof(Stage)];
  bool entered_;
};

// For launch_in_stages().
aclnnStatus check_workspace(const OpInfo& info, const Plan& plan, const void* workspace, uint64_t bytes);
// By the numbers of Exchange::among.
using Handles = std::array<HcclComm, 2>;
Handles handles_of(const OpInfo& info, const Plan& plan, aclnnStatus* status);
aclnnStatus exchange(const OpInfo& info, const Plan& plan, uint32_t number, char* workspace, const Handles& comms,
                     aclrtStream stream);

template <auto Make>
constexpr OpInfo with_plan(OpInfo info) {
  info.plan = &call<Make>;
  return info;
}

}  // namespace softcann::op

#define OP_COLLECTIVE(NAME, ...)                                                                             \
  static ::softcann::op::Plan NAME##_plan(SOFTCANN_PARAMS_##NAME) { return __VA_ARGS__; }                    \
  static void NAME##_kernel(SOFTCANN_PARAMS_##NAME);                                                         \
  static const ::softcann::op::OpInfo NAME##_info = ::softcann::op::with_plan<&NAME##_plan>(                 \
      ::softcann::op::make_info<&NAME##_kernel, nullptr, nullptr>(#NAME, SOFTCANN_CONTRACT_##NAME));         \
  extern "C" SOFTCANN_API aclnnStatus NAME##GetWorkspaceSize(ACLNN_PARAMS_##NAME, uint64_t* workspaceSize,   \
                                                             aclOpExecutor** executor) {                     \
    SOFTCANN_ENTRY(NAME##GetWorkspaceSize);                                                                  \
    return ::softcann::op::prepare(NAME##_info, workspaceSize, executor, ACLNN_ARGS_##NAME);                 \
  }                                                                                                          \
  extern "C" SOFTCANN_API aclnnStatus NAME(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, \
                                           aclrtStream stream) {                                             \
    SOFTCANN_ENTRY(NAME);                                                                                    \
    return ::softcann::op::launch_in_stages(NAME##_info, executor, workspace, workspaceSize, stream);        \
  }                                                                                                          \
  static void NAME##_kernel(SOFTCANN_PARAMS_##NAME)
