// Device binaries: what a compiler for the NPU has made. softcann finds their kernels, and has no cores to run them on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rt/base/described.h"

namespace softcann {

struct DeviceBinary;

// A kernel of a binary: the symbol that the client asked for, or the first whose tiling key it named.
struct DeviceFunction : Handled {
  DeviceBinary* binary = nullptr;
  std::string name;
  std::string meta;  // what the compiler says of it: the content of the section .ascend.meta.<name>
};

struct DeviceBinary : Handled {
  std::vector<std::string> kernels;                                // names of its functions
  std::vector<std::pair<std::string, std::string>> meta_sections;  // by the kernel's name
  std::vector<DeviceFunction*> functions;                          // those that were given out
};

// Reads an ELF file of 64 bits; `what` names it in the error's text.
aclError load_binary(const char* entry, const void* data, size_t length, const std::string& what, aclrtBinHandle* handle);
aclError unload_binary(const char* entry, aclrtBinHandle handle);

// The function of that name, as the compiler wrote it or without what it adds to kernels for both kinds of cores.
aclError find_function(const char* entry, aclrtBinHandle handle, const std::string& name, aclrtFuncHandle* function);
// The function whose name ends with that tiling key.
aclError find_function(const char* entry, aclrtBinHandle handle, uint64_t key, aclrtFuncHandle* function);

// The function of a handle; null, with the error recorded, where it is of none.
const DeviceFunction* function_of(const char* entry, aclrtFuncHandle handle);

}  // namespace softcann
