// Arithmetic of reductions.
#pragma once

#include <cstdint>

#include "comm/operation.h"

namespace softcann {

bool can_reduce(HcclDataType type);

// to[j][i] = from[0][i] op from[1][i] op ... from left to right, for all j. 16-bit floating point is computed in
// float32 and rounded once. Integers wrap around; the maximum or minimum with a NaN is NaN. A target may be the same
// memory as a source, but may not overlap one otherwise.
void reduce(HcclDataType type, HcclReduceOp op, const char* const* from, uint32_t sources, char* const* to, uint32_t targets,
            uint64_t count);

}  // namespace softcann
