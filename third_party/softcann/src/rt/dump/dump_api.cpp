// aclmdl*Dump and acldump*: dumps as clients ask for them. What is written is in rt/dump/dump.h.
#pragma GCC visibility push(default)
#include "acl/acl_dump.h"
#pragma GCC visibility pop

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rt/dump/dump.h"
#include "rt/dump/dump_client.h"
#include "rt/dump/dump_values.h"
#include "rt/base/error.h"
#include "rt/base/json.h"

using namespace softcann;

namespace {

using Callback = int32_t (*)(const acldumpChunk*, int32_t);
constexpr size_t kChunk = 1 << 20;
constexpr int kKinds = OVERFLOW_DUMP + 1;

struct Client {
  std::mutex mutex;
  bool initialized = false;
  Callback callback = nullptr;
  std::string paths[kKinds];  // by acldumpType; empty: none
};

Client& client() {
  static auto* instance = new Client;
  return *instance;
}

// A file name of the client's, without a way out of the folder.
bool is_inside(std::string_view name) {
  if (name.empty() || name.front() == '/') return false;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") return false;
    begin = end + 1;
  }
  return true;
}

aclError take(const acldumpTensorInfo& given, size_t number, std::vector<dump::Tensor>* to) {
  constexpr const char* kEntry = "acldumpSaveExceptionInfo";
  if (given.tensorAddr == nullptr || given.tensorSize == 0 || given.shapeNum > ACL_DUMP_MAX_SHAPE_NUM ||
      given.originShapeNum > ACL_DUMP_MAX_SHAPE_NUM) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: tensor %zu has no address, no bytes, or more than %d dims", kEntry, number,
                ACL_DUMP_MAX_SHAPE_NUM);
  }
  if (given.addrType != ACL_DUMP_ADDR_RAW || given.placement != ACL_DUMP_PLACEMENT_DEVICE) {
    return fail(ACL_ERROR_INVALID_PARAM,
                "%s: tensor %zu: addrType has to be ACL_DUMP_ADDR_RAW and placement ACL_DUMP_PLACEMENT_DEVICE: tensorAddr is "
                "the device address of the data",
                kEntry, number);
  }
  if (const aclError code = check_device_range(given.tensorAddr, given.tensorSize)) return code;
  const char* kind = given.type == ACL_DUMP_TENSOR_WORKSPACE ? "workspace" : "tensor";
  std::vector<int64_t> dims(given.shape, given.shape + given.shapeNum);
  to->push_back(dump::copy_of(kind + std::to_string(number), given.type == ACL_DUMP_TENSOR_OUTPUT,
                              static_cast<aclDataType>(given.dataType), std::move(dims), device_view(given.tensorAddr),
                              given.tensorSize));
  to->back().format = dump::format_name(static_cast<aclFormat>(given.format));
  return ACL_SUCCESS;
}

Json arguments_only(const char* path) {
  return parse_json("{\"dump_path\":" + json_text(path) +
                    ",\"dump_mode\":\"all\",\"dump_op_switch\":\"on\",\"dump_data\":\"stats\"}");
}

}  // namespace

namespace softcann::dump {

bool client_takes_files() {
  Client& c = client();
  std::lock_guard<std::mutex> lock(c.mutex);
  return c.callback != nullptr;
}

bool hand_to_client(const std::string& name, const std::string& content) {
  Client& c = client();
  Callback callback = nullptr;
  {
    std::lock_guard<std::mutex> lock(c.mutex);
    callback = c.callback;
  }
  if (callback == nullptr) return false;
  std::vector<char> space(sizeof(acldumpChunk) + kChunk);
  for (size_t at = 0; at == 0 || at < content.size(); at += kChunk) {
    auto* chunk = reinterpret_cast<acldumpChunk*>(space.data());
    const size_t bytes = std::min(kChunk, content.size() - at);
    std::memset(chunk, 0, offsetof(acldumpChunk, dataBuf));
    std::strncpy(chunk->fileName, name.c_str(), sizeof chunk->fileName - 1);
    chunk->bufLen = static_cast<uint32_t>(bytes);
    chunk->isLastChunk = at + bytes >= content.size();
    chunk->offset = static_cast<int64_t>(at);
    std::memcpy(chunk->dataBuf, content.data() + at, bytes);
    // As CANN counts: with the gap behind the structure, where the bytes begin already.
    callback(chunk, static_cast<int32_t>(sizeof(acldumpChunk) + bytes));
  }
  return true;
}

void set_paths(const std::string& path, bool is_of_overflows, bool is_of_failures) {
  Client& c = client();
  std::lock_guard<std::mutex> lock(c.mutex);
  for (int kind = AIC_ERR_BRIEF_DUMP; kind < kKinds; ++kind) {
    const bool wanted = kind == DATA_DUMP       ? !is_of_overflows && !is_of_failures
                        : kind == OVERFLOW_DUMP ? is_of_overflows
                                                : is_of_failures;
    c.paths[kind] = wanted ? path : "";
  }
}

void clear_paths() {
  Client& c = client();
  std::lock_guard<std::mutex> lock(c.mutex);
  for (std::string& path : c.paths) path.clear();
}

}  // namespace softcann::dump

extern "C" {

aclError aclmdlInitDump() {
  SOFTCANN_ENTRY(aclmdlInitDump);
  if (dump::is_started()) return fail(ACL_ERROR_DUMP_ALREADY_RUN, "aclmdlInitDump: a dump runs, which aclInit's file asked for");
  Client& c = client();
  std::lock_guard<std::mutex> lock(c.mutex);
  if (c.initialized)
    return fail(ACL_ERROR_REPEAT_INITIALIZE, "aclmdlInitDump: it was called already; aclmdlFinalizeDump comes first");
  c.initialized = true;
  return ACL_SUCCESS;
}

aclError aclmdlSetDump(const char* dumpCfgPath) {
  SOFTCANN_ENTRY(aclmdlSetDump);
  SOFTCANN_REQUIRE(dumpCfgPath, "dumpCfgPath");
  {
    std::lock_guard<std::mutex> lock(client().mutex);
    if (!client().initialized) return fail(ACL_ERROR_DUMP_NOT_RUN, "aclmdlSetDump: call aclmdlInitDump first");
  }
  Json content;
  if (const aclError code = read_json_file("aclmdlSetDump", dumpCfgPath, &content)) return code;
  const Json* part = content.find("dump");
  if (part == nullptr) return fail(ACL_ERROR_INVALID_DUMP_CONFIG, "aclmdlSetDump: %s has no \"dump\"", dumpCfgPath);
  if (dump::is_started()) {
    if (const aclError code = dump::stop()) return code;
  }
  return dump::start("aclmdlSetDump", *part);
}

aclError aclmdlFinalizeDump() {
  SOFTCANN_ENTRY(aclmdlFinalizeDump);
  {
    std::lock_guard<std::mutex> lock(client().mutex);
    if (!std::exchange(client().initialized, false)) {
      return fail(ACL_ERROR_DUMP_NOT_RUN, "aclmdlFinalizeDump: aclmdlInitDump was not called, or this was before");
    }
  }
  return dump::is_started() ? dump::stop() : ACL_SUCCESS;
}

aclError acldumpRegCallback(int32_t (*const messageCallback)(const acldumpChunk*, int32_t), int32_t flag) {
  SOFTCANN_ENTRY(acldumpRegCallback);
  SOFTCANN_REQUIRE(messageCallback, "messageCallback");
  if (flag != 0) return fail(ACL_ERROR_INVALID_PARAM, "acldumpRegCallback: unknown flag %d; 0 is expected", flag);
  Client& c = client();
  std::lock_guard<std::mutex> lock(c.mutex);
  c.callback = messageCallback;
  return ACL_SUCCESS;
}

void acldumpUnregCallback() {
  SOFTCANN_ENTRY_VALUE(acldumpUnregCallback, );
  Client& c = client();
  std::lock_guard<std::mutex> lock(c.mutex);
  c.callback = nullptr;
}

const char* acldumpGetPath(acldumpType dumpType) {
  SOFTCANN_ENTRY_VALUE(acldumpGetPath, nullptr);
  if (dumpType < AIC_ERR_BRIEF_DUMP || dumpType >= kKinds) return nullptr;
  thread_local std::string path;
  Client& c = client();
  std::lock_guard<std::mutex> lock(c.mutex);
  path = c.paths[dumpType];
  return path.empty() ? nullptr : path.c_str();
}

aclError acldumpGetExceptionInfoPath(char* path, size_t maxLen) {
  SOFTCANN_ENTRY(acldumpGetExceptionInfoPath);
  SOFTCANN_REQUIRE(path, "path");
  std::string folder;
  if (const aclError code = dump::failure_folder("acldumpGetExceptionInfoPath", &folder)) return code;
  if (maxLen <= folder.size()) {
    return fail(ACL_ERROR_INVALID_PARAM, "acldumpGetExceptionInfoPath: %s has %zu bytes, maxLen is %zu", folder.c_str(),
                folder.size() + 1, maxLen);
  }
  std::memcpy(path, folder.c_str(), folder.size() + 1);
  return ACL_SUCCESS;
}

aclError acldumpSaveExceptionInfo(const char* fileName, const char* userTag, const acldumpTensorInfo* tensors,
                                  size_t tensorCount) {
  constexpr const char* kEntry = "acldumpSaveExceptionInfo";
  SOFTCANN_ENTRY(acldumpSaveExceptionInfo);
  SOFTCANN_REQUIRE(fileName, "fileName");
  SOFTCANN_REQUIRE(tensors, "tensors");
  if (!is_inside(fileName))
    return fail(ACL_ERROR_INVALID_PARAM, "%s: fileName=%s: a relative name without .. is expected", kEntry, fileName);
  if (tensorCount == 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: tensorCount is 0", kEntry);
  std::vector<dump::Tensor> taken;
  for (size_t i = 0; i < tensorCount; ++i) {
    if (const aclError code = take(tensors[i], i, &taken)) return code;
  }
  dump::Call call;
  call.name = fileName;
  call.device = current_device();
  if (userTag != nullptr) call.tag = userTag;
  return dump::save(kEntry, std::move(call), taken);
}

aclError aclopStartDumpArgs(uint32_t dumpType, const char* path) {
  SOFTCANN_ENTRY(aclopStartDumpArgs);
  SOFTCANN_REQUIRE(path, "path");
  if (dumpType != ACL_OP_DUMP_OP_AICORE_ARGS) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclopStartDumpArgs: unknown kind %u; ACL_OP_DUMP_OP_AICORE_ARGS is expected", dumpType);
  }
  if (dump::is_started()) return fail(ACL_ERROR_DUMP_ALREADY_RUN, "aclopStartDumpArgs: a dump runs already");
  return dump::start("aclopStartDumpArgs", arguments_only(path));
}

aclError aclopStopDumpArgs(uint32_t dumpType) {
  SOFTCANN_ENTRY(aclopStopDumpArgs);
  if (dumpType != ACL_OP_DUMP_OP_AICORE_ARGS)
    return fail(ACL_ERROR_INVALID_PARAM, "aclopStopDumpArgs: unknown kind %u", dumpType);
  if (!dump::is_started()) return fail(ACL_ERROR_DUMP_NOT_RUN, "aclopStopDumpArgs: no dump runs");
  return dump::stop();
}
}
