#include "aten/fallback.h"

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include "core/options.h"

namespace torch_npu::native {
namespace {

struct Ledger {
  std::mutex mutex;
  std::map<std::string, FallbackRecord> records;
};

Ledger& ledger() {
  static auto* instance = new Ledger();
  return *instance;
}

uint64_t npu_bytes(const c10::IValue& value) {
  uint64_t bytes = 0;
  auto count = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.is_privateuseone()) bytes += tensor.numel() * tensor.element_size();
  };
  if (value.isTensor()) {
    count(value.toTensor());
  } else if (value.isTensorList()) {
    for (const auto& tensor : value.toTensorVector()) count(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      if (tensor) count(*tensor);
    }
  }
  return bytes;
}

// Adds one call to the ledger; true at the operator's first.
bool enter(const std::string& name, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(ledger().mutex);
  auto& record = ledger().records[name];
  record.op = name;
  record.bytes += bytes;
  return record.calls++ == 0;
}

void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto name = c10::toString(op.operator_name());
  TORCH_CHECK_NOT_IMPLEMENTED(!core::options().fallback_forbidden, name,
                              " is not implemented for the NPU, and running it on the CPU is forbidden "
                              "(TORCH_NPU_FALLBACK_CPU_DISABLE).");
  uint64_t bytes = 0;
  for (const auto& argument : torch::jit::last(*stack, op.schema().arguments().size())) bytes += npu_bytes(argument);
  if (enter(name, bytes) && core::options().fallback_warning) {
    TORCH_WARN(name, " is not implemented for the NPU and runs on the CPU instead: its tensors are copied there and back "
               "at every call. torch_npu.fallbacks() lists such operators.");
  }
  const auto start = std::chrono::steady_clock::now();
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  std::lock_guard<std::mutex> lock(ledger().mutex);
  ledger().records[name].seconds += elapsed.count();
}

}  // namespace

std::vector<FallbackRecord> fallback_ledger() {
  std::lock_guard<std::mutex> lock(ledger().mutex);
  std::vector<FallbackRecord> records;
  for (const auto& [name, record] : ledger().records) records.push_back(record);
  return records;
}

void reset_fallback_ledger() {
  std::lock_guard<std::mutex> lock(ledger().mutex);
  ledger().records.clear();
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>());
}

// Copies read the math bits themselves; PyTorch's own fallback for them would call the copy again.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

}  // namespace torch_npu::native
