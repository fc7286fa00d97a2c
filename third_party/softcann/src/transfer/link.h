// The side of a connection that reads and writes the other's memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hixl/hixl_types.h"
#include "transfer/memory_table.h"
#include "transfer/place.h"
#include "transfer/protocol.h"

namespace softcann::transfer {

// A transfer that nobody waits for.
struct Pending {
  std::atomic<hixl::TransferStatus> status{hixl::TransferStatus::WAITING};
  const void* user_data = nullptr;
  std::string reason;  // of FAILED; written before the status
};

class Link {
 public:
  // Null with the reason recorded and its status in *status.
  static std::shared_ptr<Link> connect(const char* entry, const EngineName& name, uint64_t last, int64_t deadline_ns,
                                       hixl::Status* status);
  ~Link() { close(); }

  // Registrations up to this number were there when the connection was made.
  uint64_t last() const { return last_; }
  // Whether the other side offered the memory; `staged`: or would take it for the host's.
  bool offers(uintptr_t begin, uint64_t bytes, bool staged) const;
  // Whether nothing more can be done with it.
  bool broken() const;
  // Ends it, and what is under way; from any thread.
  void close();

  // `staged`: host memory that was not registered may be transferred, if the other side has a pool of buffers.
  hixl::Status transfer(const char* entry, hixl::TransferOp operation, const std::vector<hixl::TransferOpDesc>& pieces,
                        bool staged, int64_t deadline_ns);
  void transfer_later(hixl::TransferOp operation, const std::vector<hixl::TransferOpDesc>& pieces,
                      std::shared_ptr<Pending> pending);
  hixl::Status notify(const char* entry, const std::string& name, const std::string& text, int64_t deadline_ns);

 private:
  struct Job {
    hixl::TransferOp operation;
    std::vector<hixl::TransferOpDesc> pieces;
    std::shared_ptr<Pending> pending;
  };
  // While one lives, its thread alone speaks. (A timed mutex would do, but for the thread sanitizer, which does not know it.)
  class Turn {
   public:
    Turn() = default;
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool take(Link* link, int64_t deadline_ns);

   private:
    Link* link_ = nullptr;
  };
  Link(EngineName name, Socket socket, uint64_t last, bool pool, std::vector<Piece> offered)
      : name_(std::move(name)), last_(last), pool_(pool), offered_(std::move(offered)), socket_(std::move(socket)) {}
  // The connection's use by this thread alone, or the status that tells why not.
  hixl::Status begin(const char* entry, int64_t deadline_ns, Turn* turn);
  hixl::Status exchange(const char* entry, hixl::TransferOp operation, const hixl::TransferOpDesc* pieces, size_t count,
                        bool staged, int64_t deadline_ns);
  // The status after a read or write that did not succeed; the connection is of no use afterwards.
  hixl::Status lost(const char* entry, int64_t deadline_ns);
  hixl::Status read_reply(const char* entry, int64_t deadline_ns);
  void work();

  const EngineName name_;
  const uint64_t last_;
  const bool pool_;
  const std::vector<Piece> offered_;
  Socket socket_;
  std::atomic<bool> lost_{false};
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool taken_ = false;  // by a Turn
  std::deque<Job> jobs_;
  bool closed_ = false;
  std::thread worker_;  // started by the first job
};

}  // namespace softcann::transfer
