#include "rt/single_op/op_models.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string_view>

#include "rt/models/dataset.h"
#include "rt/base/error.h"
#include "rt/models/models.h"
#include "rt/models/tensor_desc.h"

using namespace softcann;

namespace softcann {
namespace {

constexpr char kDescription[] = "ascend_single_op";
constexpr char kAttribute[] = "attr:";

struct OpModels {
  std::mutex mutex;
  std::vector<std::shared_ptr<const OpModel>> all;
};

OpModels& op_models() {
  static auto* instance = new OpModels;
  return *instance;
}

std::string bits_text(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  char text[9];
  std::snprintf(text, sizeof text, "%08x", bits);
  return text;
}

template <class T, class Text>
std::string list_text(const char* kind, const std::vector<T>& values, const Text& text_of) {
  std::string made = kind;
  for (size_t i = 0; i < values.size(); ++i) made.append(i == 0 ? "" : ",").append(text_of(values[i]));
  return made;
}

std::string number_text(int64_t value) { return std::to_string(value); }

struct ValueText {
  std::string operator()(bool value) const { return value ? "b:1" : "b:0"; }
  std::string operator()(int64_t value) const { return list_text("i:", std::vector<int64_t>{value}, number_text); }
  std::string operator()(float value) const { return list_text("f:", std::vector<float>{value}, bits_text); }
  std::string operator()(const std::string& value) const { return std::string("s:").append(value); }
  std::string operator()(aclDataType value) const { return list_text("d:", std::vector<int64_t>{value}, number_text); }
  std::string operator()(const std::vector<uint8_t>& values) const {
    return list_text("lb:", values, [](uint8_t value) { return number_text(value != 0); });
  }
  std::string operator()(const std::vector<int64_t>& values) const { return list_text("li:", values, number_text); }
  std::string operator()(const std::vector<float>& values) const { return list_text("lf:", values, bits_text); }
  std::string operator()(const std::vector<aclDataType>& values) const { return list_text("ld:", values, number_text); }
  std::string operator()(const std::vector<std::string>& values) const {
    std::string made = "ls:";
    for (const std::string& one : values) made += "[" + std::to_string(one.size()) + "]" + one;
    return made;
  }
  std::string operator()(const std::vector<std::vector<int64_t>>& lists) const {
    std::string made = "lli:";
    for (size_t i = 0; i < lists.size(); ++i) made.append(i == 0 ? "" : ";").append(list_text("", lists[i], number_text));
    return made;
  }
};

std::map<std::string, std::string> texts_of(const aclopAttr* attributes) {
  std::map<std::string, std::string> made;
  if (attributes == nullptr) return made;
  for (const auto& [name, value] : attributes->values) made[name] = attribute_text(value);
  return made;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> made;
  while (!text.empty()) {
    const size_t end = std::min(text.find(at), text.size());
    made.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return made;
}

bool read_number(std::string_view text, int64_t* to) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), *to);
  return problem == std::errc() && end == text.data() + text.size();
}

// "type dims;...", dims "8,16" or "-" of a scalar, with "!" where the tensor is a constant.
bool read_tensors(std::string_view text, std::vector<OpTensor>& to) {
  for (std::string_view one : split(text, ';')) {
    OpTensor& made = to.emplace_back();
    made.constant = !one.empty() && one.back() == '!';
    if (made.constant) one.remove_suffix(1);
    const auto parts = split(one, ' ');
    int64_t number = 0;
    if (parts.size() != 2 || !read_number(parts[0], &number)) return false;
    made.type = static_cast<aclDataType>(number);
    if (parts[1] == "-") continue;
    for (const std::string_view dim : split(parts[1], ',')) {
      if (!read_number(dim, &made.dims.emplace_back())) return false;
    }
  }
  return true;
}

bool fits(const OpTensor& tensor, const aclTensorDesc* desc) {
  if (desc == nullptr || desc->type != tensor.type) return false;
  if (tensor.dims.size() == 1 && tensor.dims[0] == -2) return true;
  return std::equal(tensor.dims.begin(), tensor.dims.end(), desc->dims.begin(), desc->dims.end(),
                    [](int64_t made, int64_t given) { return made == given || made == -1; });
}

bool fits(const std::vector<OpTensor>& tensors, int count, const aclTensorDesc* const* descs) {
  if (count < 0 || tensors.size() != static_cast<size_t>(count)) return false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!fits(tensors[i], descs[i])) return false;
  }
  return true;
}

std::string call_text(const OpCall& call) {
  const auto text_of = [](const aclTensorDesc* desc) {
    if (desc == nullptr) return std::string("none");
    return std::to_string(desc->type) + list_text("[", desc->dims, number_text) + "]";
  };
  const auto tensors = [&](int count, const aclTensorDesc* const* descs) {
    return list_text("", std::vector<const aclTensorDesc*>(descs, descs + count), text_of);
  };
  std::string made = std::string(call.type) + "(" + tensors(call.inputs, call.in) + ") -> " + tensors(call.outputs, call.out);
  for (const auto& [name, value] : texts_of(call.attributes)) made += " " + name + "=" + value;
  return made;
}

aclError check_call(const char* entry, const OpCall& call) {
  if (call.type == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "%s: opType is a null pointer", entry);
  if (call.inputs < 0 || call.outputs < 0 || (call.inputs > 0 && call.in == nullptr) ||
      (call.outputs > 0 && call.out == nullptr)) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: %d inputs, %d outputs, without their descriptions", entry, call.inputs,
                call.outputs);
  }
  return ACL_SUCCESS;
}

void add(std::shared_ptr<const OpModel> made) {
  OpModels& models = op_models();
  const std::lock_guard<std::mutex> lock(models.mutex);
  models.all.push_back(std::move(made));
}

// Takes what the file says about itself; false where it is no model of a single operator.
aclError read_op_model(const char* entry, const char* what, const ModelInfo& info, OpModel& to) {
  const auto found = info.attributes.find(kDescription);
  if (found == info.attributes.end()) {
    return fail(ACL_ERROR_GE_PARAM_INVALID,
                "%s: %s is no model of a single operator: make one with atc --singleop, or load this one with "
                "aclmdlLoadFromFile",
                entry, what);
  }
  bool right = true;
  for (const auto& [name, text] : found->second) {
    if (name == "op") to.type = text;
    if (name == "inputs") right &= read_tensors(text, to.inputs);
    if (name == "outputs") right &= read_tensors(text, to.outputs);
    if (name.rfind(kAttribute, 0) == 0) to.attributes[name.substr(std::strlen(kAttribute))] = text;
  }
  if (right && !to.type.empty()) return ACL_SUCCESS;
  return fail(ACL_ERROR_GE_PARAM_INVALID, "%s: %s is damaged: what it says about its operator cannot be read", entry, what);
}

// A file or memory. Programs that libopapi makes unnecessary are not loaded.
aclError load_op_model(const char* entry, const char* what, const ModelSource& source) {
  std::shared_ptr<Model> described;
  if (const aclError code = open_model(source, true, &described)) return code;
  auto made = std::make_shared<OpModel>();
  if (const aclError code = read_op_model(entry, what, described->info(), *made)) return code;
  if (!has_op(made->type.c_str())) {
    if (const aclError code = load_model(entry, source, &made->model)) return code;
  }
  add(std::move(made));
  return ACL_SUCCESS;
}

}  // namespace

bool OpModel::open() const {
  const auto is_open = [](const OpTensor& one) {
    return std::any_of(one.dims.begin(), one.dims.end(), [](int64_t dim) { return dim < 0; });
  };
  return std::any_of(outputs.begin(), outputs.end(), is_open) || std::any_of(inputs.begin(), inputs.end(), is_open);
}

std::string attribute_text(const aclopAttr::Value& value) { return std::visit(ValueText{}, value); }

aclError add_compiled(const char* entry, const OpCall& call) {
  if (const aclError code = check_call(entry, call)) return code;
  if (!has_op(call.type)) {
    return fail(ACL_ERROR_OP_NOT_FOUND, "%s: softcann has no operator %s of this interface; use the aclnn interface", entry,
                call.type);
  }
  auto made = std::make_shared<OpModel>();
  made->type = call.type;
  made->attributes = texts_of(call.attributes);
  const auto take = [](int count, const aclTensorDesc* const* descs, std::vector<OpTensor>& to) {
    for (int i = 0; i < count; ++i) {
      if (descs[i] != nullptr) to.push_back({descs[i]->type, descs[i]->dims, false});
    }
  };
  take(call.inputs, call.in, made->inputs);
  take(call.outputs, call.out, made->outputs);
  add(std::move(made));
  return ACL_SUCCESS;
}

namespace {

std::shared_ptr<const OpModel> find_by(const char* entry, const OpCall& call, bool by_outputs) {
  if (check_call(entry, call) != ACL_SUCCESS) return nullptr;
  const auto attributes = texts_of(call.attributes);
  {
    OpModels& models = op_models();
    const std::lock_guard<std::mutex> lock(models.mutex);
    for (const auto& one : models.all) {
      if (one->type == call.type && one->attributes == attributes && fits(one->inputs, call.inputs, call.in) &&
          (!by_outputs || fits(one->outputs, call.outputs, call.out))) {
        return one;
      }
    }
  }
  fail(ACL_ERROR_OP_NOT_FOUND,
       "%s: there is no operator %s (types as aclDataType's numbers): make its model with atc --singleop and load it by "
       "aclopSetModelDir or aclopLoad, or call aclopCompile before",
       entry, call_text(call).c_str());
  return nullptr;
}

}  // namespace

std::shared_ptr<const OpModel> find_op_model(const char* entry, const OpCall& call) { return find_by(entry, call, true); }
std::shared_ptr<const OpModel> find_op_inputs(const char* entry, const OpCall& call) { return find_by(entry, call, false); }

aclError execute_op_model(const char* entry, const OpModel& model, const OpCall& call, aclrtStream stream) {
  if (model.model == 0) return execute_op(entry, call, stream, nullptr);
  if (call.from == nullptr || call.to == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "%s: no buffers are given", entry);
  const auto inputs = owned<aclmdlDataset>(), outputs = owned<aclmdlDataset>();
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    if (model.inputs[i].constant) continue;
    DatasetItem& item = inputs->items.emplace_back();
    item.buffer = const_cast<aclDataBuffer*>(call.from[i]);  // what a model reads it does not change
    if (model.open()) item.description = owned(*call.in[i]);
  }
  for (size_t i = 0; i < model.outputs.size(); ++i) outputs->items.emplace_back().buffer = call.to[i];
  return execute_model_async(entry, model.model, inputs.get(), outputs.get(), stream);
}

}  // namespace softcann

extern "C" {

aclError aclopSetModelDir(const char* modelDir) {
  SOFTCANN_ENTRY(aclopSetModelDir);
  SOFTCANN_REQUIRE(modelDir, "modelDir");
  std::error_code problem;
  std::vector<std::string> files;
  for (std::filesystem::recursive_directory_iterator at(modelDir, problem), end; !problem && at != end; at.increment(problem)) {
    if (at->path().extension() == ".om") files.push_back(at->path().string());
  }
  if (problem) {
    return fail(ACL_ERROR_INVALID_FILE, "aclopSetModelDir: the folder '%s' cannot be read: %s", modelDir,
                problem.message().c_str());
  }
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    if (const aclError code = load_op_model("aclopSetModelDir", file.c_str(), {file.c_str(), nullptr, 0})) return code;
  }
  return ACL_SUCCESS;
}

aclError aclopLoad(const void* model, size_t modelSize) {
  SOFTCANN_ENTRY(aclopLoad);
  SOFTCANN_REQUIRE(model, "model");
  return load_op_model("aclopLoad", "the memory", {nullptr, model, modelSize});
}

aclError aclopExecute(const char* opType, int numInputs, const aclTensorDesc* inputDesc[], const aclDataBuffer* inputs[],
                      int numOutputs, const aclTensorDesc* outputDesc[], aclDataBuffer* outputs[], const aclopAttr* attr,
                      aclrtStream stream) {
  SOFTCANN_ENTRY(aclopExecute);
  const OpCall call{opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs, attr};
  if (const aclError code = check_given(call)) return code;
  const auto model = find_op_model("aclopExecute", call);
  return model == nullptr ? ACL_ERROR_OP_NOT_FOUND : execute_op_model("aclopExecute", *model, call, stream);
}

aclError aclopExecuteV2(const char* opType, int numInputs, aclTensorDesc* inputDesc[], aclDataBuffer* inputs[], int numOutputs,
                        aclTensorDesc* outputDesc[], aclDataBuffer* outputs[], aclopAttr* attr, aclrtStream stream) {
  SOFTCANN_ENTRY(aclopExecuteV2);
  const OpCall call{opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs, attr};
  if (const aclError code = check_given(call)) return code;
  const auto model = find_op_model("aclopExecuteV2", call);
  if (model == nullptr) return ACL_ERROR_OP_NOT_FOUND;
  if (model->open() && model->model == 0) return execute_op_and_wait("aclopExecuteV2", call, outputDesc, stream);
  return execute_op_model("aclopExecuteV2", *model, call, stream);
}

aclError aclopSetMaxOpQueueNum(uint64_t maxOpNum) {
  SOFTCANN_ENTRY(aclopSetMaxOpQueueNum);
  // How many operators of open sizes a device keeps ready; here every one that was loaded stays.
  return maxOpNum > 0 ? ACL_SUCCESS : fail(ACL_ERROR_INVALID_PARAM, "aclopSetMaxOpQueueNum: 0 operators");
}
}
