#include "op/formats.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include <ATen/core/TensorBase.h>
#include <ATen/ops/empty.h>

#include "core/device.h"
#include "core/error.h"
#include "core/options.h"
#include "core/recovery.h"
#include "memory/storage.h"
#include "op/launch.h"

namespace torch_npu::op {

NPU_OPERATOR(aclnnNpuFormatCast);

namespace {

constexpr int64_t kRows = 16;  // of a block; its columns fill 32 bytes, except that wider types have 16 too

int64_t columns_of(c10::ScalarType dtype) { return c10::elementSize(dtype) == 1 ? 32 : 16; }
int64_t blocks(int64_t size, int64_t block) { return (size + block - 1) / block; }

// [N, C] as [N, C, 1, 1]; 4 dimensions as they are.
at::DimVector image_sizes(at::IntArrayRef sizes, int64_t format) {
  TORCH_CHECK_VALUE(sizes.size() == 4 || sizes.size() == 2, "storage format ", format,
                    " is for tensors of 2 or 4 dimensions, not ", sizes.size());
  at::DimVector image(sizes);
  image.resize(4, 1);
  return image;
}

[[noreturn]] void throw_unknown(int64_t format) {
  TORCH_CHECK_VALUE(false, "storage format ", format,
                    " is not known: it is one of ND 2, NCHW 0, NHWC 1, HWCN 16, NDHWC 27, NCDHW 30, "
                    "NCL 47, NC1HWC0 3, FRACTAL_Z 4, NC1HWC0_C04 12, FRACTAL_NZ 29, NDC1HWC0 32, FRACTAL_Z_3D 33");
}

// Internal formats cost more than they save from Ascend910B on, whose cube unit reads base formats by itself.
bool suits_chip() {
  const std::string soc = core::soc_name();
  const auto is_one_of = [&](std::initializer_list<const char*> families) {
    return std::any_of(families.begin(), families.end(), [&](const char* family) { return soc.rfind(family, 0) == 0; });
  };
  return soc == "Ascend910" || is_one_of({"Ascend910A", "Ascend910Pro", "Ascend910Premium", "Ascend310"});
}

// A descriptor of the whole memory in its own format.
class RawDescriptor {
 public:
  explicit RawDescriptor(const memory::FormattedMemory& memory) {
    int64_t stride = 1;
    at::DimVector strides(memory.sizes.size());
    for (size_t i = strides.size(); i-- > 0; stride *= memory.sizes[i]) strides[i] = stride;
    raw_ = acl::aclCreateTensor(memory.sizes.data(), memory.sizes.size(), acl_type(memory.dtype), strides.data(), 0,
                                memory.format, memory.physical.data(), memory.physical.size(), memory.memory.get());
    if (raw_) return;
    detail::throw_no_descriptor("aclCreateTensor", "memory in storage format " + std::to_string(memory.format),
                                aclnnNpuFormatCast.name());
  }
  ~RawDescriptor() { acl::aclDestroyTensor(raw_); }
  RawDescriptor(const RawDescriptor&) = delete;
  RawDescriptor& operator=(const RawDescriptor&) = delete;
  aclTensor* get() const { return raw_; }

 private:
  aclTensor* raw_;
};

void transform(const aclTensor* from, aclTensor* to) {
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  int status = aclnnNpuFormatCast.phase_one()(from, to, &workspace_size, &executor);
  if (status != 0) throw_operator_error(aclnnNpuFormatCast.name(), status);
  c10::DataPtr workspace;
  if (workspace_size != 0) workspace = allocate_workspace(workspace_size);
  const auto stream = core::current_raw_stream();
  launch_with_hooks({aclnnNpuFormatCast.name(), stream}, [&] {
    status = aclnnNpuFormatCast.phase_two()(workspace.get(), workspace_size, executor, stream);
    if (status != 0) throw_operator_error(aclnnNpuFormatCast.name(), status);
  });
}

// The content in the base format, in a storage at least as large: views of other dtypes may span the padding.
at::Tensor base_copy(const memory::FormattedMemory& formatted, size_t bytes, c10::Device device) {
  const auto item = static_cast<int64_t>(c10::elementSize(formatted.dtype));
  const auto options = at::TensorOptions().dtype(formatted.dtype).device(device);
  at::Tensor base = at::empty({(static_cast<int64_t>(bytes) + item - 1) / item}, options);
  at::DimVector sizes(formatted.sizes.begin(), formatted.sizes.end());
  base.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  memory::describe(static_cast<NPUStorageImpl&>(*base.storage().unsafeGetStorageImpl()), sizes, base.strides(), base.dtype());
  const RawDescriptor from(formatted);
  const Descriptor<aclTensor*> to(base);
  transform(from.get(), to.get());
  return base;
}

}  // namespace

at::DimVector physical_sizes(at::IntArrayRef sizes, int64_t format, c10::ScalarType dtype) {
  if (is_base_format(format)) return at::DimVector(sizes);
  const int64_t columns = columns_of(dtype);
  switch (format) {
    case ACL_FORMAT_NC1HWC0:
    case ACL_FORMAT_NC1HWC0_C04: {
      const auto image = image_sizes(sizes, format);
      const int64_t c0 = format == ACL_FORMAT_NC1HWC0 ? columns : 4;
      return {image[0], blocks(image[1], c0), image[2], image[3], c0};
    }
    case ACL_FORMAT_FRACTAL_Z: {
      const auto image = image_sizes(sizes, format);
      return {blocks(image[1], columns) * image[2] * image[3], blocks(image[0], kRows), kRows, columns};
    }
    case ACL_FORMAT_FRACTAL_NZ: {
      TORCH_CHECK_VALUE(sizes.size() >= 2, "storage format FRACTAL_NZ is for tensors of at least 2 dimensions, not ",
                        sizes.size());
      at::DimVector physical(sizes.slice(0, sizes.size() - 2));
      for (const int64_t size : {blocks(sizes.back(), columns), blocks(sizes[sizes.size() - 2], kRows), kRows, columns}) {
        physical.push_back(size);
      }
      return physical;
    }
    case ACL_FORMAT_NDC1HWC0:
      TORCH_CHECK_VALUE(sizes.size() == 5, "storage format NDC1HWC0 is for tensors of 5 dimensions, not ", sizes.size());
      return {sizes[0], sizes[2], blocks(sizes[1], columns), sizes[3], sizes[4], columns};
    case ACL_FRACTAL_Z_3D:
      TORCH_CHECK_VALUE(sizes.size() == 5, "storage format FRACTAL_Z_3D is for tensors of 5 dimensions, not ", sizes.size());
      return {sizes[2] * blocks(sizes[1], columns) * sizes[3] * sizes[4], blocks(sizes[0], kRows), kRows, columns};
    default:
      throw_unknown(format);
  }
}

bool internal_formats_allowed() {
  const auto option = core::options().allow_internal_format;
  return option < 0 ? suits_chip() : option != 0;
}

int64_t base_format(int64_t format, int64_t rank) {
  if (is_base_format(format)) return format;
  const bool volume = format == ACL_FORMAT_NDC1HWC0 || format == ACL_FRACTAL_Z_3D;
  switch (format) {
    case ACL_FORMAT_NC1HWC0:
    case ACL_FORMAT_NC1HWC0_C04:
    case ACL_FORMAT_FRACTAL_Z:
    case ACL_FORMAT_FRACTAL_NZ:
    case ACL_FORMAT_NDC1HWC0:
    case ACL_FRACTAL_Z_3D:
      return rank == 4 ? ACL_FORMAT_NCHW : rank == 5 && volume ? ACL_FORMAT_NCDHW : ACL_FORMAT_ND;
    default:
      throw_unknown(format);
  }
}

int64_t format_of(const at::Tensor& tensor) {
  if (tensor.has_storage()) {
    if (const auto* memory = memory::formatted(tensor.storage().data_ptr())) return memory->format;
  }
  return memory::base_format_of(static_cast<size_t>(tensor.dim()));
}

bool same_bytes(const at::Tensor& tensor, int64_t format) { return is_base_format(format) && is_base_format(format_of(tensor)); }

at::Tensor cast_to_format(const at::Tensor& tensor, int64_t format) {
  const core::DeviceGuard guard(tensor.device().index());
  memory::FormattedMemory result;
  result.format = static_cast<aclFormat>(format);
  result.dtype = tensor.scalar_type();
  result.sizes.append(tensor.sizes().begin(), tensor.sizes().end());
  const auto physical = physical_sizes(tensor.sizes(), format, result.dtype);
  result.physical.append(physical.begin(), physical.end());

  at::Tensor source = tensor.contiguous();
  if (internal_format(*source.unsafeGetTensorImpl())) source = normalized(source);
  at::Tensor out = at::empty({c10::multiply_integers(physical)}, source.options());
  out.unsafeGetTensorImpl()->set_sizes_contiguous(tensor.sizes());
  auto& storage = const_cast<c10::Storage&>(out.storage());
  result.memory = storage.set_data_ptr(c10::DataPtr(nullptr, out.device()));
  if (out.numel() != 0) {
    const RawDescriptor to(result);
    const Descriptor<const aclTensor*> from(source);
    transform(from.get(), to.get());
  }
  storage.set_data_ptr_noswap(memory::wrap_formatted(std::move(result)));
  memory::describe_again(*storage.unsafeGetStorageImpl());
  return out;
}

at::Tensor raw_memory(const at::Tensor& tensor) {
  const auto& storage = tensor.storage();
  const auto bytes = static_cast<int64_t>(storage.nbytes());
  at::Tensor host = at::empty({bytes}, at::TensorOptions().dtype(at::kByte));
  const core::DeviceGuard guard(tensor.device().index());
  NPU_CHECK(acl::aclrtSynchronizeStream(core::current_raw_stream()));
  core::throw_kept_failure(tensor.device().index(), core::current_raw_stream());
  if (bytes) NPU_CHECK(acl::aclrtMemcpy(host.mutable_data_ptr(), bytes, storage.data(), bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  return host;
}

at::Tensor normalized(const at::Tensor& tensor) {
  const auto& impl = *tensor.unsafeGetTensorImpl();
  const core::DeviceGuard guard(tensor.device().index());
  const auto* memory = internal_format(impl);
  if (!memory) return tensor;
  at::Tensor base = base_copy(*memory, impl.unsafe_storage().nbytes(), tensor.device());
  auto view = c10::make_intrusive<c10::TensorImpl>(c10::Storage(base.storage()), impl.key_set(), impl.dtype());
  view->set_sizes_and_strides(impl.sizes(), impl.strides());
  view->set_storage_offset(impl.storage_offset());
  return at::Tensor(std::move(view));
}

c10::Storage formatted_copy(const c10::Storage& storage) {
  const auto* memory = memory::internal_format(storage.data_ptr());
  if (!memory) return {};
  const core::DeviceGuard guard(storage.device().index());
  const auto bytes = static_cast<int64_t>(storage.nbytes());
  at::Tensor copy = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(storage.device()));
  auto& fresh = const_cast<c10::Storage&>(copy.storage());
  memory::FormattedMemory result{fresh.set_data_ptr(c10::DataPtr(nullptr, storage.device())), memory->format, memory->dtype,
                                 memory->sizes, memory->physical};
  if (bytes) {
    const auto stream = core::current_raw_stream();
    NPU_CHECK(
        acl::aclrtMemcpyAsync(result.memory.get(), bytes, memory->memory.get(), bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  }
  fresh.set_data_ptr_noswap(memory::wrap_formatted(std::move(result)));
  memory::describe_again(*fresh.unsafeGetStorageImpl());
  return fresh;
}

void take_memory(const c10::Storage& to, const c10::Storage& from) {
  auto& source = const_cast<c10::Storage&>(from);
  to.unsafeGetStorageImpl()->set_nbytes(source.nbytes());
  to.unsafeGetStorageImpl()->set_data_ptr_noswap(source.set_data_ptr(c10::DataPtr(nullptr, to.device())));
  memory::describe_as(*to.unsafeGetStorageImpl(), *from.unsafeGetStorageImpl());
}

void normalize_storage(const c10::Storage& storage) {
  const auto* memory = memory::internal_format(storage.data_ptr());
  if (!memory) return;
  const core::DeviceGuard guard(storage.device().index());
  take_memory(storage, base_copy(*memory, storage.nbytes(), storage.device()).storage());
}

}  // namespace torch_npu::op
