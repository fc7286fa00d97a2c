// Elementwise functions that CANN lacks, exactly as compositions of those it has, or that it has for some dtypes.
#include <limits>

#include <ATen/Functions.h>
#include <ATen/ops/isclose_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/isfinite_compositeimplicitautograd_dispatch.h>

#include "aten/compose.h"
#include "aten/factory.h"
#include "aten/kernel.h"
#include "aten/mixed_dtypes.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnInplaceFillScalar);
NPU_OPERATOR(aclnnInplaceFillTensor);
NPU_OPERATOR(aclnnLeftShift);
NPU_OPERATOR(aclnnRightShift);
NPU_OPERATOR(aclnnEqual);
NPU_OPERATOR(aclnnIsClose);
NPU_OPERATOR(aclnnIsFinite);
NPU_OPERATOR(aclnnNanToNum);

namespace {

// How a floating dtype is laid out, for the functions that work on bits.
struct Layout {
  at::ScalarType bits;
  int mantissa;
  int64_t bias;
  int64_t exponent_mask;
};

Layout layout_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return {at::kLong, 52, 1023, 0x7ff};
    case at::kHalf:
      return {at::kShort, 10, 15, 0x1f};
    case at::kBFloat16:
      return {at::kShort, 7, 127, 0xff};
    default:
      return {at::kInt, 23, 127, 0xff};
  }
}

}  // namespace

// The value is a number wherever it is, and may fill a tensor of the CPU.
at::Tensor& fill_tensor(at::Tensor& self, const at::Tensor& value) {
  (void)one_number(value, "fill_");
  if (is_host_scalar(value)) {
    op::run(aclnnInplaceFillScalar, self, host_scalar(value));
  } else if (value.device() == self.device()) {
    op::run(aclnnInplaceFillTensor, self, value);
  } else {
    self.fill_(value.item());
  }
  return self;
}

namespace {

template <class Shift>
void shift(const Shift& shift, const char* name, const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  const auto [value, amount] = promoted(self, other, out);
  const auto type = value.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(at::isIntegralType(type, /*includeBool=*/false), "\"", name, "\" not implemented for '", type, "'");
  const auto shifted = out.scalar_type() == type ? out : make_plain(out, type);
  op::run(shift, value, amount, shifted);
  if (!shifted.is_same(out)) result(out).copy_(shifted);
}

}  // namespace

void bitwise_left_shift_kernel(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  shift(aclnnLeftShift, "bitwise_left_shift", self, other, out);
}
void bitwise_right_shift_kernel(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  shift(aclnnRightShift, "bitwise_right_shift", self, other, out);
}

at::Tensor lshift(const at::Tensor& self, const at::Tensor& other) { return at::bitwise_left_shift(self, other); }
at::Tensor lshift(const at::Tensor& self, const at::Scalar& other) { return at::bitwise_left_shift(self, other); }
at::Tensor& lshift_(at::Tensor& self, const at::Tensor& other) { return self.bitwise_left_shift_(other); }
at::Tensor& lshift_(at::Tensor& self, const at::Scalar& other) { return self.bitwise_left_shift_(other); }
at::Tensor rshift(const at::Tensor& self, const at::Tensor& other) { return at::bitwise_right_shift(self, other); }
at::Tensor rshift(const at::Tensor& self, const at::Scalar& other) { return at::bitwise_right_shift(self, other); }
at::Tensor& rshift_(at::Tensor& self, const at::Tensor& other) { return self.bitwise_right_shift_(other); }
at::Tensor& rshift_(at::Tensor& self, const at::Scalar& other) { return self.bitwise_right_shift_(other); }

void fmax_kernel(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  const auto [a, b] = promoted(self, other, out);
  auto larger = at::maximum(a, b);
  if (a.is_floating_point()) larger = at::where(a.isnan(), b, at::where(b.isnan(), a, larger));
  result(out).copy_(larger);
}

void fmin_kernel(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  const auto [a, b] = promoted(self, other, out);
  auto smaller = at::minimum(a, b);
  if (a.is_floating_point()) smaller = at::where(a.isnan(), b, at::where(b.isnan(), a, smaller));
  result(out).copy_(smaller);
}

void copysign_kernel(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(!out.is_complex(), "\"copysign\" not implemented for '", out.scalar_type(), "'");
  const auto magnitude = operand(self, out, out.scalar_type()).abs();
  result(out).copy_(at::where(operand(other, out, other.scalar_type()).signbit(), magnitude.neg(), magnitude));
}

// The larger operand is taken out of the root, so that nothing overflows.
void hypot_kernel(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  const auto type = at::result_type(self, other);
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(type), "\"hypot\" not implemented for '", type, "'");
  const auto [x, y] = widened(self, other, out);
  const auto a = x.abs(), b = y.abs();
  const auto larger = at::maximum(a, b), smaller = at::minimum(a, b);
  auto length = larger.mul(smaller.div(larger).square_().add_(1).sqrt_());
  length.masked_fill_(larger.eq(0), 0);
  length.masked_fill_(a.isinf().logical_or(b.isinf()), std::numeric_limits<double>::infinity());
  result(out).copy_(length);
}

// The neighbour's bits, read as an integer, differ by one: floats of one sign are ordered as their bits are.
void nextafter_kernel(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  const auto [from, to] = promoted(self, other, out);
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(from.scalar_type()), "\"nextafter\" not implemented for '", from.scalar_type(),
                              "'");
  const auto layout = layout_of(from.scalar_type());
  const auto sizes = out.sizes();
  const auto a = from.expand(sizes).contiguous(), b = to.expand(sizes).contiguous();
  const auto bits = a.view(layout.bits);
  const auto away = a.lt(b).eq(a.gt(0));  // from zero
  const auto moved = bits.add(away.to(layout.bits).mul_(2).sub_(1)).view(a.scalar_type());
  const auto smallest = at::full_like(bits, 1).view(a.scalar_type());
  const auto from_zero = at::where(b.signbit(), smallest.neg(), smallest);
  auto next = at::where(a.eq(0), from_zero, moved);
  next = at::where(a.eq(b), b, next);
  next = at::where(a.isnan(), a, at::where(b.isnan(), b, next));
  result(out).copy_(next);
}

std::tuple<at::Tensor&, at::Tensor&> frexp_tensor_out(const at::Tensor& self, at::Tensor& mantissa, at::Tensor& exponent) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()), "torch.frexp() only supports floating-point dtypes");
  TORCH_CHECK(mantissa.dtype() == self.dtype(), "torch.frexp() expects mantissa to have dtype ", self.dtype(), " but got ",
              mantissa.dtype());
  TORCH_CHECK(exponent.dtype() == at::kInt, "torch.frexp() expects exponent to have int dtype but got ", exponent.dtype());
  const auto value = widened(self).contiguous();
  const auto layout = layout_of(value.scalar_type());
  check_apart(mantissa, {self});
  check_apart(exponent, {self});
  // A subnormal number is made normal first.
  const bool is_double = value.scalar_type() == at::kDouble;
  const auto smallest = is_double ? std::numeric_limits<double>::min() : static_cast<double>(std::numeric_limits<float>::min());
  const auto tiny = value.abs().lt(smallest);
  const auto normal = at::where(tiny, value.mul(static_cast<double>(int64_t(1) << layout.mantissa)), value);
  const auto bits = normal.view(layout.bits);
  const int64_t field = layout.exponent_mask << layout.mantissa;
  auto power = bits.bitwise_and(field)
                   .bitwise_right_shift_(layout.mantissa)
                   .sub_(layout.bias - 1)
                   .sub_(tiny.to(layout.bits).mul_(layout.mantissa));
  auto fraction = bits.bitwise_and(~field).bitwise_or_((layout.bias - 1) << layout.mantissa).view(value.scalar_type());
  const auto special = value.eq(0).logical_or_(value.isfinite().logical_not_());
  power.masked_fill_(special, 0);
  give(mantissa, at::where(special, value, fraction));
  give(exponent, power);
  return {mantissa, exponent};
}

namespace {

bool is_real_number(at::ScalarType type) {
  return type == at::kFloat || type == at::kHalf || type == at::kBFloat16 || type == at::kDouble;
}

}  // namespace

at::Tensor isfinite(const at::Tensor& self) {
  if (!is_real_number(self.scalar_type())) return at::compositeimplicitautograd::isfinite(self);
  auto out = at::empty_like(self, self.options().dtype(at::kBool));
  if (out.numel() != 0) op::run(aclnnIsFinite, self, out);
  return out;
}

at::Tensor isclose(const at::Tensor& self, const at::Tensor& other, double rtol, double atol, bool equal_nan) {
  if (mixed(self, other)) {
    const auto common = at::result_type(self, other);
    return native::isclose(cast(self, common), cast(other, common), rtol, atol, equal_nan);
  }
  const auto type = self.scalar_type();
  // Arguments that are refused, and whole numbers, which PyTorch compares exactly, are the composition's.
  if (!is_real_number(type) || other.scalar_type() != type || !self.sizes().equals(other.sizes()) ||
      other.device() != self.device() || rtol < 0 || atol < 0) {
    return at::compositeimplicitautograd::isclose(self, other, rtol, atol, equal_nan);
  }
  auto out = at::empty_like(self, self.options().dtype(at::kBool));
  if (out.numel() != 0) op::run(aclnnIsClose, self, other, rtol, atol, equal_nan, out);
  return out;
}

void entr_kernel(const at::Tensor& self, const at::Tensor& out) {
  const auto x = widened(self);
  auto entropy = x.mul(x.log()).neg_();
  entropy.masked_fill_(x.eq(0), 0).masked_fill_(x.lt(0), -std::numeric_limits<double>::infinity());
  result(out).copy_(entropy);
}

void lcm_kernel(const at::Tensor& self, const at::Tensor& other, const at::Tensor& out) {
  const auto [a, b] = promoted(self, other, out);
  const auto divisor = a.gcd(b);
  const auto multiple = a.div(divisor.masked_fill(divisor.eq(0), 1), "trunc").mul_(b).abs_();
  result(out).copy_(multiple.masked_fill_(divisor.eq(0), 0));
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "Expected all tensors to be on the same device, but found at least two devices, ",
              self.device(), " and ", other.device(), "!");
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  if (self.scalar_type() != other.scalar_type()) {  // under autocast they often differ; CUDA compares them too
    const auto dtype = c10::promoteTypes(self.scalar_type(), other.scalar_type());
    return native::equal(cast(self, dtype), cast(other, dtype));
  }
  auto result = empty_like_with(self, {1}, at::kBool);
  op::run(aclnnEqual, self, other, result);
  return result.item<bool>();
}

// Works on the memory: a conj bit says how to read it and stays.
at::Tensor& conj_physical_(at::Tensor& self) {
  if (!self.is_complex()) return self;
  auto memory = self.detach();
  memory._set_conj(false);
  at::view_as_real(memory).select(-1, 1).neg_();
  return self;
}

at::Tensor& conj_physical_out(const at::Tensor& self, at::Tensor& out) { return native::conj_physical_(give(out, self)); }

at::Tensor& nan_to_num_out(const at::Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                           std::optional<double> neginf, at::Tensor& out) {
  resize_output(out, like(self), self);
  if (self.scalar_type() != at::kDouble) {
    op::run(aclnnNanToNum, self, nan.value_or(0), posinf.value_or(finite_limit(self, 1)), neginf.value_or(finite_limit(self, -1)),
            out);
    return out;
  }
  // CANN takes float32 numbers, in which most of float64's have no place.
  constexpr double kMost = std::numeric_limits<double>::max();
  const auto number = [&](double value) { return at::full({}, value, self.options()); };
  const auto infinite = self.isinf(), positive = self.gt(0);
  auto result = at::where(infinite.logical_and(positive), number(posinf.value_or(kMost)), self);
  result = at::where(infinite.logical_and(positive.logical_not()), number(neginf.value_or(-kMost)), result);
  return out.copy_(at::where(self.isnan(), number(nan.value_or(0)), result));
}

}  // namespace torch_npu::native
