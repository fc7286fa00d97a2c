// Fits a line on npu:0. The argument is a folder with CANN's libraries; the software CANN of the package without one.
#include <cstdio>

#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch_npu/torch_npu.h>

int main(int count, char** arguments) {
  torch_npu::initialize({count > 1 ? arguments[1] : SOFTCANN_LIBRARIES});
  const torch::Device device("npu:0");
  torch::manual_seed(0);
  const auto x = torch::rand({256, 1}).to(device);
  const auto y = 3 * x + 2;

  // torch::nn::Module::to() of C++ cannot move parameters to a device of another package; they are made there instead.
  const auto options = torch::TensorOptions(device).requires_grad(true);
  auto weight = torch::zeros({1, 1}, options), bias = torch::zeros({1}, options);
  torch::optim::SGD optimizer({weight, bias}, 0.5);
  for (int step = 0; step < 200; ++step) {
    optimizer.zero_grad();
    torch::mse_loss(torch::addmm(bias, x, weight), y).backward();
    optimizer.step();
  }
  const float slope = weight.item<float>(), offset = bias.item<float>();
  std::printf("y = %.3f x + %.3f on %s (%s)\n", slope, offset, device.str().c_str(), torch_npu::core::soc_name().c_str());
  return std::abs(slope - 3) < 0.01 && std::abs(offset - 2) < 0.01 ? 0 : 1;
}
