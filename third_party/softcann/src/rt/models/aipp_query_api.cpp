// What a model does with its images before they reach its first operator (static AIPP, which atc makes operators of; dynamic AIPP
// is told apart).
#include <cstdlib>
#include <map>

#include "rt/base/error.h"
#include "rt/models/models.h"

using namespace softcann;

namespace {

aclError check_input(const char* entry, const ModelInfo& info, size_t index) {
  if (index < info.inputs.size()) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "%s: input %zu of %zu", entry, index, info.inputs.size());
}

// A format by the name it has in the configuration, or its number.
double format_number(const std::string& name) {
  static const std::map<std::string, aclAippInputFormat> formats = {
      {"YUV420SP_U8", ACL_YUV420SP_U8}, {"XRGB8888_U8", ACL_XRGB8888_U8}, {"RGB888_U8", ACL_RGB888_U8},
      {"YUV400_U8", ACL_YUV400_U8},     {"ARGB8888_U8", ACL_ARGB8888_U8}, {"YUYV_U8", ACL_YUYV_U8},
      {"YUV422SP_U8", ACL_YUV422SP_U8}, {"AYUV444_U8", ACL_AYUV444_U8}};
  const auto found = formats.find(name);
  return found != formats.end() ? static_cast<double>(found->second) : std::strtod(name.c_str(), nullptr);
}

}  // namespace

extern "C" {

aclError aclmdlGetAippType(uint32_t modelId, size_t index, aclmdlInputAippType* type, size_t* dynamicAttachedDataIndex) {
  SOFTCANN_ENTRY(aclmdlGetAippType);
  SOFTCANN_REQUIRE(type, "type");
  MODEL_OR_RETURN(loaded, "aclmdlGetAippType", modelId);
  const ModelInfo& info = loaded->model->info();
  if (const aclError code = check_input("aclmdlGetAippType", info, index)) return code;
  const ModelTensor& input = info.inputs[index];
  *type = input.network         ? ACL_DATA_WITH_DYNAMIC_AIPP
          : input.parameters_of ? ACL_DYNAMIC_AIPP_NODE
          : input.aipp.empty()  ? ACL_DATA_WITHOUT_AIPP
                                : ACL_DATA_WITH_STATIC_AIPP;
  if (dynamicAttachedDataIndex != nullptr) {
    *dynamicAttachedDataIndex = input.network ? input.network->parameters : size_t{ACL_INVALID_NODE_INDEX};
  }
  return ACL_SUCCESS;
}

aclError aclmdlGetFirstAippInfo(uint32_t modelId, size_t index, aclAippInfo* aippInfo) {
  SOFTCANN_ENTRY(aclmdlGetFirstAippInfo);
  SOFTCANN_REQUIRE(aippInfo, "aippInfo");
  MODEL_OR_RETURN(loaded, "aclmdlGetFirstAippInfo", modelId);
  const ModelInfo& info = loaded->model->info();
  if (const aclError code = check_input("aclmdlGetFirstAippInfo", info, index)) return code;
  const std::map<std::string, std::string>& fields = info.inputs[index].aipp;
  if (fields.empty()) {
    return fail(ACL_ERROR_NOT_STATIC_AIPP, "aclmdlGetFirstAippInfo: input %zu, '%s', has no AIPP", index,
                info.inputs[index].name.c_str());
  }
  *aippInfo = {};
  const auto number = [&](const char* name) {
    const auto found = fields.find(name);
    if (found == fields.end()) return 0.0;
    if (found->second == "true") return 1.0;
    if (std::string(name) == "input_format") return format_number(found->second);
    return std::strtod(found->second.c_str(), nullptr);
  };
#define INTEGER(FIELD, NAME) aippInfo->FIELD = static_cast<decltype(aippInfo->FIELD)>(static_cast<int32_t>(number(NAME)))
#define REAL(FIELD, NAME) aippInfo->FIELD = static_cast<float>(number(NAME))
  INTEGER(inputFormat, "input_format");
  INTEGER(srcImageSizeW, "src_image_size_w");
  INTEGER(srcImageSizeH, "src_image_size_h");
  INTEGER(cropSwitch, "crop");
  INTEGER(loadStartPosW, "load_start_pos_w");
  INTEGER(loadStartPosH, "load_start_pos_h");
  INTEGER(cropSizeW, "crop_size_w");
  INTEGER(cropSizeH, "crop_size_h");
  INTEGER(resizeSwitch, "resize");
  INTEGER(resizeOutputW, "resize_output_w");
  INTEGER(resizeOutputH, "resize_output_h");
  INTEGER(paddingSwitch, "padding");
  INTEGER(leftPaddingSize, "left_padding_size");
  INTEGER(rightPaddingSize, "right_padding_size");
  INTEGER(topPaddingSize, "top_padding_size");
  INTEGER(bottomPaddingSize, "bottom_padding_size");
  INTEGER(cscSwitch, "csc_switch");
  INTEGER(rbuvSwapSwitch, "rbuv_swap_switch");
  INTEGER(axSwapSwitch, "ax_swap_switch");
  INTEGER(singleLineMode, "single_line_mode");
  INTEGER(matrixR0C0, "matrix_r0c0");
  INTEGER(matrixR0C1, "matrix_r0c1");
  INTEGER(matrixR0C2, "matrix_r0c2");
  INTEGER(matrixR1C0, "matrix_r1c0");
  INTEGER(matrixR1C1, "matrix_r1c1");
  INTEGER(matrixR1C2, "matrix_r1c2");
  INTEGER(matrixR2C0, "matrix_r2c0");
  INTEGER(matrixR2C1, "matrix_r2c1");
  INTEGER(matrixR2C2, "matrix_r2c2");
  INTEGER(outputBias0, "output_bias_0");
  INTEGER(outputBias1, "output_bias_1");
  INTEGER(outputBias2, "output_bias_2");
  INTEGER(inputBias0, "input_bias_0");
  INTEGER(inputBias1, "input_bias_1");
  INTEGER(inputBias2, "input_bias_2");
  INTEGER(meanChn0, "mean_chn_0");
  INTEGER(meanChn1, "mean_chn_1");
  INTEGER(meanChn2, "mean_chn_2");
  INTEGER(meanChn3, "mean_chn_3");
  REAL(minChn0, "min_chn_0");
  REAL(minChn1, "min_chn_1");
  REAL(minChn2, "min_chn_2");
  REAL(minChn3, "min_chn_3");
  REAL(varReciChn0, "var_reci_chn_0");
  REAL(varReciChn1, "var_reci_chn_1");
  REAL(varReciChn2, "var_reci_chn_2");
  REAL(varReciChn3, "var_reci_chn_3");
#undef INTEGER
#undef REAL
  aippInfo->srcFormat = info.inputs[index].format;
  aippInfo->srcDatatype = info.inputs[index].type;
  aippInfo->srcDimNum = info.inputs[index].dims.size();
  return ACL_SUCCESS;
}
}
