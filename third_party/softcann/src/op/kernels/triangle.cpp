// The triangles of matrices.
#include <ATen/MemoryOverlap.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/simd/thresholds.h"

using namespace softcann::op;

namespace {

enum class Keep { lower, upper };

// Rows of matrices that lie one after the other: what is kept is copied, unless it is there, the rest becomes zero.
void cut_rows(const char* from, char* to, const at::Tensor& out, int64_t diagonal, Keep keep) {
  const int64_t height = out.size(-2), width = out.size(-1), size = static_cast<int64_t>(out.itemsize()), row = width * size;
  at::parallel_for(0, out.numel() / width, std::max<int64_t>(1, 4 * threshold::grain / row), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      // The diagonal's column, or the one after it, parts the row. In a wide integer, since `diagonal` may be any.
      const __int128 after = static_cast<__int128>(i % height) + diagonal + (keep == Keep::lower ? 1 : 0);
      const int64_t parted = static_cast<int64_t>(std::clamp<__int128>(after, 0, width)) * size;
      char* const target = to + i * row;
      const int64_t kept = keep == Keep::lower ? 0 : parted, length = keep == Keep::lower ? parted : row - parted;
      if (from != to) std::memcpy(target + kept, from + i * row + kept, static_cast<size_t>(length));
      std::memset(target + (keep == Keep::lower ? parted : 0), 0, static_cast<size_t>(row - length));
    }
  });
}

void triangle(const at::Tensor& self, int64_t diagonal, const at::Tensor& out, Keep keep) {
  const bool plain = self.scalar_type() == out.scalar_type() && self.sizes() == out.sizes() && self.dim() >= 2 &&
                     self.is_contiguous() && out.is_contiguous();
  if (!plain ||
      (self.const_data_ptr() != out.const_data_ptr() && at::get_overlap_status(self, out) != at::MemOverlapStatus::No)) {
    return put(out, keep == Keep::lower ? at::tril(self, diagonal) : at::triu(self, diagonal));
  }
  if (out.numel())
    cut_rows(static_cast<const char*>(self.const_data_ptr()), static_cast<char*>(out.mutable_data_ptr()), out, diagonal, keep);
}

}  // namespace

OP(aclnnTril) { triangle(self, diagonal, out, Keep::lower); }
OP(aclnnTriu) { triangle(self, diagonal, out, Keep::upper); }
OP(aclnnInplaceTril) { triangle(selfRef, diagonal, selfRef, Keep::lower); }
OP(aclnnInplaceTriu) { triangle(selfRef, diagonal, selfRef, Keep::upper); }
