// What an error's text says of a failed call.
#pragma once

#include <string>

namespace torch_npu::core {

// "acl::aclrtMalloc(&p, n)" -> "aclrtMalloc"
inline std::string call_name(const char* call) {
  std::string text(call);
  text = text.substr(0, text.find('('));
  const auto colon = text.rfind(':');
  return colon == std::string::npos ? text : text.substr(colon + 1);
}

// The call, the code and its meaning, and CANN's own report of this thread.
std::string describe_cann_error(int code, const char* call);

}  // namespace torch_npu::core
