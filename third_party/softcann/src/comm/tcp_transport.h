// Ranks on several machines: through TCP connections.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/sequence_numbers.h"
#include "comm/tcp_engine.h"
#include "comm/tcp_mesh.h"
#include "comm/transport.h"

namespace softcann {

class TcpTransport : public Transport {
 public:
  TcpTransport(uint32_t rank, Mesh mesh, int64_t execute_limit_s);
  // Waits until all ranks are connected to all. HCCL_SUCCESS, or the reason is recorded.
  HcclResult meet(const char* entry, int64_t deadline_ns);

  void number(Operation& operation) override { numbering_.number(operation); }
  uint32_t cost(const Operation&) const override { return kNeverInline; }
  aclError run(Operation& operation, bool brief) override;
  bool invite(uint64_t key, const void* data, size_t bytes) override;
  void withdraw(uint64_t key) override;
  bool invited(uint32_t rank, uint64_t key, void* data, size_t bytes) override;
  void leave() override { engine_.leave(); }
  void fail(HcclResult code, const std::string& text) override { engine_.fail(code, text); }
  HcclResult failure(std::string* text) const override { return engine_.failure(text); }

 private:
  struct Piece {
    const char* data;
    uint64_t bytes;
  };
  // Sends `out[p]` to and receives `in[p]` from each rank p of the sets. Empty pieces are sent, too, for what they say
  // about the call.
  bool exchange(const Operation& operation, uint32_t step, uint64_t to, const std::vector<Piece>& out, uint64_t from,
                const std::vector<Part>& in, char* base);
  bool check_frame(const Operation& operation, uint32_t peer, const Frame& found, uint64_t expected);
  void differs(const Call& found, uint32_t peer, const Call& own, uint64_t number);
  bool check_earlier(const Operation& operation);
  bool collective(const Operation& operation);
  bool all_reduce(const Operation& operation);
  bool reduce_own(const Operation& operation, uint64_t participants);
  bool messages(const Operation& operation);
  int64_t deadline(const Operation& operation) const;
  void late(const Operation& operation, uint64_t missing);

  const uint32_t rank_, ranks_;
  const uint64_t others_;
  const int64_t limit_s_;
  const std::vector<std::shared_ptr<Process>> processes_;
  Numbering numbering_;
  TcpEngine engine_;
  std::mutex rooted_mutex_;
  std::map<uint64_t, Call> rooted_;  // this rank's latest calls that have a root, by their numbers
};

}  // namespace softcann
