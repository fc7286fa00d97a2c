#include "model/activation.h"

#include <ATen/ops/clamp.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>

#include <map>
#include <string_view>

namespace softcann::model {

void apply(const Activation& activation, at::Tensor& tensor) {
  using Operation = void (*)(const Activation&, at::Tensor&);
  static const std::map<std::string_view, Operation> operations = {
      {"none", [](const Activation&, at::Tensor&) {}},
      {"relu", [](const Activation&, at::Tensor& t) { at::relu_(t); }},
      {"sigmoid", [](const Activation&, at::Tensor& t) { at::sigmoid_(t); }},
      {"tanh", [](const Activation&, at::Tensor& t) { at::tanh_(t); }},
      {"swish", [](const Activation&, at::Tensor& t) { at::silu_(t); }},
      {"hardswish", [](const Activation&, at::Tensor& t) { at::hardswish_(t); }},
      {"hardsigmoid", [](const Activation&, at::Tensor& t) { at::hardsigmoid_(t); }},
      {"gelu", [](const Activation& a, at::Tensor& t) { at::gelu_(t, *a.algorithm); }},
      {"leaky_relu", [](const Activation& a, at::Tensor& t) { at::leaky_relu_(t, a.numbers.at(0)); }},
      {"hardtanh", [](const Activation& a, at::Tensor& t) { at::clamp_(t, a.numbers.at(0), a.numbers.at(1)); }}};
  operations.at(activation.name)(activation, tensor);
}

}  // namespace softcann::model
