// Attention to the blocks of keys that a mask names, and attention from pairs over all third elements (Floyd attention).
#include <algorithm>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/dense_attention.h"
#include "op/kernels/pages.h"

using namespace softcann::op;

namespace {

struct BlockSparse {
  const char* op;
  const at::Tensor &query, &key, &value, &mask;
  at::IntArrayRef block, query_lengths, key_lengths;
  std::string_view layout;
  double scale;

  bool packed() const { return layout == "TND"; }
  int64_t count() const { return packed() ? static_cast<int64_t>(query_lengths.size()) : query.size(0); }
  // The rows of sequence b, heads first.
  at::Tensor part(const at::Tensor& tensor, at::IntArrayRef lengths, int64_t b) const {
    const auto i = static_cast<size_t>(b);
    TORCH_CHECK(lengths.empty() || static_cast<int64_t>(lengths.size()) >= count(), op, ": ", lengths.size(), " lengths of ",
                count(), " sequences");
    if (!packed()) return rows_within(tensor[b], 1, 0, lengths.empty() ? tensor.size(2) : lengths[i]);
    int64_t start = 0;
    for (size_t before = 0; before < i; ++before) start += lengths[before];
    return rows_within(tensor, 0, start, start + lengths[i]).transpose(0, 1);
  }
  // What rows start to end of sequence b do not see.
  at::Tensor hidden(int64_t b, int64_t keys, int64_t start, int64_t end) const {
    if (!given(mask)) return {};
    const at::Tensor rows = mask[b].index_select(1, at::arange(start, end, at::kLong).div(block[0], "floor"));
    return rows.to(at::kBool).logical_not().repeat_interleave(block[1], -1).slice(-1, 0, keys);
  }
  // Calls each(b, the attention of sequence b).
  template <class Each>
  void of_sequences(Each&& each) const {
    for (int64_t b = 0; b < count(); ++b) {
      const at::Tensor keys = part(key, key_lengths, b);
      each(b, DenseAttention{widened(part(query, query_lengths, b)), widened(keys), widened(part(value, key_lengths, b)), scale,
                             [&](int64_t start, int64_t end) { return hidden(b, keys.size(1), start, end); }});
    }
  }
};

double block_sparse_cost(const BlockSparse& a, std::string_view key_layout, int64_t mask_type, const at::Tensor& attention_mask,
                         double cost) {
  if ((a.layout != "TND" && a.layout != "BNSD") || key_layout != a.layout) {
    invalid("%s: layouts %s and %s are not supported; TND and BNSD of both are", a.op, a.layout.data(), key_layout.data());
  }
  if (a.query_lengths.size() != a.key_lengths.size() || (a.packed() && a.query_lengths.empty())) {
    invalid("%s: lengths of queries and of keys must both be given for TND, and both or none for BNSD", a.op);
  }
  if (given(a.mask) && (a.block.size() < 2 || a.block[0] <= 0 || a.block[1] <= 0)) {
    invalid("%s: blockShape is two positive sizes, of queries and of keys", a.op);
  }
  if (mask_type != 0 || given(attention_mask)) invalid("%s: maskType %d and attenMask are not supported", a.op, int(mask_type));
  return cost;
}

}  // namespace

#define BLOCK_SPARSE(NAME)                                                                                                       \
  BlockSparse {                                                                                                                  \
    #NAME, query, key, value, blockSparseMaskOptional, blockShapeOptional, actualSeqLengthsOptional, actualSeqLengthsKvOptional, \
        qInputLayout, scaleValue                                                                                                 \
  }

OP_COST(aclnnBlockSparseAttention, block_sparse_cost(BLOCK_SPARSE(aclnnBlockSparseAttention), kvInputLayout, maskType,
                                                     attenMaskOptional, bytes(query) * static_cast<double>(key.size(-2)))) {
  TORCH_CHECK(!given(blockTableOptional), "aclnnBlockSparseAttention: keys in pages are not supported");
  const BlockSparse blocks = BLOCK_SPARSE(aclnnBlockSparseAttention);
  const bool statistics = softmaxLseFlag != 0 && given(softmaxLseOptional);
  writable(attentionOut).zero_();
  if (statistics) writable(softmaxLseOptional).zero_();
  blocks.of_sequences([&](int64_t b, const DenseAttention& attention) {
    const auto result = attention.forward();
    put(blocks.part(attentionOut, actualSeqLengthsOptional, b), result.out);
    if (statistics) put(blocks.part(softmaxLseOptional, actualSeqLengthsOptional, b), result.log_sum);
  });
}

// The softmax is taken again, in float32: the client's statistics and result are rounded.
OP_COST(aclnnBlockSparseAttentionGrad,
        3 * block_sparse_cost(BLOCK_SPARSE(aclnnBlockSparseAttentionGrad), kvInputLayout, maskType, attenMaskOptional,
                              bytes(query) * static_cast<double>(key.size(-2)))) {
  const BlockSparse blocks = BLOCK_SPARSE(aclnnBlockSparseAttentionGrad);
  for (const at::Tensor& out : {dq, dk, dv}) writable(out).zero_();
  blocks.of_sequences([&](int64_t b, const DenseAttention& attention) {
    const auto found = attention.backward(widened(blocks.part(dout, actualSeqLengthsOptional, b)));
    put(blocks.part(dq, actualSeqLengthsOptional, b), found.query);
    put(blocks.part(dk, actualSeqLengthsKvOptional, b), found.key);
    put(blocks.part(dv, actualSeqLengthsKvOptional, b), found.value);
  });
}

namespace {

// From pairs (i, k) over all j. Queries [batch, heads, n, m, size], keys and values of (i, j) [..., n, j, size] and of (j, k)
// [..., j, m, size].
struct Floyd {
  at::Tensor query, key1, value1, key2, value2, scores;

  Floyd(const at::Tensor& q, const at::Tensor& k1, const at::Tensor& v1, const at::Tensor& k2, const at::Tensor& v2,
        const at::Tensor& mask, double scale)
      : query(widened(q)), key1(widened(k1)), value1(widened(v1)), key2(widened(k2)), value2(widened(v2)) {
    scores = of(query, key1, key2) * scale;
    if (given(mask)) scores = scores.masked_fill(mask.to(at::kBool), -std::numeric_limits<double>::infinity());
  }
  // [batch, heads, n, m, j]: with both keys, or both values
  static at::Tensor of(const at::Tensor& query, const at::Tensor& first, const at::Tensor& second) {
    return at::einsum("bhnmd,bhnkd->bhnmk", {query, first}) + at::einsum("bhnmd,bhkmd->bhnmk", {query, second});
  }
  static at::Tensor weighted(const at::Tensor& weights, const at::Tensor& first, const at::Tensor& second) {
    return at::einsum("bhnmk,bhnkd->bhnmd", {weights, first}) + at::einsum("bhnmk,bhkmd->bhnmd", {weights, second});
  }
};

double floyd_cost(const at::Tensor& query, const at::Tensor& key) { return bytes(query) * static_cast<double>(key.size(3)); }

}  // namespace

OP_COST(aclnnFusedFloydAttention, floyd_cost(query, key1)) {
  const Floyd floyd(query, key1, value1, key2, value2, attenMaskOptional, scaleValueOptional);
  const at::Tensor top = floyd.scores.amax({-1}, true);
  put(softmaxMaxOut, top.expand(softmaxMaxOut.sizes()));
  put(softmaxSumOut, (floyd.scores - top).exp().sum({-1}, true).expand(softmaxSumOut.sizes()));
  put(attentionOutOut, Floyd::weighted(at::softmax(floyd.scores, -1), floyd.value1, floyd.value2));
}

OP_COST(aclnnFusedFloydAttentionGrad, 3 * floyd_cost(query, key1)) {
  const Floyd floyd(query, key1, value1, key2, value2, attenMaskOptional, scaleValue);
  const at::Tensor grad = widened(dy), weights = at::softmax(floyd.scores, -1);
  const at::Tensor by_weights = Floyd::of(grad, floyd.value1, floyd.value2);
  const at::Tensor by_scores = weights * (by_weights - (weights * by_weights).sum({-1}, true)) * scaleValue;
  put(dqOut, Floyd::weighted(by_scores, floyd.key1, floyd.key2));
  put(dk1Out, at::einsum("bhnmk,bhnmd->bhnkd", {by_scores, floyd.query}));
  put(dv1Out, at::einsum("bhnmk,bhnmd->bhnkd", {weights, grad}));
  put(dk2Out, at::einsum("bhnmk,bhnmd->bhkmd", {by_scores, floyd.query}));
  put(dv2Out, at::einsum("bhnmk,bhnmd->bhkmd", {weights, grad}));
}
