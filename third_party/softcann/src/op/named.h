// How an operator that clients name is written: NAMED(Mish) { put(call.out(0), at::mish(call.in(0))); }
// Inputs, outputs and attributes are those of CANN's operators of these names.
#pragma once

#include <ATen/ATen.h>
#include <optional>

#include "rt/single_op/named.h"

namespace softcann::op {

using Integers = std::vector<int64_t>;  // as attributes have them
using Numbers = std::vector<float>;

class Named {
 public:
  explicit Named(NamedCall& call);
  const at::Tensor& in(size_t i) const { return i < in_.size() ? in_[i] : absent_; }  // undefined when left out
  const at::Tensor& out(size_t i) const;
  // Stores a result of fewer elements than the output has room for, and tells the client its sizes: see Note [Sizes of results].
  void give(size_t i, const at::Tensor& value) const;
  size_t outputs() const { return out_.size(); }
  // Input i has `dims` dimensions, and by its description (NCHW, NCDHW, or ND, which says nothing else) the second is the
  // channels'.
  void check_channels_first(size_t i, int64_t dims) const;
  // All of the client's memory of an input or output, [elements]: what strided views are of.
  at::Tensor memory_in(size_t i) const;
  at::Tensor memory_out(size_t i) const;
  Integers integers(size_t i) const;  // an input as numbers
  double number(size_t i) const;      // an input of one element
  size_t inputs() const { return in_.size(); }
  at::TensorList all_inputs() const { return in_; }
  at::TensorList all_outputs() const { return out_; }
  void store_results() const;  // those whose memory is in an internal format
  // An attribute, or what it is when the client says nothing.
  template <class T>
  T attribute(const char* name, T otherwise) const {
    const auto found = call_.attributes.values.find(name);
    if (found == call_.attributes.values.end()) return otherwise;
    const T* value = std::get_if<T>(&found->second);
    TORCH_CHECK(value != nullptr, "the attribute ", name, " has another type");
    return *value;
  }

 private:
  NamedCall& call_;
  std::vector<at::Tensor> in_, out_;
  at::Tensor absent_;
};

struct NamedOperator {
  NamedOperator(const char* name, void (*run)(const Named&));
};

#define NAMED(NAME)                                                              \
  static void NAME##_named(const Named&);                                        \
  static const ::softcann::op::NamedOperator NAME##_entry(#NAME, &NAME##_named); \
  static void NAME##_named([[maybe_unused]] const Named& call)

}  // namespace softcann::op
