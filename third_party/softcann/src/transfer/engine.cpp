#include "transfer/engine.h"

#include <utility>

#include "rt/base/sync.h"
#include "rt/runtime.h"

namespace softcann::transfer {
namespace {

constexpr int64_t kMillisecond = 1000000;
constexpr int32_t kAutoConnectMs = 3000;  // for a transfer that has no time of its own

template <class... Arguments>
hixl::Status refuse(hixl::Status status, const char* format, Arguments... arguments) {
  fail(static_cast<int>(status), format, arguments...);
  return status;
}

int64_t deadline(int32_t timeout_ms) { return now_ns() + timeout_ms * kMillisecond; }

}  // namespace

Engine::~Engine() {
  connecting_.stop();
  std::map<std::string, std::shared_ptr<Link>> links;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    links.swap(links_);
  }
  for (const auto& [remote, link] : links) link->close();
  server_.stop();
}

hixl::Status Engine::start(const char* entry) {
  std::string reason;
  if (name_.listens() && !server_.start(name_, &reason)) {
    return refuse(hixl::FAILED, "%s: %s: %s", entry, name_.text.c_str(), reason.c_str());
  }
  connecting_.start(settings_.threads, settings_.queue);
  return hixl::SUCCESS;
}

hixl::Status Engine::add_memory(const char* entry, const hixl::MemDesc& memory, hixl::MemType type, void** handle) {
  if (memory.addr == 0) return refuse(hixl::PARAM_INVALID, "%s: the address is a null pointer", entry);
  if (memory.len == 0 || memory.addr + memory.len < memory.addr) {
    return refuse(hixl::PARAM_INVALID, "%s: %zu bytes at %#zx", entry, memory.len, static_cast<size_t>(memory.addr));
  }
  if (type != hixl::MEM_DEVICE && type != hixl::MEM_HOST) {
    return refuse(hixl::PARAM_INVALID, "%s: type %d; 0 (device) and 1 (host) are possible", entry, static_cast<int>(type));
  }
  if (!usable_memory(entry, memory.addr, memory.len, type)) return hixl::PARAM_INVALID;
  *handle = memory_.add(memory.addr, memory.len, type);
  if (*handle != nullptr) return hixl::SUCCESS;
  return refuse(hixl::PARAM_INVALID, "%s: %#zx and the %zu bytes behind it overlap with what is registered", entry,
                static_cast<size_t>(memory.addr), memory.len);
}

hixl::Status Engine::remove_memory(const char* entry, void* handle) {
  if (handle == nullptr) return refuse(hixl::PARAM_INVALID, "%s: the handle is a null pointer", entry);
  if (!memory_.has(handle)) return hixl::SUCCESS;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!links_.empty()) {
      return refuse(hixl::FAILED, "%s: disconnect first: %s is connected", entry, links_.begin()->first.c_str());
    }
  }
  memory_.remove(handle);
  return hixl::SUCCESS;
}

std::shared_ptr<Link> Engine::make(const char* entry, const std::string& remote, int64_t deadline_ns, Status* status) {
  const auto name = EngineName::parse(remote);
  if (!name || name->text == name_.text) {
    *status = refuse(hixl::PARAM_INVALID, "%s: %s is %s", entry, remote.c_str(), name ? "this engine itself" : "no address:port");
    return nullptr;
  }
  std::shared_ptr<Link> made = Link::connect(entry, *name, memory_.last(), deadline_ns, status);
  if (made == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [place, is_new] = links_.emplace(remote, made);
  if (!is_new) *status = hixl::ALREADY_CONNECTED;  // another thread was faster
  return place->second;
}

hixl::Status Engine::connect(const char* entry, const std::string& remote, int32_t timeout_ms) {
  Status status = hixl::ALREADY_CONNECTED;
  std::unique_lock<std::mutex> lock(mutex_);
  const bool known = links_.count(remote) != 0;
  lock.unlock();
  if (!known) make(entry, remote, deadline(timeout_ms), &status);
  if (status == hixl::ALREADY_CONNECTED) refuse(status, "%s: %s is connected already", entry, remote.c_str());
  return status;
}

hixl::Status Engine::disconnect(const char* entry, const std::string& remote) {
  std::shared_ptr<Link> link;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = links_.find(remote);
    if (found == links_.end()) return refuse(hixl::NOT_CONNECTED, "%s: %s is not connected", entry, remote.c_str());
    link = found->second;
    links_.erase(found);
    std::erase_if(asked_, [&](const auto& asked) { return asked.second.link == link; });
  }
  link->close();
  return hixl::SUCCESS;
}

hixl::Status Engine::connect_later(const char* entry, const std::string& remote, int32_t timeout_ms) {
  const bool taken = connecting_.add(remote, true, [this, remote, timeout_ms] {
    const Status status = connect("ConnectAsync", remote, timeout_ms);
    const bool connected = status == hixl::SUCCESS || status == hixl::ALREADY_CONNECTED;
    return connected ? Connecting::Status::CONNECTED : Connecting::Status::CONNECT_FAILED;
  });
  return taken ? hixl::SUCCESS : refuse(hixl::RESOURCE_EXHAUSTED, "%s: %u calls wait already", entry, settings_.queue);
}

hixl::Status Engine::disconnect_later(const char* entry, const std::string& remote) {
  const bool taken = connecting_.add(remote, false, [this, remote] {
    disconnect("DisconnectAsync", remote);
    return Connecting::Status::NOT_CONNECT;
  });
  return taken ? hixl::SUCCESS : refuse(hixl::RESOURCE_EXHAUSTED, "%s: %u calls wait already", entry, settings_.queue);
}

std::shared_ptr<Link> Engine::find(const char* entry, const std::string& remote, int64_t deadline_ns, Status* status) {
  *status = hixl::SUCCESS;
  std::shared_ptr<Link> link;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = links_.find(remote);
    if (found != links_.end()) link = found->second;
  }
  if (!settings_.auto_connect) {
    if (link == nullptr) *status = refuse(hixl::NOT_CONNECTED, "%s: %s is not connected", entry, remote.c_str());
    return link;
  }
  if (link != nullptr && link->broken()) {
    disconnect(entry, remote);
    link = nullptr;
  }
  if (link == nullptr) link = make(entry, remote, deadline_ns, status);
  if (*status == hixl::ALREADY_CONNECTED) *status = hixl::SUCCESS;
  return link;
}

hixl::Status Engine::check(const char* entry, const Link& link, hixl::TransferOp operation, const Pieces& pieces,
                           bool staged) const {
  if (operation != hixl::READ && operation != hixl::WRITE) {
    return refuse(hixl::PARAM_INVALID, "%s: operation %d; 0 (read) and 1 (write) are possible", entry,
                  static_cast<int>(operation));
  }
  if (pieces.empty()) return refuse(hixl::PARAM_INVALID, "%s: there is nothing to transfer", entry);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const hixl::TransferOpDesc& piece = pieces[i];
    if (piece.local_addr == 0 || piece.remote_addr == 0 || piece.len == 0) {
      return refuse(hixl::PARAM_INVALID, "%s: piece %zu has a null pointer or no bytes", entry, i);
    }
    hixl::MemType type{};
    if (!memory_.find(piece.local_addr, piece.len, link.last(), &type)) {
      type = hixl::MEM_HOST;  // what the pool of buffers takes it for
      if (!staged) {
        return refuse(hixl::PARAM_INVALID,
                      "%s: local memory %#zx (piece %zu, %zu bytes) was not registered before the connection", entry,
                      static_cast<size_t>(piece.local_addr), i, piece.len);
      }
    }
    if (!usable_memory(entry, piece.local_addr, piece.len, type)) return hixl::PARAM_INVALID;
    if (!link.offers(piece.remote_addr, piece.len, staged)) {
      return refuse(hixl::PARAM_INVALID,
                    "%s: remote memory %#zx (piece %zu, %zu bytes) was not registered there before the connection", entry,
                    static_cast<size_t>(piece.remote_addr), i, piece.len);
    }
  }
  return hixl::SUCCESS;
}

void Engine::after(const std::string& remote, Status status) {
  if (status != hixl::SUCCESS && settings_.auto_connect) disconnect("AutoConnect", remote);
}

hixl::Status Engine::transfer(const char* entry, const std::string& remote, hixl::TransferOp operation, const Pieces& pieces,
                              int32_t timeout_ms) {
  const int64_t until = deadline(timeout_ms);
  Status status = hixl::SUCCESS;
  const std::shared_ptr<Link> link = find(entry, remote, until, &status);
  if (link == nullptr) return status;
  const bool staged = settings_.buffer_pool;
  status = check(entry, *link, operation, pieces, staged);
  if (status == hixl::SUCCESS) status = link->transfer(entry, operation, pieces, staged, until);
  after(remote, status);
  return status;
}

hixl::Status Engine::transfer_later(const char* entry, const std::string& remote, hixl::TransferOp operation,
                                    const Pieces& pieces, const void* user_data, void** request) {
  Status status = hixl::SUCCESS;
  const std::shared_ptr<Link> link = find(entry, remote, deadline(kAutoConnectMs), &status);
  if (link == nullptr) return status;
  status = check(entry, *link, operation, pieces, false);  // as with CANN, these do not go by way of the pool
  if (status != hixl::SUCCESS) {
    after(remote, status);
    return status;
  }
  auto pending = std::make_shared<Pending>();
  pending->user_data = user_data;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const uintptr_t handle = next_request_++;
    asked_.emplace(handle, Asked{link, pending});
    *request = reinterpret_cast<void*>(handle);
  }
  link->transfer_later(operation, pieces, std::move(pending));
  return hixl::SUCCESS;
}

hixl::Status Engine::look(const char* entry, void* request, hixl::TransferStatus* status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = asked_.find(reinterpret_cast<uintptr_t>(request));
  *status = found == asked_.end() ? hixl::TransferStatus::FAILED : found->second.pending->status.load(std::memory_order_acquire);
  if (found == asked_.end()) {
    return refuse(hixl::PARAM_INVALID, "%s: request %p is none, was told to have ended, or its connection is", entry, request);
  }
  // Why it failed is what the program asks for next.
  if (*status == hixl::TransferStatus::FAILED) refuse(hixl::FAILED, "%s", found->second.pending->reason.c_str());
  if (*status != hixl::TransferStatus::WAITING) asked_.erase(found);
  return hixl::SUCCESS;
}

hixl::Status Engine::look_at_all(const char* entry, const hixl::GetTransferStatusArgs& args,
                                 std::vector<hixl::TransferResult>* results) {
  if (!settings_.client_server) {
    return refuse(hixl::UNSUPPORTED,
                  "%s: not with this kind of engine: LocalCommRes of version 1.3, or protocol_desc, makes the other", entry);
  }
  results->clear();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto asked = asked_.begin(); asked != asked_.end() && results->size() < args.max_query_count;) {
    const hixl::TransferStatus status = asked->second.pending->status.load(std::memory_order_acquire);
    const bool waits = status == hixl::TransferStatus::WAITING;
    if (!waits || !args.skip_waiting) {
      results->push_back({reinterpret_cast<void*>(asked->first), asked->second.pending->user_data, status, {}});
    }
    asked = waits ? std::next(asked) : asked_.erase(asked);
  }
  return hixl::SUCCESS;
}

hixl::Status Engine::notify(const char* entry, const std::string& remote, const std::string& name, const std::string& text,
                            int32_t timeout_ms) {
  if (name.size() > kMostNotifyText || text.size() > kMostNotifyText) {
    return refuse(hixl::PARAM_INVALID, "%s: name and text have %zu and %zu bytes; %u are possible", entry, name.size(),
                  text.size(), kMostNotifyText);
  }
  std::shared_ptr<Link> link;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = links_.find(remote);
    if (found == links_.end()) return refuse(hixl::NOT_CONNECTED, "%s: %s is not connected", entry, remote.c_str());
    link = found->second;
  }
  return link->notify(entry, name, text, deadline(timeout_ms));
}

}  // namespace softcann::transfer
