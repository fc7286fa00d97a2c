#include "rt/kernels/kernel_arguments.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "rt/base/error.h"
#include "rt/kernels/device_binary.h"

using namespace softcann;

namespace {

constexpr size_t kWord = 8;  // of a place holder, and what places are multiples of

struct KernelArguments : Handled {
  struct Piece {
    size_t offset, size;
    bool holds_place = false;
    void* buffer = nullptr;  // of a place holder: what its argument points to, once the client has asked for it
    size_t buffer_size = 0;
  };
  std::vector<char> bytes;  // unless the client has given memory:
  char* memory = nullptr;
  size_t room = 0, used = 0;
  std::vector<std::unique_ptr<char[]>> buffers;
  std::vector<Piece> pieces;
  bool final = false;

  char* data() { return memory != nullptr ? memory : bytes.data(); }
  // A place for that many bytes at a multiple of `alignment`; false where the client's memory has none.
  bool take(size_t size, size_t alignment, size_t* offset) {
    *offset = (used + alignment - 1) / alignment * alignment;
    if (memory != nullptr && (*offset > room || size > room - *offset)) return false;
    used = *offset + size;
    if (memory == nullptr) bytes.resize(used);
    return true;
  }
};

// Those in memory of clients are known by where their handle's memory is, in which nothing is kept.
struct OfClients {
  std::mutex mutex;
  std::map<const void*, KernelArguments*> by_handle;
};

OfClients& of_clients() {
  static auto* instance = new OfClients;
  return *instance;
}

KernelArguments* find_arguments(aclrtArgsHandle handle) {
  auto* arguments = static_cast<KernelArguments*>(handle);
  if (Described<KernelArguments>::alive(arguments)) return arguments;
  const std::lock_guard<std::mutex> lock(of_clients().mutex);
  const auto found = of_clients().by_handle.find(handle);
  return found != of_clients().by_handle.end() ? found->second : nullptr;
}

KernelArguments* open_arguments(const char* entry, aclrtArgsHandle handle) {
  KernelArguments* arguments = find_arguments(handle);
  if (arguments != nullptr && !arguments->final) return arguments;
  fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p are no arguments of a kernel that could still change", entry, handle);
  return nullptr;
}

// Pieces are known to clients by their number, from 1; null where there is none.
KernelArguments::Piece* piece_of(KernelArguments* arguments, aclrtParamHandle handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (arguments == nullptr || number == 0 || number > arguments->pieces.size()) return nullptr;
  return &arguments->pieces[number - 1];
}

aclError append(const char* entry, KernelArguments* arguments, size_t size, size_t alignment, bool holds_place,
                aclrtParamHandle* handle) {
  size_t offset = 0;
  if (!arguments->take(size, alignment, &offset)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: the client's memory has %zu bytes, and %zu are taken", entry, arguments->room,
                arguments->used);
  }
  arguments->pieces.push_back({offset, size, holds_place});
  *handle = reinterpret_cast<void*>(arguments->pieces.size());
  return ACL_SUCCESS;
}

}  // namespace

bool softcann::take_arguments(aclrtArgsHandle handle) {
  KernelArguments* arguments = find_arguments(handle);
  if (arguments == nullptr || !arguments->final) return false;
  {
    const std::lock_guard<std::mutex> lock(of_clients().mutex);
    of_clients().by_handle.erase(handle);
  }
  Described<KernelArguments>::drop(arguments);
  return true;
}

extern "C" {

aclError aclrtKernelArgsInit(aclrtFuncHandle funcHandle, aclrtArgsHandle* argsHandle) {
  SOFTCANN_ENTRY(aclrtKernelArgsInit);
  SOFTCANN_REQUIRE(argsHandle, "argsHandle");
  if (function_of("aclrtKernelArgsInit", funcHandle) == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  *argsHandle = Described<KernelArguments>::make();
  return ACL_SUCCESS;
}

aclError aclrtKernelArgsGetHandleMemSize(aclrtFuncHandle funcHandle, size_t* memSize) {
  SOFTCANN_ENTRY(aclrtKernelArgsGetHandleMemSize);
  SOFTCANN_REQUIRE(memSize, "memSize");
  if (function_of("aclrtKernelArgsGetHandleMemSize", funcHandle) == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  *memSize = kWord;
  return ACL_SUCCESS;
}

// userArgsSize: the arguments and what place holders point to, each in whole words.
aclError aclrtKernelArgsGetMemSize(aclrtFuncHandle funcHandle, size_t userArgsSize, size_t* actualArgsSize) {
  SOFTCANN_ENTRY(aclrtKernelArgsGetMemSize);
  SOFTCANN_REQUIRE(actualArgsSize, "actualArgsSize");
  if (function_of("aclrtKernelArgsGetMemSize", funcHandle) == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  if (userArgsSize > SIZE_MAX - kWord)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtKernelArgsGetMemSize: %zu bytes", userArgsSize);
  *actualArgsSize = (userArgsSize + kWord - 1) / kWord * kWord;
  return ACL_SUCCESS;
}

aclError aclrtKernelArgsInitByUserMem(aclrtFuncHandle funcHandle, aclrtArgsHandle argsHandle, void* userHostMem,
                                      size_t actualArgsSize) {
  SOFTCANN_ENTRY(aclrtKernelArgsInitByUserMem);
  SOFTCANN_REQUIRE(argsHandle, "argsHandle");
  SOFTCANN_REQUIRE(userHostMem, "userHostMem");
  if (function_of("aclrtKernelArgsInitByUserMem", funcHandle) == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  if (actualArgsSize == 0 || reinterpret_cast<uintptr_t>(userHostMem) % kWord != 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtKernelArgsInitByUserMem: %zu bytes at %p; whole words are expected",
                actualArgsSize, userHostMem);
  }
  KernelArguments* made = Described<KernelArguments>::make();
  made->memory = static_cast<char*>(userHostMem);
  made->room = actualArgsSize;
  const std::lock_guard<std::mutex> lock(of_clients().mutex);
  KernelArguments*& known = of_clients().by_handle[argsHandle];
  if (known != nullptr) Described<KernelArguments>::drop(known);  // never launched: the memory begins anew
  known = made;
  return ACL_SUCCESS;
}

aclError aclrtKernelArgsAppend(aclrtArgsHandle argsHandle, void* param, size_t paramSize, aclrtParamHandle* paramHandle) {
  SOFTCANN_ENTRY(aclrtKernelArgsAppend);
  SOFTCANN_REQUIRE(param, "param");
  SOFTCANN_REQUIRE(paramHandle, "paramHandle");
  KernelArguments* arguments = open_arguments("aclrtKernelArgsAppend", argsHandle);
  if (arguments == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  // At a multiple of its size, of 8 bytes at most, as a struct of the parameters would have it.
  size_t alignment = 1;
  while (alignment < kWord && paramSize % (2 * alignment) == 0 && paramSize != 0) alignment *= 2;
  if (const aclError code = append("aclrtKernelArgsAppend", arguments, paramSize, alignment, false, paramHandle)) return code;
  std::memcpy(arguments->data() + arguments->pieces.back().offset, param, paramSize);
  return ACL_SUCCESS;
}

aclError aclrtKernelArgsAppendPlaceHolder(aclrtArgsHandle argsHandle, aclrtParamHandle* paramHandle) {
  SOFTCANN_ENTRY(aclrtKernelArgsAppendPlaceHolder);
  SOFTCANN_REQUIRE(paramHandle, "paramHandle");
  KernelArguments* arguments = open_arguments("aclrtKernelArgsAppendPlaceHolder", argsHandle);
  if (arguments == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  if (const aclError code = append("aclrtKernelArgsAppendPlaceHolder", arguments, kWord, kWord, true, paramHandle)) return code;
  std::memset(arguments->data() + arguments->pieces.back().offset, 0, kWord);
  return ACL_SUCCESS;
}

// A place holder's buffer lies with the arguments, and the argument points to it.
aclError aclrtKernelArgsGetPlaceHolderBuffer(aclrtArgsHandle argsHandle, aclrtParamHandle paramHandle, size_t dataSize,
                                             void** bufferAddr) {
  SOFTCANN_ENTRY(aclrtKernelArgsGetPlaceHolderBuffer);
  SOFTCANN_REQUIRE(bufferAddr, "bufferAddr");
  KernelArguments* arguments = open_arguments("aclrtKernelArgsGetPlaceHolderBuffer", argsHandle);
  if (arguments == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  KernelArguments::Piece* piece = piece_of(arguments, paramHandle);
  if (piece == nullptr || !piece->holds_place || dataSize == 0 || (piece->buffer != nullptr && piece->buffer_size != dataSize)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                "aclrtKernelArgsGetPlaceHolderBuffer: there is no such place holder, or it has a buffer of another size than %zu",
                dataSize);
  }
  if (piece->buffer == nullptr && arguments->memory != nullptr) {
    size_t offset = 0;
    if (!arguments->take(dataSize, kWord, &offset)) {
      return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtKernelArgsGetPlaceHolderBuffer: the client's memory has no %zu bytes left",
                  dataSize);
    }
    piece->buffer = arguments->memory + offset;
  } else if (piece->buffer == nullptr) {
    piece->buffer = arguments->buffers.emplace_back(std::make_unique<char[]>(dataSize)).get();
  }
  piece->buffer_size = dataSize;
  std::memcpy(arguments->data() + piece->offset, &piece->buffer, sizeof piece->buffer);
  *bufferAddr = piece->buffer;
  return ACL_SUCCESS;
}

aclError aclrtKernelArgsParaUpdate(aclrtArgsHandle argsHandle, aclrtParamHandle paramHandle, void* param, size_t paramSize) {
  SOFTCANN_ENTRY(aclrtKernelArgsParaUpdate);
  SOFTCANN_REQUIRE(param, "param");
  KernelArguments* arguments = find_arguments(argsHandle);
  const KernelArguments::Piece* piece = piece_of(arguments, paramHandle);
  if (piece == nullptr || piece->holds_place) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtKernelArgsParaUpdate: there is no such parameter");
  }
  if (piece->size != paramSize) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtKernelArgsParaUpdate: the parameter has %zu bytes, not %zu", piece->size,
                paramSize);
  }
  std::memcpy(arguments->data() + piece->offset, param, paramSize);
  return ACL_SUCCESS;
}

aclError aclrtKernelArgsFinalize(aclrtArgsHandle argsHandle) {
  SOFTCANN_ENTRY(aclrtKernelArgsFinalize);
  KernelArguments* arguments = open_arguments("aclrtKernelArgsFinalize", argsHandle);
  if (arguments == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  arguments->final = true;
  return ACL_SUCCESS;
}
}
