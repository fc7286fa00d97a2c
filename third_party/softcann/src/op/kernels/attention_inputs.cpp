#include "op/kernels/attention_inputs.h"

#include <algorithm>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/parts.h"

namespace softcann::op {
namespace {

// CANN's dropout mask: a bit for each probability, lowest bit first, 1 keeps.
at::Tensor kept_of(const at::Tensor& bits, at::IntArrayRef sizes, int64_t start) {
  if (!bits.defined() || bits.numel() == 0) return {};
  const int64_t count = c10::multiply_integers(sizes), byte = start / 8, end = (start + count + 7) / 8;
  TORCH_CHECK(end <= bits.numel(), "attention: a dropout mask of ", bits.numel(), " bytes for ", start + count, " scores");
  const at::Tensor shifts = at::arange(8, bits.options());
  const at::Tensor own = bits.view({-1, 1}).slice(0, byte, end);
  const at::Tensor flat = at::bitwise_and(at::bitwise_right_shift(own, shifts), 1).view({-1});
  return flat.narrow(0, start % 8, count).view(sizes).to(at::kBool);
}

// Note [Sparse modes]
// 0: the mask, within `before` tokens back and `after` ahead of the diagonal; without a mask nothing is hidden, which for
// training's operators holds in every mode.
// 1: the mask alone. 2: causal, from the first row and column on. 3: causal, to the last row and column.
// 4: the band around the diagonal that ends in the last row and column. In 2 to 4 the client hands a small standard
// mask whose content is known. 5 and 6: as 3, but the first keys of each sequence, as many as `prefix` says, are seen by all
// rows; the mask, in 5 a whole one and in 6 a small one, says nothing else.
void apply_mask(Attention& a, const at::Tensor& mask, const Sparse& sparse, at::IntArrayRef prefix) {
  TORCH_CHECK(sparse.mode >= 0 && sparse.mode <= 6, "attention: sparseMode ", sparse.mode, " is not supported");
  const int64_t rows = a.query.size(2), columns = a.key.size(2), shift = sparse.mode >= 3 ? columns - rows : 0;
  const auto band = [&](int64_t before, int64_t after) {
    const at::Tensor distance = at::arange(columns, at::kLong).unsqueeze(0) - at::arange(rows, at::kLong).unsqueeze(1) - shift;
    return at::logical_or(distance<-before, distance> after);
  };
  if (sparse.mode == 2 || (sparse.mode == 3 && !shift)) {
    a.causal = true;
  } else if (sparse.mode == 3) {
    a.hidden = band(columns + rows, 0);
  } else if (sparse.mode == 4) {
    a.hidden = band(sparse.before, sparse.after);
  } else if (sparse.mode >= 5) {
    TORCH_CHECK(static_cast<int64_t>(prefix.size()) == a.query.size(0), "attention: sparseMode ", sparse.mode, " with ",
                prefix.size(), " prefixes for ", a.query.size(0), " sequences");
    const at::Tensor behind = at::arange(columns, at::kLong) >= at::tensor(prefix, at::kLong).view({-1, 1, 1, 1});
    a.hidden = at::logical_and(band(columns + rows, 0), behind);
  } else if (mask.defined() && mask.numel()) {
    a.hidden = mask.to(at::kBool);
    if (a.hidden.dim() == 3) a.hidden = a.hidden.unsqueeze(1);
    if (a.hidden.size(-2) > rows) a.hidden = a.hidden.slice(-2, 0, rows);
    if (a.hidden.size(-1) > columns) a.hidden = a.hidden.slice(-1, 0, columns);
    if (sparse.mode == 0 && (sparse.before < rows || sparse.after < columns)) {
      a.hidden = at::logical_or(a.hidden, band(sparse.before, sparse.after));
    }
  }
}

// Attention with linear biases (ALiBi): a score loses its head's slope times the distance of query and key, or the distance's
// root.
at::Tensor linear_bias(const Attention& a, const AttentionExtras& extras, bool of_root) {
  const int64_t batch = a.query.size(0), heads = a.query.size(1), rows = a.query.size(2), columns = a.key.size(2);
  const at::Tensor& slopes = extras.bias;
  TORCH_CHECK(slopes.sizes() == at::IntArrayRef{heads} || slopes.sizes() == (at::IntArrayRef{batch, heads}),
              "attention: slopes of ", slopes.sizes(), " for ", batch, " batches of ", heads, " heads");
  const auto start = [](at::IntArrayRef given) { return given.empty() ? 0 : given[0]; };
  const auto options = slopes.options().dtype(at::kFloat);
  at::Tensor distance = at::arange(columns, options).add_(start(extras.key_start) - start(extras.query_start));
  distance = (distance.view({1, columns}) - at::arange(rows, options).view({rows, 1})).abs_();
  if (of_root) distance.sqrt_();
  return slopes.to(at::kFloat).neg().view({-1, heads, 1, 1}) * distance;
}

// Note [Compressed position bias]
// Of a bias that depends on the distance alone (ALiBi) the last rows, kCompressedBiasRows, say everything where there are as many
// queries as keys and later keys are hidden: rows before them are the same rows, moved to the left.
at::Tensor whole_bias(const Attention& a, const at::Tensor& bias) {
  const int64_t rows = a.query.size(2), given = kCompressedBiasRows, columns = bias.size(-1);
  TORCH_CHECK(rows == a.key.size(2) && rows <= columns && (a.causal || a.hidden.defined()),
              "attention: the last rows of a bias, ", bias.sizes(), ", for ", rows, " queries and ", a.key.size(2), " keys with",
              a.causal || a.hidden.defined() ? "" : "out",
              " a mask; they take as many queries as keys, not more than the bias has columns, and a mask that hides later keys");
  at::Tensor whole = at::zeros({bias.size(0), bias.size(1), rows, rows}, bias.options());
  for (int64_t end = rows; end > 0; end -= given) {
    const int64_t start = std::max<int64_t>(end - given, 0);
    whole.slice(2, start, end).slice(3, 0, end).copy_(bias.slice(2, given - (end - start)).slice(3, columns - end));
  }
  return whole;
}

// pseType 1, the older operators' only one, adds before scaling; 0 after. 2 and 3 make the bias of slopes, and add it after.
void apply_bias(Attention& a, const AttentionExtras& extras, int64_t type) {
  const at::Tensor& bias = extras.bias;
  if (!bias.defined() || bias.numel() == 0) return;
  TORCH_CHECK(type >= 0 && type <= 3, "attention: pseType ", type, " is not one of 0, 1, 2, 3");
  if (type >= 2) {
    a.bias = linear_bias(a, extras, type == 3);
    return;
  }
  const at::Tensor added = is_compressed_bias(bias, a.query.size(2), a.key.size(2)) ? whole_bias(a, bias) : bias;
  a.bias = type == 1 ? added * a.scale : added;
}

}  // namespace

bool is_compressed_bias(const at::Tensor& bias, int64_t rows, int64_t columns) {
  return bias.dim() == 4 && bias.size(2) == kCompressedBiasRows && (bias.size(2) != rows || bias.size(3) != columns);
}

at::Tensor to_heads(const at::Tensor& tensor, std::string_view layout, int64_t size) {
  if (layout == "BNSD") return tensor;
  if (layout == "BSND") return tensor.transpose(1, 2);
  TORCH_CHECK(size > 0, "attention: heads of size ", size);
  if (layout == "BSH") return in_parts_of(tensor, -1, size).transpose(1, 2);
  if (layout == "SBH") return in_parts_of(tensor, -1, size).permute({1, 2, 0, 3});
  TORCH_CHECK(false, "attention: input layout '", layout, "' is not one of BNSD, BSND, BSH, SBH, TND");
}
int64_t head_size(const at::Tensor& query, std::string_view layout, int64_t heads) {
  TORCH_CHECK(heads > 0, "attention: ", heads, " heads");
  const int64_t width = query.size(-1), parts = layout == "BSH" || layout == "SBH" ? heads : 1;
  TORCH_CHECK(width > 0 && width % parts == 0, "attention: a query of ", query.sizes(), " has no ", heads, " heads");
  return width / parts;
}

Attention make_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const AttentionExtras& extras,
                         const AttentionSettings& settings) {
  Attention a;
  const int64_t size = head_size(query, settings.layout, settings.heads);
  a.query = to_heads(query, settings.layout, size);
  a.key = to_heads(key, settings.layout, size);
  TORCH_CHECK(a.key.size(1) > 0, "attention: keys of ", key.sizes(), " have no head of size ", size);
  a.value = to_heads(value, settings.layout,
                     settings.layout == "BSH" || settings.layout == "SBH" ? value.size(-1) / a.key.size(1) : size);
  TORCH_CHECK(a.key.size(0) == a.query.size(0) && a.value.size(0) == a.query.size(0) && a.value.size(1) == a.key.size(1) &&
                  a.value.size(2) == a.key.size(2) && a.key.size(3) == a.query.size(3) && a.query.size(1) % a.key.size(1) == 0,
              "attention: [batch, heads, rows, size] of queries ", a.query.sizes(), ", keys ", a.key.sizes(), " and values ",
              a.value.sizes(), " do not go together");
  TORCH_CHECK(a.query.size(1) == settings.heads, "attention: ", settings.heads, " heads, and a query of ", query.sizes(), " in ",
              settings.layout);
  TORCH_CHECK(!extras.sink.defined() || extras.sink.numel() == 0 || extras.sink.numel() == settings.heads, "attention: sinks ",
              extras.sink.sizes(), " of ", settings.heads, " heads");
  a.scale = settings.scale;
  a.keep_prob = settings.keep_prob;
  if (settings.keep_prob < 1) {
    a.kept = kept_of(extras.drop_mask, {a.query.size(0), a.query.size(1), a.query.size(2), a.key.size(2)}, extras.drop_start);
  }
  apply_mask(a, extras.mask, settings.sparse, extras.prefix);
  apply_bias(a, extras, settings.bias_type);
  return a;
}

at::Tensor sequence_statistics(const at::Tensor& statistics, int64_t start, int64_t end, bool as_queries) {
  if (as_queries) return statistics.slice(0, start, end).transpose(0, 1);
  const int64_t heads = statistics.size(1), lanes = statistics.size(2);
  // A view: results are written through it, and lie without gaps for that.
  return statistics.view({-1, lanes}).slice(0, start * heads, end * heads).view({heads, end - start, lanes});
}

double attention_cost(const at::Tensor& query, const at::Tensor& key) {
  return query.defined() && key.defined() ? 2000 + static_cast<double>(query.numel()) * static_cast<double>(key.numel()) /
                                                       static_cast<double>(std::max<int64_t>(query.size(-1), 1)) * 0.05
                                          : 2000;
}

void refuse_attention(const at::Tensor& tensor, const char* what) {
  TORCH_CHECK(!tensor.defined() || tensor.numel() == 0, "attention: ", what, " is not supported");
}

}  // namespace softcann::op
