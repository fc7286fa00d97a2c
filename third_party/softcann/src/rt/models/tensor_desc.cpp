#include "rt/models/tensor_desc.h"

#include "rt/base/data_types.h"
#include "rt/base/half.h"

using namespace softcann;

namespace softcann {

size_t bits_of(aclDataType type) {
  const DataType* known = find_data_type(type);
  return known != nullptr ? known->bits : 0;
}

size_t bytes_of(const aclTensorDesc& desc) {
  const int64_t count = elements_of(desc.dims);
  return count <= 0 ? 0 : (static_cast<size_t>(count) * bits_of(desc.type) + 7) / 8;
}

int64_t elements_of(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return -1;
  }
  return count;
}

}  // namespace softcann

namespace {

aclError set_pairs(const char* entry, std::vector<std::pair<int64_t, int64_t>>& to, size_t count, int64_t pairs[][2]) {
  if (count > 0 && pairs == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "%s: %zu ranges at a null pointer", entry, count);
  to.clear();
  for (size_t i = 0; i < count; ++i) to.emplace_back(pairs[i][0], pairs[i][1]);
  return ACL_SUCCESS;
}

aclError set_dims(const char* entry, std::vector<int64_t>& to, int count, const int64_t* dims) {
  if (count < 0 || (count > 0 && dims == nullptr)) return fail(ACL_ERROR_INVALID_PARAM, "%s: %d dimensions", entry, count);
  to.assign(dims, dims + count);
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

size_t aclDataTypeSize(aclDataType dataType) {
  SOFTCANN_ENTRY_VALUE(aclDataTypeSize, 0);
  return bits_of(dataType) / 8;
}

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
  SOFTCANN_ENTRY_VALUE(aclCreateDataBuffer, nullptr);
  auto* made = Described<aclDataBuffer>::make();
  made->data = data;
  made->size = size;
  return made;
}

aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
  SOFTCANN_ENTRY(aclDestroyDataBuffer);
  SOFTCANN_DESCRIBED(dataBuffer, "dataBuffer");
  Described<aclDataBuffer>::drop(dataBuffer);
  return ACL_SUCCESS;
}

aclError aclUpdateDataBuffer(aclDataBuffer* dataBuffer, void* data, size_t size) {
  SOFTCANN_ENTRY(aclUpdateDataBuffer);
  SOFTCANN_DESCRIBED(dataBuffer, "dataBuffer");
  dataBuffer->data = data;
  dataBuffer->size = size;
  return ACL_SUCCESS;
}

SOFTCANN_DESCRIBED_VALUE(void*, aclGetDataBufferAddr, const aclDataBuffer*, "dataBuffer", handle->data, nullptr)
SOFTCANN_DESCRIBED_VALUE(size_t, aclGetDataBufferSizeV2, const aclDataBuffer*, "dataBuffer", handle->size, 0)
SOFTCANN_DESCRIBED_VALUE(uint32_t, aclGetDataBufferSize, const aclDataBuffer*, "dataBuffer", static_cast<uint32_t>(handle->size),
                         0)

aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims, aclFormat format) {
  SOFTCANN_ENTRY_VALUE(aclCreateTensorDesc, nullptr);
  if (numDims < 0 || (numDims > 0 && dims == nullptr)) {
    fail(ACL_ERROR_INVALID_PARAM, "aclCreateTensorDesc: %d dimensions, dims %p", numDims, static_cast<const void*>(dims));
    return nullptr;
  }
  auto* desc = Described<aclTensorDesc>::make();
  desc->type = dataType;
  desc->format = format;
  desc->dims.assign(dims, dims + numDims);
  return desc;
}

void aclDestroyTensorDesc(const aclTensorDesc* desc) {
  SOFTCANN_ENTRY_VALUE(aclDestroyTensorDesc, );
  if (desc != nullptr && is_described(desc, "desc")) Described<aclTensorDesc>::drop(desc);
}

SOFTCANN_DESCRIBED_VALUE(aclDataType, aclGetTensorDescType, const aclTensorDesc*, "desc", handle->type, ACL_DT_UNDEFINED)
SOFTCANN_DESCRIBED_VALUE(aclFormat, aclGetTensorDescFormat, const aclTensorDesc*, "desc", handle->format, ACL_FORMAT_UNDEFINED)
SOFTCANN_DESCRIBED_VALUE(size_t, aclGetTensorDescNumDims, const aclTensorDesc*, "desc", handle->dims.size(), 0)

aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize) {
  SOFTCANN_ENTRY(aclGetTensorDescDimV2);
  SOFTCANN_DESCRIBED(desc, "desc");
  SOFTCANN_REQUIRE(dimSize, "dimSize");
  if (index >= desc->dims.size()) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclGetTensorDescDimV2: dimension %zu of %zu", index, desc->dims.size());
  }
  *dimSize = desc->dims[index];
  return ACL_SUCCESS;
}

int64_t aclGetTensorDescDim(const aclTensorDesc* desc, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclGetTensorDescDim, -1);
  int64_t dim = -1;
  return aclGetTensorDescDimV2(desc, index, &dim) == ACL_SUCCESS ? dim : -1;
}

aclError aclGetTensorDescDimRange(const aclTensorDesc* desc, size_t index, size_t dimRangeNum, int64_t* dimRange) {
  SOFTCANN_ENTRY(aclGetTensorDescDimRange);
  SOFTCANN_DESCRIBED(desc, "desc");
  SOFTCANN_REQUIRE(dimRange, "dimRange");
  if (index >= desc->dims.size() || dimRangeNum < 2) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclGetTensorDescDimRange: dimension %zu of %zu, room for %zu numbers of 2", index,
                desc->dims.size(), dimRangeNum);
  }
  const int64_t dim = desc->dims[index];
  const auto found = index < desc->range.size() ? desc->range[index] : std::pair(dim < 0 ? 1 : dim, dim);
  dimRange[0] = found.first;
  dimRange[1] = found.second;
  return ACL_SUCCESS;
}

size_t aclGetTensorDescElementCount(const aclTensorDesc* desc) {
  SOFTCANN_ENTRY_VALUE(aclGetTensorDescElementCount, 0);
  const int64_t count = !is_described(desc, "desc") ? 0 : elements_of(desc->dims);
  return count < 0 ? 0 : static_cast<size_t>(count);
}

size_t aclGetTensorDescSize(const aclTensorDesc* desc) {
  SOFTCANN_ENTRY_VALUE(aclGetTensorDescSize, 0);
  return is_described(desc, "desc") ? bytes_of(*desc) : 0;
}

SOFTCANN_DESCRIBED_VALUE(const char*, aclGetTensorDescName, aclTensorDesc*, "desc", handle->name.c_str(), "")

void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
  SOFTCANN_ENTRY_VALUE(aclSetTensorDescName, );
  if (is_described(desc, "desc")) desc->name = name == nullptr ? "" : name;
}

aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
  SOFTCANN_ENTRY(aclSetTensorFormat);
  SOFTCANN_DESCRIBED(desc, "desc");
  desc->storage_format = format;
  return ACL_SUCCESS;
}

aclError aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  SOFTCANN_ENTRY(aclSetTensorShape);
  SOFTCANN_DESCRIBED(desc, "desc");
  return set_dims("aclSetTensorShape", desc->storage_dims, numDims, dims);
}

aclError aclSetTensorStorageFormat(aclTensorDesc* desc, aclFormat format) {
  SOFTCANN_ENTRY(aclSetTensorStorageFormat);
  return aclSetTensorFormat(desc, format);
}

aclError aclSetTensorStorageShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  SOFTCANN_ENTRY(aclSetTensorStorageShape);
  return aclSetTensorShape(desc, numDims, dims);
}

aclError aclSetTensorOriginFormat(aclTensorDesc* desc, aclFormat format) {
  SOFTCANN_ENTRY(aclSetTensorOriginFormat);
  SOFTCANN_DESCRIBED(desc, "desc");
  desc->origin_format = format;
  return ACL_SUCCESS;
}

aclError aclSetTensorOriginShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  SOFTCANN_ENTRY(aclSetTensorOriginShape);
  SOFTCANN_DESCRIBED(desc, "desc");
  return set_dims("aclSetTensorOriginShape", desc->origin_dims, numDims, dims);
}

aclError aclSetTensorShapeRange(aclTensorDesc* desc, size_t dimsCount, int64_t dimsRange[][2]) {
  SOFTCANN_ENTRY(aclSetTensorShapeRange);
  SOFTCANN_DESCRIBED(desc, "desc");
  return set_pairs("aclSetTensorShapeRange", desc->range, dimsCount, dimsRange);
}

aclError aclSetTensorValueRange(aclTensorDesc* desc, size_t valueCount, int64_t valueRange[][2]) {
  SOFTCANN_ENTRY(aclSetTensorValueRange);
  SOFTCANN_DESCRIBED(desc, "desc");
  return set_pairs("aclSetTensorValueRange", desc->values, valueCount, valueRange);
}

aclError aclSetTensorDynamicInput(aclTensorDesc* desc, const char* dynamicInputName) {
  SOFTCANN_ENTRY(aclSetTensorDynamicInput);
  SOFTCANN_DESCRIBED(desc, "desc");
  SOFTCANN_REQUIRE(dynamicInputName, "dynamicInputName");
  desc->dynamic_input = dynamicInputName;
  return ACL_SUCCESS;
}

// The address of a tensor that only has one when it is an operator's: here descriptions never own memory.
void* aclGetTensorDescAddress(const aclTensorDesc* desc) {
  SOFTCANN_ENTRY_VALUE(aclGetTensorDescAddress, nullptr);
  return !is_described(desc, "desc") || desc->constant.empty() ? nullptr : const_cast<char*>(desc->constant.data());
}

// Arrays of them come from aclmdlCreateAndGetOpDesc alone, which is not supported.
aclTensorDesc* aclGetTensorDescByIndex(aclTensorDesc* desc, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclGetTensorDescByIndex, nullptr);
  if (!is_described(desc, "desc") || index == 0) return Described<aclTensorDesc>::alive(desc) ? desc : nullptr;
  fail(ACL_ERROR_INVALID_PARAM, "aclGetTensorDescByIndex: description %zu of 1", index);
  return nullptr;
}

aclError aclTransTensorDescFormat(const aclTensorDesc* srcDesc, aclFormat dstFormat, aclTensorDesc** dstDesc) {
  SOFTCANN_ENTRY(aclTransTensorDescFormat);
  SOFTCANN_DESCRIBED(srcDesc, "srcDesc");
  SOFTCANN_REQUIRE(dstDesc, "dstDesc");
  const auto from = srcDesc->format;
  const bool turns = srcDesc->dims.size() == 4 && (from == ACL_FORMAT_NCHW || from == ACL_FORMAT_NHWC) &&
                     (dstFormat == ACL_FORMAT_NCHW || dstFormat == ACL_FORMAT_NHWC);
  if (!turns && from != dstFormat) {
    return fail(ACL_ERROR_FORMAT_NOT_MATCH, "aclTransTensorDescFormat: from format %d to %d with %zu dimensions is not supported",
                static_cast<int>(from), static_cast<int>(dstFormat), srcDesc->dims.size());
  }
  auto* made = Described<aclTensorDesc>::make();
  *made = *srcDesc;
  made->format = dstFormat;
  if (from != dstFormat) {
    const auto& dims = srcDesc->dims;
    if (dstFormat == ACL_FORMAT_NHWC) {
      made->dims = {dims[0], dims[2], dims[3], dims[1]};
    } else {
      made->dims = {dims[0], dims[3], dims[1], dims[2]};
    }
  }
  *dstDesc = made;
  return ACL_SUCCESS;
}

aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType) {
  SOFTCANN_ENTRY(aclSetTensorPlaceMent);
  SOFTCANN_DESCRIBED(desc, "desc");
  if (memType < ACL_MEMTYPE_DEVICE || memType > ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclSetTensorPlaceMent: unknown kind of memory %d", static_cast<int>(memType));
  }
  desc->placement = memType;
  return ACL_SUCCESS;
}

aclError aclSetTensorConst(aclTensorDesc* desc, void* dataBuffer, size_t length) {
  SOFTCANN_ENTRY(aclSetTensorConst);
  SOFTCANN_DESCRIBED(desc, "desc");
  SOFTCANN_REQUIRE(dataBuffer, "dataBuffer");
  const char* bytes = static_cast<const char*>(dataBuffer);
  desc->constant.assign(bytes, bytes + length);
  return ACL_SUCCESS;
}

float aclFloat16ToFloat(aclFloat16 value) {
  SOFTCANN_ENTRY_VALUE(aclFloat16ToFloat, 0.0F);
  return half_to_float(value);
}

aclFloat16 aclFloatToFloat16(float value) {
  SOFTCANN_ENTRY_VALUE(aclFloatToFloat16, 0);
  return float_to_half(value);
}
}
