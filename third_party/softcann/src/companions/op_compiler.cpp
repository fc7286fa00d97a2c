// libacl_op_compiler: operators by name that are compiled when they are called, and compile options.
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "rt/single_op/op_call.h"
#include "rt/single_op/op_models.h"
#include "rt/models/tensor_desc.h"

using namespace softcann;

namespace {

struct CompileOptions {
  std::mutex mutex;
  std::map<int, std::string> values;
};

CompileOptions& compile_options() {
  static auto* instance = new CompileOptions;
  return *instance;
}

}  // namespace

extern "C" {

aclError aclopCompileAndExecute(const char* opType, int numInputs, const aclTensorDesc* inputDesc[],
                                const aclDataBuffer* inputs[], int numOutputs, const aclTensorDesc* outputDesc[],
                                aclDataBuffer* outputs[], const aclopAttr* attr, aclopEngineType, aclopCompileType, const char*,
                                aclrtStream stream) {
  SOFTCANN_ENTRY(aclopCompileAndExecute);
  const OpCall call{opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs, attr};
  if (const aclError code = check_given(call)) return code;
  return execute_op("aclopCompileAndExecute", call, stream, nullptr);
}

aclError aclopCompileAndExecuteV2(const char* opType, int numInputs, aclTensorDesc* inputDesc[], aclDataBuffer* inputs[],
                                  int numOutputs, aclTensorDesc* outputDesc[], aclDataBuffer* outputs[], aclopAttr* attr,
                                  aclopEngineType, aclopCompileType, const char*, aclrtStream stream) {
  SOFTCANN_ENTRY(aclopCompileAndExecuteV2);
  const OpCall call{opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs, attr};
  if (const aclError code = check_given(call)) return code;
  return execute_op_and_wait("aclopCompileAndExecuteV2", call, outputDesc, stream);
}

aclError aclopCompile(const char* opType, int numInputs, const aclTensorDesc* inputDesc[], int numOutputs,
                      const aclTensorDesc* outputDesc[], const aclopAttr* attr, aclopEngineType, aclopCompileType, const char*) {
  SOFTCANN_ENTRY(aclopCompile);
  const OpCall call{opType, numInputs, inputDesc, nullptr, numOutputs, outputDesc, nullptr, attr};
  if (const aclError code = check_given(call)) return code;
  return add_compiled("aclopCompile", call);
}

size_t aclGetCompileoptSize(aclCompileOpt opt) {
  SOFTCANN_ENTRY_VALUE(aclGetCompileoptSize, 0);
  std::lock_guard<std::mutex> lock(compile_options().mutex);
  const auto it = compile_options().values.find(opt);
  return it == compile_options().values.end() ? 1 : it->second.size() + 1;
}

aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length) {
  SOFTCANN_ENTRY(aclGetCompileopt);
  SOFTCANN_REQUIRE(value, "value");
  std::lock_guard<std::mutex> lock(compile_options().mutex);
  const auto it = compile_options().values.find(opt);
  const std::string text = it == compile_options().values.end() ? "" : it->second;
  if (text.size() >= length) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclGetCompileopt: the value has %zu bytes, there is room for %zu", text.size() + 1,
                length);
  }
  std::memcpy(value, text.c_str(), text.size() + 1);
  return ACL_SUCCESS;
}

aclError aclSetCompileopt(aclCompileOpt opt, const char* value) {
  SOFTCANN_ENTRY(aclSetCompileopt);
  SOFTCANN_REQUIRE(value, "value");
  if (opt < ACL_PRECISION_MODE || opt > ACL_OP_DEBUG_OPTION) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclSetCompileopt: unknown option %d", static_cast<int>(opt));
  }
  std::lock_guard<std::mutex> lock(compile_options().mutex);
  compile_options().values[opt] = value;
  // The one option that changes how kernels of a software device compute.
  if (opt == ACL_OP_DETERMINISTIC) {
    return aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, std::strcmp(value, "1") == 0 ? 1 : 0);
  }
  return ACL_SUCCESS;
}

aclError aclopSetCompileFlag(aclOpCompileFlag flag) {
  SOFTCANN_ENTRY(aclopSetCompileFlag);
  if (flag == ACL_OP_COMPILE_DEFAULT || flag == ACL_OP_COMPILE_FUZZ) return ACL_SUCCESS;  // nothing is compiled either way
  return fail(ACL_ERROR_INVALID_PARAM, "aclopSetCompileFlag: unknown flag %d", static_cast<int>(flag));
}
}
