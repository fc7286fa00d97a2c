#include "op/check_numbers.h"

#include <sstream>

#include <ATen/core/Formatting.h>

#include "core/capture.h"
#include "core/options.h"
#include "op/operands.h"
#include "op/parameters.h"

namespace torch_npu::op {
namespace {

// The copies below launch operators too.
thread_local bool copying = false;
struct Copying {
  Copying() { copying = true; }
  ~Copying() { copying = false; }
};

bool can_be_bad(const at::Tensor& tensor) {
  return tensor.defined() && tensor.numel() != 0 && (at::isFloatingType(tensor.scalar_type()) || tensor.is_complex());
}

// Flat index of the first element that is not finite; -1 if all are.
int64_t first_bad(const at::Tensor& tensor, at::Tensor& host) {
  if (!can_be_bad(tensor)) return -1;
  const Copying guard;
  host = tensor.cpu().contiguous();
  const auto bad = host.isfinite().logical_not_().flatten();
  return bad.any().item<bool>() ? bad.to(at::kByte).argmax().item<int64_t>() : -1;
}

std::vector<int64_t> coordinates(int64_t flat, at::IntArrayRef sizes) {
  std::vector<int64_t> index(sizes.size());
  for (size_t d = sizes.size(); d-- > 0; flat /= sizes[d]) index[d] = flat % sizes[d];
  return index;
}

const bool from_environment = [] {
  try {
    if (core::options().check_nan_inf) set_check_numbers(true);
  } catch (const c10::Error&) {  // while the library is loaded nobody could catch it: options() throws again at first use
  }
  return true;
}();

}  // namespace

std::atomic<unsigned> argument_watchers{0};

void set_argument_watcher(ArgumentWatcher watcher, bool on) {
  if (on) {
    argument_watchers.fetch_or(watcher);
  } else {
    argument_watchers.fetch_and(~static_cast<unsigned>(watcher));
  }
}

void set_check_numbers(bool on) { set_argument_watcher(kNumbers, on); }

namespace {

// False while a check copies tensors itself.
bool operands_are_finite(const char* op, c10::ArrayRef<NumberSource> sources) {
  if (copying || core::is_capturing(core::current_stream())) return false;
  const Parameters* parameters = parameters_of(op);
  at::Tensor host;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!sources[i].finite) return false;
    // What is only written holds whatever was in the memory.
    if (parameters != nullptr && !parameters->reads(i)) continue;
    for (const auto& tensor : sources[i].tensors) {
      if (first_bad(tensor, host) >= 0) return false;
    }
  }
  return true;
}

}  // namespace

bool watch_arguments(const char* op, c10::ArrayRef<NumberSource> sources) {
  const unsigned watchers = argument_watchers.load(std::memory_order_relaxed);
  if ((watchers & kOperands) != 0) note_operands(op, sources);
  return (watchers & kNumbers) != 0 && operands_are_finite(op, sources);
}

void check_results(const char* op, c10::ArrayRef<NumberSource> sources) {
  const Parameters* parameters = parameters_of(op);
  for (size_t i = 0; i < sources.size(); ++i) {
    if (parameters == nullptr || !parameters->writes(i)) continue;
    for (size_t t = 0; t < sources[i].tensors.size(); ++t) {
      at::Tensor host;
      const auto flat = first_bad(sources[i].tensors[t], host);
      if (flat < 0) continue;
      const auto value = host.flatten().select(0, flat).item();
      std::ostringstream list;
      if (sources[i].tensors.size() > 1) list << " (tensor " << t << " of the list)";
      TORCH_CHECK(false, op, " made ", value, " of finite operands: argument '", parameters->name(i), "'", list.str(),
                  ", first at index ", at::IntArrayRef(coordinates(flat, host.sizes())), " of shape ", host.sizes(), ", dtype ",
                  host.scalar_type(), ". (TORCH_NPU_CHECK_NAN_INF)");
    }
  }
}

}  // namespace torch_npu::op
