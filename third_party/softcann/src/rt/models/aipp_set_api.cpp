// Dynamic AIPP, as clients set it.
#include "rt/models/aipp_parameters.h"
#include "rt/memory/check.h"
#include "rt/models/dataset.h"
#include "rt/base/error.h"
#include "rt/models/models.h"

using namespace softcann;

namespace {

constexpr uint64_t kMostPictures = 65535;

aclError check_picture(const char* entry, const aclmdlAIPP* aipp, uint64_t index) {
  SOFTCANN_REQUIRE(aipp, "aippParmsSet");
  if (index < aipp->aipp.pictures.size()) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "%s: picture %llu of %zu", entry, static_cast<unsigned long long>(index),
              aipp->aipp.pictures.size());
}

aclError set_flag(const char* entry, aclmdlAIPP* aipp, bool AippCommon::* flag, int8_t value) {
  SOFTCANN_REQUIRE(aipp, "aippParmsSet");
  if (value != 0 && value != 1) return fail(ACL_ERROR_INVALID_PARAM, "%s: a switch of %d", entry, value);
  aipp->aipp.common.*flag = value != 0;
  return ACL_SUCCESS;
}

// The parameters go into the memory of the input that takes them, for the next runs.
aclError set_input(const char* entry, uint32_t id, aclmdlDataset* dataset, size_t index, bool of_data, const aclmdlAIPP* given) {
  SOFTCANN_DESCRIBED(dataset, "dataset");
  SOFTCANN_DESCRIBED(given, "aippParmsSet");
  MODEL_OR_RETURN(loaded, entry, id);
  const std::vector<ModelTensor>& inputs = loaded->model->info().inputs;
  if (index >= inputs.size() || index >= dataset->items.size()) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: input %zu; the model has %zu, the dataset %zu", entry, index, inputs.size(),
                dataset->items.size());
  }
  const size_t data = of_data ? index : inputs[index].parameters_of.value_or(inputs.size());
  if (data >= inputs.size() || !inputs[data].network) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: input %zu, '%s', has no dynamic AIPP", entry, index, inputs[index].name.c_str());
  }
  if (const std::string problem = aipp_problem(given->aipp, inputs[data]); !problem.empty()) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: input '%s': %s", entry, inputs[data].name.c_str(), problem.c_str());
  }
  const size_t parameters = inputs[data].network->parameters;
  const aclDataBuffer* buffer = parameters < dataset->items.size() ? dataset->items[parameters].buffer : nullptr;
  const size_t bytes = aipp_bytes(given->aipp.pictures.size());
  if (!Described<aclDataBuffer>::alive(buffer) || buffer->data == nullptr || buffer->size < bytes) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: input %zu, '%s', needs %zu bytes", entry, parameters,
                inputs[parameters].name.c_str(), bytes);
  }
  if (is_device_pointer(buffer->data)) {
    if (const aclError code = check_device_range(buffer->data, bytes)) return code;
  }
  check::mark_written_elsewhere(buffer->data, bytes);
  write_aipp(given->aipp, device_view(buffer->data));
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclmdlAIPP* aclmdlCreateAIPP(uint64_t batchSize) {
  SOFTCANN_ENTRY_VALUE(aclmdlCreateAIPP, nullptr);
  if (batchSize == 0 || batchSize > kMostPictures) {
    fail(ACL_ERROR_INVALID_PARAM, "aclmdlCreateAIPP: a batch of %llu", static_cast<unsigned long long>(batchSize));
    return nullptr;
  }
  auto* made = Described<aclmdlAIPP>::make();
  made->aipp.pictures.resize(batchSize);
  return made;
}

aclError aclmdlDestroyAIPP(const aclmdlAIPP* aippParmsSet) {
  SOFTCANN_ENTRY(aclmdlDestroyAIPP);
  SOFTCANN_DESCRIBED(aippParmsSet, "aippParmsSet");
  Described<aclmdlAIPP>::drop(aippParmsSet);
  return ACL_SUCCESS;
}

aclError aclmdlGetAippDataSize(uint64_t batchSize, size_t* size) {
  SOFTCANN_ENTRY(aclmdlGetAippDataSize);
  SOFTCANN_REQUIRE(size, "size");
  if (batchSize == 0 || batchSize > kMostPictures) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlGetAippDataSize: a batch of %llu", static_cast<unsigned long long>(batchSize));
  }
  *size = aipp_bytes(batchSize);
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPInputFormat(aclmdlAIPP* aippParmsSet, aclAippInputFormat inputFormat) {
  SOFTCANN_ENTRY(aclmdlSetAIPPInputFormat);
  SOFTCANN_DESCRIBED(aippParmsSet, "aippParmsSet");
  switch (inputFormat) {
    case ACL_YUV420SP_U8:
    case ACL_XRGB8888_U8:
    case ACL_RGB888_U8:
    case ACL_YUV400_U8:
      aippParmsSet->aipp.common.format = inputFormat;
      return ACL_SUCCESS;
    default:
      return fail(ACL_ERROR_FEATURE_UNSUPPORTED,
                  "aclmdlSetAIPPInputFormat: format %d; YUV420SP_U8, XRGB8888_U8, RGB888_U8 and YUV400_U8 are served",
                  static_cast<int>(inputFormat));
  }
}

aclError aclmdlSetAIPPSrcImageSize(aclmdlAIPP* aippParmsSet, int32_t srcImageSizeW, int32_t srcImageSizeH) {
  SOFTCANN_ENTRY(aclmdlSetAIPPSrcImageSize);
  SOFTCANN_DESCRIBED(aippParmsSet, "aippParmsSet");
  if (srcImageSizeW < 2 || srcImageSizeW > 4096 || srcImageSizeH < 1 || srcImageSizeH > 4096) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlSetAIPPSrcImageSize: %d x %d; 2 x 1 to 4096 x 4096 is possible", srcImageSizeW,
                srcImageSizeH);
  }
  aippParmsSet->aipp.common.width = srcImageSizeW;
  aippParmsSet->aipp.common.height = srcImageSizeH;
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPRbuvSwapSwitch(aclmdlAIPP* aippParmsSet, int8_t rbuvSwapSwitch) {
  SOFTCANN_ENTRY(aclmdlSetAIPPRbuvSwapSwitch);
  return set_flag("aclmdlSetAIPPRbuvSwapSwitch", aippParmsSet, &AippCommon::swap_rb_uv, rbuvSwapSwitch);
}

aclError aclmdlSetAIPPAxSwapSwitch(aclmdlAIPP* aippParmsSet, int8_t axSwapSwitch) {
  SOFTCANN_ENTRY(aclmdlSetAIPPAxSwapSwitch);
  return set_flag("aclmdlSetAIPPAxSwapSwitch", aippParmsSet, &AippCommon::swap_ax, axSwapSwitch);
}

aclError aclmdlSetAIPPCscParams(aclmdlAIPP* aippParmsSet, int8_t cscSwitch, int16_t cscMatrixR0C0, int16_t cscMatrixR0C1,
                                int16_t cscMatrixR0C2, int16_t cscMatrixR1C0, int16_t cscMatrixR1C1, int16_t cscMatrixR1C2,
                                int16_t cscMatrixR2C0, int16_t cscMatrixR2C1, int16_t cscMatrixR2C2, uint8_t cscOutputBiasR0,
                                uint8_t cscOutputBiasR1, uint8_t cscOutputBiasR2, uint8_t cscInputBiasR0, uint8_t cscInputBiasR1,
                                uint8_t cscInputBiasR2) {
  SOFTCANN_ENTRY(aclmdlSetAIPPCscParams);
  if (const aclError code = set_flag("aclmdlSetAIPPCscParams", aippParmsSet, &AippCommon::convert, cscSwitch)) return code;
  AippCommon& common = aippParmsSet->aipp.common;
  const int16_t matrix[] = {cscMatrixR0C0, cscMatrixR0C1, cscMatrixR0C2, cscMatrixR1C0, cscMatrixR1C1,
                            cscMatrixR1C2, cscMatrixR2C0, cscMatrixR2C1, cscMatrixR2C2};
  const uint8_t output[] = {cscOutputBiasR0, cscOutputBiasR1, cscOutputBiasR2};
  const uint8_t input[] = {cscInputBiasR0, cscInputBiasR1, cscInputBiasR2};
  std::copy(std::begin(matrix), std::end(matrix), common.matrix);
  std::copy(std::begin(output), std::end(output), common.output_bias);
  std::copy(std::begin(input), std::end(input), common.input_bias);
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPCropParams(aclmdlAIPP* aippParmsSet, int8_t cropSwitch, int32_t cropStartPosW, int32_t cropStartPosH,
                                 int32_t cropSizeW, int32_t cropSizeH, uint64_t batchIndex) {
  SOFTCANN_ENTRY(aclmdlSetAIPPCropParams);
  if (const aclError code = check_picture("aclmdlSetAIPPCropParams", aippParmsSet, batchIndex)) return code;
  AippPicture& one = aippParmsSet->aipp.pictures[batchIndex];
  one.crop = cropSwitch != 0;
  one.crop_left = cropStartPosW;
  one.crop_top = cropStartPosH;
  one.crop_width = cropSizeW;
  one.crop_height = cropSizeH;
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPPaddingParams(aclmdlAIPP* aippParmsSet, int8_t paddingSwitch, int32_t paddingSizeTop,
                                    int32_t paddingSizeBottom, int32_t paddingSizeLeft, int32_t paddingSizeRight,
                                    uint64_t batchIndex) {
  SOFTCANN_ENTRY(aclmdlSetAIPPPaddingParams);
  if (const aclError code = check_picture("aclmdlSetAIPPPaddingParams", aippParmsSet, batchIndex)) return code;
  AippPicture& one = aippParmsSet->aipp.pictures[batchIndex];
  one.pad = paddingSwitch != 0;
  one.top = paddingSizeTop;
  one.bottom = paddingSizeBottom;
  one.left = paddingSizeLeft;
  one.right = paddingSizeRight;
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPScfParams(aclmdlAIPP* aippParmsSet, int8_t scfSwitch, int32_t, int32_t, int32_t, int32_t,
                                uint64_t batchIndex) {
  SOFTCANN_ENTRY(aclmdlSetAIPPScfParams);
  if (const aclError code = check_picture("aclmdlSetAIPPScfParams", aippParmsSet, batchIndex)) return code;
  if (scfSwitch == 0) return ACL_SUCCESS;
  return fail(ACL_ERROR_FEATURE_UNSUPPORTED,
              "aclmdlSetAIPPScfParams: AIPP resizes on no chip that softcann stands for: resize with acldvppVpcResizeAsync");
}

aclError aclmdlSetAIPPDtcPixelMean(aclmdlAIPP* aippParmsSet, int16_t dtcPixelMeanChn0, int16_t dtcPixelMeanChn1,
                                   int16_t dtcPixelMeanChn2, int16_t dtcPixelMeanChn3, uint64_t batchIndex) {
  SOFTCANN_ENTRY(aclmdlSetAIPPDtcPixelMean);
  if (const aclError code = check_picture("aclmdlSetAIPPDtcPixelMean", aippParmsSet, batchIndex)) return code;
  const int16_t values[] = {dtcPixelMeanChn0, dtcPixelMeanChn1, dtcPixelMeanChn2, dtcPixelMeanChn3};
  std::copy(std::begin(values), std::end(values), aippParmsSet->aipp.pictures[batchIndex].mean);
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPDtcPixelMin(aclmdlAIPP* aippParmsSet, float dtcPixelMinChn0, float dtcPixelMinChn1, float dtcPixelMinChn2,
                                  float dtcPixelMinChn3, uint64_t batchIndex) {
  SOFTCANN_ENTRY(aclmdlSetAIPPDtcPixelMin);
  if (const aclError code = check_picture("aclmdlSetAIPPDtcPixelMin", aippParmsSet, batchIndex)) return code;
  const float values[] = {dtcPixelMinChn0, dtcPixelMinChn1, dtcPixelMinChn2, dtcPixelMinChn3};
  std::copy(std::begin(values), std::end(values), aippParmsSet->aipp.pictures[batchIndex].min);
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPPixelVarReci(aclmdlAIPP* aippParmsSet, float dtcPixelVarReciChn0, float dtcPixelVarReciChn1,
                                   float dtcPixelVarReciChn2, float dtcPixelVarReciChn3, uint64_t batchIndex) {
  SOFTCANN_ENTRY(aclmdlSetAIPPPixelVarReci);
  if (const aclError code = check_picture("aclmdlSetAIPPPixelVarReci", aippParmsSet, batchIndex)) return code;
  const float values[] = {dtcPixelVarReciChn0, dtcPixelVarReciChn1, dtcPixelVarReciChn2, dtcPixelVarReciChn3};
  std::copy(std::begin(values), std::end(values), aippParmsSet->aipp.pictures[batchIndex].scale);
  return ACL_SUCCESS;
}

aclError aclmdlSetInputAIPP(uint32_t modelId, aclmdlDataset* dataset, size_t index, const aclmdlAIPP* aippParmsSet) {
  SOFTCANN_ENTRY(aclmdlSetInputAIPP);
  return set_input("aclmdlSetInputAIPP", modelId, dataset, index, false, aippParmsSet);
}

aclError aclmdlSetAIPPByInputIndex(uint32_t modelId, aclmdlDataset* dataset, size_t index, const aclmdlAIPP* aippParmsSet) {
  SOFTCANN_ENTRY(aclmdlSetAIPPByInputIndex);
  return set_input("aclmdlSetAIPPByInputIndex", modelId, dataset, index, true, aippParmsSet);
}
}
