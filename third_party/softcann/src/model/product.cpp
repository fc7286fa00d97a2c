#include "model/product.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>

#include "op/model_memory.h"

namespace softcann::model {
namespace {

using Stack = std::vector<at::IValue>;

// torch's operators of oneDNN, which it has where it was built with it.
struct Mkldnn {
  std::optional<c10::OperatorHandle> convolution, convolution_add, pack_convolution, linear, linear_add, pack_linear;

  Mkldnn() {
    if (!at::globalContext().hasMKLDNN() || !at::globalContext().userEnabledMkldnn()) return;
    const auto find = [](const char* name, const char* overload = "") {
      return c10::Dispatcher::singleton().findSchema({name, overload});
    };
    convolution = find("mkldnn::_convolution_pointwise");
    convolution_add = find("mkldnn::_convolution_pointwise", "binary");
    pack_convolution = find("mkldnn::_reorder_convolution_weight");
    linear = find("mkldnn::_linear_pointwise");
    linear_add = find("mkldnn::_linear_pointwise", "binary");
    pack_linear = find("mkldnn::_reorder_linear_weight");
  }
  bool is_there() const { return convolution && convolution_add && pack_convolution && linear && linear_add && pack_linear; }
};

const Mkldnn& mkldnn() {
  static const Mkldnn found;
  return found;
}

at::Tensor call(const c10::OperatorHandle& op, Stack stack) {
  op.callBoxed(stack);
  return stack[0].toTensor();
}

at::IValue optional(const at::Tensor& tensor) { return tensor.defined() ? at::IValue(tensor) : at::IValue(); }

at::IValue numbers_of(const Activation& activation) {
  c10::List<std::optional<at::Scalar>> list;
  for (const double number : activation.numbers) list.push_back(at::Scalar(number));
  return list;
}

// The whole pages of a constant of a mapped file are read again should they be needed.
void give_back(const at::Tensor& constant) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = (reinterpret_cast<uintptr_t>(constant.const_data_ptr()) + page - 1) / page * page;
  const auto last = (reinterpret_cast<uintptr_t>(constant.const_data_ptr()) + constant.nbytes()) / page * page;
  // Advice: without it the pages merely stay.
  if (last > first) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

class Packed : public Product {
 public:
  explicit Packed(ProductOf of) : of_(std::move(of)), numbers_(numbers_of(of_.activation)) {
    algorithm_ = of_.activation.algorithm ? at::IValue(*of_.activation.algorithm) : at::IValue();
    if (of_.bias.defined()) of_.bias = of_.bias.to(at::kFloat);
  }

  std::optional<at::Tensor> run(const at::Tensor& input, const at::Tensor& other) const override {
    const at::ScalarType type = of_.weight.scalar_type();
    if (input.scalar_type() != type || input.numel() == 0 || !fits(input)) return std::nullopt;
    if (of_.adds && (other.scalar_type() != type || other.sizes() != output_size(input))) return std::nullopt;
    const at::Tensor weight = packed_for(input);
    if (!weight.defined()) return std::nullopt;
    at::Tensor made = compute(ordered(input), of_.adds ? ordered(other) : at::Tensor(), weight);
    return type == at::kFloat ? made : made.to(type);
  }

 protected:
  virtual bool fits(const at::Tensor& input) const = 0;
  virtual std::vector<int64_t> output_size(const at::Tensor& input) const = 0;
  // In float32, and in the order of memory in which oneDNN computes without copies of its own.
  virtual at::Tensor ordered(const at::Tensor& tensor) const = 0;
  virtual at::Tensor packed_for(const at::Tensor& input) const = 0;
  virtual at::Tensor compute(const at::Tensor& input, const at::Tensor& other, const at::Tensor& weight) const = 0;

  // The weight in float32, of which the plain bytes are not needed any more once it is packed.
  at::Tensor pack(const c10::OperatorHandle& packer, Stack how) const {
    how.insert(how.begin(), of_.weight.to(at::kFloat));
    const op::MemoryScope kept(op::MemorySource::torch);
    at::Tensor made = call(packer, std::move(how));
    if (of_.is_mapped) give_back(of_.weight);
    return made;
  }

  ProductOf of_;
  at::IValue numbers_, algorithm_;
  mutable std::mutex mutex_;  // of the packed weights
};

class Convolution final : public Packed {
 public:
  Convolution(ProductOf of, ConvolutionSizes sizes)
      : Packed(std::move(of)),
        sizes_(std::move(sizes)),
        padding_(sizes_.padding),
        stride_(sizes_.stride),
        dilation_(sizes_.dilation) {}

 private:
  static constexpr size_t most_sizes = 2;
  struct Entry {
    std::vector<int64_t> size;
    at::Tensor weight;
  };

  bool fits(const at::Tensor& input) const override {
    if (input.dim() != 4 || input.size(1) != of_.weight.size(1) * sizes_.groups) return false;
    for (const int64_t size : output_size(input)) {
      if (size <= 0) return false;
    }
    return true;
  }

  std::vector<int64_t> output_size(const at::Tensor& input) const override {
    std::vector<int64_t> made{input.size(0), of_.weight.size(0)};
    for (size_t i = 0; i < 2; ++i) {
      const auto axis = static_cast<int64_t>(i) + 2;
      const int64_t covered = sizes_.dilation[i] * (of_.weight.size(axis) - 1) + 1;
      made.push_back((input.size(axis) + 2 * sizes_.padding[i] - covered) / sizes_.stride[i] + 1);
    }
    return made;
  }

  at::Tensor ordered(const at::Tensor& tensor) const override {
    return tensor.to(at::kFloat).contiguous(at::MemoryFormat::ChannelsLast);
  }

  at::Tensor packed_for(const at::Tensor& input) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Entry& entry : entries_) {
      if (input.sizes() == entry.size) return entry.weight;
    }
    if (entries_.size() == most_sizes) return {};
    entries_.push_back({input.sizes().vec(),
                        pack(*mkldnn().pack_convolution, {padding_, stride_, dilation_, sizes_.groups, input.sizes().vec()})});
    return entries_.back().weight;
  }

  at::Tensor compute(const at::Tensor& input, const at::Tensor& other, const at::Tensor& weight) const override {
    Stack stack{input, weight, optional(of_.bias), padding_, stride_, dilation_, sizes_.groups};
    if (!other.defined()) {
      stack.insert(stack.end(), {of_.activation.name, numbers_, algorithm_});
      return call(*mkldnn().convolution, std::move(stack));
    }
    stack.insert(stack.begin() + 1, other);
    const bool activates = of_.activation.name != "none";
    stack.insert(stack.end(),
                 {"add", at::Scalar(1.0), activates ? at::IValue(of_.activation.name) : at::IValue(), numbers_, algorithm_});
    return call(*mkldnn().convolution_add, std::move(stack));
  }

  ConvolutionSizes sizes_;
  at::IValue padding_, stride_, dilation_;  // the same, as operators take them
  mutable std::vector<Entry> entries_;
};

class Linear final : public Packed {
 public:
  using Packed::Packed;

 private:
  bool fits(const at::Tensor& input) const override { return input.dim() >= 2 && input.size(-1) == of_.weight.size(1); }

  std::vector<int64_t> output_size(const at::Tensor& input) const override {
    std::vector<int64_t> made = input.sizes().vec();
    made.back() = of_.weight.size(0);
    return made;
  }

  at::Tensor ordered(const at::Tensor& tensor) const override { return tensor.to(at::kFloat).contiguous(); }

  at::Tensor packed_for(const at::Tensor&) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!weight_.defined()) weight_ = pack(*mkldnn().pack_linear, {at::IValue()});
    return weight_;
  }

  at::Tensor compute(const at::Tensor& input, const at::Tensor& other, const at::Tensor& weight) const override {
    if (other.defined()) return call(*mkldnn().linear_add, {input, other, weight, optional(of_.bias), "add"});
    return call(*mkldnn().linear, {input, weight, optional(of_.bias), of_.activation.name, numbers_, algorithm_});
  }

  mutable at::Tensor weight_;
};

}  // namespace

std::shared_ptr<const Product> make_convolution(ProductOf of, ConvolutionSizes sizes) {
  if (!mkldnn().is_there()) return nullptr;
  return std::make_shared<Convolution>(std::move(of), std::move(sizes));
}

std::shared_ptr<const Product> make_linear(ProductOf of) {
  if (!mkldnn().is_there()) return nullptr;
  return std::make_shared<Linear>(std::move(of));
}

}  // namespace softcann::model
