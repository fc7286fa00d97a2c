// Operators that clients name: optimizers.
#include <cmath>

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

// var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad; var, m and v again.
NAMED(ApplyAdamD) {
  const double beta1 = call.number(6), beta2 = call.number(7),
               rate = call.number(5) * std::sqrt(1 - call.number(4)) / (1 - call.number(3));
  const at::Tensor grad = widened(call.in(9)), m = widened(call.in(1)) * beta1 + grad * (1 - beta1),
                   v = widened(call.in(2)) * beta2 + grad.square() * (1 - beta2);
  const at::Tensor ahead = call.attribute("use_nesterov", false) ? m * beta1 + grad * (1 - beta1) : m;
  put(call.out(0), widened(call.in(0)) - rate * ahead / (v.sqrt() + call.number(8)));
  put(call.out(1), m);
  put(call.out(2), v);
}
// var, m, v, beta1_power, beta2_power, lr, weight_decay, beta1, beta2, epsilon, grad, (the greatest second moment so far); var, m
// and v again. The powers are those of the step before: this step's are theirs times beta.
NAMED(ApplyAdamW) {
  const double rate = call.number(5), beta1 = call.number(7), beta2 = call.number(8);
  at::Tensor grad = widened(call.in(10));
  if (call.attribute("maximize", false)) grad = -grad;
  const at::Tensor m = widened(call.in(1)) * beta1 + grad * (1 - beta1),
                   v = widened(call.in(2)) * beta2 + grad.square() * (1 - beta2);
  at::Tensor second = v;
  if (call.attribute("amsgrad", false)) {
    TORCH_CHECK(call.in(11).defined(), "amsgrad needs the greatest second moment");
    second = at::maximum(v, widened(call.in(11)));
  }
  const at::Tensor step = m / ((second / (1 - call.number(4) * beta2)).sqrt() + call.number(9));
  put(call.out(0), widened(call.in(0)) * (1 - rate * call.number(6)) - rate / (1 - call.number(3) * beta1) * step);
  put(call.out(1), m);
  put(call.out(2), v);
}
