// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <c10/macros/Export.h>

#include "acl/acl.h"

namespace c10_npu::option {

class C10_EXPORT OptionsManager {
 public:
  // Whether aclAppLog() is to be asked: it leaves out by itself what is below its level.
  static bool isACLGlobalLogOn(aclLogLevel level);
};

}  // namespace c10_npu::option
