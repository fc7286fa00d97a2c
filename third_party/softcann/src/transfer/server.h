// The side of an engine that others connect to.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transfer/memory_table.h"
#include "transfer/place.h"
#include "transfer/protocol.h"

namespace softcann::transfer {

struct Notify {
  std::string name, text;
};

class Server {
 public:
  // `pool`: host memory that was not registered is offered, too.
  Server(const MemoryTable& memory, bool pool) : memory_(memory), pool_(pool) {}
  ~Server() { stop(); }

  // False, with the reason, when the name cannot be taken.
  bool start(const EngineName& name, std::string* reason);
  // Ends all connections.
  void stop();
  std::vector<Notify> take_notifies();

 private:
  struct Guest {
    Socket socket;
    std::thread thread;
    bool left = false;  // under mutex_
  };
  void accept_all();
  void serve(const Socket& socket);
  uint32_t read_pieces(const Socket& socket, const Request& request, uint64_t last, std::vector<Piece>* pieces, bool* broken);
  uint32_t take_notify(const Socket& socket, const Request& request, bool* broken);

  const MemoryTable& memory_;
  const bool pool_;
  Door door_;
  int wake_ = -1;  // ends the wait for connections
  std::thread acceptor_;
  std::mutex mutex_;
  std::list<Guest> guests_;
  std::deque<Notify> notifies_;
};

}  // namespace softcann::transfer
