// What clients ask a model about: names, dims, sizes.
#include <algorithm>
#include <cstring>

#include "rt/base/error.h"
#include "rt/models/models.h"
#include "rt/models/tensor_desc.h"

using namespace softcann;

namespace {

aclError describe(const ModelSource& source, aclmdlDesc* to) {
  std::shared_ptr<Model> model;
  if (const aclError code = open_model(source, true, &model)) return code;
  to->info = model->shared_info();
  to->described = std::move(model);
  to->loaded.reset();
  return ACL_SUCCESS;
}

// The description's content; null, the reason recorded, when there is none.
const ModelInfo* info_of(const char* entry, const aclmdlDesc* desc) {
  if (!is_described(desc, "the model's description")) return nullptr;
  if (desc->info != nullptr) return desc->info.get();
  fail(ACL_ERROR_INVALID_PARAM, "%s: the description is empty: call aclmdlGetDesc first", entry);
  return nullptr;
}

// The input through which a dynamic model is told its size; clients find it by its name.
ModelTensor gear_input(const ModelInfo& info) {
  int64_t count = 1;
  if (info.gears_of == Gears::image) count = 2;
  if (info.gears_of == Gears::dims) count = info.gears.empty() ? 0 : static_cast<int64_t>(info.gears[0].size());
  ModelTensor made;
  made.name = ACL_DYNAMIC_TENSOR_NAME;
  made.type = ACL_INT64;
  made.dims = {count};
  return made;
}

size_t input_count(const ModelInfo& info) { return info.inputs.size() + (info.gears_of != Gears::none); }

// False, the reason recorded, when there is no such tensor.
bool find_tensor(const char* entry, const aclmdlDesc* desc, bool input, size_t index, ModelTensor* to) {
  const ModelInfo* info = info_of(entry, desc);
  if (info == nullptr) return false;
  const size_t count = input ? input_count(*info) : info->outputs.size();
  if (index >= count) {
    fail(ACL_ERROR_INVALID_PARAM, "%s: %s %zu of %zu", entry, input ? "input" : "output", index, count);
    return false;
  }
  *to = !input ? info->outputs[index] : index < info->inputs.size() ? info->inputs[index] : gear_input(*info);
  return true;
}

// A name that is too long for the structure is given as one that aclmdlGetTensorRealName() knows.
std::string short_name(const std::string& name, bool input, size_t index) {
  if (name.size() < ACL_MAX_TENSOR_NAME_LEN) return name;
  return (input ? "softcann_input_" : "softcann_output_") + std::to_string(index);
}

void fill_dims(const std::string& name, const std::vector<int64_t>& dims, aclmdlIODims* to) {
  *to = {};
  std::memcpy(to->name, name.c_str(), std::min<size_t>(name.size(), ACL_MAX_TENSOR_NAME_LEN - 1));
  to->dimCount = std::min<size_t>(dims.size(), ACL_MAX_DIM_CNT);
  std::copy_n(dims.begin(), to->dimCount, to->dims);
}

aclError get_dims(const char* entry, const aclmdlDesc* desc, bool input, size_t index, aclmdlIODims* dims) {
  SOFTCANN_REQUIRE(dims, "dims");
  ModelTensor tensor;
  if (!find_tensor(entry, desc, input, index, &tensor)) return ACL_ERROR_INVALID_PARAM;
  fill_dims(short_name(tensor.name, input, index), tensor.dims, dims);
  return ACL_SUCCESS;
}

// Elements of all inputs in a gear.
int64_t elements_in(const ModelInfo& info, const std::vector<int64_t>& gear) {
  int64_t count = 0;
  for (size_t i = 0; i < info.inputs.size(); ++i) count += std::max<int64_t>(elements_of(info.input_dims(i, gear)), 0);
  return count;
}

// The place of the largest gear; the number of gears where there are none.
size_t largest_gear(const ModelInfo& info) {
  const auto found = std::max_element(info.gears.begin(), info.gears.end(),
                                      [&](const auto& a, const auto& b) { return elements_in(info, a) < elements_in(info, b); });
  return static_cast<size_t>(found - info.gears.begin());
}

// The dims of all outputs in a gear. None where neither the file nor a run told them before the model was unloaded.
std::vector<std::vector<int64_t>> gear_outputs(const aclmdlDesc& desc, size_t gear) {
  if (desc.described != nullptr) return desc.described->gear_outputs(gear);
  if (const std::shared_ptr<LoadedEntry> entry = desc.loaded.lock()) return entry->model->gear_outputs(gear);
  const std::lock_guard<std::mutex> lock(desc.info->gear_outputs->mutex);
  return desc.info->gear_outputs->dims.at(gear);
}

// In the gear that is given; of another, in the largest one.
aclError get_output_dims(const char* entry, const aclmdlDesc* desc, size_t index, const std::vector<int64_t>& gear,
                         aclmdlIODims* dims) {
  if (const aclError code = get_dims(entry, desc, false, index, dims)) return code;
  const ModelInfo& info = *desc->info;
  if (info.gears.empty()) return ACL_SUCCESS;
  const auto found = std::find(info.gears.begin(), info.gears.end(), gear);
  const size_t place = found == info.gears.end() ? largest_gear(info) : static_cast<size_t>(found - info.gears.begin());
  const auto outputs = gear_outputs(*desc, place);
  if (index < outputs.size()) fill_dims(std::string(dims->name), outputs[index], dims);
  return ACL_SUCCESS;
}

// With gears: of the largest one. 0 when only the run tells.
size_t get_size(const char* entry, const aclmdlDesc* desc, bool input, size_t index) {
  ModelTensor tensor;
  if (!find_tensor(entry, desc, input, index, &tensor)) return 0;
  const ModelInfo& info = *desc->info;
  const size_t size = bytes_of(tensor.type, tensor.dims);
  if (info.gears.empty() || size != 0 || (input && index >= info.inputs.size())) return size;
  if (!input) {
    const auto outputs = gear_outputs(*desc, largest_gear(info));
    return index < outputs.size() ? bytes_of(tensor.type, outputs[index]) : 0;
  }
  size_t most = 0;
  for (const std::vector<int64_t>& gear : info.gears) most = std::max(most, bytes_of(tensor.type, info.input_dims(index, gear)));
  return most;
}

const char* get_name(const char* entry, const aclmdlDesc* desc, bool input, size_t index) {
  ModelTensor tensor;
  if (!find_tensor(entry, desc, input, index, &tensor)) return "";
  const ModelInfo& info = *desc->info;
  if (!input) return info.outputs[index].name.c_str();
  return index < info.inputs.size() ? info.inputs[index].name.c_str() : ACL_DYNAMIC_TENSOR_NAME;
}

aclError get_index(const char* entry, const aclmdlDesc* desc, bool input, const char* name, size_t* index) {
  SOFTCANN_REQUIRE(name, "name");
  SOFTCANN_REQUIRE(index, "index");
  const ModelInfo* info = info_of(entry, desc);
  if (info == nullptr) return ACL_ERROR_INVALID_PARAM;
  const std::vector<ModelTensor>& tensors = input ? info->inputs : info->outputs;
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const ModelTensor& one) { return one.name == name; });
  *index = static_cast<size_t>(found - tensors.begin());
  if (found != tensors.end()) return ACL_SUCCESS;
  if (input && info->gears_of != Gears::none && std::strcmp(name, ACL_DYNAMIC_TENSOR_NAME) == 0) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "%s: the model has no %s '%s'", entry, input ? "input" : "output", name);
}

std::vector<int64_t> current_gear(const aclmdlDesc& desc) {
  const std::shared_ptr<LoadedEntry> entry = desc.loaded.lock();
  if (entry == nullptr) return {};
  const std::lock_guard<std::mutex> lock(entry->mutex);
  return entry->gear;
}

}  // namespace

extern "C" {

SOFTCANN_DESCRIPTION(aclmdlDesc, aclmdlCreateDesc, aclmdlDestroyDesc, aclmdlDesc*, "modelDesc")

aclError aclmdlGetDesc(aclmdlDesc* modelDesc, uint32_t modelId) {
  SOFTCANN_ENTRY(aclmdlGetDesc);
  SOFTCANN_DESCRIBED(modelDesc, "modelDesc");
  MODEL_OR_RETURN(entry, "aclmdlGetDesc", modelId);
  modelDesc->info = entry->model->shared_info();
  modelDesc->described = nullptr;
  modelDesc->loaded = entry;
  return ACL_SUCCESS;
}

aclError aclmdlGetDescFromFile(aclmdlDesc* modelDesc, const char* modelPath) {
  SOFTCANN_ENTRY(aclmdlGetDescFromFile);
  SOFTCANN_DESCRIBED(modelDesc, "modelDesc");
  SOFTCANN_REQUIRE(modelPath, "modelPath");
  return describe({modelPath, nullptr, 0}, modelDesc);
}

aclError aclmdlGetDescFromMem(aclmdlDesc* modelDesc, const void* model, size_t modelSize) {
  SOFTCANN_ENTRY(aclmdlGetDescFromMem);
  SOFTCANN_DESCRIBED(modelDesc, "modelDesc");
  SOFTCANN_REQUIRE(model, "model");
  return describe({nullptr, model, modelSize}, modelDesc);
}

size_t aclmdlGetNumInputs(aclmdlDesc* modelDesc) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetNumInputs, 0);
  const ModelInfo* info = info_of("aclmdlGetNumInputs", modelDesc);
  return info ? input_count(*info) : 0;
}

size_t aclmdlGetNumOutputs(aclmdlDesc* modelDesc) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetNumOutputs, 0);
  const ModelInfo* info = info_of("aclmdlGetNumOutputs", modelDesc);
  return info ? info->outputs.size() : 0;
}

aclError aclmdlGetInputDims(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims) {
  SOFTCANN_ENTRY(aclmdlGetInputDims);
  return get_dims("aclmdlGetInputDims", modelDesc, true, index, dims);
}

aclError aclmdlGetInputDimsV2(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims) {
  SOFTCANN_ENTRY(aclmdlGetInputDimsV2);
  return get_dims("aclmdlGetInputDimsV2", modelDesc, true, index, dims);
}

aclError aclmdlGetOutputDims(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims) {
  SOFTCANN_ENTRY(aclmdlGetOutputDims);
  return get_output_dims("aclmdlGetOutputDims", modelDesc, index, {}, dims);
}

aclError aclmdlGetCurOutputDims(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims) {
  SOFTCANN_ENTRY(aclmdlGetCurOutputDims);
  if (!is_described(modelDesc, "the model's description")) return ACL_ERROR_INVALID_PARAM;
  return get_output_dims("aclmdlGetCurOutputDims", modelDesc, index, current_gear(*modelDesc), dims);
}

aclError aclmdlGetInputDimsRange(const aclmdlDesc* modelDesc, size_t index, aclmdlIODimsRange* dimsRange) {
  SOFTCANN_ENTRY(aclmdlGetInputDimsRange);
  SOFTCANN_REQUIRE(dimsRange, "dimsRange");
  ModelTensor tensor;
  if (!find_tensor("aclmdlGetInputDimsRange", modelDesc, true, index, &tensor)) return ACL_ERROR_INVALID_PARAM;
  *dimsRange = {};
  dimsRange->rangeCount = tensor.dims.size();
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    const bool fixed = tensor.dims[i] >= 0;
    dimsRange->range[i][0] = fixed ? tensor.dims[i] : i < tensor.range.size() ? tensor.range[i].first : 0;
    dimsRange->range[i][1] = fixed ? tensor.dims[i] : i < tensor.range.size() ? tensor.range[i].second : -1;
  }
  return ACL_SUCCESS;
}

size_t aclmdlGetInputSizeByIndex(aclmdlDesc* modelDesc, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetInputSizeByIndex, 0);
  return get_size("aclmdlGetInputSizeByIndex", modelDesc, true, index);
}

size_t aclmdlGetOutputSizeByIndex(aclmdlDesc* modelDesc, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetOutputSizeByIndex, 0);
  return get_size("aclmdlGetOutputSizeByIndex", modelDesc, false, index);
}

const char* aclmdlGetInputNameByIndex(const aclmdlDesc* modelDesc, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetInputNameByIndex, "");
  return get_name("aclmdlGetInputNameByIndex", modelDesc, true, index);
}

const char* aclmdlGetOutputNameByIndex(const aclmdlDesc* modelDesc, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetOutputNameByIndex, "");
  return get_name("aclmdlGetOutputNameByIndex", modelDesc, false, index);
}

aclError aclmdlGetInputIndexByName(const aclmdlDesc* modelDesc, const char* name, size_t* index) {
  SOFTCANN_ENTRY(aclmdlGetInputIndexByName);
  return get_index("aclmdlGetInputIndexByName", modelDesc, true, name, index);
}

aclError aclmdlGetOutputIndexByName(const aclmdlDesc* modelDesc, const char* name, size_t* index) {
  SOFTCANN_ENTRY(aclmdlGetOutputIndexByName);
  return get_index("aclmdlGetOutputIndexByName", modelDesc, false, name, index);
}

aclDataType aclmdlGetInputDataType(const aclmdlDesc* modelDesc, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetInputDataType, ACL_DT_UNDEFINED);
  ModelTensor tensor;
  return find_tensor("aclmdlGetInputDataType", modelDesc, true, index, &tensor) ? tensor.type : ACL_DT_UNDEFINED;
}

aclDataType aclmdlGetOutputDataType(const aclmdlDesc* modelDesc, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetOutputDataType, ACL_DT_UNDEFINED);
  ModelTensor tensor;
  return find_tensor("aclmdlGetOutputDataType", modelDesc, false, index, &tensor) ? tensor.type : ACL_DT_UNDEFINED;
}

aclFormat aclmdlGetInputFormat(const aclmdlDesc* modelDesc, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetInputFormat, ACL_FORMAT_UNDEFINED);
  ModelTensor tensor;
  return find_tensor("aclmdlGetInputFormat", modelDesc, true, index, &tensor) ? tensor.format : ACL_FORMAT_UNDEFINED;
}

aclFormat aclmdlGetOutputFormat(const aclmdlDesc* modelDesc, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetOutputFormat, ACL_FORMAT_UNDEFINED);
  ModelTensor tensor;
  return find_tensor("aclmdlGetOutputFormat", modelDesc, false, index, &tensor) ? tensor.format : ACL_FORMAT_UNDEFINED;
}

const char* aclmdlGetTensorRealName(const aclmdlDesc* modelDesc, const char* name) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetTensorRealName, nullptr);
  const ModelInfo* info = info_of("aclmdlGetTensorRealName", modelDesc);
  if (info == nullptr || name == nullptr) return nullptr;
  for (const bool input : {true, false}) {
    const std::vector<ModelTensor>& tensors = input ? info->inputs : info->outputs;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].name == name || short_name(tensors[i].name, input, i) == name) return tensors[i].name.c_str();
    }
  }
  fail(ACL_ERROR_INVALID_PARAM, "aclmdlGetTensorRealName: the model has no tensor '%s'", name);
  return nullptr;
}

const char* aclmdlGetOpAttr(aclmdlDesc* modelDesc, const char* opName, const char* attr) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetOpAttr, nullptr);
  const ModelInfo* info = info_of("aclmdlGetOpAttr", modelDesc);
  if (info == nullptr || opName == nullptr || attr == nullptr) return nullptr;
  const auto op = info->attributes.find(opName);
  if (op == info->attributes.end()) {
    fail(ACL_ERROR_INVALID_PARAM, "aclmdlGetOpAttr: the model has no operator '%s'", opName);
    return nullptr;
  }
  const auto found = op->second.find(attr);
  return found == op->second.end() ? "" : found->second.c_str();
}
}
