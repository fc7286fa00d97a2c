#include "model/product.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <sys/mman.h>
#include <unistd.h>

#include <limits>
#include <mutex>

#include "op/kernels/channels_last_conv.h"
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

struct Limits {
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
};

Limits limits_of(const Activation& activation) {
  if (activation.name == "relu") return {0};
  if (activation.name != "hardtanh") return {};
  return {static_cast<float>(activation.numbers[0]), static_cast<float>(activation.numbers[1])};
}

// Computes `made` by loops of our own.
template <class Loops>
void run_loops(const Loops& loops, const op::ConvShape& shape, const Activation& activation, const at::Tensor& input,
               const at::Tensor& other, at::Tensor& made) {
  const auto [low, high] = limits_of(activation);
  if (input.scalar_type() == at::kFloat) {
    const float* added = other.defined() ? other.const_data_ptr<float>() : nullptr;
    return loops.run(shape, input.const_data_ptr<float>(), {added, low, high}, made.mutable_data_ptr<float>());
  }
  op::HalfCall call{input.const_data_ptr<c10::Half>(), nullptr, low, high, {}, made.mutable_data_ptr<c10::Half>()};
  if (other.defined()) call.other = other.const_data_ptr<c10::Half>();
  if (!activation.is_clip()) call.activate = [&](at::Tensor& strip) { apply(activation, strip); };
  loops.run(shape, call);
}

class Packed : public Product {
 public:
  explicit Packed(ProductOf of) : of_(std::move(of)) {
    if (of_.bias.defined()) of_.bias = of_.bias.to(at::kFloat);
  }

  std::optional<at::Tensor> run(const at::Tensor& input, const at::Tensor& other) const override {
    const at::ScalarType type = of_.weight.scalar_type();
    if (input.scalar_type() != type || input.numel() == 0 || !fits(input)) return std::nullopt;
    if (of_.adds && (other.scalar_type() != type || other.sizes() != output_size(input))) return std::nullopt;
    at::Tensor made = compute(ordered(input), of_.adds ? ordered(other) : at::Tensor());
    if (!made.defined()) return std::nullopt;
    return made.to(type);
  }

 protected:
  virtual bool fits(const at::Tensor& input) const = 0;
  virtual std::vector<int64_t> output_size(const at::Tensor& input) const = 0;
  // In the type and the order of memory in which `compute` takes it.
  virtual at::Tensor ordered(const at::Tensor& tensor) const = 0;
  // In any type; undefined where it is left to ATen.
  virtual at::Tensor compute(const at::Tensor& input, const at::Tensor& other) const = 0;

  // What `packer` makes of the weight, whose plain bytes are not needed any more then.
  template <class Packer>
  auto pack(const Packer& packer) const {
    const op::MemoryScope kept(op::MemorySource::torch);
    auto made = packer(of_.weight);
    if (of_.is_mapped) give_back(of_.weight);
    return made;
  }

  // Made at the first run.
  template <class Loops>
  const Loops& packed_loops(std::unique_ptr<Loops>& loops) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!loops) loops = pack([&](const at::Tensor& plain) { return std::make_unique<Loops>(plain, of_.bias); });
    return *loops;
  }

  ProductOf of_;
  mutable std::mutex mutex_;  // of the packed weights
};

class Convolution : public Packed {
 public:
  Convolution(ProductOf of, ConvolutionSizes sizes) : Packed(std::move(of)), sizes_(std::move(sizes)) {}

 protected:
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

  at::Tensor ordered(const at::Tensor& tensor) const override { return tensor.contiguous(at::MemoryFormat::ChannelsLast); }

  ConvolutionSizes sizes_;
};

// What oneDNN is told to compute behind a product, as torch's operators take it; and the rest, which it does not do right.
class LibraryActivation {
 public:
  explicit LibraryActivation(const Activation& whole) : behind_(whole.loses_nan_in_library() ? whole : Activation()) {
    const Activation fused = whole.loses_nan_in_library() ? Activation() : whole;
    name = fused.name;
    numbers = numbers_of(fused);
    if (fused.algorithm) algorithm = *fused.algorithm;
  }
  at::Tensor finish(at::Tensor made) const {
    apply(behind_, made);
    return made;
  }

  at::IValue name, numbers, algorithm;

 private:
  Activation behind_;
};

// By oneDNN.
class LibraryConvolution final : public Convolution {
 public:
  LibraryConvolution(ProductOf of, ConvolutionSizes sizes)
      : Convolution(std::move(of), std::move(sizes)),
        activation_(of_.activation),
        padding_(sizes_.padding),
        stride_(sizes_.stride),
        dilation_(sizes_.dilation) {}

 private:
  static constexpr size_t most_sizes = 2;
  struct Entry {
    std::vector<int64_t> size;
    at::Tensor weight;
  };

  at::Tensor packed_for(const at::Tensor& input) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Entry& entry : entries_) {
      if (input.sizes() == entry.size) return entry.weight;
    }
    if (entries_.size() == most_sizes) return {};
    at::Tensor weight = pack([&](const at::Tensor& plain) {
      return call(*mkldnn().pack_convolution,
                  {plain.to(at::kFloat), padding_, stride_, dilation_, sizes_.groups, input.sizes().vec()});
    });
    entries_.push_back({input.sizes().vec(), std::move(weight)});
    return entries_.back().weight;
  }

  at::Tensor compute(const at::Tensor& input, const at::Tensor& other) const override {
    const at::Tensor weight = packed_for(input);
    if (!weight.defined()) return {};
    Stack stack{input.to(at::kFloat), weight, optional(of_.bias), padding_, stride_, dilation_, sizes_.groups};
    const LibraryActivation& a = activation_;
    if (!other.defined()) {
      stack.insert(stack.end(), {a.name, a.numbers, a.algorithm});
      return a.finish(call(*mkldnn().convolution, std::move(stack)));
    }
    // Behind a sum torch has no other activation than the one that is done here.
    stack.insert(stack.begin() + 1, other.to(at::kFloat));
    stack.insert(stack.end(), {"add", at::Scalar(1.0), at::IValue(), a.numbers, a.algorithm});
    return a.finish(call(*mkldnn().convolution_add, std::move(stack)));
  }

  LibraryActivation activation_;
  at::IValue padding_, stride_, dilation_;  // as operators take them
  mutable std::vector<Entry> entries_;
};

// By loops of our own, see op/kernels/channels_last_conv.cpp.
template <class Loops>
class LoopConvolution final : public Convolution {
 public:
  using Convolution::Convolution;

 private:
  at::Tensor compute(const at::Tensor& input, const at::Tensor& other) const override {
    at::Tensor made = at::empty(output_size(input), input.options(), at::MemoryFormat::ChannelsLast);
    const auto& s = sizes_;
    const int64_t height = of_.weight.size(2), width = of_.weight.size(3);
    const op::ConvShape shape{input.size(0),
                              input.size(1),
                              input.size(2),
                              input.size(3),
                              made.size(2),
                              made.size(3),
                              {height, width},
                              {s.stride[0], s.stride[1]},
                              {s.padding[0], s.padding[1]},
                              {s.dilation[0], s.dilation[1]}};
    run_loops(packed_loops(loops_), shape, of_.activation, input, other, made);
    return made;
  }

  mutable std::unique_ptr<Loops> loops_;
};

bool has_loops(const ProductOf& of) {
  return (of.activation.is_clip() || of.weight.scalar_type() == at::kHalf) && op::has_lanes(of.weight.size(0));
}

bool is_depthwise(const at::Tensor& weight, const ConvolutionSizes& sizes) {
  return weight.size(1) == 1 && weight.size(0) == sizes.groups;
}

class Linear : public Packed {
 public:
  using Packed::Packed;

 protected:
  bool fits(const at::Tensor& input) const override { return input.dim() >= 2 && input.size(-1) == of_.weight.size(1); }

  std::vector<int64_t> output_size(const at::Tensor& input) const override {
    std::vector<int64_t> made = input.sizes().vec();
    made.back() = of_.weight.size(0);
    return made;
  }

  at::Tensor ordered(const at::Tensor& tensor) const override { return tensor.contiguous(); }
};

// By oneDNN.
class LibraryLinear final : public Linear {
 public:
  explicit LibraryLinear(ProductOf of) : Linear(std::move(of)), activation_(of_.activation) {}

 private:
  at::Tensor packed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!weight_.defined()) {
      weight_ = pack([](const at::Tensor& plain) { return call(*mkldnn().pack_linear, {plain.to(at::kFloat), at::IValue()}); });
    }
    return weight_;
  }

  at::Tensor compute(const at::Tensor& input, const at::Tensor& other) const override {
    const at::Tensor weight = packed(), wide = input.to(at::kFloat);
    const LibraryActivation& a = activation_;
    if (other.defined()) return call(*mkldnn().linear_add, {wide, other.to(at::kFloat), weight, optional(of_.bias), "add"});
    return a.finish(call(*mkldnn().linear, {wide, weight, optional(of_.bias), a.name, a.numbers, a.algorithm}));
  }

  LibraryActivation activation_;
  mutable at::Tensor weight_;
};

// By the loops of a convolution of one pixel.
class LoopLinear final : public Linear {
 public:
  using Linear::Linear;

 private:
  at::Tensor compute(const at::Tensor& input, const at::Tensor& other) const override {
    at::Tensor made = at::empty(output_size(input), input.options());
    const int64_t channels = input.size(-1), rows = input.numel() / channels;
    const op::ConvShape shape{1, channels, rows, 1, rows, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}};
    run_loops(packed_loops(loops_), shape, of_.activation, input, other, made);
    return made;
  }

  mutable std::unique_ptr<op::DenseConv> loops_;
};

}  // namespace

std::shared_ptr<const Product> make_convolution(ProductOf of, ConvolutionSizes sizes) {
  if (has_loops(of) && sizes.groups > 1 && is_depthwise(of.weight, sizes)) {
    return std::make_shared<LoopConvolution<op::DepthwiseConv>>(std::move(of), std::move(sizes));
  }
  if (has_loops(of) && sizes.groups == 1 && sizes.dilation[1] == 1) {
    return std::make_shared<LoopConvolution<op::DenseConv>>(std::move(of), std::move(sizes));
  }
  if (!mkldnn().is_there()) return nullptr;
  return std::make_shared<LibraryConvolution>(std::move(of), std::move(sizes));
}

std::shared_ptr<const Product> make_linear(ProductOf of) {
  if (has_loops(of)) return std::make_shared<LoopLinear>(std::move(of));
  if (!mkldnn().is_there()) return nullptr;
  return std::make_shared<LibraryLinear>(std::move(of));
}

}  // namespace softcann::model
