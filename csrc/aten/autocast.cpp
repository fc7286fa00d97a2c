// Autocast on the NPU: PyTorch's own op lists and its own cast policies, for this backend's key.
//
// What an operator does under autocast is thereby PyTorch's decision, torch version by torch version. The lists stand in
// ATen/autocast_mode.h, which pulls in all of ATen: no other file includes it.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace torch_npu::native {
namespace {

// PyTorch's lists name types of ATen without a namespace; which ones depends on the version.
using namespace at;

// The sigmoid before it may round to 0 or 1 in half precision, whose logarithm is infinite.
at::Tensor refuse_binary_cross_entropy(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, int64_t) {
  TORCH_CHECK(false, "binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: use "
              "binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which take the logits, or leave autocast "
              "for this loss (torch.autocast(\"npu\", enabled=False)) and give it float32.");
}

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

}  // namespace torch_npu::native
