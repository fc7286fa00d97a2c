// What a model does with its images before they reach its first operator (static AIPP, which atc makes operators of; dynamic AIPP
// is told apart).
#include <cstdlib>
#include <map>
#include <string_view>
#include <type_traits>

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

// The fields of a configuration of AIPP as CANN's structure has them; those that it does not name are 0.
class AippFields {
 public:
  explicit AippFields(const std::map<std::string, std::string>& values) : values_(values) {}
  void put_geometry(aclAippInfo& info) const {
    put(info.inputFormat, "input_format");
    put(info.srcImageSizeW, "src_image_size_w");
    put(info.srcImageSizeH, "src_image_size_h");
    put(info.cropSwitch, "crop");
    put(info.loadStartPosW, "load_start_pos_w");
    put(info.loadStartPosH, "load_start_pos_h");
    put(info.cropSizeW, "crop_size_w");
    put(info.cropSizeH, "crop_size_h");
    put(info.resizeSwitch, "resize");
    put(info.resizeOutputW, "resize_output_w");
    put(info.resizeOutputH, "resize_output_h");
    put(info.paddingSwitch, "padding");
    put(info.leftPaddingSize, "left_padding_size");
    put(info.rightPaddingSize, "right_padding_size");
    put(info.topPaddingSize, "top_padding_size");
    put(info.bottomPaddingSize, "bottom_padding_size");
  }
  void put_arithmetic(aclAippInfo& info) const {
    put(info.cscSwitch, "csc_switch");
    put(info.rbuvSwapSwitch, "rbuv_swap_switch");
    put(info.axSwapSwitch, "ax_swap_switch");
    put(info.singleLineMode, "single_line_mode");
    put(info.matrixR0C0, "matrix_r0c0");
    put(info.matrixR0C1, "matrix_r0c1");
    put(info.matrixR0C2, "matrix_r0c2");
    put(info.matrixR1C0, "matrix_r1c0");
    put(info.matrixR1C1, "matrix_r1c1");
    put(info.matrixR1C2, "matrix_r1c2");
    put(info.matrixR2C0, "matrix_r2c0");
    put(info.matrixR2C1, "matrix_r2c1");
    put(info.matrixR2C2, "matrix_r2c2");
    put(info.outputBias0, "output_bias_0");
    put(info.outputBias1, "output_bias_1");
    put(info.outputBias2, "output_bias_2");
    put(info.inputBias0, "input_bias_0");
    put(info.inputBias1, "input_bias_1");
    put(info.inputBias2, "input_bias_2");
    put(info.meanChn0, "mean_chn_0");
    put(info.meanChn1, "mean_chn_1");
    put(info.meanChn2, "mean_chn_2");
    put(info.meanChn3, "mean_chn_3");
    put(info.minChn0, "min_chn_0");
    put(info.minChn1, "min_chn_1");
    put(info.minChn2, "min_chn_2");
    put(info.minChn3, "min_chn_3");
    put(info.varReciChn0, "var_reci_chn_0");
    put(info.varReciChn1, "var_reci_chn_1");
    put(info.varReciChn2, "var_reci_chn_2");
    put(info.varReciChn3, "var_reci_chn_3");
  }

 private:
  double number(const char* name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return 0.0;
    if (found->second == "true") return 1.0;
    if (std::string_view(name) == "input_format") return format_number(found->second);
    return std::strtod(found->second.c_str(), nullptr);
  }
  template <class T>
  void put(T& field, const char* name) const {
    if constexpr (std::is_floating_point_v<T>) {
      field = static_cast<T>(number(name));
    } else {
      field = static_cast<T>(static_cast<int32_t>(number(name)));
    }
  }
  const std::map<std::string, std::string>& values_;
};

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
  AippFields(fields).put_geometry(*aippInfo);
  AippFields(fields).put_arithmetic(*aippInfo);
  aippInfo->srcFormat = info.inputs[index].format;
  aippInfo->srcDatatype = info.inputs[index].type;
  aippInfo->srcDimNum = info.inputs[index].dims.size();
  return ACL_SUCCESS;
}
}
