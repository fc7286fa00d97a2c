// F.dropout while training.
//
// Note [Dropout by bits]
// PyTorch makes dropout of native_dropout, whose bool mask the backward multiplies by. CANN's mask is a bit for each element, and
// its operator applies that to gradients too: the bools, three launches and eight times the memory, are made for nobody. So
// dropout has a kernel of its own here, which keeps the bits. It stays PyTorch's composition where more than autograd looks on:
// transforms of torch.func, dispatch modes such as a compiler's, tangents.
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/ops/dropout_native.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "aten/custom/dropout.h"
#include "aten/factory.h"
#include "aten/kernel.h"
#include "core/generator.h"

namespace torch_npu::native {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor masked(const at::Tensor& self, const at::Tensor& bits, double p);

class MaskedByBits : public torch::autograd::Function<MaskedByBits> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& self, const at::Tensor& bits, double p) {
    context->save_for_backward({bits});
    context->saved_data["p"] = p;
    const at::AutoDispatchBelowADInplaceOrView below;
    const DeviceScope scope(self);
    return dropout_by_mask(self, bits, p, at::empty_like(self));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto bits = context->get_saved_variables()[0];
    return {masked(gradients[0], bits, context->saved_data["p"].toDouble()), {}, {}};
  }
};

at::Tensor masked(const at::Tensor& self, const at::Tensor& bits, double p) {
  if (!at::isTensorSubclassLike(self)) return MaskedByBits::apply(self, bits, p);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("npu::npu_dropout_backward", "")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&, double)>();
  return op.call(self, bits, p);
}

at::Tensor dropout(const at::Tensor& self, double p, bool train) {
  const bool by_bits = train && p > 0 && p < 1 && is_dropped_by_cann(self.scalar_type()) && !at::isTensorSubclassLike(self) &&
                       self.numel() != 0 && !self._fw_grad(/*level=*/0).defined();
  if (!by_bits) return at::native::dropout(self, p, train);
  const DeviceScope scope(self);
  const auto bits = dropout_mask(self, self.numel(), p, core::draw(std::nullopt, self.numel()));
  return MaskedByBits::apply(self, bits, p);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("dropout", dropout); }

}  // namespace
}  // namespace torch_npu::native
