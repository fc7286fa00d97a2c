#include "op/executor.h"

#include <c10/util/Exception.h>
#include <cstdarg>
#include <stdexcept>
#include <set>
#include <shared_mutex>
#include <string>

#include "op/call_cost.h"
#include "op/checked.h"
#include "op/collective.h"
#include "op/dumping.h"
#include "op/formats.h"
#include "op/indices.h"
#include "op/kernel.h"
#include "op/pool.h"
#include "op/profile_operands.h"
#include "op/saturate.h"
#include "op/scope.h"
#include "op/names.h"
#include "op/simd/thresholds.h"
#include "op/tensor.h"
#include "op/threads.h"
#include "op/trace.h"
#include "op/wrong_value.h"
#include "rt/recording/call_record.h"
#include "rt/base/error.h"

namespace softcann::op {
namespace {

template <class F>
inline void for_each_bit(uint64_t mask, F&& function) {
  for (; mask; mask &= mask - 1) function(std::countr_zero(mask));
}

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return "null";
  std::string text = c10::toString(tensor.scalar_type());
  text += '[';
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (i) text += ',';
    text += std::to_string(tensor.size(i));
  }
  text += ']';
  return text;
}

// "aclnnAdd(self=Float[2,3], other=Float[3], out=Float[2,3])": the tensors only.
std::string describe(const aclOpExecutor& executor) {
  const OpInfo& info = *executor.op;
  std::string text = info.name;
  text += '(';
  const char* separator = "";
  for_each_bit(info.tensors | info.tensor_lists, [&](int i) {
    const Object* object = executor.slots[i].object;
    text += separator;
    text += parameter_name(info, i);
    text += '=';
    separator = ", ";
    if (!object) {
      text += "null";
    } else if (object->kind == Kind::tensor) {
      text += describe(static_cast<const aclTensor*>(object)->tensor);
    } else {
      const auto& tensors = static_cast<const aclTensorList*>(object)->values;
      text += std::to_string(tensors.size()) + " tensors";
      if (!tensors.empty()) text.append(" of ").append(describe(tensors[0])).append("...");
    }
  });
  text += ')';
  return text;
}

void drop_objects(aclOpExecutor* executor, bool in_own_phase2) {
  for_each_bit(executor->op->objects, [&](int i) {
    if (Object* object = executor->slots[i].object) release(object, in_own_phase2);
  });
}

void recycle_executor(aclOpExecutor* executor, bool in_own_phase2) {
  executor->tag = 0;
  if (check::on(check::kMemory)) check::forget_accesses(executor);
  drop_objects(executor, in_own_phase2);
  if (__builtin_expect(executor->plan != nullptr, 0)) executor->plan.reset();
  give_back(executor_pool, executor);
}

// A kernel that resized an output, or gave it another order of memory, wrote elsewhere than the client asked for.
void check_outputs(const aclOpExecutor& executor) {
  const OpInfo& info = *executor.op;
  for_each_bit(info.tensors & info.written, [&](int i) {
    const auto* made = static_cast<const aclTensor*>(executor.slots[i].object);
    if (!made || made->shape_is_result) return;
    TORCH_CHECK(made->tensor.unsafeGetTensorImpl() == made->impl && made->impl->numel() == made->made_numel &&
                    (same_sizes(*made) || made->made_numel == 1),
                "the output ", parameter_name(info, i), " should have had the shape ", made->tensor.sizes());
    TORCH_CHECK(same_order(*made), "the kernel changed the strides of the output ", parameter_name(info, i), " to ",
                made->tensor.strides());
  });
  for_each_bit(info.tensor_lists & info.written, [&](int i) {
    const auto* list = static_cast<const aclTensorList*>(executor.slots[i].object);
    for (size_t n = 0; list != nullptr && n < list->values.size(); ++n) {
      const at::Tensor& value = list->values[n];
      TORCH_CHECK(!value.defined() || same_sizes(value), "element ", n, " of the output ", parameter_name(info, i),
                  " should have had the shape ", value.sizes());
    }
  });
}

void restore_shapes(const aclOpExecutor& executor) {
  const OpInfo& info = *executor.op;
  for_each_bit(info.tensors | info.tensor_lists, [&](int i) {
    const Object* object = executor.slots[i].object;
    if (object == nullptr) return;
    if (object->kind == Kind::tensor_list) {
      for (const at::Tensor& value : static_cast<const aclTensorList*>(object)->values) {
        if (value.defined()) restore_shape(value);
      }
    } else if (const auto* made = static_cast<const aclTensor*>(object); !made->shape_is_result) {
      restore_shape(made->tensor);
    }
  });
}

aclError report(const aclOpExecutor& executor, const char* cause, aclError code) {
  task_error("%s: %s", describe(executor).c_str(), cause);
  return code;
}

// Note [Refused by the kernel]
// CANN knows in phase 1 which dtypes and shapes an operator takes; ATen's kernels know it when they run. Where one runs in its
// own launch, the launch is refused, as phase 1 would have. In a queue it is too late for that: whoever waits for the stream is
// told, once. Either way the stream stays well, since no kernel ran. So it does after data that the hardware would compute some
// number from, where ATen's kernels give up: integers divided by zero, a matrix that has no such factors.
// An index that leads out of the memory is another matter: the hardware faults, and the stream with it. ATen's exceptions do not
// tell that apart, so the indices are looked at once a kernel has failed.
ErrorKind kind_of(const aclOpExecutor& executor, const std::exception& error) {
  if (const auto* own = dynamic_cast<const Error*>(&error)) return own->kind();
  if (dynamic_cast<const std::bad_alloc*>(&error) || dynamic_cast<const c10::OutOfMemoryError*>(&error)) {
    return ErrorKind::out_of_memory;
  }
  if (dynamic_cast<const c10::NotImplementedError*>(&error)) return ErrorKind::unsupported;
  return indices_lead_outside(executor) ? ErrorKind::index_out_of_range : ErrorKind::bad_argument;
}

aclError fail_by_kind(const aclOpExecutor& executor, const std::exception& error, bool in_own_phase2) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  const char* cause = of_torch ? of_torch->what_without_backtrace() : error.what();
  const aclError code = task_code(kind_of(executor, error));
  if (code != kRefused || !in_own_phase2) return report(executor, cause, code);
  fail(ACLNN_ERR_PARAM_INVALID, "%s: %s", describe(executor).c_str(), cause);
  this_thread.refused = true;
  return ACL_SUCCESS;
}

aclError compute(aclOpExecutor& executor, bool in_own_phase2) {
  const OpInfo& info = *executor.op;
  try {
    if (check::on(check::kInit)) refuse_unwritten(executor);
    const bool saturates = saturating();
    if (!saturates && info.fast && info.fast(executor.slots)) return ACL_SUCCESS;
    const KernelScope scope;
    const bool moves_nonfinite = saturates && reads_nonfinite(executor);
    const StageScope stage(executor);
    info.run(executor.slots);
    check_outputs(executor);
    if (saturates && !moves_nonfinite) saturate_results(executor);
    return ACL_SUCCESS;
  } catch (const std::exception& error) {
    restore_shapes(executor);
    return fail_by_kind(executor, error, in_own_phase2);
  } catch (...) {
    restore_shapes(executor);
    return report(executor, "unknown exception", task_code(ErrorKind::internal));
  }
}

aclError run_again(Task* task, bool skip) {
  auto* executor = static_cast<aclOpExecutor*>(task);
  if (skip) return ACL_SUCCESS;
  const bool in_own_phase2 = this_thread.launching == executor;
  follow_settings(executor->threads, !in_own_phase2 && executor->cost_ns > threshold::threads_from_ns);
  DumpedCall* dumped = dump::is_active() ? begin_dump(*executor) : nullptr;
  const aclError result = compute(*executor, in_own_phase2);
  if (__builtin_expect(fault::armed.load(std::memory_order_relaxed) != 0, 0) && result == ACL_SUCCESS && !this_thread.refused) {
    inject_wrong_value(*executor);
  }
  if (__builtin_expect(dumped != nullptr, 0)) end_dump(dumped, *executor, result != ACL_SUCCESS || this_thread.refused);
  if (__builtin_expect(result != ACL_SUCCESS || this_thread.refused, 0) && dump::watches_failures.load()) dump_failure(*executor);
  if (check::on(check::kInit) && result == ACL_SUCCESS && !this_thread.refused) note_results(*executor);
  if (__builtin_expect(call_record::on, 0) && result == ACL_SUCCESS && !this_thread.refused) record_operator(*executor);
  return result;
}

aclError run_task(Task* task, bool skip) {
  auto* executor = static_cast<aclOpExecutor*>(task);
  const bool in_own_phase2 = this_thread.launching == executor;
  const aclError result = run_again(task, skip);
  recycle_executor(executor, in_own_phase2);
  return result;
}

// A repeatable executor can be launched again while an earlier launch waits, so each launch takes a copy. Its objects can
// be shared: what an executor holds is never changed, only replaced.
aclOpExecutor* snapshot(const aclOpExecutor& source) {
  aclOpExecutor* copy = take_executor();
  copy->op = source.op;
  copy->cost_ns = source.cost_ns;
  copy->name = source.name;
  copy->repeatable = false;
  copy->plan = source.plan;
  std::copy_n(source.slots, source.op->count, copy->slots);
  for_each_bit(source.op->objects, [&](int i) {
    if (Object* object = copy->slots[i].object) hold(object);
  });
  return copy;
}

// Nanoseconds: a call, and memory streamed once.
double default_cost(const aclOpExecutor& executor) {
  double total = 0;
  for_each_bit(executor.op->tensors, [&](int i) {
    if (const auto* made = static_cast<const aclTensor*>(executor.slots[i].object)) total += bytes(made->tensor);
  });
  for_each_bit(executor.op->tensor_lists, [&](int i) {
    if (const auto* list = static_cast<const aclTensorList*>(executor.slots[i].object)) {
      for (const at::Tensor& tensor : list->values) total += bytes(tensor) + list_element_ns / ns_per_byte;
    }
  });
  return call_ns + ns_per_byte * total;
}

// Whether all that the tensor's view reaches lies in one live piece of device memory.
[[gnu::always_inline]] inline bool reaches_live_memory(const aclTensor& made) {
  const auto first = reinterpret_cast<uintptr_t>(made.first_byte());
  const size_t bytes = made.reached_bytes();
  const KnownMemory& known = lists_of_thread().known[(first >> known_shift) % known_places];
  // Wraps around, and so fails, for an address before the known memory.
  if (__builtin_expect(known.epoch == memory_epoch.load(std::memory_order_acquire) && first - known.begin < known.size &&
                           bytes <= known.size - (first - known.begin),
                       1)) {
    return true;
  }
  return bytes == 0 || look_up_memory(first, bytes);
}

aclnnStatus refuse_memory(const OpInfo& info, int index, const aclTensor& made) {
  const void* first = made.first_byte();
  const std::string name = parameter_name(info, index), shape = describe(made.tensor);
  if (!is_device_pointer(first)) {
    return fail(ACLNN_ERR_PARAM_INVALID, "%s: parameter %s, %s, is at %p, which is not device memory", info.name, name.c_str(),
                shape.c_str(), first);
  }
  check_device_range(made.address, static_cast<size_t>(made.tensor.storage_offset() * made.item) + made.reached_bytes());
  return fail(ACLNN_ERR_PARAM_INVALID, "%s: parameter %s, %s: %s", info.name, name.c_str(), shape.c_str(),
              take_recent_error().c_str());
}

aclnnStatus refuse_null(const OpInfo& info, int index) {
  return fail(ACLNN_ERR_PARAM_NULLPTR, "%s: parameter %s is null", info.name, parameter_name(info, index).c_str());
}

// A view beyond the storage that the client describes, but not beyond the memory that it lies in: CANN computes with it, and
// clients describe storage without the offset of the view.
bool lies_in_live_memory(const aclTensor& made) {
  uintptr_t begin = 0;
  size_t size = 0;
  if (!live_memory(made.first_byte(), made.reached_bytes(), &begin, &size)) return false;
  made.storage->set_nbytes(
      static_cast<size_t>((made.tensor.storage_offset() + made.made_extent) * made.item));  // for ATen's own checks
  return true;
}

aclnnStatus refuse_tensor(const OpInfo& info, int index, const aclTensor& made) {
  const std::string name = parameter_name(info, index);
  switch (made.defect) {
    case Defect::type:
      return fail(ACLNN_ERR_PARAM_INVALID, "%s: parameter %s has data type %d, which is not supported", info.name, name.c_str(),
                  static_cast<int>(made.type));
    case Defect::address:
      return fail(ACLNN_ERR_PARAM_INVALID, "%s: parameter %s, %s, has no memory", info.name, name.c_str(),
                  describe(made.tensor).c_str());
    case Defect::alignment:
      return fail(ACLNN_ERR_PARAM_INVALID, "%s: parameter %s, %s, lies at %p, which is no multiple of %lld bytes", info.name,
                  name.c_str(), describe(made.tensor).c_str(), made.address, static_cast<long long>(made.item));
    default:
      if (!is_base_format(made.format)) {
        if (info.blocked >> index & 1) return ACLNN_SUCCESS;
        return fail(ACLNN_ERR_PARAM_INVALID,
                    "%s: parameter %s, %s, is in the storage format %d; this parameter takes base formats", info.name,
                    name.c_str(), describe(made.tensor).c_str(), static_cast<int>(made.format));
      }
      if (lies_in_live_memory(made)) return ACLNN_SUCCESS;
      return fail(ACLNN_ERR_PARAM_INVALID, "%s: parameter %s, %s at offset %lld, reaches beyond its storage of %zu bytes",
                  info.name, name.c_str(), describe(made.tensor).c_str(), static_cast<long long>(made.tensor.storage_offset()),
                  made.storage->nbytes());
  }
}

aclnnStatus refuse_handle(const OpInfo& info, int index, const Object* object) {
  return fail(ACLNN_ERR_PARAM_INVALID, "%s: parameter %s, %p, %s", info.name, parameter_name(info, index).c_str(),
              static_cast<const void*>(object), what_is(object, info.kinds[index]).c_str());
}

[[gnu::always_inline]] inline aclnnStatus check_tensor(const OpInfo& info, int index, const aclTensor& made) {
  if (__builtin_expect(made.defect != Defect::none, 0)) {
    if (const aclnnStatus status = refuse_tensor(info, index, made)) return status;
  }
  if (__builtin_expect(!reaches_live_memory(made), 0)) return refuse_memory(info, index, made);
  return ACLNN_SUCCESS;
}

aclnnStatus check_list(const OpInfo& info, int index, const aclTensorList& list) {
  for (size_t i = 0; i < list.elements.size(); ++i) {
    const aclTensor* element = list.elements[i];
    if (element == nullptr) continue;  // which ones may be left out only the kernel knows
    if (element->tag != list.tags[i]) {
      return fail(ACLNN_ERR_PARAM_INVALID, "%s: element %zu of parameter %s was destroyed", info.name, i,
                  parameter_name(info, index).c_str());
    }
    if (const aclnnStatus status = check_tensor(info, index, *current(element))) return status;
  }
  return ACLNN_SUCCESS;
}

// nullable.txt
aclnnStatus check_needs(const OpInfo& info, const Slot* slots) {
  for (const char* pair = info.needs; *pair; pair += 2) {
    const int one = pair[0] - 1, other = pair[1] - 1;
    if (slots[one].object == nullptr || slots[other].object != nullptr) continue;
    return fail(ACLNN_ERR_PARAM_NULLPTR, "%s: parameter %s is null, which is needed with %s", info.name,
                parameter_name(info, other).c_str(), parameter_name(info, one).c_str());
  }
  return ACLNN_SUCCESS;
}

// result_shapes.txt
void check_shapes(const OpInfo& info, const Slot* slots) {
  for (const char* pair = info.alike; *pair; pair += 2) {
    const int result = pair[0] - 1, like = pair[1] - 1;
    const at::Tensor &out = Arg<const at::Tensor&>::get(slots[result]), &expected = Arg<const at::Tensor&>::get(slots[like]);
    const auto absent = [&](int parameter, const at::Tensor& tensor) {
      return !tensor.defined() || (tensor.numel() == 0 && (info.nullable >> parameter & 1) != 0);
    };
    if (absent(result, out) || absent(like, expected) || out.sizes() == expected.sizes()) continue;
    invalid("%s must have the shape of %s", parameter_name(info, result).c_str(), parameter_name(info, like).c_str());
  }
}

// Checks and takes hold of the objects; on refusal none is held.
aclnnStatus take_objects(const OpInfo& info, aclOpExecutor* made) {
  for (uint64_t mask = info.objects; mask; mask &= mask - 1) {
    const int i = std::countr_zero(mask);
    Slot& slot = made->slots[i];
    aclnnStatus status = ACLNN_SUCCESS;
    if (__builtin_expect(!slot.object, 0)) {
      if (info.nullable >> i & 1) continue;
      status = refuse_null(info, i);
    } else if (__builtin_expect(!is_live(slot.object, info.kinds[i]), 0)) {
      status = refuse_handle(info, i, slot.object);
    } else if (info.tensors >> i & 1) {
      auto* tensor = current(static_cast<aclTensor*>(object_of(slot.object)));
      slot.object = tensor;
      status = check_tensor(info, i, *tensor);
    } else {
      slot.object = object_of(slot.object);
      if (__builtin_expect(info.tensor_lists >> i & 1, 0)) {
        status = check_list(info, i, *static_cast<const aclTensorList*>(slot.object));
      }
    }
    if (__builtin_expect(status != ACLNN_SUCCESS, 0)) {
      for_each_bit(info.objects & ((uint64_t{1} << i) - 1), [&](int earlier) {
        if (Object* object = made->slots[earlier].object) release(object, false);
      });
      return status;
    }
    hold(slot.object);
  }
  return ACLNN_SUCCESS;
}

}  // namespace

aclnnStatus refuse_handle(const char* function, const void* handle, Kind kind) {
  return fail(ACLNN_ERR_PARAM_INVALID, "%s: %p %s", function, handle, what_is(handle, kind).c_str());
}

bool look_up_memory(uintptr_t first, size_t bytes) {
  KnownMemory found;
  found.epoch = memory_epoch.load(std::memory_order_acquire);
  const auto* p = reinterpret_cast<const void*>(first);
  if (!live_memory(p, bytes, &found.begin, &found.size)) return !is_device_pointer(p) && options().host_tensors;
  lists_of_thread().known[(first >> known_shift) % known_places] = found;
  return true;
}

const char* intern(const char* text) {
  if (!text || !*text) return "";
  static auto* texts = new std::set<std::string, std::less<>>();
  static auto* mutex = new std::shared_mutex();
  {
    const std::shared_lock lock(*mutex);
    if (const auto found = texts->find(text); found != texts->end()) return found->c_str();
  }
  const std::unique_lock lock(*mutex);
  return texts->emplace(text).first->c_str();
}

void invalid(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  throw std::invalid_argument(text);
}

at::ScalarType scalar_type(int64_t acl_type) { return to_scalar_type(static_cast<int32_t>(acl_type & 0xffffffff)); }

void set_view_shape(const at::Tensor& out, at::IntArrayRef sizes) {
  aclTensor* made = descriptor_of(out);
  TORCH_INTERNAL_ASSERT(made->kind == Kind::tensor);
  int64_t numel = 1;
  for (const int64_t size : sizes) numel *= size;
  TORCH_CHECK(numel <= made->made_numel, "the result has ", numel, " elements, the output room for ", made->made_numel);
  made->impl->set_sizes_contiguous(sizes);
  made->made_extent = numel;
  made->shape_is_result = true;
}

aclOpExecutor* take_executor() { return take<aclOpExecutor>(executor_pool); }

aclnnStatus finish_prepare(const OpInfo& info, aclOpExecutor* made, uint64_t* workspace, aclOpExecutor** executor) {
  made->op = &info;
  if (__builtin_expect(!workspace || !executor, 0)) {
    give_back(executor_pool, made);
    return fail(ACLNN_ERR_PARAM_NULLPTR, "%s: workspaceSize or executor is null", info.name);
  }
  aclnnStatus status = take_objects(info, made);
  if (__builtin_expect(status != ACLNN_SUCCESS, 0)) {
    give_back(executor_pool, made);
    return status;
  }
  double cost = 0;
  try {
    if (__builtin_expect(info.needs != nullptr, 0)) status = check_needs(info, made->slots);
    if (__builtin_expect(info.alike != nullptr, 0)) check_shapes(info, made->slots);
    cost = info.cost ? info.cost(made->slots) : default_cost(*made);
    if (info.plan != nullptr) made->plan = std::make_shared<const Plan>(info.plan(made->slots));
  } catch (const c10::Error& error) {
    status = fail(ACLNN_ERR_PARAM_INVALID, "%s: %s", describe(*made).c_str(), error.what_without_backtrace());
  } catch (const std::exception& error) {
    status = fail(ACLNN_ERR_PARAM_INVALID, "%s: %s", describe(*made).c_str(), error.what());
  }
  if (__builtin_expect(status != ACLNN_SUCCESS, 0)) {
    recycle_executor(made, false);
    return status;
  }
  made->cost_ns = static_cast<uint32_t>(std::min(cost, 4e9));
  made->repeatable = false;
  made->name = info.name;
  made->tag = Object::tag_of(Kind::executor, ++made->lives % kGenerations);
  *workspace = made->plan ? made->plan->workspace() : 0;
  *executor = handle_of(made);
  return ACLNN_SUCCESS;
}

namespace {

// The handle becomes the object.
aclnnStatus check_executor(const OpInfo& info, aclOpExecutor*& executor) {
  if (__builtin_expect(!executor, 0)) return fail(ACLNN_ERR_PARAM_NULLPTR, "%s: executor is null", info.name);
  if (__builtin_expect(!is_live(executor, Kind::executor), 0)) {
    return fail(ACLNN_ERR_PARAM_INVALID, "%s: the executor, %p, %s", info.name, static_cast<const void*>(executor),
                what_is(executor, Kind::executor).c_str());
  }
  executor = object_of(executor);
  if (__builtin_expect(executor->op != &info, 0)) {
    return fail(ACLNN_ERR_PARAM_INVALID, "%s: the executor belongs to %s", info.name, executor->op->name);
  }
  return ACLNN_SUCCESS;
}

// What is launched: the client's executor, which is the client's no more, also while it waits in a queue; or a copy of it.
[[gnu::always_inline]] inline aclOpExecutor* take_from_client(aclOpExecutor* executor) {
  if (executor->repeatable) return snapshot(*executor);
  executor->tag = 0;
  return executor;
}

// The executor is used up, whatever happens.
aclnnStatus submit_executor(aclOpExecutor* executor, aclrtStream stream) {
  this_thread.threads = client_thread;
  executor->threads = settings_of_launch(executor->cost_ns > threshold::threads_from_ns);
  this_thread.launching = executor;
  if (recorder::is_active()) note_operands(*executor);
  if (check::on(check::kMemory)) note_accesses(*executor);
  const aclError status = submit(stream, executor, executor->cost_ns);
  this_thread.launching = nullptr;
  if (__builtin_expect(status != ACL_SUCCESS, 0)) recycle_executor(executor, false);
  if (__builtin_expect(std::exchange(this_thread.refused, false), 0)) return ACLNN_ERR_PARAM_INVALID;
  return status;
}

}  // namespace

aclnnStatus launch(const OpInfo& info, aclOpExecutor* executor, aclrtStream stream) {
  if (const aclnnStatus wrong = check_executor(info, executor)) return wrong;
  executor = take_from_client(executor);
  if (__builtin_expect(fault::armed.load(std::memory_order_relaxed) != 0, 0)) {
    trace_launch(*executor, stream);
    if (dump::is_active()) dump::note_line(executor);
  }
  return submit_executor(executor, stream);
}

aclnnStatus launch_in_stages(const OpInfo& info, aclOpExecutor* executor, void* workspace, uint64_t bytes, aclrtStream stream) {
  if (const aclnnStatus wrong = check_executor(info, executor)) return wrong;
  executor = take_from_client(executor);
  const std::shared_ptr<const Plan> plan = executor->plan;
  aclnnStatus status = check_workspace(info, *plan, workspace, bytes);
  const Handles comms = status == ACLNN_SUCCESS ? handles_of(info, *plan, &status) : Handles{};
  if (__builtin_expect(fault::armed.load(std::memory_order_relaxed) != 0, 0)) trace_launch(*executor, stream);
  for (uint32_t stage = 0; status == ACLNN_SUCCESS; ++stage) {
    const bool last = stage == plan->exchanges.size();
    aclOpExecutor* part = last ? executor : snapshot(*executor);
    part->stage = stage;
    part->workspace = static_cast<char*>(device_view(workspace));
    if (dump::is_active()) dump::note_line(part);
    status = submit_executor(part, stream);
    if (last) return status;
    if (status == ACLNN_SUCCESS) status = exchange(info, *plan, stage, static_cast<char*>(workspace), comms, stream);
  }
  recycle_executor(executor, false);
  return status;
}

}  // namespace softcann::op

aclOpExecutor::aclOpExecutor() : Object(softcann::op::Kind::executor) {
  run = &softcann::op::run_task;
  repeat = &softcann::op::run_again;
  discard = [](softcann::Task* task) { softcann::op::recycle_executor(static_cast<aclOpExecutor*>(task), false); };
}
