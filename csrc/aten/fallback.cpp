#include "aten/fallback.h"

#include <chrono>
#include <map>
#include <mutex>
#include <sstream>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "aten/argument_checks.h"
#include "core/generator.h"
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

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const char* why, BoxedRun run) {
  const auto name = c10::toString(op.operator_name());
  uint64_t bytes = 0;
  for (const auto& argument : torch::jit::last(*stack, op.schema().arguments().size())) bytes += npu_bytes(argument);
  if (enter(name, bytes) && core::options().fallback_warning) {
    TORCH_WARN(name, why, " its tensors are copied there and back at every call. torch_npu.fallbacks() lists such operators.");
  }
  const auto start = std::chrono::steady_clock::now();
  run(op, stack);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  bytes = 0;
  for (const auto& returned : torch::jit::last(*stack, op.schema().returns().size())) bytes += npu_bytes(returned);
  std::lock_guard<std::mutex> lock(ledger().mutex);
  auto& record = ledger().records[name];
  record.seconds += elapsed.count();
  record.bytes += bytes;
}

// Spreads the bits of a counter (the finaliser of splitmix64).
uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

// A CPU kernel draws from a CPU generator. It gets one that follows from the NPU's state, so that seeds and states of the
// NPU rule these operators too.
void replace_generators(const c10::FunctionSchema& schema, torch::jit::Stack* stack) {
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto type = arguments[i].type();
    if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (type->kind() != c10::TypeKind::GeneratorType) continue;
    auto& value = (*stack)[stack->size() - arguments.size() + i];
    const auto given = value.isNone() ? std::nullopt : std::make_optional(value.toGenerator());
    TORCH_CHECK(!given || !given->defined() || given->device().is_privateuseone(),
                "Expected a 'npu' device type for generator but found '", given->device().type(), "'");
    const auto [seed, offset] = core::philox_state(given, 4);
    value = at::detail::createCPUGenerator(mixed(seed + mixed(offset + 1)));
  }
}

// The copy of a tensor given by out= would come back to wherever it is, and to places that are not its own.
void check_given_outputs(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& value = stack[stack.size() - arguments.size() + i];
    if (arguments[i].is_out() && value.isTensor()) {
      check_outputs(op.operator_name().name.c_str(), {{arguments[i].name().c_str(), value.toTensor()}});
    }
  }
}

// The copy of a tensor with gaps would be contiguous, but kernels and derivatives agree on what a result is by whether an
// argument was: in older versions of torch, linalg.solve's factors are those of the transposed matrix then.
void keep_out_of_order(const c10::FunctionSchema& schema, torch::jit::Stack* stack) {
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto& value = (*stack)[stack->size() - arguments.size() + i];
    if (!value.isTensor() || (arguments[i].alias_info() && arguments[i].alias_info()->isWrite())) continue;
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.dim() < 2 || tensor.is_non_overlapping_and_dense())
      continue;
    value = tensor.mT().contiguous().mT();
  }
}

void run_dense(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  check_given_outputs(op, *stack);
  replace_generators(op.schema(), stack);
  keep_out_of_order(op.schema(), stack);
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { run_counted(op, stack, run_dense); }

void forced_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  run_on_cpu(op, stack, " runs on the CPU because TORCH_NPU_FALLBACK_OPS names it:", run_dense);
}

void refuse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, c10::toString(op.operator_name()),
                              " packs weights for products on the CPU and takes tensors of the CPU alone.");
}

bool makes_view(const c10::FunctionSchema& schema) {
  for (const auto& returned : schema.returns()) {
    if (returned.alias_info() && !returned.alias_info()->isWrite()) return true;
  }
  return false;
}

}  // namespace

void run_counted(const c10::OperatorHandle& op, torch::jit::Stack* stack, BoxedRun run) {
  TORCH_CHECK_NOT_IMPLEMENTED(!core::options().fallback_forbidden, c10::toString(op.operator_name()),
                              " is not implemented for the NPU, and running it on the CPU is forbidden "
                              "(TORCH_NPU_FALLBACK_CPU_DISABLE).");
  run_on_cpu(op, stack, " is not implemented for the NPU and runs on the CPU instead:", run);
}

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

void apply_fallback_ops() {
  if (core::options().fallback_ops.empty()) return;
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  const auto all = c10::Dispatcher::singleton().getAllOpNames();
  std::istringstream list(core::options().fallback_ops);
  for (std::string wanted; std::getline(list, wanted, ',');) {
    wanted.erase(0, wanted.find_first_not_of(" "));
    wanted.erase(wanted.find_last_not_of(" ") + 1);
    if (wanted.empty()) continue;
    if (wanted.rfind("aten::", 0) != 0) wanted = "aten::" + wanted;
    const bool overload = wanted.find('.') != std::string::npos;
    bool found = false;
    for (const auto& name : all) {
      if (overload ? c10::toString(name) != wanted : name.name != wanted) continue;
      const auto op = c10::Dispatcher::singleton().findOp(name);
      const auto& schema = op->schema();
      TORCH_CHECK_VALUE(!makes_view(schema), "TORCH_NPU_FALLBACK_OPS: ", wanted,
                        " makes a view, which cannot run on another device");
      const bool composed = op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
      TORCH_CHECK_VALUE(!composed || !overload, "TORCH_NPU_FALLBACK_OPS: ", wanted,
                        " is made of other operators on every device; name those");
      if (composed) continue;
      found = true;
      library->impl(c10::toString(name).substr(6).c_str(), torch::CppFunction::makeFromBoxedFunction<&forced_fallback>());
    }
    TORCH_CHECK_VALUE(found, "TORCH_NPU_FALLBACK_OPS: there is no operator ", wanted, ", or it is made of others");
  }
}

// PyTorch serves every device by one function of these, which reads the tensors' memory on the host.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"_rowwise_prune", "_sobol_engine_draw", "_sobol_engine_ff_", "_sobol_engine_initialize_state_",
                           "_sobol_engine_scramble_", "choose_qparams_optimized"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>());
  }
  for (const char* name :
       {"fbgemm_linear_fp16_weight", "fbgemm_linear_fp16_weight.out", "fbgemm_linear_fp16_weight_fp32_activation",
        "fbgemm_linear_fp16_weight_fp32_activation.out", "fbgemm_linear_int8_weight", "fbgemm_linear_int8_weight_fp32_activation",
        "fbgemm_linear_quantize_weight", "fbgemm_pack_gemm_matrix_fp16", "fbgemm_pack_quantized_matrix",
        "fbgemm_pack_quantized_matrix.KN"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>()); }

// Copies read the math bits themselves; PyTorch's own fallback for them would call the copy again.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

// Older versions of torch have nothing at this key, where the NPU has a kernel of what PyTorch makes of other operators.
[[maybe_unused]] const bool autograd_has_fallback = [] {
  constexpr auto key = c10::DispatchKey::AutogradPrivateUse1;
  if (!c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(key)) {
    static auto* library = new torch::Library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
    library->fallback(torch::autograd::basicAutogradNotImplementedFallback());
  }
  return true;
}();

}  // namespace torch_npu::native
