// Convolutions and linear layers with constant weights, computed by oneDNN with what follows them.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "model/activation.h"

namespace softcann::model {

// Note [Packed weights]
// oneDNN keeps weights in an order of its own, and ATen's operators bring them into it at each call. A Product does so once, at
// its first run: for a convolution the best order depends on the size of the image, which only a run knows, and loading a model
// stays a matter of mapping its file. The plain weights are not touched after that, so that their mapped pages are given back.
// Where nothing but a sum and a clamp follows, loops of our own compute (src/op/kernels/channels_last_conv.h), by packed weights
// too. A convolution that meets more sizes than it keeps weights for is left to ATen. Of float16, products are computed in
// float32, as libopapi does it (SOFTCANN_GEMM), and rounded once; the loops do so strip by strip, with whatever activation, and
// keep the weights in float16, so that the model takes half of the memory as it should.

struct ProductOf {
  at::Tensor weight, bias;  // bias may be undefined
  bool adds = false;        // a tensor of the output's size, before the activation
  Activation activation;
  bool is_mapped = false;  // the weight lies in a mapped file
};

class Product {
 public:
  virtual ~Product() = default;
  // float32 or float16, as the input is. Nothing where this input, or this size of `other`, is left to ATen. May be called from
  // several threads.
  virtual std::optional<at::Tensor> run(const at::Tensor& input, const at::Tensor& other) const = 0;
};

struct ConvolutionSizes {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
};

// Null where torch was built without oneDNN, or it is switched off.
std::shared_ptr<const Product> make_convolution(ProductOf of, ConvolutionSizes sizes);
std::shared_ptr<const Product> make_linear(ProductOf of);

}  // namespace softcann::model
