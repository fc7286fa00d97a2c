// Arguments of an operator as CANN wants them.
//
// Descriptor<P>(value) makes the C argument of contract type P out of a PyTorch value and destroys it
// at the end of its scope, which is right after the second phase returned: CANN keeps what it needs.
// The contract's parameter type chooses the conversion, so a call site cannot pass the wrong kind.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/SmallVector.h>

#include "acl/runtime.h"
#include "core/thread_state.h"
#include "op/dtype.h"
#include "op/formats.h"

namespace torch_npu::op {

// Note [Absent and failed]
// To CANN a null pointer is an argument that was left out. A descriptor that could not be made is therefore never a null
// pointer here: whatever makes one throws, with CANN's reason, and only what the caller left out comes out as null.
namespace detail {
// `op`: null for the operator whose arguments are being described.
[[noreturn]] C10_EXPORT void throw_no_descriptor(const char* function, const std::string& of, const char* op = nullptr);
[[noreturn]] C10_EXPORT void throw_no_descriptor(const c10::TensorImpl& tensor);

// An array's descriptor, from the function of CANN that makes it.
template <class Create, class E>
auto* make_array(const Create& create, E* values, size_t size) {
  auto* made = create(values, size);
  if (C10_UNLIKELY(!made)) throw_no_descriptor(create.name(), std::to_string(size) + " values");
  return made;
}
}  // namespace detail

// A tensor of the current device as CANN's descriptor; undefined gives nullptr. `owned` receives the
// device copy that a zero-dim CPU tensor needs, or one whose conj or neg bit says to read it otherwise.
// Throws c10::Error for a tensor of another device, or that CANN cannot describe.
C10_EXPORT aclTensor* describe_foreign(const at::Tensor& tensor, at::Tensor& owned, bool written);

inline aclTensor* describe_local(const c10::TensorImpl& impl) {
  const auto sizes = impl.sizes();
  const auto rank = sizes.size();
  const auto dtype = impl.dtype();
  const auto& storage = impl.unsafe_storage();
  const auto item = static_cast<int64_t>(dtype.itemsize());
  const int64_t storage_size = static_cast<int64_t>(storage.nbytes()) / item;
  constexpr aclFormat kFormats[] = {ACL_FORMAT_ND,  ACL_FORMAT_ND,   ACL_FORMAT_ND,
                                    ACL_FORMAT_NCL, ACL_FORMAT_NCHW, ACL_FORMAT_NCDHW};
  const auto scalar_type = c10::typeMetaToScalarType(dtype);
  auto type = detail::kAclTypes[static_cast<size_t>(scalar_type)];
  if (C10_UNLIKELY(type == ACL_DT_UNDEFINED)) type = detail::moved_type(scalar_type);
  auto* made =
      acl::aclCreateTensor(sizes.data(), rank, type, impl.strides().data(), impl.storage_offset(),
                           rank < 6 ? kFormats[rank] : ACL_FORMAT_ND, &storage_size, 1, const_cast<void*>(storage.data()));
  if (C10_UNLIKELY(!made)) detail::throw_no_descriptor(impl);
  return made;
}

// CANN reads memory as it stands.
inline bool has_math_bits(const c10::TensorImpl& impl) {
  constexpr c10::DispatchKeySet kBits({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor});
  return impl.key_set().has_any(kBits);
}

// A contiguous tensor that holds numbers of a type which PyTorch has no dtype for. Of four-bit numbers each byte has two, so that
// CANN sees twice as many along the last dimension.
struct AsType {
  at::Tensor tensor;
  aclDataType type;
};
C10_EXPORT aclTensor* describe(const AsType& argument);

// The operator whose arguments this thread describes; null outside the op-runner.
C10_EXPORT extern thread_local constinit const char* described_operator __attribute__((tls_model("initial-exec")));
// A tensor in an internal format: a copy in the base format is described, or, where the operator writes to it, its
// storage is given the base format.
C10_EXPORT aclTensor* describe_formatted(const at::Tensor& tensor, at::Tensor& owned, bool written);

inline aclTensor* describe(const at::Tensor& tensor, at::Tensor& owned, bool written = false) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  if (C10_LIKELY(impl->key_set().has_backend(c10::BackendComponent::PrivateUse1Bit) && tensor.defined() &&
                 impl->device().index() == core::thread_state.device && !has_math_bits(*impl))) {
    if (C10_UNLIKELY(internal_format(*impl) != nullptr)) return describe_formatted(tensor, owned, written);
    return describe_local(*impl);
  }
  return describe_foreign(tensor, owned, written);
}

C10_EXPORT aclScalar* describe(const c10::Scalar& scalar);

template <class P>
class Descriptor {  // numbers, bool
  static_assert(std::is_arithmetic_v<P>, "no conversion to this parameter type of the contract");

 public:
  template <class A>
  explicit Descriptor(const A& value) {
    if constexpr (std::is_same_v<A, c10::ScalarType>) {
      value_ = static_cast<P>(acl_type(value));
    } else if constexpr (std::is_same_v<A, c10::SymInt>) {
      value_ = static_cast<P>(value.guard_int(__FILE__, __LINE__));
    } else if constexpr (std::is_same_v<A, c10::Scalar>) {
      value_ = value.template to<P>();
    } else {
      value_ = static_cast<P>(value);
    }
  }
  P get() const { return value_; }

 private:
  P value_;
};

template <>
class Descriptor<aclDataType> {
 public:
  explicit Descriptor(c10::ScalarType type) : value_(acl_type(type)) {}
  explicit Descriptor(aclDataType type) : value_(type) {}
  explicit Descriptor(const caffe2::TypeMeta& type) : value_(acl_type(c10::typeMetaToScalarType(type))) {}
  aclDataType get() const { return value_; }

 private:
  aclDataType value_;
};

template <>
class Descriptor<const char*> {
 public:
  // The text must be zero-terminated, as literals and std::string are.
  explicit Descriptor(std::string_view text) : text_(text.data()) {}
  const char* get() const { return text_; }

 private:
  const char* text_;
};

template <bool kWritten>
class TensorDescriptor {
 public:
  explicit TensorDescriptor(const at::Tensor& tensor) : raw_(describe(tensor, owned_, kWritten)) {}
  explicit TensorDescriptor(const std::optional<at::Tensor>& tensor) {
    if (tensor && tensor->defined()) raw_ = describe(*tensor, owned_, kWritten);
  }
  explicit TensorDescriptor(const at::OptionalTensorRef& tensor) {
    if (tensor.has_value() && tensor->defined()) raw_ = describe(*tensor, owned_, kWritten);
  }
  explicit TensorDescriptor(const AsType& argument) : raw_(describe(argument)) {}
  explicit TensorDescriptor(std::nullptr_t) {}
  ~TensorDescriptor() {
    if (raw_) acl::aclDestroyTensor(raw_);
  }
  TensorDescriptor(const TensorDescriptor&) = delete;
  TensorDescriptor& operator=(const TensorDescriptor&) = delete;
  aclTensor* get() const { return raw_; }
  // After the launch, for results: one with math bits was computed beside it.
  void give_back(const at::Tensor& result) const {
    if (C10_UNLIKELY(owned_.defined()) && has_math_bits(*result.unsafeGetTensorImpl())) result.copy_(owned_);
  }

 private:
  at::Tensor owned_;
  aclTensor* raw_ = nullptr;
};

template <>
class Descriptor<const aclTensor*> : public TensorDescriptor<false> {
  using TensorDescriptor<false>::TensorDescriptor;
};
template <>
class Descriptor<aclTensor*> : public TensorDescriptor<true> {
  using TensorDescriptor<true>::TensorDescriptor;
};

template <>
class Descriptor<const aclScalar*> {
 public:
  explicit Descriptor(const c10::Scalar& scalar) : raw_(describe(scalar)) {}
  explicit Descriptor(const std::optional<c10::Scalar>& scalar) : raw_(scalar ? describe(*scalar) : nullptr) {}
  explicit Descriptor(std::nullptr_t) {}
  ~Descriptor() {
    if (raw_) acl::aclDestroyScalar(raw_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  aclScalar* get() const { return raw_; }

 private:
  aclScalar* raw_ = nullptr;
};

// A list of numbers that is not given is an empty list.
template <>
class Descriptor<const aclIntArray*> {
 public:
  explicit Descriptor(c10::IntArrayRef values) : raw_(detail::make_array(acl::aclCreateIntArray, values.data(), values.size())) {}
  explicit Descriptor(const c10::OptionalIntArrayRef& values) : Descriptor(values.value_or(c10::IntArrayRef())) {}
  explicit Descriptor(const std::optional<c10::IntArrayRef>& values) : Descriptor(values.value_or(c10::IntArrayRef())) {}
  explicit Descriptor(c10::SymIntArrayRef values) : Descriptor(C10_AS_INTARRAYREF_SLOW(values)) {}
  ~Descriptor() { acl::aclDestroyIntArray(raw_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  aclIntArray* get() const { return raw_; }

 private:
  aclIntArray* raw_;
};

template <>
class Descriptor<const aclBoolArray*> {
 public:
  explicit Descriptor(c10::ArrayRef<bool> values)
      : raw_(detail::make_array(acl::aclCreateBoolArray, values.data(), values.size())) {}
  template <size_t N>
  explicit Descriptor(const std::array<bool, N>& values) : raw_(detail::make_array(acl::aclCreateBoolArray, values.data(), N)) {}
  ~Descriptor() { acl::aclDestroyBoolArray(raw_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  aclBoolArray* get() const { return raw_; }

 private:
  aclBoolArray* raw_;
};

template <>
class Descriptor<const aclFloatArray*> {
 public:
  explicit Descriptor(c10::ArrayRef<double> values) {
    const c10::SmallVector<float, 8> narrowed(values.begin(), values.end());
    raw_ = detail::make_array(acl::aclCreateFloatArray, narrowed.data(), narrowed.size());
  }
  explicit Descriptor(const std::optional<c10::ArrayRef<double>>& values)
      : Descriptor(values.value_or(c10::ArrayRef<double>())) {}
  ~Descriptor() { acl::aclDestroyFloatArray(raw_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  aclFloatArray* get() const { return raw_; }

 private:
  aclFloatArray* raw_;
};

namespace detail {

// Descriptors on their way into a list, which owns them once it is made.
template <class T>
class Elements {
 public:
  Elements() = default;
  ~Elements() {
    for (const T* element : made_) destroy(element);
  }
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;
  void add(const T* element) { made_.push_back(element); }
  size_t size() const { return made_.size(); }
  template <class Create>
  auto* list(const Create& create) {
    auto* list = make_array(create, made_.data(), made_.size());
    made_.clear();
    return list;
  }

 private:
  static void destroy(const aclTensor* element) {
    if (element) acl::aclDestroyTensor(element);
  }
  static void destroy(const aclScalar* element) { acl::aclDestroyScalar(element); }
  c10::SmallVector<const T*, 16> made_;
};

}  // namespace detail

// An empty list is null.
template <bool kWritten>
class TensorListDescriptor {
 public:
  explicit TensorListDescriptor(at::TensorList tensors) { make(tensors); }
  explicit TensorListDescriptor(const at::ITensorListRef& tensors) { make(tensors); }
  explicit TensorListDescriptor(const std::vector<at::Tensor>& tensors) { make(tensors); }
  explicit TensorListDescriptor(std::nullptr_t) {}
  ~TensorListDescriptor() {
    if (raw_) acl::aclDestroyTensorList(raw_);  // and its elements
  }
  TensorListDescriptor(const TensorListDescriptor&) = delete;
  TensorListDescriptor& operator=(const TensorListDescriptor&) = delete;
  aclTensorList* get() const { return raw_; }

 private:
  template <class List>
  void make(const List& tensors) {
    detail::Elements<aclTensor> elements;
    for (const auto& tensor : tensors) {
      at::Tensor owned;
      elements.add(describe(tensor, owned, kWritten));
      if (owned.defined()) owned_.push_back(std::move(owned));
    }
    if (elements.size() != 0) raw_ = elements.list(acl::aclCreateTensorList);
  }

  c10::SmallVector<at::Tensor, 1> owned_;
  aclTensorList* raw_ = nullptr;
};

template <>
class Descriptor<const aclTensorList*> : public TensorListDescriptor<false> {
  using TensorListDescriptor<false>::TensorListDescriptor;
};
template <>
class Descriptor<aclTensorList*> : public TensorListDescriptor<true> {
  using TensorListDescriptor<true>::TensorListDescriptor;
};

template <>
class Descriptor<const aclScalarList*> {
 public:
  explicit Descriptor(c10::ArrayRef<c10::Scalar> scalars) {
    detail::Elements<aclScalar> elements;
    for (const auto& scalar : scalars) elements.add(describe(scalar));
    raw_ = elements.list(acl::aclCreateScalarList);
  }
  ~Descriptor() { acl::aclDestroyScalarList(raw_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  aclScalarList* get() const { return raw_; }

 private:
  aclScalarList* raw_;
};

}  // namespace torch_npu::op
