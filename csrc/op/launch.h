// The op-runner: how every operator reaches CANN.
//
//   NPU_OPERATOR(aclnnAdd);
//   op::run(aclnnAdd, self, other, alpha, out);
//
// A call site knows the symbol and its arguments; streams, descriptors, workspaces, zero-dim CPU
// tensors, empty results, blocking mode and hooks are here, once.
//
// Note [Workspace reuse]
// A workspace is returned to the caching allocator right after the second phase was queued. The
// allocator hands it out again only to work of the same stream, which runs later, so no event is needed.
#pragma once

#include <array>
#include <tuple>
#include <vector>

#include <ATen/core/DimVector.h>
#include <c10/core/Allocator.h>

#include "aclnn/aclnn_ops.h"
#include "core/stream.h"
#include "op/check_numbers.h"
#include "op/descriptor.h"
#include "op/launch_hooks.h"

namespace torch_npu::op {

using PhaseTwo = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);

[[noreturn]] C10_EXPORT void throw_operator_error(const char* name, int status);
C10_EXPORT void* require_operator_symbol(const char* name, const char* suffix);
C10_EXPORT bool has_operator(const char* name);
C10_EXPORT c10::DataPtr allocate_workspace(uint64_t bytes);
// Waits for the stream, so that an error carries the operator's name.
C10_EXPORT void wait_for_operator(const char* name, aclrtStream stream);
// The shape a descriptor has now; empty for nullptr.
C10_EXPORT at::DimVector view_shape(const aclTensor* tensor);

// The two functions of an aclnn operator, resolved at the first call.
template <class PhaseOne>
class Operator {
 public:
  constexpr explicit Operator(const char* name) : name_(name) {}

  const char* name() const { return name_; }
  // Whether this CANN has the operator.
  bool available() const { return has_operator(name_); }

  PhaseOne phase_one() const {
    if (auto function = one_.load(std::memory_order_relaxed); C10_LIKELY(function != nullptr)) return function;
    auto function = reinterpret_cast<PhaseOne>(require_operator_symbol(name_, "GetWorkspaceSize"));
    one_.store(function, std::memory_order_relaxed);
    return function;
  }
  PhaseTwo phase_two() const {
    if (auto function = two_.load(std::memory_order_relaxed); C10_LIKELY(function != nullptr)) return function;
    auto function = reinterpret_cast<PhaseTwo>(require_operator_symbol(name_, ""));
    two_.store(function, std::memory_order_relaxed);
    return function;
  }

 private:
  const char* name_;
  mutable std::atomic<PhaseOne> one_{nullptr};
  mutable std::atomic<PhaseTwo> two_{nullptr};
};

namespace detail {

// Whether an argument is a result with elements in it.
template <class P, class A>
bool writes_elements(const A& argument) {
  if constexpr (std::is_same_v<P, aclTensor*> && std::is_same_v<A, at::Tensor>) return argument.defined() && argument.numel() > 0;
  if constexpr (std::is_same_v<P, aclTensorList*>) return true;
  return false;
}

template <class P, class A>
constexpr bool is_result() {
  return (std::is_same_v<P, aclTensor*> && std::is_same_v<A, at::Tensor>) || std::is_same_v<P, aclTensorList*>;
}

template <class... A>
std::array<NumberSource, sizeof...(A)> number_sources(const A&... arguments) {
  return {number_source(arguments)...};
}

template <class D>
void append_shape(std::vector<at::DimVector>& shapes, const D& descriptor) {
  if constexpr (std::is_same_v<D, Descriptor<aclTensor*>>) shapes.push_back(view_shape(descriptor.get()));
}

template <class D, class A>
void give_back(const D& descriptor, const A& argument) {
  if constexpr (std::is_same_v<D, Descriptor<aclTensor*>> && std::is_same_v<A, at::Tensor>) descriptor.give_back(argument);
}

template <class Params>
struct Launcher;

template <class... P>
struct Launcher<std::tuple<P...>> {
  // `shapes`: wait for the operator and tell the shapes its results turned out to have.
  template <class Op, class... A>
  static void run(std::vector<at::DimVector>* shapes, const Op& op, const A&... arguments) {
    static_assert(sizeof...(P) == sizeof...(A), "the operator takes another number of arguments");
    if constexpr ((is_result<P, A>() || ...)) {
      if (!(writes_elements<P>(arguments) || ...)) return;  // every result is empty
    }
    const bool finite = C10_UNLIKELY(arguments_are_watched()) && watch_arguments(op.name(), number_sources(arguments...));
    const auto stream = core::current_raw_stream();
    uint64_t workspace_size = 0;
    aclOpExecutor* executor = nullptr;
    described_operator = op.name();
    const std::tuple<Descriptor<P>...> descriptors(arguments...);
    int status = std::apply(
        [&](const auto&... descriptor) { return op.phase_one()(descriptor.get()..., &workspace_size, &executor); }, descriptors);
    if (C10_UNLIKELY(status != 0)) throw_operator_error(op.name(), status);
    c10::DataPtr workspace;
    if (workspace_size != 0) workspace = allocate_workspace(workspace_size);
    launch_with_hooks({op.name(), stream}, [&] {
      status = op.phase_two()(workspace.get(), workspace_size, executor, stream);
      if (C10_UNLIKELY(status != 0)) throw_operator_error(op.name(), status);
      std::apply([&](const auto&... descriptor) { (give_back(descriptor, arguments), ...); }, descriptors);
    });
    if (C10_UNLIKELY(finite)) check_results(op.name(), number_sources(arguments...));
    if (shapes) {
      wait_for_operator(op.name(), stream);
      std::apply([&](const auto&... descriptor) { (append_shape(*shapes, descriptor), ...); }, descriptors);
    }
  }
};

// The operator's own parameters: all of phase one's but the last two.
template <class Seen, class... Rest>
struct OwnParams;
template <class... Seen>
struct OwnParams<std::tuple<Seen...>, uint64_t*, aclOpExecutor**> {
  using type = std::tuple<Seen...>;
};
template <class... Seen, class Next, class... Rest>
struct OwnParams<std::tuple<Seen...>, Next, Rest...> : OwnParams<std::tuple<Seen..., Next>, Rest...> {};

}  // namespace detail

template <class... P, class... A>
void run(const Operator<aclnnStatus (*)(P...)>& op, const A&... arguments) {
  detail::Launcher<typename detail::OwnParams<std::tuple<>, P...>::type>::run(nullptr, op, arguments...);
}

// For operators whose results' shapes depend on the data (nonzero, unique): the results come in at their largest
// size; returns, in order, the shape that each written tensor really has. Waits for the operator.
template <class... P, class... A>
std::vector<at::DimVector> run_for_shapes(const Operator<aclnnStatus (*)(P...)>& op, const A&... arguments) {
  std::vector<at::DimVector> shapes;
  detail::Launcher<typename detail::OwnParams<std::tuple<>, P...>::type>::run(&shapes, op, arguments...);
  return shapes;
}

}  // namespace torch_npu::op

// Declares the operator `name` for use with op::run, at namespace scope of a source file.
#define NPU_OPERATOR(name) \
  static const ::torch_npu::op::Operator<decltype(&::name##GetWorkspaceSize)> name { #name }
