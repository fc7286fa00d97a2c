// Data transfer between processes by its older name (libllm_datadist): the functions are those of hixl::Hixl.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "adxl/adxl_types.h"

namespace adxl {

class __attribute__((visibility("default"))) AdxlEngine {
 public:
  AdxlEngine();
  ~AdxlEngine();

  Status Initialize(const AscendString& local_engine, const std::map<AscendString, AscendString>& options);
  void Finalize();
  Status RegisterMem(const MemDesc& mem, MemType type, MemHandle& mem_handle);
  Status DeregisterMem(MemHandle mem_handle);
  Status Connect(const AscendString& remote_engine, int32_t timeout_in_millis = 1000);
  Status Disconnect(const AscendString& remote_engine, int32_t timeout_in_millis = 1000);
  Status TransferSync(const AscendString& remote_engine, TransferOp operation, const std::vector<TransferOpDesc>& op_descs,
                      int32_t timeout_in_millis = 1000);
  Status TransferAsync(const AscendString& remote_engine, TransferOp operation, const std::vector<TransferOpDesc>& op_descs,
                       const TransferArgs& optional_args, TransferReq& req);
  Status GetTransferStatus(const TransferReq& req, TransferStatus& status);
  Status SendNotify(const AscendString& remote_engine, const NotifyDesc& notify, int32_t timeout_in_millis = 1000);
  Status GetNotifies(std::vector<NotifyDesc>& notifies);
  static Status GetCapability(FeatureType feature_type, int32_t& value);

 private:
  class AdxlEngineImpl;
  std::unique_ptr<AdxlEngineImpl> impl_;
};

}  // namespace adxl
