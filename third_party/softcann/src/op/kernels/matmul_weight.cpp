// Weights of products, brought into blocks in their own memory, which may be larger than they are.
#include <algorithm>

#include "aclnn/aclnn_trans_matmul_weight.h"
#include "op/formats.h"
#include "op/kernel.h"
#include "op/kernels/storage_format.h"
#include "op/tensor.h"
#include "rt/base/error.h"
#include "rt/runtime.h"

using namespace softcann::op;

namespace {

// Sizes of matrices in blocks, of elements of `item` bytes. There are two dimensions or more.
std::vector<int64_t> blocked(at::IntArrayRef sizes, size_t item) {
  return sizes_in(ACL_FORMAT_FRACTAL_NZ, sizes, item == 1 ? 32 : 16).value();
}

// Phase 1: what is described from now on is in blocks, as a product of it may be prepared before this has run.
double describe_in_blocks(const at::Tensor& weight) {
  constexpr const char* name = "aclnnTransMatmulWeight: mmWeightRef";
  aclTensor& made = *descriptor_of(weight);
  const auto rank = weight.dim();
  if (rank < 2 || rank > 6) invalid("%s has %d dimensions, expected 2 to 6", name, static_cast<int>(rank));
  if (!is_base_format(made.format)) invalid("%s is in the storage format %d already", name, static_cast<int>(made.format));
  if (made.item > 2) invalid("%s has elements of %d bytes, expected 1 or 2", name, static_cast<int>(made.item));
  const at::Tensor matrix = is_turned(weight) ? weight.mT() : weight;
  if (!matrix.is_contiguous()) invalid("%s is neither contiguous nor transposed", name);
  const auto dims = blocked(matrix.sizes(), static_cast<size_t>(made.item));
  const int64_t elements = c10::multiply_integers(dims);
  uintptr_t begin = 0;
  size_t size = 0;
  if (!softcann::live_memory(made.first_byte(), static_cast<size_t>(elements * made.item), &begin, &size)) {
    invalid("%s has no memory for %lld elements, see aclnnCalculateMatmulWeightSizeV2", name, static_cast<long long>(elements));
  }
  made.many_storage_dims.reset();
  std::copy(dims.begin(), dims.end(), made.few_storage_dims);
  made.storage_rank = static_cast<uint32_t>(dims.size());
  made.capacity = elements;
  made.storage->set_nbytes(static_cast<size_t>(elements * made.item));
  made.format = ACL_FORMAT_FRACTAL_NZ;
  made.defect = Defect::extent;
  return 1000 + static_cast<double>(elements);
}

aclnnStatus weight_size(const char* name, const aclIntArray* shape, size_t item, uint64_t* size) {
  if (!shape || !size) return softcann::fail(ACLNN_ERR_PARAM_NULLPTR, "%s: a required argument is null", name);
  if (const aclnnStatus status = require_live(name, shape, Kind::int_array)) return status;
  const auto& sizes = *object_of(shape);
  if (sizes.size < 2) {
    return softcann::fail(ACLNN_ERR_PARAM_INVALID, "%s: tensorShape has %llu elements, expected 2 or more", name,
                          static_cast<unsigned long long>(sizes.size));
  }
  *size = static_cast<uint64_t>(c10::multiply_integers(blocked(sizes.ref(), item)));
  return ACLNN_SUCCESS;
}

}  // namespace

extern "C" SOFTCANN_API aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray* tensorShape, uint64_t* weightTensorSize) {
  SOFTCANN_ENTRY(aclnnCalculateMatmulWeightSize);
  return weight_size("aclnnCalculateMatmulWeightSize", tensorShape, 2, weightTensorSize);
}

extern "C" SOFTCANN_API aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray* tensorShape, aclDataType dataType,
                                                                     uint64_t* weightTensorSize) {
  SOFTCANN_ENTRY(aclnnCalculateMatmulWeightSizeV2);
  constexpr const char* name = "aclnnCalculateMatmulWeightSizeV2";
  if (dataType != ACL_FLOAT16 && dataType != ACL_BF16 && dataType != ACL_INT8) {
    return softcann::fail(ACLNN_ERR_PARAM_INVALID, "%s: data type %d, expected float16, bfloat16 or int8", name,
                          static_cast<int>(dataType));
  }
  return weight_size(name, tensorShape, dataType == ACL_INT8 ? 1 : 2, weightTensorSize);
}

OP_COST(aclnnTransMatmulWeight, describe_in_blocks(mmWeightRef)) {
  const aclTensor& made = *descriptor_of(mmWeightRef);
  const at::Tensor base = (is_turned(mmWeightRef) ? mmWeightRef.mT() : mmWeightRef).clone(at::MemoryFormat::Contiguous);
  store({at::from_blob(mmWeightRef.data_ptr(), {made.capacity}, mmWeightRef.options()), made.format, made.type, made.capacity},
        base);
}
