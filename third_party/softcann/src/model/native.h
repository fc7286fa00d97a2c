// Kernels of softcann's own that models may name: control flow, sequences, what ONNX has and ATen has not.
#pragma once

#include "model/program.h"

namespace softcann::model {

using Stack = std::vector<at::IValue>;

// Non-maximum suppression: [kept, 3] of batch, class and box.
void suppress(Machine& machine, Stack& stack);
// Regions pooled to one size, by the mean or the largest of bilinear samples.
void roi_align(Machine& machine, Stack& stack);

// aten::scaled_dot_product_attention, in loops of our own where they take it.
void attend(Machine& machine, Stack& stack);

struct NativeOperator {
  const c10::FunctionSchema* schema;
  Native run;
  bool keeps_lists;
};

// nullptr when there is none of that name.
const NativeOperator* find_native(const std::string& name);

}  // namespace softcann::model
