// Where ATB's operations run.
#pragma once

#include "acl/acl.h"
#include "atb/types.h"

namespace atb {

class Context {
 public:
  Context() = default;
  virtual ~Context() = default;
  virtual Status SetExecuteStream(aclrtStream stream) = 0;
  virtual aclrtStream GetExecuteStream() const = 0;
  virtual Status SetAsyncTilingCopyStatus(bool enable) = 0;
  virtual bool GetAsyncTilingCopyStatus() const = 0;
};

Status CreateContext(Context** context);
Status DestroyContext(Context* context);

}  // namespace atb
