// aten/shape_rules.h: arguments whose form at the C interface is another than ATen's.
#include "aten/shape_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/EmptyTensor.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/as_strided_native.h>

#include "aten/device_constant.h"
#include "aten/factory.h"
#include "core/capture.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnInplaceOne);

int div_mode(const std::optional<std::string_view>& rounding_mode) {
  if (!rounding_mode) return 0;
  if (*rounding_mode == "trunc") return 1;
  TORCH_CHECK(*rounding_mode == "floor", "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '",
              *rounding_mode, "'");
  return 2;
}

int64_t scatter_mode(std::string_view reduce) {
  if (reduce == "add" || reduce == "sum") return 1;
  if (reduce == "multiply" || reduce == "prod") return 2;
  if (reduce == "amax") return 3;
  if (reduce == "amin") return 4;
  TORCH_CHECK(reduce == "mean", "reduce argument must be either sum, prod, mean, amax or amin, got ", reduce, ".");
  return 5;
}

int64_t gelu_mode(std::string_view approximate) {
  if (approximate == "none") return 0;
  TORCH_CHECK(approximate == "tanh", "approximate argument must be either none or tanh.");
  return 1;
}

at::DimVector dims_or_all(const at::Tensor& self, at::OptionalIntArrayRef dims) {
  at::DimVector result;
  if (!dims || dims->empty()) {
    for (int64_t i = 0; i < self.dim(); ++i) result.push_back(i);
  } else {
    for (const auto dim : *dims) result.push_back(at::maybe_wrap_dim(dim, self.dim()));
  }
  return result;
}

at::DimVector dims_or_all(const at::Tensor& self, std::optional<int64_t> dim) {
  return dim ? dims_or_all(self, at::IntArrayRef(*dim)) : dims_or_all(self, at::OptionalIntArrayRef());
}

at::DimVector spatial(at::IntArrayRef values, int64_t rank) {
  if (values.size() == 1) return at::DimVector(rank, values[0]);
  TORCH_CHECK(values.size() == static_cast<size_t>(rank), "expected 1 or ", rank, " numbers for a window, got ", values);
  return at::DimVector(values);
}

at::DimVector spatial(at::IntArrayRef stride, at::IntArrayRef kernel_size, int64_t rank) {
  return spatial(stride.empty() ? kernel_size : stride, rank);
}

at::Tensor cast(const at::Tensor& tensor, at::ScalarType dtype) {
  return tensor.scalar_type() == dtype ? tensor : tensor.to(dtype);
}

const at::Tensor& bool_mask(const at::Tensor& mask, const char* op) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, op, " only supports boolean masks, but got mask with dtype ", mask.scalar_type());
  return mask;
}

at::Tensor class_weights(const std::optional<at::Tensor>& weight, const at::Tensor& scores) {
  if (weight && weight->defined()) return *weight;
  constexpr int64_t most_kept = 1024;
  const int64_t classes = scores.dim() == 1 ? scores.size(0) : scores.size(1);
  const auto ones = [&](int64_t count) {
    const auto made = empty_like_with(scores, {count});
    op::run(aclnnInplaceOne, made);
    return made;
  };
  if (classes > most_kept || scores.scalar_type() != at::kFloat) return ones(classes);
  static DeviceConstant kept;
  return at::native::as_strided_tensorimpl(kept.of(scores.device().index(), [&] { return ones(most_kept); }), {classes}, {1});
}

at::Tensor numbers_on(at::Device device, at::ScalarType dtype, at::ArrayRef<at::Scalar> values) {
  const auto count = static_cast<int64_t>(values.size());
  if (core::any_capture() && core::is_capturing(core::current_stream())) {
    const auto filled = at::empty({count}, at::device(device).dtype(dtype));
    for (int64_t i = 0; i < count; ++i) filled.select(0, i).fill_(values[static_cast<size_t>(i)]);
    return filled;
  }
  auto host = at::detail::empty_cpu({count}, at::kDouble, false, std::nullopt);
  auto* data = host.mutable_data_ptr<double>();
  for (size_t i = 0; i < values.size(); ++i) data[i] = values[i].toDouble();
  return at::Tensor(host).to(dtype).to(device);
}

bool all_equal(at::ArrayRef<at::Scalar> values) {
  if (values.empty()) return false;  // the operator refuses numbers that are missing
  const double first = values[0].toDouble();
  return std::all_of(values.begin(), values.end(), [&](const at::Scalar& value) {
    return value.toDouble() == first && std::signbit(value.toDouble()) == std::signbit(first);
  });
}

double finite_limit(const at::Tensor& self, int sign) {
  switch (at::toRealValueType(self.scalar_type())) {
    case at::kHalf:
      return sign * 65504.0;
    case at::kBFloat16:
      return sign * static_cast<double>(std::numeric_limits<at::BFloat16>::max());
    default:  // CANN takes a float here, so a double's limit would be infinite
      return sign * static_cast<double>(std::numeric_limits<float>::max());
  }
}

bool uniform_lists(std::initializer_list<at::TensorList> lists, at::ArrayRef<at::Scalar> numbers) {
  const auto& first = *lists.begin();
  if (first.empty()) return false;
  const auto dtype = first[0].scalar_type();
  const auto device = first[0].device();
  if (!at::isFloatingType(dtype)) return false;
  for (const auto& list : lists) {
    if (list.size() != first.size()) return false;
    for (size_t i = 0; i < list.size(); ++i) {
      const auto& tensor = list[i];
      if (tensor.scalar_type() != dtype || tensor.device() != device || tensor.sizes() != first[i].sizes()) return false;
    }
  }
  if (!numbers.empty() && numbers.size() != 1 && numbers.size() != first.size()) return false;
  // A bool is refused by some of ATen's operators (sub) and not by others: its own loop decides.
  return std::none_of(numbers.begin(), numbers.end(),
                      [](const at::Scalar& number) { return number.isComplex() || number.isBoolean(); });
}

bool uniform_lists(std::initializer_list<at::TensorList> lists, const at::Tensor& number) {
  return uniform_lists(lists) && number.dim() == 0 && number.scalar_type() == (*lists.begin())[0].scalar_type() &&
         number.device() == (*lists.begin())[0].device();
}

}  // namespace torch_npu::native
