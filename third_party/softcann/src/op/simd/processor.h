// The features of this processor that kernels are chosen by.
#pragma once

namespace softcann::op {

struct Processor {
  bool amd;
  bool avx2, avx512;       // those of x86-64-v3 and -v4 that kernels use
  bool bfloat16, float16;  // instructions that multiply vectors or tiles of these types
};

const Processor& processor();

}  // namespace softcann::op
