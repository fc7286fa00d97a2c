// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/SmallVector.h>

#include "torch_npu/csrc/core/npu/NPUStream.h"

// Extensions write these without std:: and have them from here.
using std::string;
using std::vector;

namespace at_npu::native {

using PROC_FUNC = std::function<int()>;

const int N = 32;  // elements that small vectors of arguments hold without a heap

// When an input of the host is known; CANN's compiler makes one binary for all numbers here, so that both mean the same.
enum CompileType {
  MEMORY_HOST_COMPILE_DEPENDENT = 1,
  MEMORY_HOST_COMPILE_INDEPENDENT = 2,
};

// A launch that the extension makes by itself, at once, in this thread, with what surrounds every launch (blocking mode, the
// profiler): its handler calls CANN and returns the status, or CANN is given an operator by name, with inputs, outputs and
// attributes in the order of the calls. Names of inputs and their "real" types are for CANN's graphs and are not read.
class C10_EXPORT OpCommand {
 public:
  OpCommand();
  ~OpCommand() {}
  OpCommand(const OpCommand&) = delete;
  OpCommand& operator=(const OpCommand&) = delete;

  OpCommand& Name(const std::string& name);
  OpCommand& SetCustomHandler(PROC_FUNC handler);

  // One that is left out.
  OpCommand& Input();
  OpCommand& Input(const at::Tensor& input, const std::string& name = "", const std::optional<aclFormat>& format = std::nullopt,
                   const std::string& real_type = "");
  OpCommand& InputWithoutContiguous(const at::Tensor& input, const std::string& name = "", const std::string& real_type = "");
  // Numbers of the host.
  OpCommand& Input(const c10::IntArrayRef& numbers, at::ScalarType dtype = at::kLong,
                   CompileType compile = MEMORY_HOST_COMPILE_DEPENDENT, const std::string& real_type = "",
                   const std::string& name = "");
  OpCommand& Input(const c10::ArrayRef<double>& numbers, at::IntArrayRef sizes, at::ScalarType dtype = at::kDouble,
                   CompileType compile = MEMORY_HOST_COMPILE_DEPENDENT, const std::string& real_type = "");
  OpCommand& Input(const c10::Scalar& number, at::ScalarType dtype, CompileType compile = MEMORY_HOST_COMPILE_INDEPENDENT);
  OpCommand& Inputs(const at::TensorList& inputs);
  OpCommand& Output(at::Tensor& output, const std::string& name = "", const std::optional<aclFormat>& format = std::nullopt,
                    const std::string& real_type = "");
  // Run() waits for the operator. The outputs with these numbers get the sizes that it finds, of which theirs are the most.
  OpCommand& Sync(c10::SmallVector<int64_t, N>& outputs);
  OpCommand& Sync();
  // bool, whole numbers, floating ones (float at CANN), texts, dtypes, and lists of int64_t, float or uint8_t (bool at CANN).
  template <class T>
  OpCommand& Attr(const std::string& name, T value) {
    return SetAttribute(name, attribute_of(value));
  }
  template <class T>
  OpCommand& Attr(const std::string& name, T value, bool given) {
    return given ? Attr(name, value) : *this;
  }

  // Throws c10::Error where the handler's status is not 0, or CANN refuses the operator. Once.
  void Run();

  // `sync`: wait for the stream afterwards.
  static void RunOpApi(const std::string& name, PROC_FUNC handler, bool sync = false);
  static void RunOpApiV2(const std::string& name, const PROC_FUNC& handler, bool sync = false);

 private:
  struct Launch;
  using Attribute = std::variant<bool, int64_t, float, std::string, at::ScalarType, std::vector<int64_t>, std::vector<float>,
                                 std::vector<uint8_t>>;
  OpCommand& SetAttribute(const std::string& name, Attribute value);
  template <class T>
  static Attribute attribute_of(const T& value) {
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, at::ScalarType>) {
      return value;
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<float>(value);
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<int64_t>(value);
    } else if constexpr (std::is_same_v<T, c10::Scalar>) {
      if (value.isBoolean()) return value.toBool();
      if (value.isFloatingPoint()) return value.toFloat();
      return value.toLong();
    } else if constexpr (std::is_convertible_v<T, std::string>) {
      return std::string(value);
    } else if constexpr (std::is_convertible_v<T, c10::ArrayRef<int64_t>>) {
      return c10::ArrayRef<int64_t>(value).vec();
    } else if constexpr (std::is_convertible_v<T, c10::ArrayRef<float>>) {
      return c10::ArrayRef<float>(value).vec();
    } else {
      return c10::ArrayRef<uint8_t>(value).vec();
    }
  }

  // The published class has its members in this order, and a destructor that the extension's own code destroys them with: see
  // Note [Prebuilt extensions]. Only `launch_` is used.
  template <class T>
  using Room = c10::SmallVector<T, 32>;
  [[maybe_unused]] Room<at::Tensor> hosts_;
  Launch* launch_ = nullptr;  // lives until Run()
  [[maybe_unused]] void* parameters_ = nullptr;
  [[maybe_unused]] std::optional<at::ScalarType> type_;
  [[maybe_unused]] std::optional<c10::IntArrayRef> shape_;
  [[maybe_unused]] bool has_type_ = false, waits_ = false;
  [[maybe_unused]] Room<int64_t> waited_;
  [[maybe_unused]] Room<at::Tensor> outputs_, inputs_;
};

}  // namespace at_npu::native
