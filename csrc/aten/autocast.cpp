// Autocast on the NPU: PyTorch's own op lists and its own cast policies, for this backend's key.
//
// What an operator does under autocast is thereby PyTorch's decision, torch version by torch version. The lists stand in
// ATen/autocast_mode.h, which pulls in all of ATen: no other file includes it.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "aten/custom/table.h"

namespace torch_npu::native {
namespace {

// PyTorch's lists name types of ATen without a namespace; which ones depends on the version.
using namespace at;

// The sigmoid before it may round to 0 or 1 in half precision, whose logarithm is infinite.
at::Tensor refuse_binary_cross_entropy(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, int64_t) {
  TORCH_CHECK(false,
              "binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: use "
              "binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which take the logits, or leave autocast "
              "for this loss (torch.autocast(\"npu\", enabled=False)) and give it float32.");
}

// A tensor or a list of tensors, optional ones too.
template <typename Change>
c10::IValue map_tensors(const c10::IValue& value, const Change& change) {
  if (value.isTensor()) return value.toTensor().defined() ? change(value.toTensor()) : value;
  if (!value.isList()) return value;
  auto list = value.toList().copy();
  for (size_t i = 0; i < list.size(); ++i) list.set(i, map_tensors(c10::IValue(list.get(i)), change));
  return list;
}

at::ScalarType cast_type(const CastRule& rule, at::ArrayRef<c10::IValue> arguments) {
  if (rule.policy == CastPolicy::kFloat32) return at::kFloat;
  auto type = at::autocast::get_autocast_dtype(at::kPrivateUse1);
  if (rule.policy == CastPolicy::kLowerPrecision) return type;
  const auto widen = [&](const at::Tensor& tensor) {
    type = at::autocast::prioritize(type, tensor, at::kPrivateUse1);
    return tensor;
  };
  for (const int argument : rule.arguments) map_tensors(arguments[argument], widen);
  return type;
}

// One boxed kernel for the custom operators that custom_ops.yaml gives a rule.
class CustomCast final : public c10::OperatorKernel {
 public:
  explicit CustomCast(const CastRule& rule) : rule_(rule) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
    const size_t begin = stack->size() - op.schema().arguments().size();
    const auto type = cast_type(rule_, at::ArrayRef<c10::IValue>(*stack).slice(begin));
    const auto cast = [&](const at::Tensor& tensor) { return at::autocast::cached_cast(type, tensor, at::kPrivateUse1); };
    for (const int argument : rule_.arguments) {
      auto& value = (*stack)[begin + argument];
      value = map_tensors(value, cast);
    }
    op.callBoxed(stack);
  }

 private:
  const CastRule& rule_;
};

}  // namespace

// Stock PyTorch registers no fallback for this backend's autocast key.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FLOAT32_RESULT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(FLOAT32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT32_RESULT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(WIDEST)
  m.impl("binary_cross_entropy", TORCH_FN(refuse_binary_cross_entropy));
}

TORCH_LIBRARY_IMPL(npu, AutocastPrivateUse1, m) {
  for (const CustomOp& op : custom_ops()) {
    if (op.autocast) m.impl(op.name, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<CustomCast>(*op.autocast)));
  }
}

}  // namespace torch_npu::native
