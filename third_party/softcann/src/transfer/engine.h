// An engine: what it has registered, those connected to it, and its connections to others.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transfer/connecting.h"
#include "transfer/link.h"
#include "transfer/memory_table.h"
#include "transfer/server.h"
#include "transfer/settings.h"

namespace softcann::transfer {

class Engine {
 public:
  using Status = hixl::Status;
  using Pieces = std::vector<hixl::TransferOpDesc>;

  Engine(EngineName name, Settings settings)
      : name_(std::move(name)), settings_(settings), server_(memory_, settings.buffer_pool) {}
  ~Engine();

  Status start(const char* entry);
  Status add_memory(const char* entry, const hixl::MemDesc& memory, hixl::MemType type, void** handle);
  Status remove_memory(const char* entry, void* handle);
  Status connect(const char* entry, const std::string& remote, int32_t timeout_ms);
  Status disconnect(const char* entry, const std::string& remote);
  Status connect_later(const char* entry, const std::string& remote, int32_t timeout_ms);
  Status disconnect_later(const char* entry, const std::string& remote);
  std::map<std::string, Connecting::Status> connecting() const { return connecting_.statuses(); }
  Status transfer(const char* entry, const std::string& remote, hixl::TransferOp operation, const Pieces& pieces,
                  int32_t timeout_ms);
  Status transfer_later(const char* entry, const std::string& remote, hixl::TransferOp operation, const Pieces& pieces,
                        const void* user_data, void** request);
  Status look(const char* entry, void* request, hixl::TransferStatus* status);
  Status look_at_all(const char* entry, const hixl::GetTransferStatusArgs& args, std::vector<hixl::TransferResult>* results);
  Status notify(const char* entry, const std::string& remote, const std::string& name, const std::string& text,
                int32_t timeout_ms);
  std::vector<Notify> take_notifies() { return server_.take_notifies(); }

 private:
  // The connection to that engine; made now if the settings say so. Null with *status.
  std::shared_ptr<Link> find(const char* entry, const std::string& remote, int64_t deadline_ns, Status* status);
  std::shared_ptr<Link> make(const char* entry, const std::string& remote, int64_t deadline_ns, Status* status);
  Status check(const char* entry, const Link& link, hixl::TransferOp operation, const Pieces& pieces, bool staged) const;
  // Where connections are made by themselves, one that did not serve is ended by itself, too.
  void after(const std::string& remote, Status status);

  struct Asked {
    std::shared_ptr<Link> link;
    std::shared_ptr<Pending> pending;
  };

  const EngineName name_;
  const Settings settings_;
  MemoryTable memory_;
  Server server_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Link>> links_;
  std::map<uintptr_t, Asked> asked_;  // by handle, which count up: the oldest first
  uintptr_t next_request_ = 0x1000;
  Connecting connecting_;
};

}  // namespace softcann::transfer
