// What a call of an operator is taken to take, where the operator has no estimate of its own: itself, and memory streamed once.
#pragma once

namespace softcann::op {

inline constexpr double call_ns = 400, ns_per_byte = 0.1;
inline constexpr double list_element_ns = call_ns / 2;

}  // namespace softcann::op
