// What a failed call is called in an error's text.
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

}  // namespace torch_npu::core
