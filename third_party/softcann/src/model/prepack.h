// What is made ready once, when a program is loaded, so that its runs are faster.
#pragma once

#include "model/program.h"

namespace softcann::model {

// Convolutions and linear layers with constant weights become products (Note [Packed weights]), together with an addition and an
// activation that alone read what they give. Other products of float16 matrices, which ATen computes by plain loops on most
// processors, are computed in float32; their constants are widened here.
void prepack(Program& program);

}  // namespace softcann::model
