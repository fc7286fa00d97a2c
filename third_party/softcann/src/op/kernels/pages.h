// Rows of sequences as clients describe them: from where to where, and in which pages of a cache. What leads outside is refused,
// where ATen's slices would end early or count from behind.
#pragma once

#include <ATen/ATen.h>

#include "rt/base/error.h"

namespace softcann::op {

inline at::Tensor rows_within(const at::Tensor& t, int64_t dim, int64_t start, int64_t end) {
  TORCH_CHECK(start >= 0 && start <= end && end <= t.size(dim), "a sequence from row ", start, " to ", end, " of ", t.size(dim));
  return t.slice(dim, start, end);
}
// Lengths are told for each sequence, or one for all; none where each is full.
inline void require_lengths(at::IntArrayRef lengths, int64_t sequences, int64_t rows) {
  TORCH_CHECK(lengths.size() < 2 || static_cast<int64_t>(lengths.size()) >= sequences, lengths.size(), " lengths of ", sequences,
              " sequences");
  for (const int64_t length : lengths) {
    TORCH_CHECK(length >= 0 && length <= rows, "a sequence of ", length, " rows, where there are ", rows);
  }
}
// Hardware reads what a block table says, wherever that leads.
inline void require_pages(const at::Tensor& used, const at::Tensor& cache) {
  if (used.numel() == 0 || (used.min().item<int64_t>() >= 0 && used.max().item<int64_t>() < cache.size(0))) return;
  throw Error(ErrorKind::index_out_of_range, c10::str("a block table with pages from ", used.min().item<int64_t>(), " to ",
                                                      used.max().item<int64_t>(), " of a cache that has ", cache.size(0)));
}
// What a number in a tensor leads to, of so many.
inline at::Tensor row_at(const at::Tensor& t, int64_t row) {
  if (row < 0 || row >= t.size(0)) {
    throw Error(ErrorKind::index_out_of_range, c10::str("number ", row, " of ", t.size(0)));
  }
  return t.select(0, row);
}
// The pages, of `rows` each, that have a sequence's first `length` rows. What its row of the table has behind them means nothing.
inline at::Tensor pages_of(const at::Tensor& cache, const at::Tensor& table, int64_t length, int64_t rows) {
  TORCH_CHECK(rows > 0 && length >= 0, "a sequence of ", length, " rows in pages of ", rows);
  const int64_t pages = length / rows + (length % rows != 0 ? 1 : 0);
  TORCH_CHECK(pages <= table.numel(), "a sequence of ", length, " rows needs ", pages, " pages, its block table has ",
              table.numel());
  const at::Tensor used = table.reshape({-1}).slice(0, 0, pages).to(at::kLong);
  require_pages(used, cache);
  return cache.index_select(0, used);
}

}  // namespace softcann::op
