// Dynamic models: the sizes that a model was made for, and which of them is to be used next.
#include <algorithm>
#include <cstring>

#include "rt/memory/check.h"
#include "rt/models/dataset.h"
#include "rt/base/error.h"
#include "rt/models/models.h"

using namespace softcann;

namespace {

// The gear's numbers go into the buffer too, where a program for the chip would read them.
aclError write_gear(const char* entry, const aclDataBuffer* buffer, const std::vector<int64_t>& gear) {
  const size_t bytes = gear.size() * sizeof(int64_t);
  if (!Described<aclDataBuffer>::alive(buffer) || buffer->data == nullptr) {
    return fail(ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID, "%s: the input '%s' has no memory", entry, ACL_DYNAMIC_TENSOR_NAME);
  }
  if (buffer->size < bytes) {
    return fail(ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID, "%s: the buffer of '%s' has %zu bytes, %zu are needed", entry,
                ACL_DYNAMIC_TENSOR_NAME, buffer->size, bytes);
  }
  if (is_device_pointer(buffer->data)) {
    if (const aclError code = check_device_range(buffer->data, bytes)) return code;
  }
  check::mark_written_elsewhere(buffer->data, bytes);
  std::memcpy(device_view(buffer->data), gear.data(), bytes);
  return ACL_SUCCESS;
}

std::string shown(const std::vector<int64_t>& gear) {
  std::string text;
  for (const int64_t size : gear) text += (text.empty() ? "" : ",") + std::to_string(size);
  return text;
}

aclError set_gear(const char* entry, uint32_t id, aclmdlDataset* dataset, size_t index, Gears kind, std::vector<int64_t> gear) {
  SOFTCANN_DESCRIBED(dataset, "dataset");
  MODEL_OR_RETURN(loaded, entry, id);
  const ModelInfo& info = loaded->model->info();
  if (info.gears_of != kind) {
    return fail(ACL_ERROR_MODEL_NOT_DYNAMIC,
                "%s: the model was not converted with the option that it is for (atc "
                "--dynamic_batch_size, --dynamic_image_size or --dynamic_dims)",
                entry);
  }
  if (index != info.inputs.size() || index >= dataset->items.size()) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: input %zu of the %zu of the dataset is not '%s', which is input %zu", entry, index,
                dataset->items.size(), ACL_DYNAMIC_TENSOR_NAME, info.inputs.size());
  }
  if (std::find(info.gears.begin(), info.gears.end(), gear) == info.gears.end()) {
    std::string known;
    for (const std::vector<int64_t>& one : info.gears) known += (known.empty() ? "" : "; ") + shown(one);
    return fail(ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID, "%s: the model was not made for %s, but for %s", entry,
                shown(gear).c_str(), known.c_str());
  }
  if (const aclError code = write_gear(entry, dataset->items[index].buffer, gear)) return code;
  dataset->gear = gear;
  const std::lock_guard<std::mutex> lock(loaded->mutex);
  loaded->gear = std::move(gear);
  return ACL_SUCCESS;
}

const ModelInfo* dynamic_info(const char* entry, const aclmdlDesc* desc, size_t index) {
  if (desc == nullptr || desc->info == nullptr) {
    fail(ACL_ERROR_INVALID_PARAM, "%s: there is no description", entry);
    return nullptr;
  }
  const ModelInfo& info = *desc->info;
  // CANN takes -1 for "all inputs", and the input that tells the size.
  if (index == SIZE_MAX || index <= info.inputs.size()) return &info;
  fail(ACL_ERROR_INVALID_PARAM, "%s: input %zu of %zu", entry, index, info.inputs.size());
  return nullptr;
}

// All dimensions of all inputs in a gear, one after the other.
std::vector<int64_t> all_dims(const ModelInfo& info, const std::vector<int64_t>& gear) {
  std::vector<int64_t> all;
  for (size_t i = 0; i < info.inputs.size(); ++i) {
    const std::vector<int64_t> dims = info.input_dims(i, gear);
    all.insert(all.end(), dims.begin(), dims.end());
  }
  return all;
}

}  // namespace

extern "C" {

aclError aclmdlSetDynamicBatchSize(uint32_t modelId, aclmdlDataset* dataset, size_t index, uint64_t batchSize) {
  SOFTCANN_ENTRY(aclmdlSetDynamicBatchSize);
  return set_gear("aclmdlSetDynamicBatchSize", modelId, dataset, index, Gears::batch, {static_cast<int64_t>(batchSize)});
}

aclError aclmdlSetDynamicHWSize(uint32_t modelId, aclmdlDataset* dataset, size_t index, uint64_t height, uint64_t width) {
  SOFTCANN_ENTRY(aclmdlSetDynamicHWSize);
  return set_gear("aclmdlSetDynamicHWSize", modelId, dataset, index, Gears::image,
                  {static_cast<int64_t>(height), static_cast<int64_t>(width)});
}

aclError aclmdlSetInputDynamicDims(uint32_t modelId, aclmdlDataset* dataset, size_t index, const aclmdlIODims* dims) {
  SOFTCANN_ENTRY(aclmdlSetInputDynamicDims);
  SOFTCANN_REQUIRE(dims, "dims");
  MODEL_OR_RETURN(loaded, "aclmdlSetInputDynamicDims", modelId);
  if (dims->dimCount > ACL_MAX_DIM_CNT)
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlSetInputDynamicDims: %zu dimensions", dims->dimCount);
  std::vector<int64_t> wanted(dims->dims, dims->dims + dims->dimCount);
  const ModelInfo& info = loaded->model->info();
  for (const std::vector<int64_t>& gear : info.gears) {
    if (info.gears_of == Gears::dims && all_dims(info, gear) == wanted) wanted = gear;
  }
  return set_gear("aclmdlSetInputDynamicDims", modelId, dataset, index, Gears::dims, std::move(wanted));
}

aclError aclmdlGetDynamicBatch(const aclmdlDesc* modelDesc, aclmdlBatch* batch) {
  SOFTCANN_ENTRY(aclmdlGetDynamicBatch);
  SOFTCANN_REQUIRE(batch, "batch");
  const ModelInfo* info = dynamic_info("aclmdlGetDynamicBatch", modelDesc, SIZE_MAX);
  if (info == nullptr) return ACL_ERROR_INVALID_PARAM;
  *batch = {};
  if (info->gears_of != Gears::batch) return ACL_SUCCESS;
  for (const std::vector<int64_t>& gear : info->gears) batch->batch[batch->batchCount++] = static_cast<uint64_t>(gear[0]);
  return ACL_SUCCESS;
}

aclError aclmdlGetDynamicHW(const aclmdlDesc* modelDesc, size_t index, aclmdlHW* hw) {
  SOFTCANN_ENTRY(aclmdlGetDynamicHW);
  SOFTCANN_REQUIRE(hw, "hw");
  const ModelInfo* info = dynamic_info("aclmdlGetDynamicHW", modelDesc, index);
  if (info == nullptr) return ACL_ERROR_INVALID_PARAM;
  *hw = {};
  if (info->gears_of != Gears::image) return ACL_SUCCESS;
  for (const std::vector<int64_t>& gear : info->gears) {
    hw->hw[hw->hwCount][0] = static_cast<uint64_t>(gear[0]);
    hw->hw[hw->hwCount++][1] = static_cast<uint64_t>(gear[1]);
  }
  return ACL_SUCCESS;
}

aclError aclmdlGetInputDynamicGearCount(const aclmdlDesc* modelDesc, size_t index, size_t* gearCount) {
  SOFTCANN_ENTRY(aclmdlGetInputDynamicGearCount);
  SOFTCANN_REQUIRE(gearCount, "gearCount");
  const ModelInfo* info = dynamic_info("aclmdlGetInputDynamicGearCount", modelDesc, index);
  if (info == nullptr) return ACL_ERROR_INVALID_PARAM;
  *gearCount = info->gears_of == Gears::dims ? info->gears.size() : 0;
  return ACL_SUCCESS;
}

aclError aclmdlGetInputDynamicDims(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims, size_t gearCount) {
  SOFTCANN_ENTRY(aclmdlGetInputDynamicDims);
  SOFTCANN_REQUIRE(dims, "dims");
  const ModelInfo* info = dynamic_info("aclmdlGetInputDynamicDims", modelDesc, index);
  if (info == nullptr) return ACL_ERROR_INVALID_PARAM;
  const size_t count = info->gears_of == Gears::dims ? info->gears.size() : 0;
  if (gearCount < count)
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlGetInputDynamicDims: there are %zu gears, room for %zu", count, gearCount);
  for (size_t i = 0; i < count; ++i) {
    const std::vector<int64_t> all = all_dims(*info, info->gears[i]);
    dims[i] = {};
    dims[i].dimCount = std::min<size_t>(all.size(), ACL_MAX_DIM_CNT);
    std::copy_n(all.begin(), dims[i].dimCount, dims[i].dims);
  }
  return ACL_SUCCESS;
}
}
