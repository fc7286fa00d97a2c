// Data transfer between processes (libcann_hixl). Times are milliseconds.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "hixl/hixl_types.h"

namespace hixl {

class __attribute__((visibility("default"))) Hixl {
 public:
  Hixl();
  ~Hixl();

  // `local_engine` is address:port, an IPv6 address in brackets; without a port, or with one that is not above 0, nobody can
  // connect to it.
  Status Initialize(const AscendString& local_engine, const std::map<AscendString, AscendString>& options);
  void Finalize();

  // The same memory again gives the same handle.
  Status RegisterMem(const MemDesc& mem, MemType type, MemHandle& mem_handle);
  Status DeregisterMem(MemHandle mem_handle);

  Status Connect(const AscendString& remote_engine, int32_t timeout_in_millis = 1000);
  Status Disconnect(const AscendString& remote_engine, int32_t timeout_in_millis = 1000);
  Status ConnectAsync(const AscendString& remote_engine, int32_t timeout_in_millis = 1000);
  Status DisconnectAsync(const AscendString& remote_engine, int32_t timeout_in_millis = 1000);
  Status GetAsyncConnectStatus(const AscendString& remote_engine, AsyncConnectStatus& status);
  Status GetAsyncConnectStatus(std::map<AscendString, AsyncConnectStatus>& statuses);

  Status TransferSync(const AscendString& remote_engine, TransferOp operation, const std::vector<TransferOpDesc>& op_descs,
                      int32_t timeout_in_millis = 1000);
  Status TransferAsync(const AscendString& remote_engine, TransferOp operation, const std::vector<TransferOpDesc>& op_descs,
                       const TransferArgs& optional_args, TransferReq& req);
  // What has ended is told once.
  Status GetTransferStatus(const TransferReq& req, TransferStatus& status);
  Status GetTransferStatus(const GetTransferStatusArgs& args, std::vector<TransferResult>& results);

  Status SendNotify(const AscendString& remote_engine, const NotifyDesc& notify, int32_t timeout_in_millis = 1000);
  // Those that have come since the last call.
  Status GetNotifies(std::vector<NotifyDesc>& notifies);

  static Status GetCapability(FeatureType feature_type, int32_t& value);

 private:
  class HixlImpl;
  std::unique_ptr<HixlImpl> impl_;
};

}  // namespace hixl
