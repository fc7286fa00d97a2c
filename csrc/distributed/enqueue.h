// Calls of HCCL that put work on a stream.
#pragma once

#include <tuple>

#include "acl/hccl.h"
#include "distributed/error.h"
#include "op/launch_hooks.h"

namespace torch_npu::distributed {

// `function` with its arguments, the last of which is the current stream. Throws c10::DistBackendError.
template <class Function, class... A>
void enqueue(const Function& function, const A&... arguments) {
  const aclrtStream stream = std::get<sizeof...(A) - 1>(std::forward_as_tuple(arguments...));
  op::launch_with_hooks({function.name(), stream, op::Launch::Kind::collective}, [&] {
    const int status = function(arguments...);
    if (C10_UNLIKELY(status != 0)) throw_hccl_error(status, function.name());
  });
}

}  // namespace torch_npu::distributed
