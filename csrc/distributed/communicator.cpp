#include "distributed/communicator.h"

#include <chrono>
#include <cstring>

#include <c10/util/Exception.h>

#include "acl/hccl.h"
#include "distributed/ticket.h"

namespace torch_npu::distributed {

Communicator::Communicator(HcclComm comm, core::Stream stream, bool high_priority)
    : comm_(comm), stream_(stream), last_stream_(stream), high_priority_(high_priority) {}

Communicator::~Communicator() { abort(); }

void Communicator::follow(const core::Stream& current) {
  if (current == stream_) return;
  ready_.record(current);
  ready_.block(stream_);
}

void Communicator::come_after_last(const core::Stream& stream, uint64_t capture) {
  if (!last_ || last_stream_ == stream || last_->capture != capture) return;
  if (capture == 0 && last_->query()) return;
  last_->end->block(stream);
}

void Communicator::set_last(std::shared_ptr<Ticket> ticket, const core::Stream& stream) {
  last_ = std::move(ticket);
  last_stream_ = stream;
}

std::optional<Communicator::AsyncError> Communicator::async_error() noexcept {
  try {
    const std::unique_lock<std::timed_mutex> lock(in_use_, std::try_to_lock);
    if (!lock) return std::nullopt;  // somebody queues an operation: the next look will tell
    if (!comm_ || !acl::HcclGetCommAsyncError.available()) return std::nullopt;
    core::DeviceGuard guard(device());
    core::ensure_bound();
    HcclResult error = HCCL_SUCCESS;
    const auto status = acl::HcclGetCommAsyncError(comm_, &error);
    if (status != HCCL_SUCCESS) return AsyncError{kind_of(status), describe_hccl_error(status, "HcclGetCommAsyncError")};
    if (error == HCCL_SUCCESS) return std::nullopt;
    return AsyncError{kind_of(error), describe_hccl_error(error, "the communicator")};
  } catch (const std::exception& error) {
    return AsyncError{c10d::ErrorType::COMM_ERROR, text_of(error)};
  }
}

HcclResult Communicator::end() noexcept {
  // A call that does not return (a full queue behind a lost peer) is what an abort is for: then it ends all the same.
  const std::unique_lock<std::timed_mutex> lock(in_use_, std::chrono::seconds(5));
  if (!comm_ || core::in_bad_fork()) return HCCL_SUCCESS;
  try {
    core::DeviceGuard guard(device());
    core::ensure_bound();
    return acl::HcclCommDestroy(std::exchange(comm_, nullptr));
  } catch (...) {
    return HCCL_SUCCESS;  // CANN is gone (process exit): the communicator went with it
  }
}

void Communicator::destroy() {
  if (!comm_) return;
  const auto status = end();
  if (status == HCCL_SUCCESS) return give_stream(stream_, high_priority_);
  TORCH_WARN("ending a communicator: ", describe_hccl_error(status, "HcclCommDestroy"));
}

void Communicator::abort() noexcept {
  constexpr int32_t kPatienceMs = 2000;
  if (!comm_ || core::in_bad_fork()) return;
  end();
  // The group's exception tells what has failed: a later synchronization of the device is not to tell it again. The stream
  // is not reused: not every CANN forgets its error.
  try {
    core::DeviceGuard guard(device());
    acl::aclrtSynchronizeStreamWithTimeout(stream_.raw(), kPatienceMs);
  } catch (...) {
    // CANN is gone (process exit).
  }
}

HcclCommConfig default_config() {
  HcclCommConfig config;
  std::memset(&config, 0, sizeof config);
  const size_t size = sizeof config;
  const uint32_t magic = HCCL_COMM_CONFIG_MAGIC_WORD, version = HCCL_COMM_CONFIG_VERSION;
  std::memcpy(config.reserved, &size, sizeof size);
  std::memcpy(config.reserved + 8, &magic, sizeof magic);
  std::memcpy(config.reserved + 12, &version, sizeof version);
  config.hcclBufferSize = HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET;
  config.hcclDeterministic = HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET;
  config.hcclOpExpansionMode = HCCL_COMM_DEFAULT_OP_EXPANSION_MODE;
  config.hcclRdmaTrafficClass = HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET;
  config.hcclRdmaServiceLevel = HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET;
  config.hcclExecTimeOut = HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET;
  config.hcclQos = HCCL_COMM_QOS_CONFIG_NOT_SET;
  config.hcclSymWinMaxMemSizePerRank = HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE;
  return config;
}

std::shared_ptr<Communicator> connect(const Rendezvous& rendezvous, const HcclCommConfig& config, bool configured,
                                      core::Stream stream, bool high_priority) {
  HcclRootInfo root;
  if (rendezvous.rank == 0) {
    HCCL_CHECK(acl::HcclGetRootInfo(&root));
    rendezvous.publish(root);
  } else {
    root = rendezvous.fetch();
  }
  HcclComm comm = nullptr;
  if (configured) {
    HCCL_CHECK(acl::HcclCommInitRootInfoConfig(rendezvous.ranks, &root, rendezvous.rank, &config, &comm));
  } else {
    HCCL_CHECK(acl::HcclCommInitRootInfo(rendezvous.ranks, &root, rendezvous.rank, &comm));
  }
  return std::make_shared<Communicator>(comm, stream, high_priority);
}

}  // namespace torch_npu::distributed
