#include "core/error.h"

#include <atomic>
#include <string>

#include <c10/util/Exception.h>

#include "acl/runtime.h"
#include "core/error_context.h"
#include "core/error_text.h"

namespace torch_npu::core {
namespace {

struct StatusText {
  int code;
  const char* text;
};

// In the order of the codes.
constexpr StatusText kStatusTexts[] = {
#define NPU_STATUS(code, text) {code, text},
#include "core/status_texts.def"
#undef NPU_STATUS
};

// From the second on they are libopapi's, which no device has met.
constexpr int kFirstDeviceError = 507000, kFirstOperatorError = 561000;
std::atomic<std::string (*)()> explanation{nullptr};

std::string recent_message() noexcept {
  try {
    const char* text = acl::aclGetRecentErrMsg();
    return text ? text : "";
  } catch (...) {
    return "";
  }
}

}  // namespace

std::string describe_cann_error(int code, const char* call) {
  std::string text = call_name(call) + " failed with code " + std::to_string(code) + " (" + status_text(code) + ")";
  const auto report = recent_message();
  if (!report.empty()) text += ": " + report;
  // The code by which programs for the published torch_npu know an error of CANN.
  text += " [ERR00100 PTA call acl api failed]";
  const auto explain = explanation.load(std::memory_order_acquire);
  if (code >= kFirstDeviceError && code < kFirstOperatorError && explain) text += explain();
  return text;
}

void explain_device_errors_with(std::string (*explain)()) { explanation.store(explain, std::memory_order_release); }

const char* status_text(int code) noexcept {
  for (const auto& entry : kStatusTexts) {
    if (entry.code == code) return entry.text;
  }
  return "unknown status";
}

void throw_cann_error(int code, const char* call, const char* file, int line) {
  const c10::SourceLocation where{"", file, static_cast<uint32_t>(line)};
  auto message = describe_cann_error(code, call);
  if (code == ACL_ERROR_RT_MEMORY_ALLOCATION) throw c10::OutOfMemoryError(where, std::move(message));
  // No device has met these: torch's operators tell them so too, and who restarts a device after AcceleratorError is not misled.
  if (code == ACLNN_ERR_INNER_FIND_KERNEL_ERROR) throw c10::NotImplementedError(where, std::move(message));
  if (code == ACLNN_ERR_PARAM_NULLPTR || code == ACLNN_ERR_PARAM_INVALID) throw c10::Error(where, std::move(message));
  throw c10::AcceleratorError(where, code, std::move(message));
}

void warn_cann_error(int code, const char* call) noexcept {
  try {
    TORCH_WARN(describe_cann_error(code, call));
  } catch (...) {
    // A warning turned into an exception by the user must not end a destructor.
  }
}

}  // namespace torch_npu::core
