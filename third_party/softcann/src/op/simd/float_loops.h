// Loops over plain arrays of float32, shared by the operators of one tensor and of lists. `out` may be an operand.
#pragma once

#include <cstdint>

namespace softcann::op::loops {

void sums(float* out, const float* a, const float* b, float factor, int64_t count);  // a + factor * b
void products(float* out, const float* a, const float* b, int64_t count);
void quotients(float* out, const float* a, const float* b, int64_t count);
void plus(float* out, const float* a, float number, int64_t count);
void times(float* out, const float* a, float number, int64_t count);
void over(float* out, const float* a, float number, int64_t count);
// Rounded as ATen's vectors do it, once for a product and a sum where the processor can.
void add_products(float* out, const float* self, const float* a, const float* b, float factor,
                  int64_t count);  // self + factor * a * b
void add_quotients(float* out, const float* self, const float* a, const float* b, float factor,
                   int64_t count);  // self + factor * a / b
// from + weight * (to - from), from the end that the weight is nearer to.
void mix(float* out, const float* from, const float* to, float weight, int64_t count);
// out(j) = the sum over i of rows(i, j), added up in groups of sixteen so that rounding does not grow with the rows.
void column_sums(float* __restrict out, const float* rows, int64_t count, int64_t columns);

}  // namespace softcann::op::loops
