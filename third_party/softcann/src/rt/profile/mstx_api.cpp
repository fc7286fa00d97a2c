// mstx: marks and ranges of a program's own, for the profiler. With a stream they have the device's times, too.
#pragma GCC visibility push(default)
#include "mstx/ms_tools_ext.h"

#include <unistd.h>
#pragma GCC visibility pop

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "rt/profile/collector.h"
#include "rt/stream/stream.h"
#include "rt/base/sync.h"

struct mstxDomainRegistration_st {
  std::string name;
};

using namespace softcann;

namespace {

struct Domains {
  std::mutex mutex;
  std::set<mstxDomainHandle_t> alive;
};

Domains& domains() {
  static auto* instance = new Domains;
  return *instance;
}

struct Ranges {
  std::mutex mutex;
  mstxRangeId next = 1;
  std::map<mstxRangeId, std::pair<std::shared_ptr<recorder::Mark>, aclrtStream>> open;
};

Ranges& ranges() {
  static auto* instance = new Ranges;
  return *instance;
}

// Notes the time at which the stream comes to it; with `complete` the mark is whole then.
struct Arrival : Task {
  std::shared_ptr<recorder::Mark> mark;
  bool begins = false, complete = false;

  static aclError arrive(Task* self, bool) {
    const std::unique_ptr<Arrival> arrival(static_cast<Arrival*>(self));
    recorder::Mark& mark = *arrival->mark;
    if (arrival->begins) mark.device_begin = now_ns();
    mark.device_end = now_ns();
    if (arrival->complete) recorder::add_mark(mark);
    return ACL_SUCCESS;
  }
};

// False where the stream is none, or is being captured: then there are no times of the device.
bool mark_stream(aclrtStream handle, const std::shared_ptr<recorder::Mark>& mark, bool begins, bool complete) {
  Stream* stream = handle != nullptr ? Stream::find(handle) : nullptr;
  if (stream == nullptr || stream->capture() != nullptr) return false;
  mark->device = stream->context->device->id;
  mark->stream = stream->id;
  auto* task = new Arrival;
  task->run = &Arrival::arrive;
  task->name = "mstx";
  task->mark = mark;
  task->begins = begins;
  task->complete = complete;
  stream->submit(task, 0);
  return true;
}

std::string name_of(mstxDomainHandle_t domain) {
  Domains& all = domains();
  std::lock_guard<std::mutex> lock(all.mutex);
  return all.alive.count(domain) != 0 ? domain->name : "default";
}

std::shared_ptr<recorder::Mark> make_mark(const char* kind, const char* message, mstxDomainHandle_t domain) {
  const int64_t now = now_ns();
  auto mark = std::make_shared<recorder::Mark>(recorder::Mark{kind, now, now, message, name_of(domain)});
  mark->thread = mark->end_thread = gettid();  // a stream's thread may add it
  return mark;
}

void put_mark(mstxDomainHandle_t domain, const char* message, aclrtStream stream) {
  if (!recorder::is_active() || message == nullptr) return;
  const auto mark = make_mark(stream != nullptr ? "mark_ex" : "marker", message, domain);
  if (!mark_stream(stream, mark, true, true)) recorder::add_mark(*mark);
}

mstxRangeId begin_range(mstxDomainHandle_t domain, const char* message, aclrtStream stream) {
  if (!recorder::is_active() || message == nullptr) return 0;
  const auto mark = make_mark("start_end", message, domain);
  if (!mark_stream(stream, mark, true, false)) stream = nullptr;
  Ranges& all = ranges();
  std::lock_guard<std::mutex> lock(all.mutex);
  const mstxRangeId id = all.next++;
  all.open[id] = {mark, stream};
  return id;
}

void end_range(mstxRangeId id) {
  Ranges& all = ranges();
  std::unique_lock<std::mutex> lock(all.mutex);
  const auto range = all.open.extract(id);
  lock.unlock();
  if (!range) return;
  auto& [mark, stream] = range.mapped();
  mark->end = now_ns();
  mark->end_thread = gettid();
  if (!mark_stream(stream, mark, false, true)) recorder::add_mark(*mark);
}

}  // namespace

extern "C" {

void mstxMarkA(const char* message, aclrtStream stream) { put_mark(nullptr, message, stream); }

mstxRangeId mstxRangeStartA(const char* message, aclrtStream stream) { return begin_range(nullptr, message, stream); }

void mstxRangeEnd(mstxRangeId id) { end_range(id); }

mstxDomainHandle_t mstxDomainCreateA(const char* name) {
  if (name == nullptr) return nullptr;
  Domains& all = domains();
  std::lock_guard<std::mutex> lock(all.mutex);
  return *all.alive.insert(new mstxDomainRegistration_st{name}).first;
}

void mstxDomainDestroy(mstxDomainHandle_t handle) {
  Domains& all = domains();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (all.alive.erase(handle) != 0) delete handle;
}

void mstxDomainMarkA(mstxDomainHandle_t handle, const char* message, aclrtStream stream) { put_mark(handle, message, stream); }

mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t handle, const char* message, aclrtStream stream) {
  return begin_range(handle, message, stream);
}

void mstxDomainRangeEnd(mstxDomainHandle_t, mstxRangeId id) { end_range(id); }
}
