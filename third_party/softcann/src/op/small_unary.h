// ATen's loops over one operand of few elements, without setting up an iterator for each. See Note [Kept iterators].
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/from_blob.h>
#include <array>
#include <memory>
#include <optional>

#include "op/fast_path.h"

// Note [Kept iterators]
// Setting up an iterator takes longer than a thousand logarithms. But it knows nothing of its tensors except dtype, number of
// elements and addresses, where they have no gaps; so each thread keeps those it used last, and gives them new addresses.
namespace softcann::op {

constexpr int64_t most_kept = 1 << 14;  // elements; more are shared by threads

// An iterator over `count` elements of a float dtype, from an operand to a result.
class KeptIterator {
 public:
  at::TensorIteratorBase& over(at::ScalarType type, int64_t count, char* out, char* in) {
    if (!iterator_ || type != type_ || count != count_) {
      // Two places that do not overlap, never read nor written.
      static std::array<double, most_kept> first, second;
      const auto tensor = [&](auto& place) { return at::from_blob(place.data(), {count}, at::TensorOptions(type)); };
      at::Tensor result = tensor(first);
      iterator_.emplace(at::TensorIterator::unary_float_op(result, tensor(second)));
      type_ = type;
      count_ = count;
    }
    iterator_->unsafe_replace_operand(0, out);
    iterator_->unsafe_replace_operand(1, in);
    return *iterator_;
  }

 private:
  std::optional<at::TensorIterator> iterator_;
  at::ScalarType type_ = at::ScalarType::Undefined;
  int64_t count_ = 0;
};

// This thread's for such a count.
inline KeptIterator& kept_iterator(int64_t count) {
  static thread_local std::unique_ptr<std::array<KeptIterator, 16>> kept;
  if (!kept) kept = std::make_unique<std::array<KeptIterator, 16>>();
  return (*kept)[(static_cast<uint32_t>(count) * 0x9e3779b9U) >> 28];  // counts are often multiples of a power of two
}

// False for other tensors than the note's.
template <class Stub>
bool small_unary(Stub& stub, const at::Tensor& self, const at::Tensor& out_tensor) {
  const fast::Impl *in = fast::impl(self), *out = fast::impl(out_tensor);
  const int64_t count = out->numel();
  if (count == 0 || count > most_kept || !out->is_contiguous() || in->dtype() != out->dtype() || !fast::same_layout(in, out))
    return false;
  const auto type = c10::typeMetaToScalarType(out->dtype());
  if (type != at::kFloat && type != at::kDouble) return false;
  char *from = fast::data(in), *to = fast::data(out);
  if (!fast::no_partial_overlap(from, to, count * static_cast<int64_t>(out->itemsize()))) return false;
  stub(at::kCPU, kept_iterator(count).over(type, count, to, from));
  return true;
}

}  // namespace softcann::op
