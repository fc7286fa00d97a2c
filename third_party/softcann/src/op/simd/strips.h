// Elementwise loops of our own over tensors of any strides. See Note [Strips].
#pragma once

#include <ATen/TensorIterator.h>
#include <algorithm>
#include <array>
#include <tuple>

// Note [Strips]
// Some of ATen's CPU loops take one element after the other, branch on each, or convert their result apart. What replaces
// them here is a function over plain arrays, which the compiler turns into vectors (op/simd/clones.h). ATen's iterator brings
// the tensors into a common order and cuts the work for the threads; operands whose elements do not lie side by side are
// brought into a strip first, which stays in the nearest cache: numbers, broadcast rows, every second column.
namespace softcann::op {

constexpr int64_t most_in_strip = 512;

namespace strips {

template <class T>
using Room = std::array<T, most_in_strip>;

// `count` elements from `from` on: where they are, or in `room`. A stride of 0 has been seen to before.
template <class T>
[[gnu::always_inline]] inline const T* operand(const char* from, int64_t stride, int64_t count, Room<T>& room) {
  if (stride == static_cast<int64_t>(sizeof(T))) return reinterpret_cast<const T*>(from);
  if (stride != 0) {
    for (int64_t i = 0; i < count; ++i) room[static_cast<size_t>(i)] = *reinterpret_cast<const T*>(from + i * stride);
  }
  return room.data();
}
template <class T>
[[gnu::always_inline]] inline void repeat(const char* from, int64_t stride, int64_t count, Room<T>& room) {
  if (stride == 0) std::fill_n(room.data(), std::min(count, most_in_strip), *reinterpret_cast<const T*>(from));
}

template <class Out, class... In, class F, size_t... I>
void row(char** data, const int64_t* strides, int64_t count, F&& compute, std::index_sequence<I...>) {
  Room<Out> result;
  std::tuple<Room<In>...> rooms;
  (repeat<In>(data[I + 1], strides[I + 1], count, std::get<I>(rooms)), ...);
  const bool dense = strides[0] == static_cast<int64_t>(sizeof(Out));
  for (int64_t start = 0; start < count; start += most_in_strip) {
    const int64_t length = std::min(most_in_strip, count - start);
    char* const place = data[0] + start * strides[0];
    Out* const out = dense ? reinterpret_cast<Out*>(place) : result.data();
    compute(out, operand<In>(data[I + 1] + start * strides[I + 1], strides[I + 1], length, std::get<I>(rooms))..., length);
    if (dense) continue;
    for (int64_t i = 0; i < length; ++i) *reinterpret_cast<Out*>(place + i * strides[0]) = result[static_cast<size_t>(i)];
  }
}

}  // namespace strips

// compute(out, inputs..., count) for arrays of `count` elements each; `out` may be one of the inputs. The iterator has one
// output of Out and inputs of In, in this order.
template <class Out, class... In, class F>
void by_strips(at::TensorIteratorBase& iterator, F&& compute) {
  iterator.for_each([&](char** data, const int64_t* strides, int64_t count) {
    strips::row<Out, In...>(data, strides, count, compute, std::index_sequence_for<In...>());
  });
}

// The iterator of `inputs` broadcast to `out`, which has its size. Refuses memory shared in part, as ATen's operators do.
template <class... In>
at::TensorIterator strips_of(const at::Tensor& out, const In&... inputs) {
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).resize_outputs(false).add_output(out);
  (config.add_const_input(inputs), ...);
  return config.build();
}

}  // namespace softcann::op
