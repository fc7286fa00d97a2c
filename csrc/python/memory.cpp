// Memory: statistics, snapshots, pools and settings of the caching allocator.
#include <ATen/ops/empty.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include "memory/device_allocator.h"
#include "memory/host_allocator.h"
#include "memory/storage.h"
#include "memory/swapped.h"
#include "python/bindings.h"
#include "python/streams.h"
#include "python/unraisable.h"

// In libtorch_python, but its header needs one that is not in the wheel.
namespace torch {
std::vector<pybind11::object> py_symbolize(std::vector<CapturedTraceback*>& to_symbolize);
void freeDeadCapturedTracebackFrames();
}  // namespace torch

namespace torch_npu::python {
namespace {

py::dict to_dict(const memory::Figures& figures) {
  py::dict result;
  result["current"] = figures.current;
  result["peak"] = figures.peak;
  result["allocated"] = figures.allocated;
  result["freed"] = figures.freed;
  return result;
}

py::dict statistics(c10::DeviceIndex device) {
  constexpr const char* kPools[] = {"all", "small_pool", "large_pool"};
  const auto report = memory::statistics(device);
  py::dict result;
  for (const auto& row : report.rows) {
    py::dict pools;
    for (int i = 0; i < 3; ++i) pools[kPools[i]] = to_dict(row.figures[i]);
    result[row.name] = pools;
  }
  for (const auto& row : report.oversize) result[row.name] = to_dict(row.figures[0]);
  for (const auto& scalar : report.scalars) result[scalar.name] = scalar.value;
  return result;
}

py::dict host_statistics() {
  const auto stats = memory::host_statistics();
  py::dict result;
  for (const auto& row : stats.rows) result[row.name] = to_dict(row.figures);
  for (const auto& duration : stats.durations) {
    py::dict entry;
    entry["total"] = duration.total;
    entry["max"] = duration.max;
    entry["min"] = duration.min;
    entry["count"] = duration.count;
    entry["avg"] = duration.count ? duration.total / duration.count : 0;
    result[duration.name] = entry;
  }
  result["num_host_alloc"] = stats.num_host_alloc;
  result["num_host_free"] = stats.num_host_free;
  return result;
}

// ---- snapshots ----

// Dictionaries that want the frames of a context, filled in together at the end.
class FrameRequests {
 public:
  void add(py::dict target, const memory::Context& context) {
    if (auto* traceback = dynamic_cast<torch::CapturedTraceback*>(context.get())) {
      targets_.push_back(std::move(target));
      tracebacks_.push_back(traceback);
    } else {
      target["frames"] = py::list();
    }
  }
  void fill() {
    auto frames = torch::py_symbolize(tracebacks_);
    for (size_t i = 0; i < frames.size(); ++i) targets_[i]["frames"] = frames[i];
  }

 private:
  std::vector<py::dict> targets_;
  std::vector<torch::CapturedTraceback*> tracebacks_;
};

py::dict to_dict(const memory::SegmentInfo& segment, FrameRequests& frames) {
  py::dict result;
  result["device"] = segment.device;
  result["address"] = segment.address;
  result["total_size"] = segment.total_size;
  result["allocated_size"] = segment.allocated_size;
  result["active_size"] = segment.active_size;
  result["requested_size"] = segment.requested_size;
  result["stream"] = segment.stream;
  result["segment_type"] = segment.large ? "large" : "small";
  result["segment_pool_id"] = segment.pool;
  result["is_expandable"] = segment.expandable;
  frames.add(result, segment.context);
  py::list blocks;
  for (const auto& block : segment.blocks) {
    py::dict entry;
    entry["address"] = block.address;
    entry["size"] = block.size;
    entry["requested_size"] = block.requested_size;
    entry["state"] = block.state;
    frames.add(entry, block.context);
    blocks.append(entry);
  }
  result["blocks"] = blocks;
  return result;
}

py::dict to_dict(const memory::TraceEntry& trace, FrameRequests& frames) {
  py::dict result;
  result["action"] = memory::kTraceActionNames[static_cast<int>(trace.action)];
  result[trace.action == memory::TraceAction::oom ? "device_free" : "addr"] = trace.address;
  result["size"] = trace.size;
  result["stream"] = trace.stream;
  result["pool_id"] = trace.pool;
  result["time_us"] = trace.time_us;
  frames.add(result, trace.context);
  return result;
}

py::dict settings_dict(const memory::AllocatorConfig& config) {
  const std::string prefix = "PYTORCH_NPU_ALLOC_CONF";
  py::dict result;
  result[py::str(prefix)] = memory::settings();
  result["max_split_size"] = config.max_split_size == SIZE_MAX ? py::int_(-1) : py::int_(config.max_split_size);
  result["garbage_collection_threshold"] = config.garbage_collection_threshold;
  result["expandable_segments"] = config.expandable_segments;
  py::dict divisions;
  for (size_t i = 0; i < config.roundup_divisions.size(); ++i) {
    divisions[py::str(std::to_string(size_t{1} << i))] = config.roundup_divisions[i];
  }
  result["roundup_power2_divisions"] = divisions;
  return result;
}

py::dict snapshot(c10::DeviceIndex devices, std::optional<memory::MempoolId> pool, bool with_trace) {
  torch::freeDeadCapturedTracebackFrames();
  std::vector<memory::HeapSnapshot> heaps(devices);
  {
    py::gil_scoped_release unlocked;
    for (c10::DeviceIndex device = 0; device < devices; ++device) {
      if (auto* heap = memory::heap_if_used(device)) heaps[device] = heap->snapshot(pool, with_trace);
    }
  }
  FrameRequests frames;
  py::list segments, traces;
  for (const auto& heap : heaps) {
    for (const auto& segment : heap.segments) segments.append(to_dict(segment, frames));
    py::list trace;
    for (const auto& entry : heap.trace) trace.append(to_dict(entry, frames));
    traces.append(trace);
  }
  frames.fill();
  py::dict result;
  result["segments"] = segments;
  result["device_traces"] = traces;
  result["external_annotations"] = py::list();
  for (c10::DeviceIndex device = 0; device < devices; ++device) {
    if (auto* heap = memory::heap_if_used(device)) {
      result["allocator_settings"] = settings_dict(heap->config());
      break;
    }
  }
  return result;
}

memory::Context python_frames() { return torch::CapturedTraceback::gather(true, true, false); }
memory::Context all_frames() { return torch::CapturedTraceback::gather(true, true, true); }

void record_history(bool entries, int stacks, bool cpp, size_t max_entries, bool clear, const std::vector<std::string>& skipped) {
  memory::HistorySettings settings;
  settings.entries = entries;
  settings.stacks = static_cast<memory::Stacks>(stacks);
  settings.gather = stacks ? (cpp ? &all_frames : &python_frames) : nullptr;
  settings.max_entries = max_entries;
  for (const auto& name : skipped) {
    const auto* found = std::find(std::begin(memory::kTraceActionNames), std::end(memory::kTraceActionNames), name);
    TORCH_CHECK_VALUE(found != std::end(memory::kTraceActionNames), "no such action in a memory history: ", name);
    settings.skipped_actions |= 1u << (found - std::begin(memory::kTraceActionNames));
  }
  py::gil_scoped_release unlocked;
  memory::record_history(settings, clear);
}

py::object frames_of(uintptr_t address, c10::DeviceIndex devices) {
  for (c10::DeviceIndex device = 0; device < devices; ++device) {
    auto* heap = memory::heap_if_used(device);
    const auto context = heap ? heap->context_of(reinterpret_cast<void*>(address)) : nullptr;
    auto* traceback = dynamic_cast<torch::CapturedTraceback*>(context.get());
    if (!traceback) continue;
    std::vector<torch::CapturedTraceback*> one{traceback};
    return torch::py_symbolize(one)[0];
  }
  return py::none();
}

// The observer is called where an allocation failed, which may be without the GIL.
void attach_observer(py::function observer) {
  auto* kept = new py::function(std::move(observer));  // for the life of the process
  memory::add_observer([kept](c10::DeviceIndex device, size_t asked, size_t total, size_t free) {
    py::gil_scoped_acquire locked;
    try {
      (*kept)(device, asked, total, free);
    } catch (py::error_already_set& error) {
      discard(error, "an out-of-memory observer");
    }
  });
}

// ---- pools ----

class MemPool {
 public:
  MemPool(c10::DeviceIndex device, std::shared_ptr<memory::RawAllocator> allocator, bool by_user, bool use_on_oom, bool no_split)
      : id_(memory::new_pool_id(by_user)), device_(device) {
    memory::heap(device_).hold_pool(id_, {std::move(allocator), use_on_oom, no_split});
  }
  ~MemPool() {
    try {
      py::gil_scoped_release unlocked;
      memory::heap(device_).release_pool(id_);
      memory::heap(device_).empty_cache(id_);
    } catch (const std::exception& failure) {
      TORCH_WARN("giving up a memory pool: ", failure.what());
    }
  }
  MemPool(const MemPool&) = delete;
  MemPool& operator=(const MemPool&) = delete;

  memory::MempoolId id() const { return id_; }
  c10::DeviceIndex device() const { return device_; }
  int use_count() const { return memory::heap(device_).pool_uses(id_); }

 private:
  const memory::MempoolId id_;
  const c10::DeviceIndex device_;
};

void begin_current_thread(c10::DeviceIndex device, memory::MempoolId pool) {
  memory::heap(device).begin_route(
      pool, [thread = std::this_thread::get_id()](c10::Stream) { return std::this_thread::get_id() == thread; }, false);
}

// Python frees tensors with the GIL held, and may run out of memory so.
void wait_unlocked(const std::function<void()>& wait) {
  std::optional<py::gil_scoped_release> unlocked;
  if (Py_IsInitialized() && PyGILState_Check()) unlocked.emplace();
  wait();
}

void init_pools(py::module_& module) {
  py::class_<memory::RawAllocator, std::shared_ptr<memory::RawAllocator>>(module, "_RawAllocator");
  py::class_<MemPool>(module, "_MemPool")
      .def(py::init<c10::DeviceIndex, std::shared_ptr<memory::RawAllocator>, bool, bool, bool>(), py::arg("device"),
           py::arg("allocator"), py::arg("by_user"), py::arg("use_on_oom"), py::arg("no_split"))
      .def_property_readonly("id", &MemPool::id)
      .def_property_readonly("device", &MemPool::device)
      .def("use_count", &MemPool::use_count);
  module.def("_memory_begin_pool", &begin_current_thread);
  module.def("_memory_end_pool", [](c10::DeviceIndex device, memory::MempoolId pool) { memory::heap(device).end_route(pool); });
  module.def("_memory_release_pool",
             [](c10::DeviceIndex device, memory::MempoolId pool) { memory::heap(device).release_pool(pool); });
  module.def("_memory_new_pool_id", &memory::new_pool_id);
  module.def("_memory_raw_allocator", &memory::raw_allocator_from);
  module.def("_memory_replace_allocator", &memory::replace_allocator);
  module.def("_memory_is_replaced", &memory::is_replaced);
}

}  // namespace

void init_memory(py::module_& module) {
  memory::set_waiter(&wait_unlocked);
  module.def("_memory_stats", &statistics);
  module.def("_memory_reset_peak_stats", &memory::reset_peak_stats);
  module.def("_memory_reset_accumulated_stats", &memory::reset_accumulated_stats);
  module.def("_memory_info", &memory::memory_info, Unlocked());
  module.def("_memory_empty_cache", &memory::empty_cache, Unlocked());
  module.def("_memory_set_fraction",
             [](double fraction, c10::DeviceIndex device) { memory::heap(device).set_memory_fraction(fraction); });
  module.def("_memory_fraction", [](c10::DeviceIndex device) { return memory::heap(device).memory_fraction(); });
  module.def("_memory_set_caching", &memory::set_caching);
  module.def("_memory_caching", &memory::caching);
  module.def("_memory_set_settings", [](const std::string& text) { memory::set_settings(text); });
  module.def("_memory_settings", &memory::settings);
  module.def(
      "_memory_alloc",
      [](size_t bytes, c10::DeviceIndex device, c10::StreamId id) {
        return reinterpret_cast<uintptr_t>(memory::raw_alloc(bytes, stream_of(id, device)));
      },
      Unlocked());
  module.def(
      "_swapped_memory",
      [](size_t bytes, c10::DeviceIndex device) {
        return memory::make_tensor(memory::swapped_memory(bytes, device), {static_cast<int64_t>(bytes)}, {1}, at::kByte);
      },
      Unlocked());
  module.def("_memory_free", [](uintptr_t address) { memory::raw_free(reinterpret_cast<void*>(address)); }, Unlocked());
  module.def("_memory_base_allocation", [](uintptr_t address) {
    size_t size = 0;
    auto* base = memory::base_allocation(reinterpret_cast<void*>(address), &size);
    return std::make_pair(reinterpret_cast<uintptr_t>(base), size);
  });
  module.def("_memory_snapshot", &snapshot);
  module.def("_memory_record_history", &record_history);
  module.def("_memory_frames_of", &frames_of);
  module.def("_memory_attach_oom_observer", &attach_observer);

  module.def("_host_memory_stats", &host_statistics);
  module.def("_host_memory_reset_peak_stats", [] { memory::pinned_allocator()->reset_peak_stats(); });
  module.def("_host_memory_reset_accumulated_stats", [] { memory::pinned_allocator()->reset_accumulated_stats(); });
  module.def("_host_memory_empty_cache", [] { memory::pinned_allocator()->empty_cache(); }, Unlocked());
  init_pools(module);
}

}  // namespace torch_npu::python
