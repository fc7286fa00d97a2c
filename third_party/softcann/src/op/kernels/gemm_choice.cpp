#include "op/kernels/gemm_choice.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "op/simd/processor.h"
#include "rt/base/options.h"

// Note [Choosing a GEMM]
// libtorch_cpu carries two libraries, a BLAS (MKL as a rule) and oneDNN, and which one is fast depends on processor and
// type: by up to two times for float32, by thirty to a hundred for half types that the processor has no instructions for, which
// are faster in float32. They round differently, so the choice must be the same at each run: it follows from the processor and
// the libraries alone, by the table below. benchmarks/gemm.py measures what it should say on a machine.
namespace softcann::op {
namespace {

using LinearSignature = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
                                   c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);

const std::optional<c10::TypedOperatorHandle<LinearSignature>>& linear_operator() {
  static const auto handle = []() -> std::optional<c10::TypedOperatorHandle<LinearSignature>> {
    const auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!found || !found->hasKernelForDispatchKey(c10::DispatchKey::CPU)) return std::nullopt;
    return found->typed<LinearSignature>();
  }();
  return handle;
}

// What the table is read for.
struct Machine {
  bool x86, amd, mkl, onednn;
  bool fast_bfloat16, fast_float16;
};

// What oneDNN says of the processor, by torch's operator of this name. It would compute on some that have no instructions.
bool onednn_knows(const char* question) {
  const auto found = c10::Dispatcher::singleton().findSchema({question, ""});
  return found && found->typed<bool()>().call();
}

Machine this_machine() {
  Machine machine{};
#if defined(__x86_64__)
  machine.x86 = true;
#endif
  machine.amd = processor().amd;
  machine.mkl = at::hasMKL();
  machine.onednn = linear_operator().has_value();
  machine.fast_bfloat16 = onednn_knows("mkldnn::_is_mkldnn_bf16_supported") && (!machine.x86 || processor().bfloat16);
  machine.fast_float16 = onednn_knows("mkldnn::_is_mkldnn_fp16_supported") && (!machine.x86 || processor().float16);
  return machine;
}

// The table: the first row of the type whose condition holds; `direct` where none does.
struct Row {
  at::ScalarType type;
  bool (*holds)(const Machine&);
  Gemm gemm;
};
constexpr Row table[] = {
    // AMD EPYC 9004, torch 2.13, MKL 2024.2: oneDNN takes 0.77 to 1.0 of MKL's time from 384^3 on. Of processors without AVX-512
    // it took half. On Intel's (Xeon with AVX-512) MKL is the faster one.
    {at::kFloat, [](const Machine& m) { return m.amd && m.mkl && m.onednn; }, Gemm::onednn},
    // EPYC 9004: 0.01 to 0.05 of the time.
    {at::kHalf, [](const Machine& m) { return !m.fast_float16; }, Gemm::widen},
    // With instructions, EPYC 9004: widening takes 1.7 to 2.5 times as long.
    {at::kBFloat16, [](const Machine& m) { return !m.fast_bfloat16; }, Gemm::widen},
};

Gemm choose(at::ScalarType type) {
  const std::string& wanted = options().gemm;
  const bool half = type != at::kFloat;
  if (wanted == "direct") return Gemm::direct;
  if (wanted == "onednn" && !half) {
    TORCH_CHECK(linear_operator(), "SOFTCANN_GEMM=onednn, but this torch was built without oneDNN; unset it");
    return Gemm::onednn;
  }
  if (wanted == "widen" && half) return Gemm::widen;
  const Machine machine = this_machine();
  for (const Row& row : table) {
    if (row.type == type && row.holds(machine)) return row.gemm;
  }
  return Gemm::direct;
}

}  // namespace

Gemm gemm_for(at::ScalarType type) {
  static const Gemm of_float = choose(at::kFloat), of_half = choose(at::kHalf), of_bfloat16 = choose(at::kBFloat16);
  switch (type) {
    case at::kFloat:
      return of_float;
    case at::kHalf:
      return of_half;
    case at::kBFloat16:
      return of_bfloat16;
    default:
      return Gemm::direct;
  }
}

at::Tensor onednn_linear(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& bias) {
  // It takes the second factor transposed.
  return linear_operator()->call(a, b.t(), bias, "none", c10::List<std::optional<at::Scalar>>(), "");
}

}  // namespace softcann::op
