// Loops that are compiled for newer processors too; the loader takes the best that this one has.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define SOFTCANN_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SOFTCANN_CLONES
#endif

#if defined(__x86_64__) && defined(__GNUC__)
namespace softcann::op {

// For kernels that are written for an instruction set and choose at run time: those of x86-64-v4 and -v3 that they use.
inline bool has_avx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return has;
}
inline bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}

}  // namespace softcann::op
#endif
