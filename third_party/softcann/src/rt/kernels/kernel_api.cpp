// Kernels of device binaries, as clients call them: loading, finding, arguments and launches.
#include <cstring>
#include <vector>

#include "rt/base/error.h"
#include "rt/base/log.h"
#include "rt/base/text_file.h"
#include "rt/kernels/device_binary.h"
#include "rt/kernels/kernel_arguments.h"
#include "rt/stream/stream.h"

using namespace softcann;

// A file's bytes that are to be loaded later.
struct PendingBinary : Handled {
  std::vector<char> bytes;
};

namespace {

// Note [Launching a device binary]
// softcann has no cores that could run it. The launch returns CANN's code for what is not supported, and the stream fails once
// besides, as its next synchronization tells: host code that Ascend C's compiler generates drops what the launch returns, and
// would go on with results that nothing has written. The stream itself goes on.
struct LaunchTask : Task {
  std::string text;
};

aclError launch(const char* entry, aclrtFuncHandle handle, uint32_t blocks, aclrtStream stream_handle) {
  const DeviceFunction* function = function_of(entry, handle);
  if (function == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  if (blocks == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: numBlocks is 0", entry);
  aclError error = ACL_SUCCESS;
  Stream* stream = Stream::from_handle(stream_handle, &error);
  if (stream == nullptr) return error;
  auto* task = new LaunchTask;
  task->name = entry;
  task->text = "kernel '" + function->name + "' is compiled for the cores of an NPU, and softcann has none to run it";
  task->repeat = [](Task* self, bool skip) {
    if (skip) return ACL_SUCCESS;
    task_error("%s", static_cast<LaunchTask*>(self)->text.c_str());
    return kRefused;
  };
  task->discard = [](Task* self) { delete static_cast<LaunchTask*>(self); };
  task->run = &run_once;
  const std::string text = task->text;
  SOFTCANN_LOG(ACL_ERROR, "RUNTIME", "%s: %s", entry, text.c_str());
  stream->submit(task, kNeverInline);
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: %s", entry, text.c_str());
}

uint32_t blocks_of(dim3 grid) { return grid.x * grid.y * grid.z; }

}  // namespace

extern "C" {

aclError aclrtBinaryLoadFromData(const void* data, size_t length, const aclrtBinaryLoadOptions*, aclrtBinHandle* binHandle) {
  SOFTCANN_ENTRY(aclrtBinaryLoadFromData);
  SOFTCANN_REQUIRE(data, "data");
  SOFTCANN_REQUIRE(binHandle, "binHandle");
  return load_binary("aclrtBinaryLoadFromData", data, length, "what was given", binHandle);
}

aclError aclrtBinaryLoadFromFile(const char* binPath, aclrtBinaryLoadOptions*, aclrtBinHandle* binHandle) {
  SOFTCANN_ENTRY(aclrtBinaryLoadFromFile);
  SOFTCANN_REQUIRE(binPath, "binPath");
  SOFTCANN_REQUIRE(binHandle, "binHandle");
  constexpr size_t kMost = size_t{1} << 30;
  const auto bytes = read_text_file(binPath, kMost);
  if (!bytes || bytes->size() > kMost) {
    return fail(ACL_ERROR_INVALID_FILE, "aclrtBinaryLoadFromFile: %s cannot be read, or has more than %zu bytes", binPath, kMost);
  }
  return load_binary("aclrtBinaryLoadFromFile", bytes->data(), bytes->size(), binPath, binHandle);
}

aclrtBinary aclrtCreateBinary(const void* data, size_t dataLen) {
  SOFTCANN_ENTRY_VALUE(aclrtCreateBinary, nullptr);
  if (data == nullptr || dataLen == 0) {
    fail(ACL_ERROR_INVALID_PARAM, "aclrtCreateBinary: there are no data");
    return nullptr;
  }
  auto* made = Described<PendingBinary>::make();
  made->bytes.assign(static_cast<const char*>(data), static_cast<const char*>(data) + dataLen);
  return made;
}

aclError aclrtDestroyBinary(aclrtBinary binary) {
  SOFTCANN_ENTRY(aclrtDestroyBinary);
  auto* found = static_cast<PendingBinary*>(binary);
  if (!Described<PendingBinary>::alive(found))
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtDestroyBinary: %p is no binary", binary);
  Described<PendingBinary>::drop(found);
  return ACL_SUCCESS;
}

aclError aclrtBinaryLoad(aclrtBinary binary, aclrtBinHandle* binHandle) {
  SOFTCANN_ENTRY(aclrtBinaryLoad);
  SOFTCANN_REQUIRE(binHandle, "binHandle");
  const auto* found = static_cast<const PendingBinary*>(binary);
  if (!Described<PendingBinary>::alive(found)) return fail(ACL_ERROR_INVALID_PARAM, "aclrtBinaryLoad: %p is no binary", binary);
  return load_binary("aclrtBinaryLoad", found->bytes.data(), found->bytes.size(), "the binary", binHandle);
}

aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle) {
  SOFTCANN_ENTRY(aclrtBinaryUnLoad);
  return unload_binary("aclrtBinaryUnLoad", binHandle);
}

aclError aclrtBinaryGetFunction(aclrtBinHandle binHandle, const char* kernelName, aclrtFuncHandle* funcHandle) {
  SOFTCANN_ENTRY(aclrtBinaryGetFunction);
  SOFTCANN_REQUIRE(kernelName, "kernelName");
  SOFTCANN_REQUIRE(funcHandle, "funcHandle");
  return find_function("aclrtBinaryGetFunction", binHandle, std::string(kernelName), funcHandle);
}

aclError aclrtBinaryGetFunctionByEntry(aclrtBinHandle binHandle, uint64_t funcEntry, aclrtFuncHandle* funcHandle) {
  SOFTCANN_ENTRY(aclrtBinaryGetFunctionByEntry);
  SOFTCANN_REQUIRE(funcHandle, "funcHandle");
  return find_function("aclrtBinaryGetFunctionByEntry", binHandle, funcEntry, funcHandle);
}

aclError aclrtFunctionGetBinary(aclrtFuncHandle funcHandle, aclrtBinHandle* binHandle) {
  SOFTCANN_ENTRY(aclrtFunctionGetBinary);
  SOFTCANN_REQUIRE(binHandle, "binHandle");
  const DeviceFunction* function = function_of("aclrtFunctionGetBinary", funcHandle);
  if (function == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  *binHandle = function->binary;
  return ACL_SUCCESS;
}

aclError aclrtGetFunctionName(aclrtFuncHandle funcHandle, uint32_t maxLen, char* name) {
  SOFTCANN_ENTRY(aclrtGetFunctionName);
  SOFTCANN_REQUIRE(name, "name");
  const DeviceFunction* function = function_of("aclrtGetFunctionName", funcHandle);
  if (function == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  if (function->name.size() >= maxLen) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtGetFunctionName: '%s' needs %zu bytes, and there are %u",
                function->name.c_str(), function->name.size() + 1, maxLen);
  }
  std::memcpy(name, function->name.c_str(), function->name.size() + 1);
  return ACL_SUCCESS;
}

aclError aclrtLaunchKernel(aclrtFuncHandle funcHandle, uint32_t numBlocks, const void*, size_t, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtLaunchKernel);
  return launch("aclrtLaunchKernel", funcHandle, numBlocks, stream);
}

aclError aclrtLaunchKernelV2(aclrtFuncHandle funcHandle, uint32_t numBlocks, const void*, size_t, aclrtLaunchKernelCfg*,
                             aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtLaunchKernelV2);
  return launch("aclrtLaunchKernelV2", funcHandle, numBlocks, stream);
}

aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream, aclrtLaunchKernelCfg*,
                                     aclrtArgsHandle argsHandle, void*) {
  SOFTCANN_ENTRY(aclrtLaunchKernelWithConfig);
  if (!take_arguments(argsHandle)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtLaunchKernelWithConfig: argsHandle has no arguments that are final");
  }
  return launch("aclrtLaunchKernelWithConfig", funcHandle, numBlocks, stream);
}

aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream, aclrtLaunchKernelCfg*,
                                       void*, size_t, aclrtPlaceHolderInfo*, size_t) {
  SOFTCANN_ENTRY(aclrtLaunchKernelWithHostArgs);
  return launch("aclrtLaunchKernelWithHostArgs", funcHandle, numBlocks, stream);
}

// What these are of is a function, or a symbol of the host's code, which softcann has none of.
aclError aclrtLaunchKernelWithArgsArray(void* func, uint32_t numBlocks, aclrtStream stream, aclrtLaunchKernelCfg*, void**) {
  SOFTCANN_ENTRY(aclrtLaunchKernelWithArgsArray);
  return launch("aclrtLaunchKernelWithArgsArray", func, numBlocks, stream);
}

aclError aclrtLaunchSIMTKernelWithArgsArray(void* func, dim3 gridDim, dim3, size_t, aclrtStream stream, aclrtLaunchKernelCfg*,
                                            void**) {
  SOFTCANN_ENTRY(aclrtLaunchSIMTKernelWithArgsArray);
  return launch("aclrtLaunchSIMTKernelWithArgsArray", func, blocks_of(gridDim), stream);
}

aclError aclrtLaunchSIMTKernelWithHostArgs(void* func, dim3 gridDim, dim3, size_t, aclrtStream stream, aclrtLaunchKernelCfg*,
                                           void*, size_t, aclrtPlaceHolderInfo*, size_t) {
  SOFTCANN_ENTRY(aclrtLaunchSIMTKernelWithHostArgs);
  return launch("aclrtLaunchSIMTKernelWithHostArgs", func, blocks_of(gridDim), stream);
}
}
