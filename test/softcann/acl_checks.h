// The harness, checks of CANN's return codes, and what most tests begin with.
#pragma once

#include "acl/acl.h"
#include "harness.h"

// For calls that must succeed: shows CANN's text when they do not.
#define OK(call)                                                                                                             \
  do {                                                                                                                       \
    const int ok_code = (call);                                                                                              \
    if (ok_code != 0) {                                                                                                      \
      const char* ok_text = aclGetRecentErrMsg();                                                                            \
      test::report_failure(__FILE__, __LINE__,                                                                               \
                           std::string(#call " -> ") + std::to_string(ok_code) + " " + (ok_text != nullptr ? ok_text : "")); \
    }                                                                                                                        \
  } while (0)

// For calls that must fail with a code and a text that contains `part`.
#define FAILS(call, code, part)                                                                                               \
  do {                                                                                                                        \
    const int fails_code = (call);                                                                                            \
    const char* fails_text = aclGetRecentErrMsg();                                                                            \
    if (fails_code != (code) || fails_text == nullptr || std::strstr(fails_text, part) == nullptr)                            \
      test::report_failure(                                                                                                   \
          __FILE__, __LINE__,                                                                                                 \
          std::string(#call " -> ") + std::to_string(fails_code) + " " + (fails_text != nullptr ? fails_text : "(no text)")); \
  } while (0)

// A stream of device 0, which becomes the thread's.
inline aclrtStream new_stream() {
  aclrtStream stream = nullptr;
  OK(aclrtSetDevice(0));
  OK(aclrtCreateStream(&stream));
  return stream;
}
