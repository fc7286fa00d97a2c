// libnnopbase: other names of libopapi, which it leads on to, and the one method of CANN's classes that needs libgraph's texts.
#include <complex>
#include <cstdio>

#include "aclnn/acl_meta.h"
#include "graph/ascend_string.h"

#pragma GCC visibility push(default)
std::complex<double> softcann_scalar_complex128(const aclScalar* handle) asm("_ZNK9aclScalar12ToComplex128Ev");
ge::AscendString softcann_scalar_text(const aclScalar* handle) asm("_ZNK9aclScalar8ToStringEv");

ge::AscendString softcann_scalar_text(const aclScalar* handle) {
  const std::complex<double> value = softcann_scalar_complex128(handle);
  char text[64];
  if (value.imag() == 0) {
    std::snprintf(text, sizeof text, "%g", value.real());
  } else {
    std::snprintf(text, sizeof text, "%g%+gj", value.real(), value.imag());
  }
  return ge::AscendString(text);
}
#pragma GCC visibility pop
