// What the programs of this folder share: AscendCL of device 0 with a stream, and errors as exceptions.
#pragma once
#include <acl/acl.h>

#include <stdexcept>
#include <string>

inline void check(aclError code, const char* what) {
  if (code == ACL_SUCCESS) return;
  const char* text = aclGetRecentErrMsg();  // null where there is none
  throw std::runtime_error(std::string(what) + ": " + std::to_string(code) + ": " + (text != nullptr ? text : ""));
}
#define CHECK(call) check(call, #call)

class Runtime {
 public:
  Runtime() {
    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
  }
  ~Runtime() {
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  aclrtStream stream = nullptr;
};
