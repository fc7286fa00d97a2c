// Conversions between storage formats.
//
// Note [Layouts]
// C0 is 16 elements, 32 of one byte, 4 in NC1HWC0_C04; C1 the number of blocks of C0 channels, N1 of 16 batches.
//   NC1HWC0      N C H W   -> N C1 H W C0            NDC1HWC0    N C D H W -> N D C1 H W C0
//   FRACTAL_Z    N C H W   -> C1*H*W N1 16 C0        FRACTAL_Z_3D  N C D H W -> D*C1*H*W N1 16 C0
//   FRACTAL_NZ   ... R C   -> ... C1 R1 16 C0        (rows and columns in blocks, a column of blocks after the other)
// What is beyond the tensor in its last blocks is zero. A tensor [N, C] counts as [N, C, 1, 1], and one of channels [C] as [1, C,
// 1, 1].
#include <algorithm>
#include <optional>

#include "aclnn/aclnn_npu_format_cast.h"
#include "op/elementwise.h"
#include "op/formats.h"
#include "op/kernels/common.h"
#include "op/kernels/quantize.h"
#include "op/kernels/storage_format.h"
#include "op/tensor.h"
#include "rt/base/error.h"
#include "rt/models/tensor_desc.h"

using namespace softcann::op;

namespace {

constexpr int64_t block_rows = 16;

struct Layout {
  std::vector<int64_t> blocked;  // sizes with each blocked dimension as (blocks, block)
  std::vector<int64_t> order;    // of these, as they lie in memory
  std::vector<int64_t> counted;  // base sizes with the dimensions that the format has
  std::vector<int64_t> padded;   // these rounded up
};

int64_t up(int64_t size, int64_t block) { return (size + block - 1) / block * block; }

// `channels` and, unless 0, `batches` are blocks of dimensions 1 and 0 of an image, [N, C, H, W] or [N, C, D, H, W].
Layout image_layout(at::IntArrayRef sizes, int64_t channels, int64_t batches) {
  TORCH_CHECK(sizes.size() != 3 && !sizes.empty() && sizes.size() <= 5, "this storage format is not for ", sizes.size(),
              " dimensions");
  std::vector<int64_t> image = sizes.vec();
  if (image.size() == 1) image.insert(image.begin(), 1);
  if (image.size() == 2) image.resize(4, 1);
  Layout layout;
  layout.counted = layout.padded = image;
  layout.padded[1] = up(image[1], channels);
  if (batches) layout.padded[0] = up(image[0], batches);
  const bool volume = image.size() == 5;
  if (batches) {
    layout.blocked = {layout.padded[0] / batches, batches, layout.padded[1] / channels, channels};
    layout.order = volume ? std::vector<int64_t>{4, 2, 5, 6, 0, 1, 3} : std::vector<int64_t>{2, 4, 5, 0, 1, 3};
  } else {
    layout.blocked = {image[0], layout.padded[1] / channels, channels};
    layout.order = volume ? std::vector<int64_t>{0, 3, 1, 4, 5, 2} : std::vector<int64_t>{0, 1, 3, 4, 2};
  }
  layout.blocked.insert(layout.blocked.end(), image.begin() + 2, image.end());
  return layout;
}

Layout matrix_layout(at::IntArrayRef sizes, int64_t columns) {
  TORCH_CHECK(sizes.size() >= 2, "FRACTAL_NZ is not for ", sizes.size(), " dimensions");
  Layout layout;
  const size_t rank = sizes.size();
  layout.counted = layout.padded = sizes.vec();
  layout.padded[rank - 2] = up(sizes[rank - 2], block_rows);
  layout.padded[rank - 1] = up(sizes[rank - 1], columns);
  layout.blocked.assign(sizes.begin(), sizes.end() - 2);
  for (size_t i = 0; i + 2 < rank; ++i) layout.order.push_back(static_cast<int64_t>(i));
  const auto batch = static_cast<int64_t>(rank) - 2;
  for (const int64_t size : {layout.padded[rank - 2] / block_rows, block_rows, layout.padded[rank - 1] / columns, columns}) {
    layout.blocked.push_back(size);
  }
  for (const int64_t dim : {batch + 2, batch, batch + 1, batch + 3}) layout.order.push_back(dim);
  return layout;
}

Layout layout_of(const Stored& stored, at::IntArrayRef sizes) {
  const int64_t c0 = stored.memory.itemsize() == 1 ? 32 : 16;
  switch (stored.format) {
    case ACL_FORMAT_NC1HWC0:
    case ACL_FORMAT_NDC1HWC0:
      return image_layout(sizes, c0, 0);
    case ACL_FORMAT_NC1HWC0_C04:
      return image_layout(sizes, 4, 0);
    case ACL_FORMAT_FRACTAL_Z:
    case ACL_FRACTAL_Z_3D:
      return image_layout(sizes, c0, block_rows);
    case ACL_FORMAT_FRACTAL_NZ:
      return matrix_layout(sizes, stored.columns ? stored.columns : c0);
    case ACL_FORMAT_FRACTAL_NZ_C0_16:
    case ACL_FORMAT_FRACTAL_NZ_C0_32: {
      const int64_t columns = stored.format == ACL_FORMAT_FRACTAL_NZ_C0_32 ? 32 : 16;
      return matrix_layout(sizes, has_four_bits(stored.type) ? columns / 2 : columns);  // two share a byte
    }
    default:
      TORCH_CHECK(false, "storage format ", static_cast<int>(stored.format), " is not supported");
  }
}

// ATen copies no numbers of four bits, but the bytes that two of them share.
at::Tensor in_bytes(const at::Tensor& tensor) { return halved(tensor) ? tensor.view(at::kByte) : tensor; }

// The memory as the padded base tensor: a view with its dimensions in the base's order, blocks apart.
at::Tensor blocks_of(const Stored& stored, const Layout& layout) {
  std::vector<int64_t> physical;
  for (const int64_t dim : layout.order) physical.push_back(layout.blocked[static_cast<size_t>(dim)]);
  const int64_t count = c10::multiply_integers(physical);
  TORCH_CHECK(count == stored.capacity || (count > stored.capacity && count <= stored.reach), "storage format ",
              static_cast<int>(stored.format), " of ", layout.padded, " takes ", count, " elements, but the storage has ",
              stored.capacity);
  std::vector<int64_t> back(layout.order.size());
  for (size_t i = 0; i < back.size(); ++i) back[static_cast<size_t>(layout.order[i])] = static_cast<int64_t>(i);
  std::vector<int64_t> strides(physical.size(), 1);
  for (size_t i = physical.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * physical[i + 1];
  const at::Tensor bytes = in_bytes(stored.memory);
  return at::from_blob(bytes.storage().mutable_data(), physical, strides, bytes.options()).permute(back);
}

// int4 of which eight are an int32 may have come to their storage format as bytes, two in each: the storage is described as
// those.
std::vector<int64_t> as_bytes(at::IntArrayRef sizes) {
  std::vector<int64_t> result = sizes.vec();
  result.back() *= 4;
  return result;
}
bool blocks_are_of_bytes(const aclTensor& made, at::IntArrayRef sizes) {
  if (made.format != ACL_FORMAT_FRACTAL_NZ || sizes.size() < 2) return false;
  return c10::multiply_integers(matrix_layout(as_bytes(sizes), 32).padded) == made.capacity;
}

void from_base(const at::Tensor& base, const at::Tensor& target) {
  const aclTensor& made = *descriptor_of(target);
  if (is_base_format(made.format)) return put(in_bytes(target), in_bytes(base));
  store(stored_of(made), is_turned(target) && is_turned(base) ? base.mT() : base);
}

}  // namespace

namespace softcann::op {

// Clients that allocate as many bytes as the format takes may still describe as many elements as the base has. Those that
// describe blocks say how wide these are, which is no more than 32 bytes.
Stored stored_of(const aclTensor& made) {
  uintptr_t begin = 0;
  size_t size = 0;
  const auto address = reinterpret_cast<uintptr_t>(made.address);
  const bool known = softcann::live_memory(made.address, 1, &begin, &size);
  const int64_t reach = known ? static_cast<int64_t>(begin + size - address) / made.item : 0;
  int64_t columns = 0;
  if (made.format == ACL_FORMAT_FRACTAL_NZ && made.storage_rank == made.tensor.dim() + 2) {
    const int64_t* block = made.storage_dims() + made.storage_rank - 2;
    if (block[0] == block_rows && block[1] * made.item <= 32) columns = block[1];
  }
  return {made.tensor, made.format, made.type, made.capacity, reach, columns};
}

bool is_turned(const at::Tensor& tensor) { return tensor.dim() > 1 && tensor.stride(-1) != 1 && tensor.stride(-2) == 1; }

at::Tensor base_of(const Stored& stored, at::IntArrayRef sizes) {
  const Layout layout = layout_of(stored, sizes);
  at::Tensor base = blocks_of(stored, layout).reshape(layout.padded);
  for (size_t dim = 0; dim < layout.counted.size(); ++dim) base = base.narrow(static_cast<int64_t>(dim), 0, layout.counted[dim]);
  return base.reshape(sizes);
}

void store(const Stored& stored, const at::Tensor& base) {
  const Layout layout = layout_of(stored, base.sizes());
  const at::Tensor image = in_bytes(base).reshape(layout.counted);
  std::vector<int64_t> pad;
  for (int64_t dim = image.dim(); dim-- > 0;) {
    pad.insert(pad.end(), {0, layout.padded[static_cast<size_t>(dim)] - image.size(dim)});
  }
  blocks_of(stored, layout).copy_(at::constant_pad_nd(image, pad, 0).view(layout.blocked));
}

at::Tensor in_base_format(const at::Tensor& argument) {
  const aclTensor* described = argument.defined() ? descriptor_of_element(argument) : nullptr;
  if (!described) return argument;
  const aclTensor& made = *described;
  if (is_base_format(made.format)) return argument;
  const bool turned = is_turned(argument);
  if (made.type == ACL_INT32 && !turned && blocks_are_of_bytes(made, argument.sizes())) {
    const Stored bytes{made.tensor.view(at::kChar), made.format, ACL_INT8, made.capacity};
    return base_of(bytes, as_bytes(argument.sizes())).contiguous().view(at::kInt);
  }
  at::Tensor base = base_of(stored_of(made), turned ? argument.mT().sizes() : argument.sizes());
  if (halved(argument)) base = base.view(argument.scalar_type());
  return turned ? base.mT() : base;
}

}  // namespace softcann::op

OP_COST(aclnnNpuFormatCast, elementwise(dstTensor, srcTensor)) {
  TORCH_CHECK(srcTensor.sizes() == dstTensor.sizes(), "aclnnNpuFormatCast: sizes ", srcTensor.sizes(), " and ",
              dstTensor.sizes());
  from_base(in_base_format(srcTensor), dstTensor);
}

// Weights for products with numbers of more bits, in the format that `outWeight` has; what belongs to them stays as it is.
OP(aclnnWeightQuantPreprocess) {
  TORCH_CHECK(halved(weight) && weight.scalar_type() == outWeight.scalar_type(), "aclnnWeightQuantPreprocess: weight is ",
              weight.scalar_type(), " and outWeight ", outWeight.scalar_type(), "; both float4_e2m1 or both int4 are supported");
  from_base(weight, outWeight);
  put(outWeightScale, weightScale);
  if (given(weightOffsetOptional)) put(outWeightOffsetOptional, weightOffsetOptional);
  if (given(biasOptional)) put(outBiasOptional, biasOptional);
}

namespace {

constexpr size_t bits_of_block = 256;  // a row of a block

// Elements of a row, of a type with that many bits.
std::optional<int64_t> row_of_block(aclDataType type) {
  const size_t bits = softcann::bits_of(type);
  return bits == 0 ? std::nullopt : std::optional(static_cast<int64_t>(bits_of_block / bits));
}

}  // namespace

namespace softcann::op {

std::optional<std::vector<int64_t>> sizes_in(aclFormat format, at::IntArrayRef sizes, int64_t row) {
  const size_t rank = sizes.size();
  const auto blocks = [](int64_t size, int64_t block) { return (size + block - 1) / block; };
  switch (format) {
    case ACL_FORMAT_ND:
    case ACL_FORMAT_NCDHW:
      return sizes.vec();
    case ACL_FORMAT_FRACTAL_NZ: {
      if (rank < 2) return std::nullopt;
      std::vector<int64_t> found(sizes.begin(), sizes.end() - 2);
      found.insert(found.end(), {blocks(sizes[rank - 1], row), blocks(sizes[rank - 2], block_rows), block_rows, row});
      return found;
    }
    case ACL_FORMAT_NDC1HWC0:
      if (rank != 5) return std::nullopt;
      return std::vector<int64_t>{sizes[0], sizes[2], blocks(sizes[1], row), sizes[3], sizes[4], row};
    case ACL_FRACTAL_Z_3D:
      if (rank != 5) return std::nullopt;
      return std::vector<int64_t>{sizes[2] * blocks(sizes[1], row) * sizes[3] * sizes[4], blocks(sizes[0], block_rows),
                                  block_rows, row};
    default:
      return std::nullopt;
  }
}

}  // namespace softcann::op

// What the client describes the result of aclnnNpuFormatCast with. It frees the sizes with delete[].
extern "C" SOFTCANN_API aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor* srcTensor, int dstFormat,
                                                                             int additionalDtype, int64_t** dstShape,
                                                                             uint64_t* dstShapeSize, int* actualFormat) {
  SOFTCANN_ENTRY(aclnnNpuFormatCastCalculateSizeAndFormat);
  constexpr const char* name = "aclnnNpuFormatCastCalculateSizeAndFormat";
  if (!srcTensor || !dstShape || !dstShapeSize || !actualFormat) {
    return softcann::fail(ACLNN_ERR_PARAM_NULLPTR, "%s: a required argument is null", name);
  }
  if (const aclnnStatus status = require_live(name, srcTensor, Kind::tensor)) return status;
  const aclTensor& source = *current(srcTensor);
  const auto row = row_of_block(additionalDtype == ACL_DT_UNDEFINED ? source.type : static_cast<aclDataType>(additionalDtype));
  const auto found = row ? sizes_in(static_cast<aclFormat>(dstFormat), client_shape(source).sizes, *row) : std::nullopt;
  if (!found) {
    return softcann::fail(
        ACLNN_ERR_PARAM_INVALID,
        "%s: a tensor of %lld dimensions in the format %d for the data type %d is not supported; ND, FRACTAL_NZ "
        "from 2 dimensions on, and of 5 dimensions NCDHW, NDC1HWC0 and FRACTAL_Z_3D are",
        name, static_cast<long long>(source.tensor.dim()), dstFormat, additionalDtype);
  }
  *dstShape = new int64_t[found->size()];
  std::copy(found->begin(), found->end(), *dstShape);
  *dstShapeSize = found->size();
  *actualFormat = dstFormat;
  return ACLNN_SUCCESS;
}
