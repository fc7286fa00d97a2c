// Kernels of softcann's own that models may name: control flow, sequences, what ONNX has and ATen has not.
#pragma once

#include "model/program.h"

namespace softcann::model {

struct NativeOperator {
  const c10::FunctionSchema* schema;
  Native run;
  bool keeps_lists;
};

// nullptr when there is none of that name.
const NativeOperator* find_native(const std::string& name);

}  // namespace softcann::model
