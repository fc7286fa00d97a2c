// Connecting and disconnecting without waiting: a queue of such calls and the threads that make them.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "hixl/hixl_types.h"

namespace softcann::transfer {

class Connecting {
 public:
  using Status = hixl::AsyncConnectStatus;
  ~Connecting() { stop(); }

  void start(uint32_t threads, uint32_t most);
  // Drops what has not begun.
  void stop();
  // False when the queue is full. `call` returns what comes of it. Calls for the same engine follow each other.
  bool add(const std::string& engine, bool connects, std::function<Status()> call);
  std::map<std::string, Status> statuses() const;

 private:
  struct Job {
    std::string engine;
    bool connects;
    std::function<Status()> call;
    uint64_t number;
  };
  void work();
  std::list<Job>::iterator next();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Job> jobs_;
  std::set<std::string> busy_;
  std::map<std::string, Status> statuses_;  // of the newest call of each engine
  std::map<std::string, uint64_t> newest_;
  uint64_t numbered_ = 0;
  uint32_t most_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace softcann::transfer
