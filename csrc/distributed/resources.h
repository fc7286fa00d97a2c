// Events and streams that come and go with collectives, kept for reuse.
#pragma once

#include "core/event.h"

namespace torch_npu::distributed {

// An event from the pool; it goes back when this ends.
class PooledEvent {
 public:
  PooledEvent() = default;
  explicit PooledEvent(bool timing);
  ~PooledEvent() { release(); }
  PooledEvent(PooledEvent&& other) noexcept
      : event_(std::move(other.event_)), timing_(other.timing_), held_(std::exchange(other.held_, false)) {}
  PooledEvent& operator=(PooledEvent&& other) noexcept {
    release();
    event_ = std::move(other.event_);
    timing_ = other.timing_;
    held_ = std::exchange(other.held_, false);
    return *this;
  }
  PooledEvent(const PooledEvent&) = delete;
  PooledEvent& operator=(const PooledEvent&) = delete;

  explicit operator bool() const { return held_; }
  core::Event* operator->() { return &event_; }
  const core::Event* operator->() const { return &event_; }
  core::Event& operator*() { return event_; }
  const core::Event& operator*() const { return event_; }
  void record(const core::Stream& stream);
  void release() noexcept;

 private:
  core::Event event_;
  bool timing_ = false;
  bool held_ = false;
};

// A stream that nobody else uses. torch.npu.Stream() hands out pooled ones, and a receive that waits on a stream
// which is also the user's could wait for itself.
core::Stream take_stream(c10::DeviceIndex device, bool high_priority);
// Gives it back once nothing is queued on it; a stream that has failed is not to be given back.
void give_stream(core::Stream stream, bool high_priority) noexcept;

}  // namespace torch_npu::distributed
