// Weights of products and convolutions, brought into blocks in their own memory, which may be larger than they are.
#include <algorithm>

#include "aclnn/aclnn_trans_convolution_weight.h"
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

double describe(aclTensor& made, const std::vector<int64_t>& dims, aclFormat format, const char* name,
                const char* size_function) {
  const int64_t elements = c10::multiply_integers(dims);
  uintptr_t begin = 0;
  size_t size = 0;
  if (!softcann::live_memory(made.first_byte(), static_cast<size_t>(elements * made.item), &begin, &size)) {
    invalid("%s has no memory for %lld elements, see %s", name, static_cast<long long>(elements), size_function);
  }
  made.many_storage_dims.reset();
  std::copy(dims.begin(), dims.end(), made.few_storage_dims);
  made.storage_rank = static_cast<uint32_t>(dims.size());
  made.capacity = elements;
  made.storage->set_nbytes(static_cast<size_t>(elements * made.item));
  made.format = format;
  made.defect = Defect::extent;
  return 1000 + static_cast<double>(elements);
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
  return describe(made, blocked(matrix.sizes(), static_cast<size_t>(made.item)), ACL_FORMAT_FRACTAL_NZ, name,
                  "aclnnCalculateMatmulWeightSizeV2");
}

// Blocks of 16 channels and 16 filters.
std::vector<int64_t> blocked_filters(at::IntArrayRef sizes) {
  const auto blocks = [](int64_t n) { return (n + 15) / 16; };
  return {blocks(sizes[1]) * sizes[2] * sizes[3], blocks(sizes[0]), 16, 16};
}

double describe_filters(const at::Tensor& in, const at::Tensor& out, bool transposed, int64_t groups) {
  constexpr const char* name = "aclnnTransConvolutionWeight";
  aclTensor& made = *descriptor_of(out);
  if (transposed || groups != 1) {
    invalid("%s: transposed %d, groups %lld; only one group, not transposed, is supported", name, int{transposed},
            static_cast<long long>(groups));
  }
  if (in.dim() != 4 || in.sizes() != out.sizes()) invalid("%s: weightIn and weightOut are not [N, C, H, W] both", name);
  if (made.type != ACL_FLOAT16 || !(in.scalar_type() == at::kHalf || in.scalar_type() == at::kFloat)) {
    invalid("%s: weightIn is float16 or float32, weightOut float16", name);
  }
  if (!is_base_format(made.format)) invalid("%s: weightOut is in the storage format %d already", name, int{made.format});
  if (out.numel() == 0) return 0;
  return describe(made, blocked_filters(out.sizes()), ACL_FORMAT_FRACTAL_Z, name, "aclnnCalculateConvolutionWeightSize");
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

extern "C" SOFTCANN_API aclnnStatus aclnnCalculateConvolutionWeightSize(const aclIntArray* tensorShape, bool transposed,
                                                                        int64_t groups, aclDataType dataType,
                                                                        uint64_t* weightTensorSize) {
  SOFTCANN_ENTRY(aclnnCalculateConvolutionWeightSize);
  constexpr const char* name = "aclnnCalculateConvolutionWeightSize";
  if (!tensorShape || !weightTensorSize) return softcann::fail(ACLNN_ERR_PARAM_NULLPTR, "%s: a required argument is null", name);
  if (const aclnnStatus status = require_live(name, tensorShape, Kind::int_array)) return status;
  const at::IntArrayRef sizes = object_of(tensorShape)->ref();
  if (sizes.size() != 4 || std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; })) {
    return softcann::fail(ACLNN_ERR_PARAM_INVALID, "%s: tensorShape is not [N, C, H, W]", name);
  }
  if (transposed || groups != 1 || dataType != ACL_FLOAT16) {
    return softcann::fail(ACLNN_ERR_PARAM_INVALID,
                          "%s: transposed %d, groups %lld, data type %d; only one group of float16, not transposed, is supported",
                          name, int{transposed}, static_cast<long long>(groups), static_cast<int>(dataType));
  }
  *weightTensorSize =
      c10::multiply_integers(sizes) == 0 ? 0 : static_cast<uint64_t>(c10::multiply_integers(blocked_filters(sizes)));
  return ACLNN_SUCCESS;
}

OP_COST(aclnnTransConvolutionWeight, describe_filters(weightIn, weightOut, transposed, groups)) {
  if (weightOut.numel() == 0) return;
  const aclTensor& made = *descriptor_of(weightOut);
  store({at::from_blob(weightOut.data_ptr(), {made.capacity}, weightOut.options()), made.format, made.type, made.capacity},
        weightIn.to(at::kHalf).contiguous());
}
