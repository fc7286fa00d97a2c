#include "op/collective.h"

#include <cstring>
#include <new>
#include <numeric>

#include "op/tensor.h"
#include "rt/base/error.h"

namespace softcann::op {
namespace {

thread_local const Stage* current_stage = nullptr;

// Each part begins where a vector of any processor may.
constexpr uint64_t kAlignment = 512;
uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

uint64_t item_bytes(HcclDataType type) {
  switch (type) {
    case HCCL_DATA_TYPE_UINT8:
      return 1;
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_BFP16:
      return 2;
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_FP32:
      return 4;
    default:
      TORCH_INTERNAL_ASSERT(false, "no plan has such a type");
  }
}

uint64_t total(const std::vector<uint64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }

std::vector<uint64_t> places_of(const std::vector<uint64_t>& counts) {
  std::vector<uint64_t> places(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), places.begin(), uint64_t{0});
  return places;
}

at::Tensor view_at(char* address, at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::from_blob(address, sizes, at::TensorOptions(dtype));
}

HcclResult run(const Collectives& hccl, const Exchange& what, char* from, char* to, HcclComm comm, aclrtStream stream) {
  switch (what.kind) {
    case HCCL_CMD_ALLREDUCE:
      return hccl.all_reduce(from, to, what.count, what.type, HCCL_REDUCE_SUM, comm, stream);
    case HCCL_CMD_ALLGATHER:
      return hccl.all_gather(from, to, what.count, what.type, comm, stream);
    case HCCL_CMD_REDUCE_SCATTER:
      return hccl.reduce_scatter(from, to, what.count, what.type, HCCL_REDUCE_SUM, comm, stream);
    default: {
      const std::vector<uint64_t> send_places = places_of(what.sends), receive_places = places_of(what.receives);
      return hccl.all_to_all_v(from, what.sends.data(), send_places.data(), what.type, to, what.receives.data(),
                               receive_places.data(), what.type, comm, stream);
    }
  }
}

}  // namespace

uint64_t Exchange::send_bytes(uint32_t ranks) const {
  const uint64_t elements = kind == HCCL_CMD_ALLTOALLV ? total(sends) : kind == HCCL_CMD_REDUCE_SCATTER ? count * ranks : count;
  return elements * item_bytes(type);
}

uint64_t Exchange::receive_bytes(uint32_t ranks) const {
  const uint64_t elements = kind == HCCL_CMD_ALLTOALLV ? total(receives) : kind == HCCL_CMD_ALLGATHER ? count * ranks : count;
  return elements * item_bytes(type);
}

uint64_t Plan::send_place(size_t i) const {
  uint64_t place = 0;
  for (size_t before = 0; before < i; ++before) {
    const Exchange& one = exchanges[before];
    const uint32_t among = communicator(one.among).ranks;
    place += aligned(one.send_bytes(among));
    if (!one.in_place()) place += aligned(one.receive_bytes(among));
  }
  return place;
}

uint64_t Plan::receive_place(size_t i) const {
  const Exchange& one = exchanges[i];
  return one.in_place() ? send_place(i) : send_place(i) + aligned(one.send_bytes(communicator(one.among).ranks));
}

Communicator communicator_called(const char* group) {
  const Collectives* hccl = collectives();
  if (hccl == nullptr) invalid("libhccl is not loaded, so there is no communicator called '%s'", group);
  Communicator found{group, 0, 0};
  if (hccl->find("phase 1", group, &found.ranks, &found.rank) == nullptr) {
    invalid("the current device has no communicator called '%s'; HcclGetCommName tells a communicator's name", group);
  }
  return found;
}

Exchange gather_bytes(int64_t count) { return {HCCL_CMD_ALLGATHER, HCCL_DATA_TYPE_UINT8, static_cast<uint64_t>(count), {}, {}}; }

void require_absent(const at::Tensor& tensor, const char* what) {
  if (tensor.defined() && tensor.numel() != 0) invalid("%s is not supported", what);
}

void require_sum(const char* op) {
  if (*op != 0 && std::strcmp(op, "sum") != 0) invalid("reduceOp '%s': only sum is supported", op);
}

Exchange sum_of(HcclCMDType kind, at::ScalarType dtype, int64_t count) {
  const HcclDataType type = dtype == at::kFloat  ? HCCL_DATA_TYPE_FP32
                            : dtype == at::kHalf ? HCCL_DATA_TYPE_FP16
                            : dtype == at::kInt  ? HCCL_DATA_TYPE_INT32
                                                 : HCCL_DATA_TYPE_BFP16;
  if (type == HCCL_DATA_TYPE_BFP16 && dtype != at::kBFloat16) invalid("results of %s cannot be added up", c10::toString(dtype));
  return {kind, type, static_cast<uint64_t>(count), {}, {}};
}

Exchange rows_of(uint64_t row_bytes, std::vector<uint64_t> sends, std::vector<uint64_t> receives) {
  for (uint64_t& count : sends) count *= row_bytes;
  for (uint64_t& count : receives) count *= row_bytes;
  return {HCCL_CMD_ALLTOALLV, HCCL_DATA_TYPE_UINT8, 0, std::move(sends), std::move(receives)};
}

at::Tensor Stage::sent(at::IntArrayRef sizes, at::ScalarType dtype) const {
  return view_at(workspace + plan.send_place(number), sizes, dtype);
}

at::Tensor Stage::received(size_t exchange, at::IntArrayRef sizes, at::ScalarType dtype) const {
  return view_at(workspace + plan.receive_place(exchange), sizes, dtype);
}

const Stage& stage() { return *current_stage; }

StageScope::StageScope(const aclOpExecutor& executor) : entered_(executor.plan != nullptr) {
  if (entered_) current_stage = new (storage_) Stage{executor.stage, *executor.plan, executor.workspace};
}

StageScope::~StageScope() {
  if (entered_) current_stage = nullptr;
}

aclnnStatus check_workspace(const OpInfo& info, const Plan& plan, const void* workspace, uint64_t bytes) {
  const uint64_t needed = plan.workspace();
  if (needed != 0 && workspace == nullptr) return fail(ACLNN_ERR_PARAM_NULLPTR, "%s: workspace is null", info.name);
  if (bytes < needed) {
    return fail(ACLNN_ERR_PARAM_INVALID, "%s: the workspace has %llu bytes, phase 1 asked for %llu", info.name,
                static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(needed));
  }
  return ACLNN_SUCCESS;
}

Handles handles_of(const OpInfo& info, const Plan& plan, aclnnStatus* status) {
  Handles comms{};
  for (size_t which = 0; which < (plan.second ? 2 : 1); ++which) {
    const Communicator& planned = plan.communicator(which);
    uint32_t ranks = 0, rank = 0;
    comms[which] = collectives()->find(info.name, planned.group, &ranks, &rank);
    if (comms[which] == nullptr || ranks != planned.ranks) *status = ACLNN_ERR_PARAM_INVALID;
  }
  return comms;
}

aclnnStatus exchange(const OpInfo& info, const Plan& plan, uint32_t number, char* workspace, const Handles& comms,
                     aclrtStream stream) {
  const Exchange& one = plan.exchanges[number];
  const HcclResult result = run(*collectives(), one, workspace + plan.send_place(number), workspace + plan.receive_place(number),
                                comms[one.among], stream);
  if (result == HCCL_SUCCESS) return ACLNN_SUCCESS;
  const std::string cause = take_recent_error();
  return fail(ACLNN_ERR_INNER, "%s: %s", info.name, cause.c_str());
}

}  // namespace softcann::op
