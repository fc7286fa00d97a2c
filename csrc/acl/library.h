// Finds CANN's shared libraries and the functions in them, at first use.
//
// Nothing here runs at import: a machine without CANN can load this adapter, and an absent function
// is an error only for the call that needs it.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include <c10/macros/Export.h>

namespace torch_npu::acl {

enum class Library : unsigned char { ascendcl, opapi, hccl, op_compiler };

// Folders searched before the dynamic loader's own path, in order. Takes effect for libraries that
// are not open yet; set once, before the first call.
C10_EXPORT void set_library_path(std::vector<std::string> folders);
C10_EXPORT std::vector<std::string> library_path();

// Path of an opened library, empty while it is not open.
C10_EXPORT std::string opened_path(Library library);

// Address of a function, or nullptr if the library is there and lacks it. Throws c10::Error when the
// library itself cannot be opened; the message names the files tried and the loader's reason.
C10_EXPORT void* find_symbol(Library library, const char* name);

// As find_symbol, and an absent function is a c10::Error too.
C10_EXPORT void* require_symbol(Library library, const char* name);

// A C function of CANN with the contract's type: Symbol<decltype(::aclrtMalloc)>.
template <class Signature>
class Symbol;

template <class Result, class... Args>
class Symbol<Result(Args...)> {
 public:
  constexpr Symbol(Library library, const char* name) : name_(name), library_(library) {}

  Result operator()(Args... args) const { return address()(args...); }

  // The function; resolved at the first call. Throws c10::Error if CANN does not have it.
  Result (*address() const)(Args...) {
    auto* function = function_.load(std::memory_order_relaxed);
    if (__builtin_expect(function == nullptr, 0)) {
      function = reinterpret_cast<Function>(require_symbol(library_, name_));
      function_.store(function, std::memory_order_relaxed);
    }
    return function;
  }

  bool available() const { return find_symbol(library_, name_) != nullptr; }
  const char* name() const { return name_; }

 private:
  using Function = Result (*)(Args...);
  const char* name_;
  mutable std::atomic<Function> function_{nullptr};
  Library library_;
};

}  // namespace torch_npu::acl
