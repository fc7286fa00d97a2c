// Operators that clients name: optimizers.
#include <ATen/ATen.h>

#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

// var, m, v, lr, beta1, beta2, epsilon, grad, max_grad_norm, global_grad_norm, weight_decay, step_size; var, m and v again.
NAMED(ApplyAdamV2) {
  const auto mode = call.attribute<std::string>("adam_mode", "adam");
  TORCH_CHECK(mode == "adam" || mode == "mbart_adam", "adam_mode ", mode, " is not known");
  const bool plain = mode == "adam";
  at::Tensor grad = widened(call.in(7));
  const double lr = call.number(3), beta1 = call.number(4), beta2 = call.number(5), most = call.number(8), norm = call.number(9),
               decay = call.number(10);
  if (plain && most > 0 && norm > most) grad = grad * (most / norm);
  const at::Tensor var = widened(call.in(0)), m = widened(call.in(1)) * beta1 + grad * (1 - beta1),
                   v = widened(call.in(2)) * beta2 + grad.square() * (1 - beta2), step = m / (v.sqrt() + call.number(6));
  put(call.out(0), plain ? var - lr * (step + decay * var) : (var - call.number(11) * step) * (1 - lr * decay));
  put(call.out(1), m);
  put(call.out(2), v);
}
