// What generated kernels are made of: device scope, outputs of structured kernels, host scalars.
//
// Note [Structured kernels]
// torch's meta() computes shape, dtype and errors of an operator and hands each output to set_output.
// The three classes below answer it: Functional makes the output, Inplace checks self, Out resizes. The
// kernel then runs on op.output(i). torch's own classes hold an OptionalDeviceGuard with two virtual
// calls and a proxy for outputs of unsuitable strides; CANN takes any strides, so no proxy is needed
// here, and the scope is one thread-local compare.
#pragma once

#include <array>
#include <type_traits>

#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include "aten/argument_checks.h"
#include "aten/cube_math.h"
#include "aten/factory.h"
#include "aten/shape_rules.h"
#include "core/device.h"
#include "core/options.h"

namespace torch_npu::native {

// Makes a tensor's device current until the end of the scope. Costs a compare when it already is.
class DeviceScope {
 public:
  DeviceScope() = default;
  explicit DeviceScope(const at::Tensor& tensor) {
    if (tensor.defined()) enter(tensor.device());
  }
  explicit DeviceScope(const std::optional<at::Tensor>& tensor) {
    if (tensor) enter(*tensor);
  }
  explicit DeviceScope(at::ITensorListRef tensors) {
    if (tensors.size() != 0) enter(*tensors.begin());
  }
  explicit DeviceScope(const std::optional<c10::Device>& device) {
    if (device && device->has_index()) enter(*device);
  }
  ~DeviceScope() {
    if (previous_ >= 0) core::thread_state.device = previous_;
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  void enter(c10::Device device) {
    if (device.index() == core::thread_state.device || device.type() != c10::DeviceType::PrivateUse1) return;
    const auto before = core::exchange_device(device.index());
    if (previous_ < 0) previous_ = before;
  }

 private:
  void enter(const at::Tensor& tensor) {
    if (tensor.defined()) enter(tensor.device());
  }

  c10::DeviceIndex previous_ = -1;
};

// torch's own error when tensors of one call are on two devices. `names` are the arguments' names.
[[noreturn]] C10_EXPORT void throw_devices_differ(const char* op, c10::Device first, c10::Device other, const char* name);

namespace detail {

struct DeviceCheck {
  const char* op;
  std::optional<c10::Device> seen;

  void operator()(const at::Tensor& tensor, const char* name) {
    if (!tensor.defined()) return;
    if (!seen) {
      seen = tensor.device();
    } else if (C10_UNLIKELY(*seen != tensor.device())) {
      throw_devices_differ(op, *seen, tensor.device(), name);
    }
  }
  void operator()(const std::optional<at::Tensor>& tensor, const char* name) {
    if (tensor) (*this)(*tensor, name);
  }
  void operator()(at::ITensorListRef tensors, const char* name) {
    for (const auto& tensor : tensors) (*this)(tensor, name);
  }
  void operator()(const c10::List<std::optional<at::Tensor>>& tensors, const char* name) {
    for (const std::optional<at::Tensor>& tensor : tensors) (*this)(tensor, name);
  }
};

}  // namespace detail

// Throws unless all defined tensors are on one device.
template <class... Tensors>
void check_same_device(const char* op, const std::array<const char*, sizeof...(Tensors)>& names, const Tensors&... tensors) {
  detail::DeviceCheck check{op, std::nullopt};
  size_t i = 0;
  (check(tensors, names[i++]), ...);
}

// Out-of-line halves of Inplace and Out.
C10_EXPORT void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options);
C10_EXPORT void prepare_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                            const at::TensorOptions& options);

// A MetaBase's set_output takes a list of dimension names up to torch 2.12; the pack takes up whatever
// is there, so that no version is named.
using SetOutput = decltype(&at::impl::MetaBase::set_output_raw_strided);

template <class Meta, int kOutputs, class Signature = SetOutput>
class Functional;

template <class Meta, int kOutputs, class... Names>
class Functional<Meta, kOutputs,
                 void (at::impl::MetaBase::*)(int64_t, at::IntArrayRef, at::IntArrayRef, at::TensorOptions, Names...)>
    final : public Meta {
 public:
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                          Names... names) override {
    Functional::set_output_raw_strided(i, sizes, strides, options, names...);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                              Names... names) override {
    constexpr bool kElementwise = std::is_base_of_v<at::TensorIteratorBase, Meta>;
    scope_.enter(options.device());
    outputs_[i] = create_out(sizes, kElementwise && core::options().contiguous_results ? at::IntArrayRef() : strides, options);
    if constexpr (kElementwise) {
      Meta::set_output_raw_strided(i, sizes, strides, options, names...);
    }
  }
  const at::Tensor& maybe_get_output(int64_t i) override { return outputs_[i]; }
  const at::Tensor& output(int64_t i) const { return outputs_[i]; }
  at::Tensor take(int64_t i) { return std::move(outputs_[i]); }

 private:
  std::array<at::Tensor, kOutputs> outputs_;
  DeviceScope scope_;
};

// Inplace and Out: outputs of the caller.
template <class Meta, int kOutputs, bool kInplace, class Signature = SetOutput>
class Given;

template <class Meta, int kOutputs, bool kInplace, class... Names>
class Given<Meta, kOutputs, kInplace,
            void (at::impl::MetaBase::*)(int64_t, at::IntArrayRef, at::IntArrayRef, at::TensorOptions, Names...)>
    final : public Meta {
 public:
  template <class... Tensors>
  explicit Given(Tensors&... outputs) : outputs_{&outputs...} {}

  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                          Names... names) override {
    Given::set_output_raw_strided(i, sizes, strides, options, names...);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                              Names... names) override {
    scope_.enter(options.device());
    if constexpr (kInplace) {
      check_inplace(*outputs_[i], sizes, options);
    } else {
      prepare_out(*outputs_[i], sizes, strides, options);
    }
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
      Meta::set_output_raw_strided(i, sizes, strides, options, names...);
    }
  }
  const at::Tensor& maybe_get_output(int64_t i) override { return *outputs_[i]; }
  const at::Tensor& output(int64_t i) const { return *outputs_[i]; }

 private:
  std::array<const at::Tensor*, kOutputs> outputs_;
  DeviceScope scope_;
};

template <class Meta, int kOutputs>
using Inplace = Given<Meta, kOutputs, true>;
template <class Meta, int kOutputs>
using Out = Given<Meta, kOutputs, false>;

// Note [Pointwise]
// TensorIterator finds out shape, dtype, strides and overlaps of an elementwise operator's operands, which costs more
// than queueing the operator. Where the operands are contiguous, of one floating dtype, device and shape, there is
// nothing to find out. Numbers change neither shape nor dtype of a floating tensor unless they are complex; bools are not
// numbers to every operator.

inline bool plain(const at::Tensor& tensor) {
  const auto& impl = *tensor.unsafeGetTensorImpl();
  return impl.key_set().has_backend(c10::BackendComponent::PrivateUse1Bit) && impl.is_contiguous() &&
         at::isFloatingType(c10::typeMetaToScalarType(impl.dtype()));
}
// Given plain(self).
inline bool alike(const at::Tensor& self, const at::Tensor& other) {
  const auto &mine = *self.unsafeGetTensorImpl(), &its = *other.unsafeGetTensorImpl();
  return &mine == &its || (mine.dtype() == its.dtype() && mine.key_set() == its.key_set() && its.is_contiguous() &&
                           mine.device() == its.device() && mine.sizes() == its.sizes());
}

// A zero-dim CPU tensor, such as the 2 of `x + 2`: its value can go to the operator as a scalar.
inline bool is_host_scalar(const at::Tensor& tensor) { return tensor.device().is_cpu() && tensor.dim() == 0; }
// And beside this tensor that makes no difference: a CPU tensor without dimensions widens another one without, as one of
// its own device would; a Python number does not.
inline bool is_host_scalar(const at::Tensor& tensor, const at::Tensor& beside) {
  return is_host_scalar(tensor) &&
         (beside.dim() != 0 || tensor.scalar_type() == beside.scalar_type() || tensor.unsafeGetTensorImpl()->is_wrapped_number());
}
C10_EXPORT at::Scalar host_scalar(const at::Tensor& tensor);

// A tensor is contiguous whatever the strides of its dimensions of size 1. Beside a number TensorIterator keeps them, which tells
// a later operator of the memory format; beside a tensor, or alone, it does not.
inline bool has_usual_strides(const at::Tensor& tensor) {
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= std::max<int64_t>(sizes[i], 1)) {
    if (strides[i] != stride) return false;
  }
  return true;
}
inline bool alike_or_number(const at::Tensor& self, const at::Tensor& other) {
  return alike(self, other) || (is_host_scalar(other) && !other.is_complex() && other.scalar_type() != at::kBool &&
                                self.dim() != 0 && has_usual_strides(self));
}
inline bool is_real(const at::Scalar& number) { return number.isFloatingPoint() || number.isIntegral(false); }
// Writing `target` cannot change what is read from `input`, or only element by element.
inline bool apart(const at::Tensor& target, const at::Tensor& input) {
  return target.is_same(input) || !target.storage().is_alias_of(input.storage());
}
inline at::Tensor make_plain(const at::Tensor& self) {
  return create_out(self.sizes(), {}, at::TensorOptions().dtype(self.dtype()).device(self.device()));
}
inline at::Tensor make_plain(const at::Tensor& self, at::ScalarType dtype) {
  return create_out(self.sizes(), {}, at::TensorOptions().dtype(dtype).device(self.device()));
}

}  // namespace torch_npu::native
