// Variance, standard deviation, and the mean beside them.
#include <ATen/Parallel.h>
#include <ATen/WrapDimUtilsMulti.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "op/simd/clones.h"
#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

// Note [Variance]
// ATen follows mean and squares from one element to the next, with a division at each. Here the mean is taken first and then the
// squared distances from it, both in float64 and in lanes that become vectors. Values count from the first one of
// their group, so that sums do not grow with a common offset; what rounding left in the mean is taken out of the squares.
namespace {

constexpr int64_t lanes = 16, most_columns = 256;
constexpr int64_t block =
    1 << 14;  // elements of a long group that one thread takes; fixed, so that results do not depend on threads

struct Distances {
  double apart = 0, squared = 0;
};

template <class T>
[[gnu::always_inline]] inline double sum_from(const T* values, int64_t count, double center) {
  double sums[lanes] = {}, sum = 0;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) sums[lane] += static_cast<double>(values[i + lane]) - center;
  }
  for (; i < count; ++i) sum += static_cast<double>(values[i]) - center;
  for (int64_t lane = 0; lane < lanes; ++lane) sum += sums[lane];
  return sum;
}
template <class T>
[[gnu::always_inline]] inline Distances sums_from(const T* values, int64_t count, double center) {
  double apart[lanes] = {}, squared[lanes] = {};
  Distances all;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const double distance = static_cast<double>(values[i + lane]) - center;
      apart[lane] += distance;
      squared[lane] += distance * distance;
    }
  }
  for (; i < count; ++i) {
    const double distance = static_cast<double>(values[i]) - center;
    all.apart += distance;
    all.squared += distance * distance;
  }
  for (int64_t lane = 0; lane < lanes; ++lane) {
    all.apart += apart[lane];
    all.squared += squared[lane];
  }
  return all;
}
// The same for `count` groups side by side, one element of each.
template <class T>
[[gnu::always_inline]] inline void add_row(const T* values, int64_t count, const double* center, double* __restrict apart) {
  for (int64_t i = 0; i < count; ++i) apart[i] += static_cast<double>(values[i]) - center[i];
}
template <class T>
[[gnu::always_inline]] inline void add_squares(const T* values, int64_t count, const double* center, double* __restrict apart,
                                               double* __restrict squared) {
  for (int64_t i = 0; i < count; ++i) {
    const double distance = static_cast<double>(values[i]) - center[i];
    apart[i] += distance;
    squared[i] += distance * distance;
  }
}
#define LOOPS(T)                                                                                                                \
  SOFTCANN_CLONES double sum_of(const T* values, int64_t count, double center) { return sum_from(values, count, center); }      \
  SOFTCANN_CLONES Distances sums_of(const T* values, int64_t count, double center) { return sums_from(values, count, center); } \
  SOFTCANN_CLONES void add_row_of(const T* values, int64_t count, const double* center, double* apart) {                        \
    add_row(values, count, center, apart);                                                                                      \
  }                                                                                                                             \
  SOFTCANN_CLONES void add_squares_of(const T* values, int64_t count, const double* center, double* apart, double* squared) {   \
    add_squares(values, count, center, apart, squared);                                                                         \
  }
LOOPS(float)
LOOPS(double)
#undef LOOPS

struct Moments {
  double mean, squares;  // squares: of the distances from the mean, added up
};
Moments moments(double mean, const Distances& sums, int64_t count) {
  const double left = sums.apart / static_cast<double>(count), squares = sums.squared - sums.apart * left;
  return {mean + left, squares < 0 ? 0 : squares};  // rounding; a NaN stays
}
template <class T>
double origin(T first) {
  return std::isfinite(first) ? static_cast<double>(first) : 0;
}

// A tensor as outer x count x inner elements, of which the groups are [o, :, i]. `store(group, Moments)`.
struct Groups {
  int64_t outer, count, inner;
};
template <class T, class Store>
void rows(const T* data, const Groups& g, Store&& store) {
  if (g.count <= 2 * block) {
    at::parallel_for(0, g.outer, std::max<int64_t>(1, 2 * block / g.count), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const T* values = data + o * g.count;
        const double first = origin(values[0]), mean = first + sum_of(values, g.count, first) / static_cast<double>(g.count);
        store(o, moments(mean, sums_of(values, g.count, mean), g.count));
      }
    });
    return;
  }
  const int64_t blocks = (g.count + block - 1) / block;
  std::vector<Distances> parts(static_cast<size_t>(blocks));
  const auto each_block = [&](auto&& compute) {
    at::parallel_for(0, blocks, 2, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b)
        compute(b * block, std::min(block, g.count - b * block), parts[static_cast<size_t>(b)]);
    });
    Distances sums;
    for (const Distances& part : parts) {
      sums.apart += part.apart;
      sums.squared += part.squared;
    }
    return sums;
  };
  for (int64_t o = 0; o < g.outer; ++o) {
    const T* values = data + o * g.count;
    const double first = origin(values[0]);
    const Distances from_first =
        each_block([&](int64_t start, int64_t length, Distances& part) { part = {sum_of(values + start, length, first), 0}; });
    const double mean = first + from_first.apart / static_cast<double>(g.count);
    store(o, moments(mean, each_block([&](int64_t start, int64_t length, Distances& part) {
                       part = sums_of(values + start, length, mean);
                     }),
                     g.count));
  }
}
template <class T, class Store>
void columns(const T* data, const Groups& g, Store&& store) {
  const int64_t strips = (g.inner + most_columns - 1) / most_columns;
  at::parallel_for(0, g.outer * strips, std::max<int64_t>(1, 2 * block / (g.count * std::min(g.inner, most_columns))),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t s = begin; s < end; ++s) {
                       const int64_t o = s / strips, start = s % strips * most_columns,
                                     width = std::min(most_columns, g.inner - start);
                       const T* values = data + o * g.count * g.inner + start;
                       double mean[most_columns], apart[most_columns] = {}, squared[most_columns] = {};
                       for (int64_t i = 0; i < width; ++i) mean[i] = origin(values[i]);
                       for (int64_t row = 0; row < g.count; ++row) add_row_of(values + row * g.inner, width, mean, apart);
                       for (int64_t i = 0; i < width; ++i) mean[i] += apart[i] / static_cast<double>(g.count);
                       std::fill_n(apart, width, 0);
                       for (int64_t row = 0; row < g.count; ++row)
                         add_squares_of(values + row * g.inner, width, mean, apart, squared);
                       for (int64_t i = 0; i < width; ++i)
                         store(o * g.inner + start + i, moments(mean[i], {apart[i], squared[i]}, g.count));
                     }
                   });
}

// `self` in an order of memory where the reduced dimensions stand together: as it is, or a copy with these at the end.
std::pair<at::Tensor, Groups> grouped(const at::Tensor& self, at::IntArrayRef dims) {
  const auto reduced = at::dim_list_to_bitset(maybe(dims), self.dim());
  Groups groups{1, 1, 1};
  bool together = true;
  for (int64_t i = 0; i < self.dim(); ++i) {
    const int64_t size = self.size(i);
    if (size == 1) continue;
    if (!reduced[static_cast<size_t>(i)]) {
      (groups.count == 1 ? groups.outer : groups.inner) *= size;
    } else {
      together &= groups.inner == 1;
      groups.count *= size;
    }
  }
  if (together) return {self.contiguous(), groups};
  std::vector<int64_t> order;
  for (const bool wanted : {false, true}) {
    for (int64_t i = 0; i < self.dim(); ++i) {
      if (reduced[static_cast<size_t>(i)] == wanted) order.push_back(i);
    }
  }
  return {self.permute(order).contiguous(), {groups.outer * groups.inner, groups.count, 1}};
}

// What an operator of this family asks for. Undefined tensors are not written.
struct Spread {
  const at::Tensor& self;
  at::IntArrayRef dims;
  double correction;
  bool root;
  const at::Tensor &spread, &mean;
};
template <class T>
bool compute(const Spread& s) {
  const auto grouping = grouped(widened(s.self), s.dims);
  const at::Tensor& values = grouping.first;
  const Groups& groups = grouping.second;
  const int64_t results = groups.outer * groups.inner;
  if (s.spread.numel() != results || (s.mean.defined() && s.mean.numel() != results)) return false;
  PlainResult spread_result(s.spread), mean_result(s.mean);
  const double divisor = std::max(0.0, static_cast<double>(groups.count) - s.correction);
  const auto into_results = [&](auto tag) {
    using Out = decltype(tag);
    Out* const spread = spread_result.value().template mutable_data_ptr<Out>();
    Out* const mean = s.mean.defined() ? mean_result.value().template mutable_data_ptr<Out>() : nullptr;
    const auto store = [&](int64_t group, const Moments& m) {
      const double variance = m.squares / divisor;
      spread[group] = static_cast<Out>(s.root ? std::sqrt(variance) : variance);
      if (mean) mean[group] = static_cast<Out>(m.mean);
    };
    const T* data = values.template const_data_ptr<T>();
    groups.inner == 1 ? rows(data, groups, store) : columns(data, groups, store);
  };
  spread_result.value().scalar_type() == at::kDouble ? into_results(double()) : into_results(float());
  spread_result.finish();
  mean_result.finish();
  return true;
}
// False: ATen's; complex numbers, results of two dtypes or of another size, which it refuses.
bool computed(const Spread& s) {
  if (!at::isFloatingType(s.self.scalar_type()) || !at::isFloatingType(s.spread.scalar_type())) return false;
  if (s.mean.defined() && s.mean.scalar_type() != s.spread.scalar_type()) return false;
  if (s.self.numel() == 0) {
    for (const at::Tensor* result : {&s.spread, &s.mean}) {
      if (result->defined()) result->fill_(std::numeric_limits<double>::quiet_NaN());
    }
    return true;
  }
  return wide_type(s.self) == at::kDouble ? compute<double>(s) : compute<float>(s);
}

double variance_cost(const at::Tensor& self) {
  constexpr double call_ns = 2000, ns_per_element = 0.5;
  return call_ns + (self.defined() ? ns_per_element * static_cast<double>(self.numel()) : 0);
}
const at::Tensor none;

}  // namespace

OP_COST(aclnnStd, variance_cost(self)) {
  const auto freedom = static_cast<double>(correction);
  if (!computed({self, dim, freedom, true, out, none})) at::cpu::std_outf(self, maybe(dim), at::Scalar(correction), keepdim, out);
}
OP_COST(aclnnVar, variance_cost(self)) {
  if (computed({self, dim, unbiased ? 1.0 : 0.0, false, out, none})) return;
  at::cpu::var_outf(self, maybe(dim), at::Scalar(unbiased ? 1 : 0), keepdim, out);
}
OP_COST(aclnnVarCorrection, variance_cost(self)) {
  const auto freedom = static_cast<double>(correction);
  if (!computed({self, dim, freedom, false, out, none}))
    at::cpu::var_outf(self, maybe(dim), at::Scalar(correction), keepdim, out);
}
OP_COST(aclnnVarMean, variance_cost(self)) {
  if (computed({self, dim, static_cast<double>(correction), false, varOut, meanOut})) return;
  const auto [variance, mean] = at::cpu::var_mean(self, maybe(dim), at::Scalar(correction), keepdim);
  varOut.copy_(variance);
  meanOut.copy_(mean);
}
OP_COST(aclnnStdMeanCorrection, variance_cost(self)) {
  if (computed({self, dim, static_cast<double>(correction), true, stdOut, meanOut})) return;
  const auto [deviation, mean] = at::cpu::std_mean(self, maybe(dim), at::Scalar(correction), keepdim);
  stdOut.copy_(deviation);
  meanOut.copy_(mean);
}
