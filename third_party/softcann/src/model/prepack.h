// What is made ready once, when a program is loaded, so that its runs are faster.
#pragma once

#include "model/program.h"

namespace softcann::model {

// Note [Prepacked weights]
// oneDNN keeps a convolution's weights in an order of its own, and ATen's convolution puts them into it at each call. Here it
// is done once, the ReLU behind a convolution is computed by it, and its input is brought into the order of channels last,
// in which oneDNN computes without further copies and which the following operators keep.
// Products of float16 matrices ATen computes by plain loops on most processors. They are computed in float32, as libopapi does
// it (SOFTCANN_GEMM), and rounded once; constants are widened here.
void prepack(Program& program);

}  // namespace softcann::model
