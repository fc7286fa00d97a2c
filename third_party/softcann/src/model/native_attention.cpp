#include <ATen/core/dispatch/Dispatcher.h>

#include <cmath>

#include "model/native.h"
#include "op/kernels/panel_attention.h"

namespace softcann::model {

void attend(Machine&, Stack& stack) {
  enum Argument : size_t { query = 0, key, value, mask, dropout, causal, scale };
  const at::Tensor& asking = stack[query].toTensor();
  if (stack[dropout].toDouble() == 0 && !stack[causal].toBool() && asking.dim() > 0) {
    const double factor = stack[scale].isNone() ? 1 / std::sqrt(static_cast<double>(asking.size(-1))) : stack[scale].toDouble();
    const at::Tensor added = stack[mask].isNone() ? at::Tensor() : stack[mask].toTensor();
    if (auto made = op::attend_in_panels(asking, stack[key].toTensor(), stack[value].toTensor(), added, factor)) {
      stack = {*std::move(made)};
      return;
    }
  }
  static const auto whole = c10::Dispatcher::singleton().findSchemaOrThrow("aten::scaled_dot_product_attention", "");
  whole.callBoxed(stack);
}

}  // namespace softcann::model
