// Storage formats. A descriptor's view always has the base format's sizes; in an internal format the bytes lie as its
// storage dimensions say, and only the parameters that blocked.txt lists take it: their kernels ask in_base_format().
#pragma once

#include "acl/acl_base.h"

namespace softcann::op {

constexpr bool is_base_format(int format) {
  switch (format) {
    case ACL_FORMAT_UNDEFINED:
    case ACL_FORMAT_ND:
    case ACL_FORMAT_NCHW:
    case ACL_FORMAT_NHWC:
    case ACL_FORMAT_HWCN:
    case ACL_FORMAT_NCL:
    case ACL_FORMAT_NC:
    case ACL_FORMAT_NCDHW:
    case ACL_FORMAT_NDHWC:
      return true;
    default:
      return false;
  }
}

}  // namespace softcann::op
