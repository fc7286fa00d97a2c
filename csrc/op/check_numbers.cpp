#include "op/check_numbers.h"

#include <sstream>
#include <string_view>

#include <ATen/core/Formatting.h>

#include "core/capture.h"
#include "core/options.h"

namespace torch_npu::op {
namespace {

struct ParameterNames {
  std::string_view op, names;
};
constexpr ParameterNames kNames[] = {
#include "aclnn/aclnn_names.inc"
};

// The copies below launch operators too.
thread_local bool copying = false;
struct Copying {
  Copying() { copying = true; }
  ~Copying() { copying = false; }
};

std::string parameter_name(std::string_view op, size_t position) {
  for (const auto& row : kNames) {
    if (row.op != op) continue;
    std::istringstream words{std::string(row.names)};
    std::string name;
    for (size_t i = 0; i <= position; ++i) words >> name;
    return name;
  }
  return "number " + std::to_string(position + 1);
}

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

std::atomic<bool> numbers_are_checked{false};

void set_check_numbers(bool on) { numbers_are_checked.store(on); }

bool operands_are_finite(const char* op, c10::ArrayRef<NumberSource> sources) {
  if (copying || core::is_capturing(core::current_stream())) return false;
  // An operator in place reads what it writes; other results hold whatever was in the memory.
  const bool in_place = std::string_view(op).find("Inplace") != std::string_view::npos;
  at::Tensor host;
  for (const auto& source : sources) {
    if (!source.finite) return false;
    if (source.written && !in_place) continue;
    for (const auto& tensor : source.tensors) {
      if (first_bad(tensor, host) >= 0) return false;
    }
  }
  return true;
}

void check_results(const char* op, c10::ArrayRef<NumberSource> sources) {
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!sources[i].written) continue;
    for (size_t t = 0; t < sources[i].tensors.size(); ++t) {
      at::Tensor host;
      const auto flat = first_bad(sources[i].tensors[t], host);
      if (flat < 0) continue;
      const auto value = host.flatten().select(0, flat).item();
      std::ostringstream list;
      if (sources[i].tensors.size() > 1) list << " (tensor " << t << " of the list)";
      TORCH_CHECK(false, op, " made ", value, " of finite operands: argument '", parameter_name(op, i), "'", list.str(),
                  ", first at index ", at::IntArrayRef(coordinates(flat, host.sizes())), " of shape ", host.sizes(), ", dtype ",
                  host.scalar_type(), ". (TORCH_NPU_CHECK_NAN_INF)");
    }
  }
}

}  // namespace torch_npu::op
