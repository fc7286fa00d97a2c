// The interface by its older name (libllm_datadist): all of it is libcann_hixl's.
#include "adxl/adxl_engine.h"
#include "hixl/hixl.h"

#include <cstring>

#include "rt/runtime.h"

namespace adxl {
namespace {

static_assert(PARAM_INVALID == hixl::PARAM_INVALID && RESOURCE_EXHAUSTED == hixl::RESOURCE_EXHAUSTED);
static_assert(sizeof(TransferArgs) == sizeof(hixl::TransferArgs));
static_assert(static_cast<int>(MEM_HOST) == hixl::MEM_HOST && static_cast<int>(WRITE) == hixl::WRITE);

std::vector<hixl::TransferOpDesc> pieces_of(const std::vector<TransferOpDesc>& pieces) {
  std::vector<hixl::TransferOpDesc> same;
  same.reserve(pieces.size());
  for (const TransferOpDesc& piece : pieces) same.push_back({piece.local_addr, piece.remote_addr, piece.len});
  return same;
}

}  // namespace

class AdxlEngine::AdxlEngineImpl : public hixl::Hixl {};

// The first calls of an engine may be any: they are then told that it was not initialized.
AdxlEngine::AdxlEngine() : impl_(std::make_unique<AdxlEngineImpl>()) {}
AdxlEngine::~AdxlEngine() = default;

Status AdxlEngine::Initialize(const AscendString& local_engine, const std::map<AscendString, AscendString>& options) {
  impl_->Finalize();  // the same name again is this engine's own
  return impl_->Initialize(local_engine, options);
}

void AdxlEngine::Finalize() { impl_->Finalize(); }

Status AdxlEngine::RegisterMem(const MemDesc& mem, MemType type, MemHandle& mem_handle) {
  return impl_->RegisterMem({mem.addr, mem.len, {}}, static_cast<hixl::MemType>(type), mem_handle);
}

Status AdxlEngine::DeregisterMem(MemHandle mem_handle) { return impl_->DeregisterMem(mem_handle); }

Status AdxlEngine::Connect(const AscendString& remote_engine, int32_t timeout_in_millis) {
  return impl_->Connect(remote_engine, timeout_in_millis);
}

Status AdxlEngine::Disconnect(const AscendString& remote_engine, int32_t timeout_in_millis) {
  return impl_->Disconnect(remote_engine, timeout_in_millis);
}

Status AdxlEngine::TransferSync(const AscendString& remote_engine, TransferOp operation,
                                const std::vector<TransferOpDesc>& op_descs, int32_t timeout_in_millis) {
  return impl_->TransferSync(remote_engine, static_cast<hixl::TransferOp>(operation), pieces_of(op_descs), timeout_in_millis);
}

Status AdxlEngine::TransferAsync(const AscendString& remote_engine, TransferOp operation,
                                 const std::vector<TransferOpDesc>& op_descs, const TransferArgs&, TransferReq& req) {
  return impl_->TransferAsync(remote_engine, static_cast<hixl::TransferOp>(operation), pieces_of(op_descs), {}, req);
}

Status AdxlEngine::GetTransferStatus(const TransferReq& req, TransferStatus& status) {
  hixl::TransferStatus found = hixl::TransferStatus::FAILED;
  const Status code = impl_->GetTransferStatus(req, found);
  status = static_cast<TransferStatus>(found);
  return code;
}

Status AdxlEngine::SendNotify(const AscendString& remote_engine, const NotifyDesc& notify, int32_t timeout_in_millis) {
  return impl_->SendNotify(remote_engine, {notify.name, notify.notify_msg}, timeout_in_millis);
}

Status AdxlEngine::GetNotifies(std::vector<NotifyDesc>& notifies) {
  std::vector<hixl::NotifyDesc> found;
  const Status code = impl_->GetNotifies(found);
  for (const hixl::NotifyDesc& notify : found) notifies.push_back({notify.name, notify.notify_msg});
  return code;
}

Status AdxlEngine::GetCapability(FeatureType feature_type, int32_t& value) {
  return hixl::Hixl::GetCapability(static_cast<hixl::FeatureType>(feature_type), value);
}

}  // namespace adxl
