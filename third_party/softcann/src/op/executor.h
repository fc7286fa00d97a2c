// Executors: what phase 1 hands to phase 2. Slots of plain words, one per parameter, in pooled objects.
#pragma once

#include <ATen/core/Tensor.h>
#include <bit>
#include <memory>
#include <type_traits>

#include "op/descriptor.h"
#include "rt/runtime.h"

namespace softcann::op {

union Slot {
  Object* object;
  const char* text;
  int64_t integer;
  double real;
};

// What a parameter that is no descriptor is: which member of its Slot holds it.
enum class Plain : char { none, integer, real, dtype, text };

struct Plan;  // op/collective.h

// What gen_kernel_params.py tells of an operator's parameters.
struct Contract {
  const char* params;  // names, comma-separated
  uint64_t nullable;   // bit masks over the parameters
  uint64_t read;
  uint64_t written;
  uint64_t blocked;   // may be in an internal format
  const char* needs;  // pairs of 1 + index, or null: a parameter that may be null, and the one that it is given with
  const char* alike;  // pairs too: a result, and the parameter whose shape it has
};

// What is known of an operator at compile time; one static object each.
struct OpInfo : Contract {
  const char* name = nullptr;
  uint64_t objects = 0;  // bit masks too: any descriptor
  uint64_t tensors = 0;  // aclTensor
  uint64_t tensor_lists = 0;
  uint64_t scalars = 0;
  void (*run)(Slot*) = nullptr;
  double (*cost)(Slot*) = nullptr;  // null: from the bytes touched
  bool (*fast)(Slot*) = nullptr;
  int count = 0;
  const Kind* kinds = nullptr;    // [count]
  const Plain* plains = nullptr;  // [count]
  Plan (*plan)(Slot*) = nullptr;  // of operators that communicate
};

// Reads a slot as the type a kernel's parameter has.
template <class A>
struct Arg {
  static_assert(std::is_arithmetic_v<A>, "parameter type that no slot holds");
  static constexpr Kind kind = Kind::none;
  static A get(const Slot& slot) {
    if constexpr (std::is_floating_point_v<A>)
      return static_cast<A>(slot.real);
    else
      return static_cast<A>(slot.integer);
  }
};
template <>
struct Arg<const at::Tensor&> {
  static constexpr Kind kind = Kind::tensor;
  static const at::Tensor& get(const Slot& slot) {
    return slot.object ? static_cast<aclTensor*>(slot.object)->tensor : absent_tensor();
  }
};
template <>
struct Arg<at::Tensor&> {
  static constexpr Kind kind = Kind::tensor;
  static at::Tensor& get(const Slot& slot) { return const_cast<at::Tensor&>(Arg<const at::Tensor&>::get(slot)); }
};
template <>
struct Arg<const at::Scalar&> {
  static constexpr Kind kind = Kind::scalar;
  static const at::Scalar& get(const Slot& slot) {
    return slot.object ? static_cast<aclScalar*>(slot.object)->value : absent_scalar;
  }
};
template <>
struct Arg<at::TensorList> {
  static constexpr Kind kind = Kind::tensor_list;
  static at::TensorList get(const Slot& slot) {
    return slot.object ? at::TensorList(static_cast<aclTensorList*>(slot.object)->values) : at::TensorList();
  }
};
template <>
struct Arg<c10::ArrayRef<at::Scalar>> {
  static constexpr Kind kind = Kind::scalar_list;
  static c10::ArrayRef<at::Scalar> get(const Slot& slot) {
    return slot.object ? c10::ArrayRef<at::Scalar>(static_cast<aclScalarList*>(slot.object)->values)
                       : c10::ArrayRef<at::Scalar>();
  }
};
template <class E, class Array, Kind K>
struct ArrayArg {
  static constexpr Kind kind = K;
  static c10::ArrayRef<E> get(const Slot& slot) {
    return slot.object ? static_cast<Array*>(slot.object)->ref() : c10::ArrayRef<E>();
  }
};
template <>
struct Arg<at::IntArrayRef> : ArrayArg<int64_t, aclIntArray, Kind::int_array> {};
template <>
struct Arg<c10::ArrayRef<float>> : ArrayArg<float, aclFloatArray, Kind::float_array> {};
template <>
struct Arg<c10::ArrayRef<bool>> : ArrayArg<bool, aclBoolArray, Kind::bool_array> {};
template <>
struct Arg<at::ScalarType> {
  static constexpr Kind kind = Kind::none;
  static at::ScalarType get(const Slot& slot) { return static_cast<at::ScalarType>(slot.integer); }
};
template <>
struct Arg<const char*> {
  static constexpr Kind kind = Kind::none;
  static const char* get(const Slot& slot) { return slot.text; }
};

template <auto Function, class R, class... A, size_t... I>
R call_with(Slot* slots, R (*)(A...), std::index_sequence<I...>) {
  return Function(Arg<A>::get(slots[I])...);
}
template <auto Function>
auto call(Slot* slots) {
  return [&]<class R, class... A>(R (*function)(A...)) -> R {
    return call_with<Function>(slots, function, std::index_sequence_for<A...>());
  }(Function);
}

template <class... A>
inline constexpr Kind kinds_of[sizeof...(A)] = {Arg<A>::kind...};

template <class A>
constexpr Plain plain_of() {
  if constexpr (Arg<A>::kind != Kind::none) return Plain::none;
  if constexpr (std::is_same_v<A, const char*>) return Plain::text;
  if constexpr (std::is_same_v<A, at::ScalarType>) return Plain::dtype;
  return std::is_floating_point_v<A> ? Plain::real : Plain::integer;
}
template <class... A>
inline constexpr Plain plains_of[sizeof...(A)] = {plain_of<A>()...};

template <auto Run, auto Cost, auto Fast, class... A>
constexpr OpInfo info_of(void (*)(A...), const char* name, const Contract& contract) {
  constexpr const Kind* kinds = kinds_of<A...>;
  OpInfo info{contract};
  info.name = name;
  info.run = &call<Run>;
  info.count = sizeof...(A);
  info.kinds = kinds;
  info.plains = plains_of<A...>;
  static_assert(sizeof...(A) <= aclOpExecutor_max_slots);
  for (size_t i = 0; i < sizeof...(A); ++i) {
    const uint64_t bit = uint64_t{1} << i;
    if (kinds[i] != Kind::none) info.objects |= bit;
    if (kinds[i] == Kind::tensor) info.tensors |= bit;
    if (kinds[i] == Kind::tensor_list) info.tensor_lists |= bit;
    if (kinds[i] == Kind::scalar) info.scalars |= bit;
  }
  if constexpr (Cost != nullptr) info.cost = &call<Cost>;
  if constexpr (Fast != nullptr) info.fast = &call<Fast>;
  return info;
}
template <auto Run, auto Cost, auto Fast>
constexpr OpInfo make_info(const char* name, const Contract& contract) {
  return info_of<Run, Cost, Fast>(Run, name, contract);
}

const char* intern(const char* text);  // a copy that lives as long as the process

template <class A>
inline void store(Slot& slot, A value) {
  if constexpr (std::is_same_v<A, aclDataType>) {
    slot.integer = static_cast<int64_t>(to_scalar_type(value));
  } else if constexpr (std::is_same_v<A, const char*>) {
    slot.text = intern(value);
  } else if constexpr (std::is_pointer_v<A>) {
    slot.object = const_cast<std::remove_const_t<std::remove_pointer_t<A>>*>(value);
  } else if constexpr (std::is_floating_point_v<A>) {
    slot.real = value;
  } else {
    slot.integer = static_cast<int64_t>(value);
  }
}

}  // namespace softcann::op

// Pooled like descriptors, hence an Object.
struct aclOpExecutor final : softcann::Task, softcann::op::Object {
  aclOpExecutor();
  const softcann::op::OpInfo* op = nullptr;
  uint32_t cost_ns = 0;
  uint16_t threads = 0;  // of the submitting thread, for its workers
  bool repeatable = false;
  // Of operators that communicate.
  std::shared_ptr<const softcann::op::Plan> plan;
  uint32_t stage = 0;
  char* workspace = nullptr;  // where kernels reach it
  softcann::op::Slot slots[softcann::op::aclOpExecutor_max_slots];
};

namespace softcann::op {

// 161002, and why: the handle of `function`'s argument is not one of that kind.
aclnnStatus refuse_handle(const char* function, const void* handle, Kind kind);
// ACLNN_SUCCESS, and the handle becomes the object; else as above.
template <class T>
inline aclnnStatus require_live(const char* function, T*& handle, Kind kind) {
  if (__builtin_expect(!is_live(handle, kind), 0)) return refuse_handle(function, handle, kind);
  handle = object_of(handle);
  return ACLNN_SUCCESS;
}

aclOpExecutor* take_executor();
aclnnStatus finish_prepare(const OpInfo& info, aclOpExecutor* made, uint64_t* workspace, aclOpExecutor** executor);
aclnnStatus launch(const OpInfo& info, aclOpExecutor* executor, aclrtStream stream);
// The same of an operator that has a plan; see op/collective.h.
aclnnStatus launch_in_stages(const OpInfo& info, aclOpExecutor* executor, void* workspace, uint64_t bytes, aclrtStream stream);

template <class... A>
inline aclnnStatus prepare(const OpInfo& info, uint64_t* workspace, aclOpExecutor** executor, A... args) {
  aclOpExecutor* made = take_executor();
  Slot* slot = made->slots;
  (store(*slot++, args), ...);
  return finish_prepare(info, made, workspace, executor);
}

}  // namespace softcann::op
