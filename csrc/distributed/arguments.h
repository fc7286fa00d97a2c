// Wrong arguments of a collective. torch's own groups raise ValueError and TypeError for them, the published torch_npu
// RuntimeError: in Python (csrc/python/distributed.cpp) these are both. Messages begin with the words that those share, then say
// what was given.
#pragma once

#include <c10/util/Exception.h>

namespace torch_npu::distributed {

class C10_EXPORT InvalidArgument : public c10::ValueError {
  using c10::ValueError::ValueError;
};

class C10_EXPORT InvalidType : public c10::TypeError {
  using c10::TypeError::TypeError;
};

}  // namespace torch_npu::distributed

#define NPU_CHECK_ARGUMENT_AS(kind, condition, ...)                                                                       \
  do {                                                                                                                    \
    if (C10_UNLIKELY(!(condition))) {                                                                                     \
      throw ::torch_npu::distributed::kind({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, c10::str(__VA_ARGS__)); \
    }                                                                                                                     \
  } while (false)
#define NPU_CHECK_ARGUMENT(condition, ...) NPU_CHECK_ARGUMENT_AS(InvalidArgument, condition, __VA_ARGS__)
#define NPU_CHECK_ARGUMENT_TYPE(condition, ...) NPU_CHECK_ARGUMENT_AS(InvalidType, condition, __VA_ARGS__)
