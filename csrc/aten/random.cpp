// Random numbers. PyTorch's own templates check the arguments; the kernels here draw.
#include <cmath>

#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include "aten/argument_checks.h"
#include "aten/custom/dropout.h"
#include "aten/factory.h"
#include "core/capture.h"
#include "core/generator.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnInplaceNormal);
NPU_OPERATOR(aclnnInplaceUniform);
NPU_OPERATOR(aclnnInplaceNormalTensor);
NPU_OPERATOR(aclnnInplaceUniformTensor);
NPU_OPERATOR(aclnnInplaceRandomTensor);
NPU_OPERATOR(aclnnMultinomialTensor);
NPU_OPERATOR(aclnnInplaceRandom);
NPU_OPERATOR(aclnnInplaceBernoulli);
NPU_OPERATOR(aclnnInplaceBernoulliTensor);
NPU_OPERATOR(aclnnRandperm);
NPU_OPERATOR(aclnnMultinomial);
NPU_OPERATOR(aclnnRReluWithNoise);

namespace {

using Generator = std::optional<at::Generator>;
namespace templates = at::native::templates;

// One dimension where the memory allows it: torch allows more of them than a descriptor holds.
at::Tensor fewer_dims(const at::Tensor& self) { return self.dim() > 8 && self.is_contiguous() ? self.view(-1) : self; }

// CANN has some operators only in a form whose numbers a graph cannot change: there they are made of those that it can.
bool in_capture() { return core::any_capture() && core::is_capturing(core::current_stream()); }

// An operator that draws into `out`: with the generator's numbers, or in a capture in the form that takes them from tensors.
template <class Op, class OpOfTensors, class A>
void draw_into(const Op& op, const OpOfTensors& of_tensors, const at::Tensor& out, A first, A second,
               const Generator& generator) {
  const auto d = core::draw(generator, out.numel());
  if (d.captured()) {
    op::run(of_tensors, out, first, second, d.seed_tensor, d.offset_tensor, d.offset);
  } else {
    op::run(op, out, first, second, d.seed, d.offset);
  }
}

// The result of a call that draws. The generator goes on with it as in the published torch_npu, even where torch's templates
// return because there is nothing to draw.
template <class Result>
Result&& counted(Result&& drawn, const Generator& generator) {
  if (drawn.numel() == 0) (void)core::draw(generator, 1);
  return std::forward<Result>(drawn);
}

// Uniform numbers in [0, 1) in a dtype the transformations below can work in.
at::Tensor uniform_like(const at::Tensor& self, const Generator& generator) {
  const auto type = self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return empty_like_with(self, self.sizes(), type).uniform_(0, 1, generator);
}

template <class>
struct NormalKernel {
  void operator()(const at::TensorBase& self, double mean, double std, const Generator& generator) {
    draw_into(aclnnInplaceNormal, aclnnInplaceNormalTensor, fewer_dims(at::Tensor(self)), mean, std, generator);
  }
};

template <class>
struct UniformKernel {
  void operator()(at::TensorIteratorBase& iter, double from, double to, const Generator& generator) {
    draw_into(aclnnInplaceUniform, aclnnInplaceUniformTensor, fewer_dims(iter.tensor(0)), from, to, generator);
  }
};

void draw_integers(const at::Tensor& self, int64_t from, int64_t to, const Generator& generator) {
  // CANN draws no unsigned integers of more than 8 bits.
  if (at::isBarebonesUnsignedType(self.scalar_type())) {
    const auto drawn = empty_like_with(self, self.sizes(), at::kLong);
    draw_integers(drawn, from, to, generator);
    self.copy_(drawn);
    return;
  }
  draw_into(aclnnInplaceRandom, aclnnInplaceRandomTensor, self, from, to, generator);
}

template <class>
struct RandomFromToKernel {
  void operator()(at::TensorIteratorBase& iter, uint64_t range, int64_t base, const Generator& generator) {
    draw_integers(iter.tensor(0), base, static_cast<int64_t>(base + range), generator);
  }
  // All 2^64 values.
  void operator()(at::TensorIteratorBase& iter, const Generator& generator) {
    const auto self = iter.tensor(0);
    auto low = empty_like_with(self, self.sizes(), at::kLong), high = empty_like_with(self, self.sizes(), at::kLong);
    draw_integers(low, 0, int64_t(1) << 32, generator);
    draw_integers(high, 0, int64_t(1) << 32, generator);
    const_cast<at::Tensor&>(self).copy_(high.bitwise_left_shift_(32).bitwise_or_(low));
  }
};

// The largest range in which the dtype holds every integer exactly, as torch.Tensor.random_ promises.
int64_t largest_random(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return int64_t(1) << 53;
    case at::kFloat:
      return int64_t(1) << 24;
    case at::kHalf:
      return int64_t(1) << 11;
    case at::kBFloat16:
      return int64_t(1) << 8;
    case at::kBool:
      return 1;
    case at::kByte:
      return 255;
    case at::kChar:
      return 127;
    case at::kShort:
      return 32767;
    case at::kInt:
      return 2147483647;
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

template <class>
struct RandomKernel {
  void operator()(at::TensorIteratorBase& iter, const Generator& generator) {
    const auto self = iter.tensor(0);
    const auto type = self.scalar_type();
    const auto largest = largest_random(type);
    const bool half_open = at::isFloatingType(type) || largest == std::numeric_limits<int64_t>::max();
    draw_integers(self, 0, half_open ? largest : largest + 1, generator);
  }
};

template <class>
struct BernoulliKernel {
  void operator()(const at::TensorBase& self, double p, const Generator& generator) {
    if (in_capture()) return draw_below(at::Tensor(self), at::scalar_tensor(p), generator);
    const auto [seed, offset] = core::philox_state(generator, self.numel());
    op::run(aclnnInplaceBernoulli, at::Tensor(self), at::Scalar(p), seed, offset);
  }
  void operator()(const at::TensorBase& self, const at::TensorBase& p, const Generator& generator) {
    const auto probabilities = at::Tensor(p).to(self.device()).expand(self.sizes());
    if (in_capture()) return draw_below(at::Tensor(self), probabilities, generator);
    const auto [seed, offset] = core::philox_state(generator, self.numel());
    op::run(aclnnInplaceBernoulliTensor, at::Tensor(self), probabilities, seed, offset);
  }

 private:
  static void draw_below(const at::Tensor& self, const at::Tensor& p, const Generator& generator) {
    self.copy_(uniform_like(self, generator).lt(p));
  }
};

using Rng = core::GeneratorImpl;

}  // namespace

at::Tensor& normal_(at::Tensor& self, double mean, double std, std::optional<at::Generator> generator) {
  at::assert_no_internal_overlap(self);
  return counted(templates::normal_impl_<NormalKernel, Rng>(self, mean, std, generator), generator);
}
at::Tensor normal_tensor_float(const at::Tensor& mean, double std, std::optional<at::Generator> generator) {
  return counted(templates::normal_impl<NormalKernel, Rng>(mean, std, generator), generator);
}
at::Tensor& normal_tensor_float_out(const at::Tensor& mean, double std, std::optional<at::Generator> generator, at::Tensor& out) {
  return counted(templates::normal_out_impl<NormalKernel, Rng>(out, mean, std, generator), generator);
}
at::Tensor normal_float_tensor(double mean, const at::Tensor& std, std::optional<at::Generator> generator) {
  return counted(templates::normal_impl<NormalKernel, Rng>(mean, std, generator), generator);
}
at::Tensor& normal_float_tensor_out(double mean, const at::Tensor& std, std::optional<at::Generator> generator, at::Tensor& out) {
  return counted(templates::normal_out_impl<NormalKernel, Rng>(out, mean, std, generator), generator);
}
at::Tensor normal_tensor_tensor(const at::Tensor& mean, const at::Tensor& std, std::optional<at::Generator> generator) {
  return counted(templates::normal_impl<NormalKernel, Rng>(mean, std, generator), generator);
}
at::Tensor& normal_tensor_tensor_out(const at::Tensor& mean, const at::Tensor& std, std::optional<at::Generator> generator,
                                     at::Tensor& out) {
  return counted(templates::normal_out_impl<NormalKernel, Rng>(out, mean, std, generator), generator);
}

at::Tensor& uniform_(at::Tensor& self, double from, double to, std::optional<at::Generator> generator) {
  return counted(templates::uniform_impl_<UniformKernel, Rng>(self, from, to, generator), generator);
}

at::Tensor& random_(at::Tensor& self, std::optional<at::Generator> generator) {
  return counted(templates::random_impl<RandomKernel, Rng>(self, generator), generator);
}
at::Tensor& random_from(at::Tensor& self, int64_t from, std::optional<int64_t> to, std::optional<at::Generator> generator) {
  return counted(templates::random_from_to_impl<RandomFromToKernel, Rng>(self, from, to, generator), generator);
}
at::Tensor& random_to(at::Tensor& self, int64_t to, std::optional<at::Generator> generator) {
  return random_from(self, 0, to, std::move(generator));
}

at::Tensor& bernoulli_float(at::Tensor& self, double p, std::optional<at::Generator> generator) {
  return counted(templates::bernoulli_impl_<BernoulliKernel, Rng>(self, p, generator), generator);
}
at::Tensor& bernoulli_tensor(at::Tensor& self, const at::Tensor& p, std::optional<at::Generator> generator) {
  return counted(templates::bernoulli_impl_<BernoulliKernel, Rng>(self, p, generator), generator);
}
at::Tensor& bernoulli_out(const at::Tensor& self, std::optional<at::Generator> generator, at::Tensor& out) {
  check_apart(out, {self});
  return counted(templates::bernoulli_out_impl<BernoulliKernel, Rng>(out, self, generator), generator);
}

at::Tensor& exponential_(at::Tensor& self, double lambd, std::optional<at::Generator> generator) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "Exponential distribution is a continuous probability distribution. "
              "dtype must be a floating point but you specified ",
              self.dtype());
  TORCH_CHECK(lambd > 0.0, "exponential_ expects lambda > 0.0, but found lambda=", lambd);
  if (std::isinf(lambd)) return self.zero_();
  // 1 - u is in (0, 1], so its logarithm is finite; tiny keeps the promise that no zero is drawn.
  const double tiny = self.scalar_type() == at::kHalf ? std::ldexp(1.0, -24) : std::numeric_limits<float>::min();
  return self.copy_(uniform_like(self, generator).neg_().log1p_().div_(-lambd).clamp_min_(tiny));
}

at::Tensor& log_normal_(at::Tensor& self, double mean, double std, std::optional<at::Generator> generator) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()), "\"log_normal\" not implemented for '", self.scalar_type(),
                              "'");
  TORCH_CHECK(std > 0.0, "log_normal_ expects std > 0.0, but found std=", std);
  return self.normal_(mean, std, std::move(generator)).exp_();
}

at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, std::optional<at::Generator> generator) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "Cauchy distribution is a continuous probability distribution. "
              "dtype must be a floating point but you specified ",
              self.dtype());
  TORCH_CHECK(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  return self.copy_(uniform_like(self, generator).sub_(0.5).mul_(M_PI).tan_().mul_(sigma).add_(median));
}

at::Tensor& geometric_(at::Tensor& self, double p, std::optional<at::Generator> generator) {
  TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  const auto type = self.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(type) || at::isIntegralType(type, /*includeBool=*/false),
                              "\"geometric\" not implemented for '", type, "'");
  return self.copy_(uniform_like(self, generator).neg_().log1p_().div_(std::log1p(-p)).ceil_().clamp_min_(1));
}

at::Tensor& randperm_generator_out(int64_t n, std::optional<at::Generator> generator, at::Tensor& result) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  const auto type = result.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(type) || at::isIntegralType(type, /*includeBool=*/false),
                              "\"randperm\" not implemented for '", type, "'");
  at::native::check_supported_max_int_with_precision(n, result);
  result.resize_({n});
  if (n == 0) return counted(result, generator);
  if (in_capture()) {
    auto keys = empty_like_with(result, {n}, at::kLong);
    draw_integers(keys, 0, std::numeric_limits<int64_t>::max(), generator);
    return result.copy_(keys.argsort());
  }
  const auto [seed, offset] = core::philox_state(generator, n);
  if (type == at::kLong) {
    op::run(aclnnRandperm, n, seed, offset, result);
  } else {
    auto order = empty_like_with(result, {n}, at::kLong);
    op::run(aclnnRandperm, n, seed, offset, order);
    result.copy_(order);
  }
  return result;
}

namespace {

// As torch checks them, which has to wait for the NPU: in a capture they are not.
void check_probabilities(const at::Tensor& self) {
  TORCH_CHECK(self.max().lt(INFINITY).logical_and_(self.min().ge(0)).item<bool>(),
              "probability tensor contains either `inf`, `nan` or element < 0");
  TORCH_CHECK(!self.sum(-1).eq(0).any().item<bool>(), "invalid multinomial distribution (sum of probabilities <= 0)");
}

}  // namespace

at::Tensor& multinomial_out(const at::Tensor& self, int64_t num_samples, bool replacement, std::optional<at::Generator> generator,
                            at::Tensor& result) {
  constexpr int64_t kMostCategories = int64_t{1} << 24;
  TORCH_CHECK(result.device() == self.device(), "multinomial arguments must have the same device");
  TORCH_CHECK(result.scalar_type() == at::kLong, "multinomial expects Long tensor out, got: ", result.scalar_type());
  TORCH_CHECK(num_samples > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(self.dim() == 1 || self.dim() == 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(replacement || num_samples <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  TORCH_CHECK(self.size(-1) <= kMostCategories, "number of categories cannot exceed 2^24");
  const auto sizes = self.dim() == 1 ? at::DimVector{num_samples} : at::DimVector{self.size(0), num_samples};
  result.resize_(sizes);
  if (result.numel() == 0) return counted(result, generator);
  if ((!replacement || num_samples == 1) && !in_capture()) check_probabilities(self);
  const auto d = core::draw(generator, result.numel());
  if (d.captured()) {
    op::run(aclnnMultinomialTensor, self, num_samples, replacement, d.seed_tensor, d.offset_tensor, d.offset, result);
  } else {
    op::run(aclnnMultinomial, self, num_samples, replacement, d.seed, d.offset, result);
  }
  return result;
}

at::Tensor multinomial(const at::Tensor& self, int64_t num_samples, bool replacement, std::optional<at::Generator> generator) {
  auto result = empty_like_with(self, {0}, at::kLong);
  return multinomial_out(self, num_samples, replacement, std::move(generator), result);
}

// The bits are CANN's, so that a seed drops what it drops in the published torch_npu; the mask is an ordinary bool tensor,
// as PyTorch's double backward, its meta functions and users of native_dropout expect.
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  const auto as_mask = input.options().dtype(at::kBool);
  if (!train.value_or(true) || p == 0) return {input.clone(), at::ones_like(input, as_mask)};
  if (p == 1) return {at::zeros_like(input), at::zeros_like(input, as_mask)};
  if (input.numel() == 0) return {counted(at::zeros_like(input), std::nullopt), at::zeros_like(input, as_mask)};
  const auto like = empty_like_with(input, {0}, is_dropped_by_cann(input.scalar_type()) ? input.scalar_type() : at::kFloat);
  const auto bits = dropout_mask(like, input.numel(), p, core::draw(std::nullopt, input.numel()));
  const auto ones = at::ones_like(input, input.options().dtype(at::kHalf));
  const auto mask = dropout_by_mask(ones, bits, p, at::empty_like(ones)).to(at::kBool);
  if (is_dropped_by_cann(input.scalar_type())) return {dropout_by_mask(input, bits, p, at::empty_like(input)), mask};
  return {input.mul(mask).mul_(1.0 / (1 - p)), mask};
}

at::Tensor native_dropout_backward(const at::Tensor& grad_output, const at::Tensor& mask, double scale) {
  const auto kept = grad_output.mul(mask);
  return at::isIntegralType(kept.scalar_type(), true) ? kept.mul(scale) : kept.mul_(scale);
}

at::Tensor& rrelu_with_noise_out(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                                 bool training, Generator generator, at::Tensor& out) {
  TORCH_CHECK(self.sym_sizes() == noise.sym_sizes(),
              "noise tensor shape must match self tensor shape. Got self.shape = ", self.sizes(),
              " noise.shape = ", noise.sizes());
  TORCH_CHECK(lower.toDouble() <= upper.toDouble(), "Lower bound should be less than or equal to the upper bound");
  at::native::resize_output(out, self.sizes());
  if (training && in_capture()) {
    const auto slope = uniform_like(self, generator).mul_(upper.toDouble() - lower.toDouble()).add_(lower);
    noise.copy_(at::where(self.gt(0), at::ones_like(slope), slope));
    return at::mul_out(out, self, noise);
  }
  const auto [seed, offset] = core::philox_state(generator, training ? self.numel() : 0);
  op::run(aclnnRReluWithNoise, self, noise, lower, upper, training, seed, offset, out);
  return out;
}
at::Tensor rrelu_with_noise(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                            bool training, Generator generator) {
  auto out = empty_like_with(self, self.sizes());
  return native::rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), out);
}
at::Tensor& rrelu_with_noise_(at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                              bool training, Generator generator) {
  at::assert_no_internal_overlap(self);
  return native::rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), self);
}

}  // namespace torch_npu::native
