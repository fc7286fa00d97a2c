// Scattering.
#include <c10/util/string_view.h>

#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/kv_cache.h"
#include "rt/base/error.h"

using namespace softcann::op;

namespace {

// CANN's numbers: 0 replace, 1 add, 2 multiply, 3 maximum, 4 minimum, 5 mean.
std::string_view reduction_name(int64_t reduce) {
  constexpr std::string_view names[] = {"", "sum", "prod", "amax", "amin", "mean"};
  TORCH_CHECK(reduce >= 0 && reduce < 6, "scatter: reduction ", reduce, " is not one of 0 to 5");
  return names[reduce];
}
void scatter_in_place(at::Tensor& target, int64_t dim, const at::Tensor& index, const at::Tensor& source, int64_t reduce,
                      bool include_self = true) {
  if (reduce == 0) {
    at::cpu::scatter_(target, dim, index.to(at::kLong), source.to(target.scalar_type()));
  } else {
    at::cpu::scatter_reduce_(target, dim, index.to(at::kLong), source.to(target.scalar_type()), reduction_name(reduce),
                             include_self);
  }
}
void scatter_value_in_place(at::Tensor& target, int64_t dim, const at::Tensor& index, const at::Scalar& value, int64_t reduce) {
  if (reduce == 0) {
    at::cpu::scatter_(target, dim, index.to(at::kLong), value);
  } else {
    at::cpu::scatter_(target, dim, index.to(at::kLong), value, reduce == 1 ? "add" : "multiply");
  }
}

}  // namespace

OP(aclnnScatter) {
  put(out, self);
  scatter_in_place(out, dim, index, src, reduce);
}
OP(aclnnInplaceScatter) { scatter_in_place(selfRef, dim, index, src, reduce); }
OP(aclnnScatterValue) {
  put(out, self);
  scatter_value_in_place(out, dim, index, value, reduce);
}
OP(aclnnInplaceScatterValue) { scatter_value_in_place(selfRef, dim, index, value, reduce); }
OP(aclnnScatterAdd) {
  put(out, self);
  at::cpu::scatter_add_(out, dim, index.to(at::kLong), src.to(out.scalar_type()));
}
OP(aclnnScatterReduce) {
  put(out, self);
  scatter_in_place(out, dim, index, src, reduce, includeSelf);
}
OP(aclnnInplaceScatterReduce) { scatter_in_place(selfRef, dim, index, src, reduce, includeSelf); }

// TensorFlow's: slices of the first dimension, those of one index one after the other.
namespace {

struct Slices {
  at::Tensor index, updates;

  Slices(const char* op, const at::Tensor& var, const at::Tensor& indices, const at::Tensor& given) {
    std::vector<int64_t> expected = indices.sizes().vec();
    expected.insert(expected.end(), var.sizes().begin() + 1, var.sizes().end());
    TORCH_CHECK(given.sizes() == at::IntArrayRef(expected) && given.scalar_type() == var.scalar_type(), op, ": updates ",
                given.scalar_type(), given.sizes(), " where ", var.scalar_type(), expected, " is expected");
    index = indices.reshape({-1}).to(at::kLong);
    expected.erase(expected.begin(), expected.begin() + indices.dim());
    expected.insert(expected.begin(), index.numel());
    updates = given.reshape(expected);
  }
};

}  // namespace

#define SCATTER_SLICES(NAME, REDUCTION)                               \
  OP(NAME) {                                                          \
    const Slices slices(#NAME, varRef, indices, updates);             \
    if (slices.index.numel() == 0) return;                            \
    varRef.index_reduce_(0, slices.index, slices.updates, REDUCTION); \
  }
SCATTER_SLICES(aclnnScatterMax, "amax")
SCATTER_SLICES(aclnnScatterMin, "amin")
SCATTER_SLICES(aclnnScatterMul, "prod")
OP(aclnnScatterDiv) {
  const Slices slices("aclnnScatterDiv", varRef, indices, updates);
  const bool whole = at::isIntegralType(varRef.scalar_type(), false);
  for (int64_t i = 0; i < slices.index.numel(); ++i) {
    const int64_t row = slices.index[i].item<int64_t>();
    TORCH_CHECK_INDEX(row >= 0 && row < varRef.size(0), "index ", row, " is out of range of ", varRef.size(0));
    at::Tensor slice = varRef.select(0, row);
    put(slice, whole ? at::div(slice, slices.updates[i], "trunc") : at::div(slice, slices.updates[i]));
  }
}

namespace {

// Writes each batch's update at its own offset along an axis: the way key-value caches grow.
void update_along(const at::Tensor& target, const at::Tensor& update, int64_t axis, int64_t offset) {
  if (offset < 0 || offset > target.size(axis) - update.size(axis)) {
    throw softcann::Error(softcann::ErrorKind::index_out_of_range, c10::str("an update of ", update.size(axis), " from ", offset,
                                                                            " on does not fit a size of ", target.size(axis)));
  }
  target.narrow(axis, offset, update.size(axis)).copy_(update);
}

}  // namespace

OP(aclnnInplaceScatterUpdate) {
  const at::Tensor offsets = indices.to(at::kLong).contiguous().view({-1});
  const int64_t* offset = offsets.const_data_ptr<int64_t>();
  const int64_t dim = axis < 0 ? axis + data.dim() : axis;
  for (int64_t i = 0; i < offsets.numel(); ++i) update_along(data[i], updates[i], dim - 1, offset[i]);
}
OP(aclnnScatterList) {
  TORCH_CHECK(!*reduceOptional || std::string_view(reduceOptional) == "update", "aclnnScatterList: reduce '", reduceOptional,
              "' is not supported");
  const at::Tensor offsets = indice.to(at::kLong).contiguous();
  const at::Tensor mask = maskOptional.defined() ? maskOptional.to(at::kBool) : at::Tensor();
  for (size_t i = 0; i < varRef.size(); ++i) {
    if (mask.defined() && !mask[static_cast<int64_t>(i)].item<bool>()) continue;
    const at::Tensor update = updates[static_cast<int64_t>(i)];
    const int64_t dim = axis < 0 ? axis + varRef[i].dim() : axis;
    const at::Tensor at = offsets[static_cast<int64_t>(i)];
    if (at.dim() == 0) {
      update_along(varRef[i], update, dim, at.item<int64_t>());
    } else {
      const int64_t length = at[1].item<int64_t>();
      update_along(varRef[i], update.narrow(dim, 0, length), dim, at[0].item<int64_t>());
    }
  }
}
// Paged caches: row i of key goes to slot slotMapping[i] of the cache seen as [blocks * block_size, heads, size].
namespace {

void fill_slots(const at::Tensor& cache, const at::Tensor& rows, const at::Tensor& slots) {
  const at::Tensor wanted = slots.to(at::kLong).reshape({-1});
  const at::Tensor kept = (wanted >= 0).nonzero().view({-1}), slot = wanted.index_select(0, kept);
  const at::Tensor values = rows.reshape({-1, rows.size(-2), rows.size(-1)}).index_select(0, kept);
  if (write_strided_pages(cache, slot, values)) return;
  cache.view({-1, cache.size(-2), cache.size(-1)}).index_copy_(0, slot, values);
}
// The layout of the cube unit: [blocks, heads * size / 16, block_size, 16], or 32 for int8; heads may be a dimension of their
// own.
void fill_tiled_slots(const at::Tensor& cache, const at::Tensor& rows, const at::Tensor& slots) {
  if (cache.dim() == 5) {
    const std::vector<int64_t> sizes{cache.size(0), -1, cache.size(3), cache.size(4)};
    return write_in_sizes(cache, sizes, [&](const at::Tensor& tiles) { fill_tiled_slots(tiles, rows, slots); });
  }
  TORCH_CHECK(cache.dim() == 4, "paged cache: ", cache.dim(), " dimensions are not supported in the layout PA_NZ, only 4 and 5");
  const int64_t tiles = cache.size(1), block = cache.size(2), width = cache.size(3);
  const at::Tensor wanted = slots.to(at::kLong).reshape({-1});
  const at::Tensor kept = (wanted >= 0).nonzero().view({-1}), places = wanted.index_select(0, kept);
  const at::Tensor tiled = rows.reshape({-1, tiles, width}).index_select(0, kept);
  for (int64_t i = 0; i < places.numel(); ++i) {
    const int64_t slot = places[i].item<int64_t>();
    cache.select(0, slot / block).select(1, slot % block).copy_(tiled[i]);
  }
}
void require_plain_cache(const at::Tensor& compress, const char* mode) {
  TORCH_CHECK(!compress.defined() && (!*mode || std::string_view(mode) == "Norm"),
              "paged cache: only the plain layout without compression is supported");
}

}  // namespace

OP(aclnnScatterPaCache) {
  require_plain_cache(compressLensOptional, cacheMode);
  fill_slots(keyCacheRef, key, slotMapping);
}
OP(aclnnScatterPaKvCache) {
  if (std::string_view(cacheModeOptional) == "PA_NZ") {
    TORCH_CHECK(!compressLensOptional.defined(), "paged cache: compression is not supported");
    fill_tiled_slots(keyCacheRef, key, slotMapping);
    fill_tiled_slots(valueCacheRef, value, slotMapping);
    return;
  }
  require_plain_cache(compressLensOptional, cacheModeOptional);
  const std::string_view mode = scatterModeOptional;
  const bool heads_first = mode == "NHSD";  // caches [blocks, heads, block_size, size]
  TORCH_CHECK(heads_first || mode.empty() || mode == "None" || mode == "Nct", "paged cache: the scatter mode '", mode,
              "' is not supported; None, Nct and NHSD are");
  const auto fill = [&](const at::Tensor& cache, const at::Tensor& rows) {
    if (rows.numel() != 0) fill_slots(heads_first ? cache.transpose(1, 2) : cache, rows, slotMapping);
  };
  fill(keyCacheRef, key);
  fill(valueCacheRef, value);  // empty where values are the keys
}

// uniqueIndices: to which of the new rows each of the old ones goes.
OP(aclnnCoalesceSparse) {
  const at::Tensor to = uniqueIndices.reshape({-1}).to(at::kLong);
  writable(newIndicesOut).index_copy_(0, to, indices.to(newIndicesOut.scalar_type()));
  at::Tensor sums = at::zeros(newValuesOut.sizes(), newValuesOut.options());
  put(newValuesOut, sums.index_add_(0, to, values.to(sums.scalar_type())));
}
