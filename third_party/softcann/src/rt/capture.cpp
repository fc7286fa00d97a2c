#include "rt/capture.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace softcann {
namespace {

// All captures that have not ended. One lock for all of them: nothing here is on a path that has to be fast.
struct Captures {
  std::mutex mutex;
  std::vector<std::shared_ptr<Capture>> active;
  std::atomic<size_t> count{0};
  uint32_t next_id = 1;
};

Captures& captures() {
  static auto* instance = new Captures;
  return *instance;
}

thread_local aclmdlRICaptureMode thread_mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;

void come_after(Clock* clock, const Clock& point) {
  for (const auto& [stream, steps] : point) {
    auto& known = (*clock)[stream];
    known = std::max(known, steps);
  }
}

}  // namespace

Graph::~Graph() {
  for (const Node& node : nodes) node.task->discard(node.task);
}

aclError Graph::run(bool skip) const {
  for (const Node& node : nodes) {
    if (const aclError code = node.task->repeat(node.task, skip)) return code;
  }
  return ACL_SUCCESS;
}

aclError Capture::begin(Stream* stream, aclmdlRICaptureMode mode) {
  if (stream == stream->context->default_stream) {
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "aclmdlRICaptureBegin: the default stream cannot be captured");
  }
  if (mode != ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && mode != ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL &&
      mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRICaptureBegin: mode %d does not exist", static_cast<int>(mode));
  }
  auto& all = captures();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (stream->capture() != nullptr) {
    return fail(ACL_ERROR_RT_STREAM_CAPTURED, "aclmdlRICaptureBegin: stream %d is being captured already", stream->id);
  }
  auto made = std::make_shared<Capture>();
  made->origin_ = stream;
  made->mode_ = mode;
  made->thread_ = std::this_thread::get_id();
  made->graph_ = std::make_shared<Graph>(all.next_id++);
  made->streams_[stream];
  all.active.push_back(made);
  all.count.store(all.active.size());
  stream->set_capture(made.get());
  return ACL_SUCCESS;
}

aclError Capture::end(Stream* stream, std::shared_ptr<Graph>* graph) {
  auto& all = captures();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Capture* capture = stream->capture();
  if (capture == nullptr) {
    return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "aclmdlRICaptureEnd: stream %d is not being captured", stream->id);
  }
  if (capture->origin_ != stream) {
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "aclmdlRICaptureEnd: the capture began on stream %d, not on stream %d",
                capture->origin_->id, stream->id);
  }
  if (capture->mode_ != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && capture->thread_ != std::this_thread::get_id()) {
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
                "aclmdlRICaptureEnd: another thread began the capture, whose mode is not relaxed");
  }
  const Clock& last = capture->streams_.at(stream);
  aclError code = ACL_SUCCESS;
  if (!capture->failure_.empty()) {
    code = fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "the capture failed: %s", capture->failure_.c_str());
  } else {
    for (const auto& [other, clock] : capture->streams_) {
      const auto own = clock.find(other), seen = last.find(other);
      if (own == clock.end() || (seen != last.end() && seen->second >= own->second)) continue;
      code = fail(ACL_ERROR_RT_STREAM_UNJOINED,
                  "aclmdlRICaptureEnd: stream %d does not wait for the last of what was captured on stream %d", stream->id,
                  other->id);
      break;
    }
  }
  if (code == ACL_SUCCESS) {
    *graph = capture->graph_;
    (*graph)->complete = true;
  }
  for (const auto& [other, clock] : capture->streams_) other->set_capture(nullptr);
  const auto found = std::find_if(all.active.begin(), all.active.end(), [&](const auto& one) { return one.get() == capture; });
  all.active.erase(found);
  all.count.store(all.active.size());
  return code;
}

std::shared_ptr<Graph> Capture::graph_of(const Stream* stream, bool* valid) {
  if (stream->capture() == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(captures().mutex);
  const Capture* capture = stream->capture();
  if (capture == nullptr) return nullptr;
  *valid = capture->failure_.empty();
  return capture->graph_;
}

void Capture::add(Stream* stream, Task* task, uint32_t cost_ns) {
  auto& all = captures();
  std::unique_lock<std::mutex> lock(all.mutex);
  Capture* capture = stream->capture();
  if (capture == nullptr) {  // another thread has ended it
    lock.unlock();
    return stream->submit(task, cost_ns);
  }
  capture->graph_->nodes.push_back({task, stream->id});
  capture->graph_->cost_ns += cost_ns;
  ++capture->streams_[stream][stream];
}

Clock Capture::now(const Stream* stream) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  const Capture* capture = stream->capture();
  return capture == nullptr ? Clock() : capture->streams_.at(const_cast<Stream*>(stream));
}

aclError Capture::join(Stream* stream, const Clock& point) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  if (stream->capture() != nullptr && stream->capture() != this) {
    return fail(ACL_ERROR_STREAM_CAPTURE_CONFLICT, "stream %d is being captured into another graph", stream->id);
  }
  if (stream == stream->context->default_stream) {
    failure_ = failure_.empty() ? "the default stream waited for a captured event" : failure_;
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "the default stream cannot join a capture");
  }
  come_after(&streams_[stream], point);
  stream->set_capture(this);
  return ACL_SUCCESS;
}

void Capture::invalidate(const std::string& reason) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  if (failure_.empty()) failure_ = reason;
}

aclError refuse_in_capture(Stream* stream, const char* entry) {
  const std::lock_guard<std::mutex> lock(captures().mutex);
  Capture* capture = stream->capture();
  const std::string reason = std::string(entry) + " on stream " + std::to_string(stream->id) + ", which is being captured";
  if (capture != nullptr && capture->failure_.empty()) capture->failure_ = reason;
  return fail(ACL_ERROR_RT_STREAM_CAPTURED, "%s: it cannot be part of a graph", reason.c_str());
}

aclError refuse_unsafe(const char* entry) {
  auto& all = captures();
  if (__builtin_expect(all.count.load(std::memory_order_relaxed) == 0, 1)) return ACL_SUCCESS;
  if (thread_mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return ACL_SUCCESS;
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& capture : all.active) {
    const bool own = capture->thread_ == std::this_thread::get_id() && capture->mode_ != ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    const bool everybodys = capture->mode_ == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && thread_mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
    if (!own && !everybodys) continue;
    if (capture->failure_.empty())
      capture->failure_ = std::string(entry) + " while stream " + std::to_string(capture->origin_->id) + " was captured";
    return fail(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "%s: not while stream %d is being captured in this mode", entry,
                capture->origin_->id);
  }
  return ACL_SUCCESS;
}

aclmdlRICaptureMode exchange_thread_mode(aclmdlRICaptureMode mode) { return std::exchange(thread_mode, mode); }

}  // namespace softcann
