// What is computed behind a convolution or a linear layer.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace softcann::model {

// In the terms of torch's mkldnn:: operators.
struct Activation {
  std::string name = "none";
  std::vector<double> numbers;
  std::optional<std::string> algorithm;  // of gelu

  bool is_none() const { return name == "none"; }
  // Nothing but limits: a loop holds its sums in them as it stores them.
  bool is_clip() const { return is_none() || name == "relu" || name == "hardtanh"; }
  // oneDNN takes the larger or the smaller of two numbers, of which a NaN is neither.
  bool loses_nan_in_library() const { return name == "relu" || name == "hardtanh" || name == "hardsigmoid"; }
};

// In place.
void apply(const Activation& activation, at::Tensor& tensor);

}  // namespace softcann::model
