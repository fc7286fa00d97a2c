#include "distributed/error.h"

#include <c10/util/Exception.h>

#include "acl/hccl.h"
#include "acl/runtime.h"
#include "core/error_text.h"

namespace torch_npu::distributed {
namespace {

std::string meaning(int code) {
  const char* text = acl::HcclGetErrorString.available() ? acl::HcclGetErrorString(static_cast<HcclResult>(code)) : nullptr;
  return text ? text : "unknown status";
}

}  // namespace

std::string describe_hccl_error(int code, const char* call) {
  std::string text = core::call_name(call) + " failed with code " + std::to_string(code) + " (" + meaning(code) + ")";
  const char* report = acl::aclGetRecentErrMsg();
  if (report && *report) text += std::string(": ") + report;
  return text;
}

c10d::ErrorType kind_of(int code) {
  switch (code) {
    case HCCL_SUCCESS:
      return c10d::ErrorType::SUCCESS;
    case HCCL_E_TIMEOUT:
      return c10d::ErrorType::TIMEOUT;
    case HCCL_E_REMOTE:
      return c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

void throw_backend_error(const std::string& message) { C10_THROW_ERROR(DistBackendError, message); }

std::string text_of(const std::exception& error) {
  const auto* known = dynamic_cast<const c10::Error*>(&error);
  return known ? known->what_without_backtrace() : error.what();
}

void throw_lost_store(const std::string& who, const std::exception& error) {
  throw_backend_error(who + ": the store does not answer: its host, usually rank 0, has ended or cannot be reached (" +
                      text_of(error) + ")");
}

void throw_hccl_error(int code, const char* call) { throw_backend_error(describe_hccl_error(code, call)); }

}  // namespace torch_npu::distributed
