// What a saved tensor says about the storage format of its memory, in the words of the published torch_npu, so that files of
// either are read by the other. The bytes in the file are those of the base format.
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include "op/formats.h"

namespace torch_npu::op {
namespace {

using Metadata = std::unordered_map<std::string, bool>;

struct Name {
  int64_t format;
  std::string_view name;
};
constexpr std::array kNames = {
    Name{ACL_FORMAT_ND, "ND"},
    Name{ACL_FORMAT_NCHW, "NCHW"},
    Name{ACL_FORMAT_NCDHW, "NCDHW"},
    Name{ACL_FORMAT_NC1HWC0, "NC1HWC0"},
    Name{ACL_FORMAT_FRACTAL_Z, "FRACTAL_Z"},
    Name{ACL_FORMAT_NC1HWC0_C04, "NC1HWC0_C04"},
    Name{ACL_FORMAT_FRACTAL_NZ, "FRACTAL_NZ"},
    Name{ACL_FORMAT_NDC1HWC0, "NDC1HWC0"},
    Name{ACL_FRACTAL_Z_3D, "FRACTAL_Z_3D"},
};
constexpr std::string_view kFormat = "npu_format_/", kSizes = "base_sizes_/";

std::string name_of(int64_t format) {
  for (const auto& known : kNames) {
    if (known.format == format) return std::string(known.name);
  }
  return std::to_string(format);
}

// Metadata is flags: a value is part of the flag's name, numbers each with a slash behind it.
std::string joined(at::IntArrayRef numbers) {
  std::string text;
  for (const auto number : numbers) text += std::to_string(number) + '/';
  return text;
}

void describe(const at::Tensor& tensor, Metadata& metadata) {
  if (!tensor.has_storage()) return;
  const auto* memory = internal_format(*tensor.unsafeGetTensorImpl());
  if (!memory || memory->dtype != tensor.scalar_type()) return;
  int64_t stride = 1;
  at::DimVector strides(memory->sizes.size());
  for (size_t i = strides.size(); i-- > 0; stride *= memory->sizes[i]) strides[i] = stride;
  const auto sizes = joined(memory->sizes);
  metadata[std::string(kFormat) + name_of(memory->format)] = true;
  metadata[std::string(kSizes) + sizes] = true;
  metadata["storage_sizes_/" + sizes] = true;
  metadata["base_strides_/" + joined(strides)] = true;
  metadata["origin_format_/" + name_of(base_format(memory->format, static_cast<int64_t>(strides.size())))] = true;
}

// What follows `prefix` in the one flag that begins with it.
std::optional<std::string> value_of(const Metadata& metadata, std::string_view prefix) {
  for (const auto& [flag, set] : metadata) {
    if (set && flag.rfind(prefix, 0) == 0) return flag.substr(prefix.size());
  }
  return std::nullopt;
}

// Files are not trusted: sizes that are none, or more than the storage holds, give nothing.
std::optional<at::DimVector> sizes_of(const std::string& text, uint64_t most) {
  at::DimVector sizes;
  uint64_t elements = 1;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('/', begin);
    if (end == std::string::npos || end == begin || end - begin > 18) return std::nullopt;
    const auto digits = text.substr(begin, end - begin);
    if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
    sizes.push_back(std::stoll(digits));
    if (sizes.back() == 0 || static_cast<uint64_t>(sizes.back()) > most / elements) return std::nullopt;
    elements *= static_cast<uint64_t>(sizes.back());
    begin = end + 1;
  }
  if (sizes.empty()) return std::nullopt;
  return sizes;
}

void restore(const at::Tensor& tensor, Metadata& metadata) {
  const auto name = value_of(metadata, kFormat), sizes_text = value_of(metadata, kSizes);
  if (!name || !sizes_text || !tensor.has_storage() || !internal_formats_allowed()) return;
  auto& impl = *tensor.unsafeGetTensorImpl();
  if (internal_format(impl)) return;  // by another tensor of the same storage
  const auto sizes = sizes_of(*sizes_text, tensor.storage().nbytes() / tensor.element_size());
  for (const auto& known : kNames) {
    if (!sizes || known.name != *name || is_base_format(known.format)) continue;
    auto whole = c10::make_intrusive<c10::TensorImpl>(c10::Storage(tensor.storage()), impl.key_set(), impl.dtype());
    whole->set_sizes_contiguous(*sizes);
    const at::Tensor cast = cast_to_format(at::Tensor(std::move(whole)), known.format);
    take_memory(tensor.storage(), cast.storage());
  }
}

// When the library is loaded, for torch asks from then on.
[[maybe_unused]] const bool kRegistered = [] {
  torch::jit::TensorBackendMetaRegistry(c10::DeviceType::PrivateUse1, &describe, &restore);
  return true;
}();

}  // namespace
}  // namespace torch_npu::op
