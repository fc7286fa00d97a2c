#include "transfer/connecting.h"

#include <algorithm>
#include <utility>

namespace softcann::transfer {

void Connecting::start(uint32_t threads, uint32_t most) {
  most_ = most;
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

void Connecting::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : std::exchange(threads_, {})) thread.join();
}

bool Connecting::add(const std::string& engine, bool connects, std::function<Status()> call) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (jobs_.size() >= most_) return false;
    jobs_.push_back(Job{engine, connects, std::move(call), ++numbered_});
    newest_[engine] = numbered_;
    statuses_[engine] = connects ? Status::CONNECT_PENDING : Status::DISCONNECT_PENDING;
  }
  changed_.notify_all();
  return true;
}

std::map<std::string, Connecting::Status> Connecting::statuses() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return statuses_;
}

std::list<Connecting::Job>::iterator Connecting::next() {
  return std::find_if(jobs_.begin(), jobs_.end(), [this](const Job& job) { return busy_.count(job.engine) == 0; });
}

void Connecting::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopped_ || next() != jobs_.end(); });
    if (stopped_) return;
    const auto found = next();
    const Job job = std::move(*found);
    jobs_.erase(found);
    busy_.insert(job.engine);
    const auto tell = [&](Status status) {
      if (newest_[job.engine] != job.number) return;  // a later call's status is the one to tell
      statuses_[job.engine] = status;
      if (status == Status::NOT_CONNECT) statuses_.erase(job.engine);
    };
    tell(job.connects ? Status::CONNECTING : Status::DISCONNECTING);
    lock.unlock();
    const Status status = job.call();
    lock.lock();
    tell(status);
    busy_.erase(job.engine);
    changed_.notify_all();
  }
}

}  // namespace softcann::transfer
