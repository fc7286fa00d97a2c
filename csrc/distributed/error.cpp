#include "distributed/error.h"

#include <c10/util/Exception.h>

#include "acl/hccl.h"
#include "acl/runtime.h"

namespace torch_npu::distributed {
namespace {

std::string function_name(const char* call) {
  // "acl::HcclAllReduce(buffer, ...)" -> "HcclAllReduce"
  std::string text(call);
  text = text.substr(0, text.find('('));
  const auto colon = text.rfind(':');
  return colon == std::string::npos ? text : text.substr(colon + 1);
}

std::string meaning(int code) {
  const char* text = acl::HcclGetErrorString.available() ? acl::HcclGetErrorString(static_cast<HcclResult>(code)) : nullptr;
  return text ? text : "unknown status";
}

}  // namespace

std::string describe_hccl_error(int code, const char* call) {
  std::string text = function_name(call) + " failed with code " + std::to_string(code) + " (" + meaning(code) + ")";
  const char* report = acl::aclGetRecentErrMsg();
  if (report && *report) text += std::string(": ") + report;
  return text;
}

void throw_backend_error(const std::string& message) { C10_THROW_ERROR(DistBackendError, message); }

void throw_hccl_error(int code, const char* call) { throw_backend_error(describe_hccl_error(code, call)); }

}  // namespace torch_npu::distributed
