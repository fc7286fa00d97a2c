#include "core/error.h"

#include <cstring>
#include <string>

#include <c10/util/Exception.h>

#include "acl/runtime.h"
#include "core/call_name.h"
#include "core/recovery.h"

namespace torch_npu::core {
namespace {

struct StatusText {
  int code;
  const char* text;
};

constexpr StatusText kStatusTexts[] = {
    {100000, "invalid parameter"},
    {100001, "not initialised"},
    {100002, "initialised twice"},
    {100039, "feature not supported here"},
    {107000, "invalid parameter"},
    {107001, "invalid device id"},
    {107002, "no device context on this thread"},
    {107003, "stream is not of the current context"},
    {107017, "invalid handle"},
    {107020, "timed out"},
    {107024, "a captured stream waits for work outside the capture"},
    {107025, "a stream of the capture was not joined again"},
    {107027, "the stream is being captured"},
    {107028, "the event was recorded in a capture"},
    {107029, "the stream is not being captured"},
    {107030, "not possible while a stream is being captured in this mode"},
    {107031, "the default stream cannot be captured"},
    {107032, "the stream belongs to another capture"},
    {107036, "the capture began on another stream"},
    {107038, "the capture began on another thread"},
    {161001, "a required operator argument is null"},
    {161002, "an operator argument is invalid"},
    {200000, "host memory ran out"},
    {207000, "feature not supported"},
    {207001, "device memory ran out"},
    {207004, "no device"},
    {207018, "device resources ran out"},
    {361001, "runtime error inside an operator"},
    {507000, "internal runtime error"},
    {507011, "the model or stream stopped on an error"},
    {507014, "an AI Core kernel timed out"},
    {507015, "an AI Core kernel failed"},
    {507018, "an AI CPU kernel failed"},
    {507034, "a vector core kernel timed out"},
    {507035, "a vector core kernel failed"},
    {507046, "stream synchronisation timed out"},
    {561003, "no kernel for these arguments"},
    {507903, "the capture failed"},
};

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
  return text + " [ERR00100 PTA call acl api failed]";
}

const char* status_text(int code) noexcept {
  for (const auto& entry : kStatusTexts) {
    if (entry.code == code) return entry.text;
  }
  return "unknown status";
}

void throw_cann_error(int code, const char* call, const char* file, int line) {
  const c10::SourceLocation where{"", file, static_cast<uint32_t>(line)};
  auto message = describe_cann_error(code, call);
  if (code == 207001) throw c10::OutOfMemoryError(where, std::move(message));
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
