#include "op/simd/processor.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

namespace softcann::op {
namespace {

Processor detect() {
  Processor found{};
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  found.amd = __builtin_cpu_is("amd");
  found.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  found.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl");
  // Compilers learnt the names of these one by one.
  constexpr unsigned features = 7, avx512_fp16 = 1U << 23, avx512_bf16 = 1U << 5, amx_fp16 = 1U << 21, amx_bf16 = 1U << 22;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (found.avx512 && __get_cpuid_count(features, 0, &a, &b, &c, &d)) {
    found.float16 = d & avx512_fp16;
    found.bfloat16 = d & amx_bf16;
    if (__get_cpuid_count(features, 1, &a, &b, &c, &d)) {
      found.float16 = found.float16 || a & amx_fp16;
      found.bfloat16 = found.bfloat16 || a & avx512_bf16;
    }
  }
#endif
  return found;
}

}  // namespace

const Processor& processor() {
  static const Processor found = detect();
  return found;
}

}  // namespace softcann::op
