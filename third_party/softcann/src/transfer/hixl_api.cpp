// The interface of libcann_hixl.
#include "hixl/hixl.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rt/runtime.h"
#include "transfer/engine.h"

using softcann::fail;
using softcann::transfer::Connecting;
using softcann::transfer::Engine;
using softcann::transfer::EngineName;
using softcann::transfer::Notify;
using softcann::transfer::Settings;

namespace hixl {

class Hixl::HixlImpl : public Engine {
 public:
  using Engine::Engine;
};

namespace {

std::string text_of(const AscendString& text) { return text.GetString() == nullptr ? "" : text.GetString(); }

// No engine yet, or no time: what each call looks at first.
Status refuse_early(const char* entry, bool is_ready, int32_t timeout_ms = 1) {
  if (!is_ready) {
    fail(static_cast<int>(FAILED), "%s: the engine was not initialized", entry);
    return FAILED;
  }
  if (timeout_ms > 0) return SUCCESS;
  fail(static_cast<int>(PARAM_INVALID), "%s: timeout_in_millis is %d; above 0 is expected", entry, timeout_ms);
  return PARAM_INVALID;
}

}  // namespace

// Names the call for faults, traces and errors.
#define HIXL_ENTRY(name, ...)            \
  SOFTCANN_ENTRY_AS(Status, Hixl##name); \
  constexpr const char* entry = #name;   \
  if (const Status wrong = refuse_early(entry, impl_ != nullptr __VA_OPT__(, ) __VA_ARGS__)) return wrong

Hixl::Hixl() = default;
Hixl::~Hixl() = default;

Status Hixl::Initialize(const AscendString& local_engine, const std::map<AscendString, AscendString>& options) {
  SOFTCANN_ENTRY_AS(Status, HixlInitialize);
  if (softcann::current_device() < 0) {
    fail(static_cast<int>(FAILED), "Initialize: no device is set: call aclrtSetDevice first");
    return FAILED;
  }
  const auto name = EngineName::parse(text_of(local_engine));
  if (!name) {
    fail(static_cast<int>(PARAM_INVALID), "Initialize: %s is no address:port", text_of(local_engine).c_str());
    return PARAM_INVALID;
  }
  Settings settings;
  if (const Status wrong = settings.parse("Initialize", options)) return wrong;
  auto made = std::make_unique<HixlImpl>(*name, settings);
  if (const Status wrong = made->start("Initialize")) return wrong;
  impl_ = std::move(made);
  return SUCCESS;
}

void Hixl::Finalize() {
  SOFTCANN_ENTRY_VALUE(HixlFinalize, );
  impl_.reset();
}

Status Hixl::RegisterMem(const MemDesc& mem, MemType type, MemHandle& mem_handle) {
  HIXL_ENTRY(RegisterMem);
  return impl_->add_memory(entry, mem, type, &mem_handle);
}

Status Hixl::DeregisterMem(MemHandle mem_handle) {
  HIXL_ENTRY(DeregisterMem);
  return impl_->remove_memory(entry, mem_handle);
}

Status Hixl::Connect(const AscendString& remote_engine, int32_t timeout_in_millis) {
  HIXL_ENTRY(Connect, timeout_in_millis);
  return impl_->connect(entry, text_of(remote_engine), timeout_in_millis);
}

Status Hixl::Disconnect(const AscendString& remote_engine, int32_t timeout_in_millis) {
  HIXL_ENTRY(Disconnect, timeout_in_millis);
  return impl_->disconnect(entry, text_of(remote_engine));
}

Status Hixl::ConnectAsync(const AscendString& remote_engine, int32_t timeout_in_millis) {
  HIXL_ENTRY(ConnectAsync, timeout_in_millis);
  return impl_->connect_later(entry, text_of(remote_engine), timeout_in_millis);
}

Status Hixl::DisconnectAsync(const AscendString& remote_engine, int32_t timeout_in_millis) {
  HIXL_ENTRY(DisconnectAsync, timeout_in_millis);
  return impl_->disconnect_later(entry, text_of(remote_engine));
}

Status Hixl::GetAsyncConnectStatus(const AscendString& remote_engine, AsyncConnectStatus& status) {
  HIXL_ENTRY(GetAsyncConnectStatus);
  const auto all = impl_->connecting();
  const auto found = all.find(text_of(remote_engine));
  status = found == all.end() ? AsyncConnectStatus::NOT_CONNECT : found->second;
  return SUCCESS;
}

Status Hixl::GetAsyncConnectStatus(std::map<AscendString, AsyncConnectStatus>& statuses) {
  HIXL_ENTRY(GetAsyncConnectStatus);
  statuses.clear();
  for (const auto& [remote, status] : impl_->connecting()) statuses.emplace(remote.c_str(), status);
  return SUCCESS;
}

Status Hixl::TransferSync(const AscendString& remote_engine, TransferOp operation, const std::vector<TransferOpDesc>& op_descs,
                          int32_t timeout_in_millis) {
  HIXL_ENTRY(TransferSync, timeout_in_millis);
  return impl_->transfer(entry, text_of(remote_engine), operation, op_descs, timeout_in_millis);
}

Status Hixl::TransferAsync(const AscendString& remote_engine, TransferOp operation, const std::vector<TransferOpDesc>& op_descs,
                           const TransferArgs& optional_args, TransferReq& req) {
  HIXL_ENTRY(TransferAsync);
  return impl_->transfer_later(entry, text_of(remote_engine), operation, op_descs, optional_args.user_data, &req);
}

Status Hixl::GetTransferStatus(const TransferReq& req, TransferStatus& status) {
  HIXL_ENTRY(GetTransferStatus);
  if (req == nullptr) {
    fail(static_cast<int>(FAILED), "GetTransferStatus: the request is a null pointer");
    return FAILED;
  }
  return impl_->look(entry, req, &status);
}

Status Hixl::GetTransferStatus(const GetTransferStatusArgs& args, std::vector<TransferResult>& results) {
  HIXL_ENTRY(GetTransferStatus);
  return impl_->look_at_all(entry, args, &results);
}

Status Hixl::SendNotify(const AscendString& remote_engine, const NotifyDesc& notify, int32_t timeout_in_millis) {
  HIXL_ENTRY(SendNotify, timeout_in_millis);
  return impl_->notify(entry, text_of(remote_engine), text_of(notify.name), text_of(notify.notify_msg), timeout_in_millis);
}

Status Hixl::GetNotifies(std::vector<NotifyDesc>& notifies) {
  HIXL_ENTRY(GetNotifies);
  notifies.clear();
  for (const Notify& notify : impl_->take_notifies()) notifies.push_back({notify.name.c_str(), notify.text.c_str()});
  return SUCCESS;
}

Status Hixl::GetCapability(FeatureType feature_type, int32_t& value) {
  if (feature_type < 0) return PARAM_INVALID;
  value = feature_type == AUTO_CONNECT || feature_type == CLIENT_SERVER_COMM ? FEATURE_SUPPORTED : FEATURE_NOT_SUPPORTED;
  return SUCCESS;
}

}  // namespace hixl
