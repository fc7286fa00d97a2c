// Filling tensors with random numbers that are functions of (seed, offset, position).
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <algorithm>

#include "op/kernel.h"
#include "op/philox.h"

namespace softcann::op {

inline PhiloxKey key_of(int64_t seed, int64_t offset) { return {static_cast<uint64_t>(seed), static_cast<uint64_t>(offset)}; }
// Seeds in device memory (captured graphs change them between replays).
PhiloxKey key_of(const at::Tensor& seed, const at::Tensor& offset, int64_t more);

// For ATen's own random kernels. Valid until the next call on this thread.
at::Generator& generator(PhiloxKey key);

constexpr int64_t random_chunk = 4096;  // numbers at a time, in a buffer on the stack; a multiple of philox_batch

// Calls body(first, count, numbers) for pieces of [0, n), on several threads. `words`: random words per element.
template <class Body>
void random_pieces(PhiloxKey key, int64_t n, int64_t words, Body&& body) {
  const int64_t per_chunk = random_chunk / words, chunks = (n + per_chunk - 1) / per_chunk;
  at::parallel_for(0, chunks, 8, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t numbers[random_chunk];
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * per_chunk, count = std::min(per_chunk, n - first);
      const int64_t needed = (count * words + philox_batch - 1) / philox_batch * philox_batch;
      philox(key, chunk * random_chunk, needed, numbers);
      body(first, count, numbers);
    }
  });
}

// Runs fill(contiguous tensor), and copies to `out` when that is laid out otherwise.
template <class Fill>
void through_contiguous(at::Tensor& out, Fill&& fill) {
  if (out.is_contiguous()) {
    fill(out);
    return;
  }
  at::Tensor dense = at::empty(out.sizes(), out.options());
  fill(dense);
  out.copy_(dense);
}

void fill_uniform(at::Tensor& out, double from, double to, PhiloxKey key);
void fill_normal(at::Tensor& out, double mean, double deviation, PhiloxKey key);

}  // namespace softcann::op
