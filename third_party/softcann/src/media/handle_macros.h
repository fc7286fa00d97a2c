// Entry points that only make, destroy, read or write a description; for the files that define them.
#pragma once

#include <new>

#include "rt/base/error.h"

namespace softcann::media {

template <class T>
T* make_handle() {
  auto* made = new (std::nothrow) T;
  if (made == nullptr) fail(ACL_ERROR_BAD_ALLOC, "there is no memory for a description");
  return made;
}

}  // namespace softcann::media

#define MEDIA_HANDLE(TYPE, CREATE, DESTROY)        \
  TYPE* CREATE() {                                 \
    SOFTCANN_ENTRY_VALUE(CREATE, nullptr);         \
    return ::softcann::media::make_handle<TYPE>(); \
  }                                                \
  aclError DESTROY(TYPE* handle) {                 \
    SOFTCANN_ENTRY(DESTROY);                       \
    SOFTCANN_REQUIRE(handle, #TYPE);               \
    delete handle;                                 \
    return ACL_SUCCESS;                            \
  }
#define MEDIA_SETTER(NAME, TYPE, FIELD, VALUE) \
  aclError NAME(TYPE* handle, VALUE value) {   \
    SOFTCANN_ENTRY(NAME);                      \
    SOFTCANN_REQUIRE(handle, #TYPE);           \
    handle->FIELD = value;                     \
    return ACL_SUCCESS;                        \
  }
#define MEDIA_GETTER(NAME, TYPE, FIELD, VALUE)                                             \
  VALUE NAME(const TYPE* handle) {                                                         \
    SOFTCANN_ENTRY_VALUE(NAME, static_cast<VALUE>(0));                                     \
    if (handle == nullptr) {                                                               \
      ::softcann::fail(ACL_ERROR_INVALID_PARAM, "%s: %s is a null pointer", #NAME, #TYPE); \
      return static_cast<VALUE>(0);                                                        \
    }                                                                                      \
    return static_cast<VALUE>(handle->FIELD);                                              \
  }
