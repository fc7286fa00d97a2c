// libacl_op_compiler: operators by name (aclop*) and compile options. Casts between base formats (Identity) are made here;
// the few other operators that clients still name are libopapi's: see Note [Operators by name].
#include <dlfcn.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "companions/cast.h"
#include "rt/check.h"
#include "rt/tensor_desc.h"
#include "rt/named.h"

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

template <class T>
aclError set_attribute(const char* entry, aclopAttr* attr, const char* name, T value) {
  SOFTCANN_REQUIRE(attr, "attr");
  SOFTCANN_REQUIRE(name, "attrName");
  if (*name == 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: the name is empty", entry);
  attr->values[name] = std::move(value);
  return ACL_SUCCESS;
}

struct ConvertTask : Task {
  Conversion convert;
  void* dst;
  const void* src;
  int64_t count;  // elements, or bytes of a plain copy
};

aclError run_conversion(Task* self, bool skip) {
  const auto* task = static_cast<ConvertTask*>(self);
  if (skip) return ACL_SUCCESS;
  if (task->convert == nullptr) {
    std::memmove(task->dst, task->src, static_cast<size_t>(task->count));
  } else {
    task->convert(task->dst, task->src, task->count);
  }
  return ACL_SUCCESS;
}

// One input, one output, both in device memory and large enough for their descriptors.
aclError check_unary(const char* op, int inputs, const aclTensorDesc* const* in, const aclDataBuffer* const* from, int outputs,
                     const aclTensorDesc* const* out, aclDataBuffer* const* to) {
  if (inputs != 1 || outputs != 1 || in == nullptr || out == nullptr || from == nullptr || to == nullptr || in[0] == nullptr ||
      out[0] == nullptr || from[0] == nullptr || to[0] == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s takes one input and one output, with descriptor and buffer each", op);
  }
  if (elements_of(in[0]->dims) < 0 || elements_of(in[0]->dims) != elements_of(out[0]->dims)) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: %lld elements in, %lld out", op, static_cast<long long>(elements_of(in[0]->dims)),
                static_cast<long long>(elements_of(out[0]->dims)));
  }
  if (from[0]->size < aclGetTensorDescSize(in[0]) || to[0]->size < aclGetTensorDescSize(out[0])) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: a buffer (%zu, %zu bytes) is smaller than its descriptor says (%zu, %zu)", op,
                from[0]->size, to[0]->size, aclGetTensorDescSize(in[0]), aclGetTensorDescSize(out[0]));
  }
  if (const aclError code = check_device_range(from[0]->data, from[0]->size)) return code;
  check::mark_written_elsewhere(to[0]->data, to[0]->size);
  return check_device_range(to[0]->data, to[0]->size);
}

bool same_layout(const aclTensorDesc& a, const aclTensorDesc& b) {
  const auto base = [](aclFormat format) {
    return format == ACL_FORMAT_UNDEFINED || format == ACL_FORMAT_ND || format == ACL_FORMAT_NCHW || format == ACL_FORMAT_NCL ||
           format == ACL_FORMAT_NCDHW;
  };
  const auto layout = [](const aclTensorDesc& d) {
    return d.storage_format != ACL_FORMAT_UNDEFINED ? d.storage_format : d.format;
  };
  return layout(a) == layout(b) || (base(layout(a)) && base(layout(b)));
}

struct NamedOperators {
  HasNamed has = nullptr;
  RunNamed run = nullptr;
};

const NamedOperators& named_operators() {
  static const NamedOperators found = [] {
    NamedOperators result;
    if (void* library = dlopen("libopapi.so", RTLD_NOW | RTLD_LOCAL)) {
      result.run = reinterpret_cast<RunNamed>(dlsym(library, run_named_symbol));
      if (result.run != nullptr) result.has = reinterpret_cast<HasNamed>(dlsym(library, has_named_symbol));
    }
    return result;
  }();
  return found;
}

struct NamedTask : Task {
  std::shared_ptr<NamedCall> call = std::make_shared<NamedCall>();
};

aclError run_named(Task* self, bool skip) {
  const std::unique_ptr<NamedTask> task(static_cast<NamedTask*>(self));
  return skip ? ACL_SUCCESS : named_operators().run(*task->call);
}

// Tensors that the client left out have no buffer, or a description without a type.
aclError take_tensors(const char* op, int count, const aclTensorDesc* const* descs, const aclDataBuffer* const* buffers,
                      std::vector<NamedTensor>& taken) {
  if (count < 0 || (count > 0 && (descs == nullptr || buffers == nullptr))) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: %d tensors without descriptions or buffers", op, count);
  }
  for (int i = 0; i < count; ++i) {
    taken.push_back({});
    NamedTensor& tensor = taken.back();
    if (descs[i] == nullptr || descs[i]->type == ACL_DT_UNDEFINED) continue;
    tensor.type = descs[i]->type;
    tensor.format = descs[i]->format;
    tensor.dims = descs[i]->dims;
    const size_t bytes = aclGetTensorDescSize(descs[i]);
    const bool on_host = !descs[i]->constant.empty() || descs[i]->placement != ACL_MEMTYPE_DEVICE;
    const char* source = descs[i]->constant.data();
    if (descs[i]->constant.empty()) {
      if (buffers[i] == nullptr || (buffers[i]->data == nullptr && bytes > 0)) continue;
      if (buffers[i]->size < bytes) {
        return fail(ACL_ERROR_INVALID_PARAM, "%s: a buffer of %zu bytes is smaller than its description says, %zu", op,
                    buffers[i]->size, bytes);
      }
      source = static_cast<const char*>(buffers[i]->data);
    }
    if (on_host) {
      tensor.host.assign(source, source + bytes);
      tensor.data = tensor.host.data();
      tensor.bytes = bytes;
      continue;
    }
    if (source == nullptr) {  // no elements
      static char nowhere;
      tensor.data = &nowhere;
      continue;
    }
    tensor.bytes = buffers[i]->size;
    if (const aclError code = check_device_range(source, tensor.bytes)) return code;
    check::mark_written_elsewhere(source, bytes);
    tensor.data = device_view(source);
  }
  return ACL_SUCCESS;
}

aclError execute_named(const char* op, int inputs, const aclTensorDesc* const* in, const aclDataBuffer* const* from, int outputs,
                       const aclTensorDesc* const* out, aclDataBuffer* const* to, const aclopAttr* attributes, aclrtStream stream,
                       std::shared_ptr<const NamedCall>* made) {
  auto task = std::make_unique<NamedTask>();
  task->run = run_named;
  task->name = "an operator by name";
  NamedCall& call = *task->call;
  call.name = op;
  if (attributes != nullptr) call.attributes = *attributes;
  if (const aclError code = take_tensors(op, inputs, in, from, call.inputs)) return code;
  if (const aclError code = take_tensors(op, outputs, out, to, call.outputs)) return code;
  if (made != nullptr) *made = task->call;
  const aclError code = submit(stream, task.get(), kNeverInline);
  if (code == ACL_SUCCESS) task.release();
  return code;
}

aclError execute(const char* op, int inputs, const aclTensorDesc* const* in, const aclDataBuffer* const* from, int outputs,
                 const aclTensorDesc* const* out, aclDataBuffer* const* to, const aclopAttr* attributes, aclrtStream stream,
                 std::shared_ptr<const NamedCall>* made) {
  SOFTCANN_REQUIRE(op, "opType");
  const bool identity = std::strcmp(op, "Identity") == 0 || std::strcmp(op, "TransData") == 0;
  const bool cast = std::strcmp(op, "Cast") == 0;
  if (!identity && !cast) {
    if (named_operators().has != nullptr && named_operators().has(op)) {
      return execute_named(op, inputs, in, from, outputs, out, to, attributes, stream, made);
    }
    return fail(ACL_ERROR_OP_NOT_FOUND,
                "aclopCompileAndExecute: softcann has no operator %s of this interface; use the aclnn interface", op);
  }
  if (const aclError code = check_unary(op, inputs, in, from, outputs, out, to)) return code;
  auto task = std::make_unique<ConvertTask>();
  task->repeat = run_conversion;
  task->discard = [](Task* self) { delete static_cast<ConvertTask*>(self); };
  task->run = run_once;
  task->name = identity ? "Identity" : "Cast";
  task->dst = device_view(to[0]->data);
  task->src = device_view(from[0]->data);
  task->count = elements_of(out[0]->dims);
  task->convert = nullptr;
  if (!same_layout(*in[0], *out[0])) {
    return fail(ACL_ERROR_FORMAT_NOT_MATCH, "%s: from format %d to %d is not supported, only between base formats", op,
                static_cast<int>(in[0]->format), static_cast<int>(out[0]->format));
  }
  if (in[0]->type == out[0]->type) {
    task->count = static_cast<int64_t>(aclGetTensorDescSize(out[0]));
  } else if (identity || (task->convert = find_conversion(out[0]->type, in[0]->type)) == nullptr) {
    return fail(ACL_ERROR_UNSUPPORTED_DATA_TYPE, "%s: from data type %d to %d is not supported", op,
                static_cast<int>(in[0]->type), static_cast<int>(out[0]->type));
  }
  const auto cost = static_cast<uint32_t>(std::min<int64_t>(task->count, INT32_MAX));
  const aclError code = submit(stream, task.get(), cost);
  if (code == ACL_SUCCESS) task.release();
  return code;
}

}  // namespace

extern "C" {

aclopAttr* aclopCreateAttr() {
  SOFTCANN_ENTRY_VALUE(aclopCreateAttr, nullptr);
  return new aclopAttr;
}

void aclopDestroyAttr(const aclopAttr* attr) {
  SOFTCANN_ENTRY_VALUE(aclopDestroyAttr, );
  delete attr;
}

aclError aclopSetAttrBool(aclopAttr* attr, const char* attrName, uint8_t attrValue) {
  SOFTCANN_ENTRY(aclopSetAttrBool);
  return set_attribute("aclopSetAttrBool", attr, attrName, attrValue != 0);
}

aclError aclopSetAttrInt(aclopAttr* attr, const char* attrName, int64_t attrValue) {
  SOFTCANN_ENTRY(aclopSetAttrInt);
  return set_attribute("aclopSetAttrInt", attr, attrName, attrValue);
}

aclError aclopSetAttrFloat(aclopAttr* attr, const char* attrName, float attrValue) {
  SOFTCANN_ENTRY(aclopSetAttrFloat);
  return set_attribute("aclopSetAttrFloat", attr, attrName, attrValue);
}

aclError aclopSetAttrString(aclopAttr* attr, const char* attrName, const char* attrValue) {
  SOFTCANN_ENTRY(aclopSetAttrString);
  SOFTCANN_REQUIRE(attrValue, "attrValue");
  return set_attribute("aclopSetAttrString", attr, attrName, std::string(attrValue));
}

aclError aclopSetAttrDataType(aclopAttr* attr, const char* attrName, aclDataType attrValue) {
  SOFTCANN_ENTRY(aclopSetAttrDataType);
  return set_attribute("aclopSetAttrDataType", attr, attrName, attrValue);
}

aclError aclopSetAttrListBool(aclopAttr* attr, const char* attrName, int numValues, const uint8_t* values) {
  SOFTCANN_ENTRY(aclopSetAttrListBool);
  if (numValues < 0 || (numValues > 0 && values == nullptr)) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclopSetAttrListBool: %d values", numValues);
  }
  return set_attribute("aclopSetAttrListBool", attr, attrName, std::vector<uint8_t>(values, values + numValues));
}

aclError aclopSetAttrListInt(aclopAttr* attr, const char* attrName, int numValues, const int64_t* values) {
  SOFTCANN_ENTRY(aclopSetAttrListInt);
  if (numValues < 0 || (numValues > 0 && values == nullptr)) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclopSetAttrListInt: %d values", numValues);
  }
  return set_attribute("aclopSetAttrListInt", attr, attrName, std::vector<int64_t>(values, values + numValues));
}

aclError aclopSetAttrListFloat(aclopAttr* attr, const char* attrName, int numValues, const float* values) {
  SOFTCANN_ENTRY(aclopSetAttrListFloat);
  if (numValues < 0 || (numValues > 0 && values == nullptr)) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclopSetAttrListFloat: %d values", numValues);
  }
  return set_attribute("aclopSetAttrListFloat", attr, attrName, std::vector<float>(values, values + numValues));
}

aclError aclopSetAttrListListInt(aclopAttr* attr, const char* attrName, int numLists, const int* numValues,
                                 const int64_t* values[]) {
  SOFTCANN_ENTRY(aclopSetAttrListListInt);
  if (numLists < 0 || (numLists > 0 && (numValues == nullptr || values == nullptr))) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclopSetAttrListListInt: %d lists", numLists);
  }
  std::vector<std::vector<int64_t>> lists;
  for (int i = 0; i < numLists; ++i) {
    if (numValues[i] < 0 || (numValues[i] > 0 && values[i] == nullptr)) {
      return fail(ACL_ERROR_INVALID_PARAM, "aclopSetAttrListListInt: list %d has %d values", i, numValues[i]);
    }
    lists.emplace_back(values[i], values[i] + numValues[i]);
  }
  return set_attribute("aclopSetAttrListListInt", attr, attrName, std::move(lists));
}

aclError aclopCompileAndExecute(const char* opType, int numInputs, const aclTensorDesc* inputDesc[],
                                const aclDataBuffer* inputs[], int numOutputs, const aclTensorDesc* outputDesc[],
                                aclDataBuffer* outputs[], const aclopAttr* attr, aclopEngineType, aclopCompileType, const char*,
                                aclrtStream stream) {
  SOFTCANN_ENTRY(aclopCompileAndExecute);
  return execute(opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs, attr, stream, nullptr);
}

aclError aclopCompileAndExecuteV2(const char* opType, int numInputs, aclTensorDesc* inputDesc[], aclDataBuffer* inputs[],
                                  int numOutputs, aclTensorDesc* outputDesc[], aclDataBuffer* outputs[], aclopAttr* attr,
                                  aclopEngineType, aclopCompileType, const char*, aclrtStream stream) {
  SOFTCANN_ENTRY(aclopCompileAndExecuteV2);
  std::shared_ptr<const NamedCall> made;
  if (const aclError code = execute(opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs, attr, stream, &made))
    return code;
  if (const aclError code = aclrtSynchronizeStream(stream)) return code;
  for (int i = 0; made != nullptr && i < numOutputs; ++i) {
    if (outputDesc[i] != nullptr && outputDesc[i]->type != ACL_DT_UNDEFINED) outputDesc[i]->dims = made->outputs[i].dims;
  }
  return ACL_SUCCESS;
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
