// Sequences of queries and keys in one tensor, and the keys that an index names for each token.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace softcann::op {

// Numbers out of a tensor of lengths or indices; none out of an absent one.
std::vector<int64_t> host_numbers(const at::Tensor& tensor);

// Note [Layouts of sequences]
// "BSND": a sequence for each batch, of which a length may say how much counts. "TND": packed, lengths are running sums.
// "PA_BSND": keys in pages [pages, rows, ...], with a table for each sequence.
class Sequences {
 public:
  Sequences(const char* op, std::string_view query_layout, std::string_view key_layout, const at::Tensor& query,
            std::vector<int64_t> query_lengths, std::vector<int64_t> key_lengths, const at::Tensor& table);

  int64_t count() const { return count_; }
  bool packed() const { return packed_; }
  // The rows of sequence b: [tokens, ...]
  at::Tensor query(const at::Tensor& tensor, int64_t b) const;
  at::Tensor key(const at::Tensor& tensor, int64_t b) const;

 private:
  bool packed_, paged_, packed_keys_;
  std::vector<int64_t> query_lengths_, key_lengths_;
  at::Tensor table_;
  int64_t count_;
};

// Keys of each token [tokens, keys]; those that it does not see have the place 0.
struct ChosenKeys {
  at::Tensor places, seen;

  ChosenKeys slice(int64_t start, int64_t end) const { return {places.slice(0, start, end), seen.slice(0, start, end)}; }
  // Rows of `key` [keys, size] as [tokens, keys, size]
  at::Tensor of(const at::Tensor& key) const;
};
// Blocks of `block` keys that `index` [tokens, blocks] names, -1 none; `causal`: up to the token's own, counted from the end.
ChosenKeys chosen_keys(const at::Tensor& index, int64_t block, int64_t keys, bool causal);
// Every key, or with `causal` those up to the token's own.
ChosenKeys all_keys(int64_t tokens, int64_t keys, bool causal);

// Calls each(start, end) for so many tokens at once that `numbers_each` of each fit in a few megabytes.
template <class Each>
void in_chunks(int64_t tokens, int64_t numbers_each, Each&& each) {
  constexpr int64_t at_once = int64_t{1} << 22;
  const int64_t step = std::max<int64_t>(1, at_once / std::max<int64_t>(1, numbers_each));
  for (int64_t start = 0; start < tokens; start += step) each(start, std::min(tokens, start + step));
}

}  // namespace softcann::op
