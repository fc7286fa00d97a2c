// A custom operator on one call of CANN, with its gradient: y + a * x.
//
//   import torch, torch_npu, npu_axpy
//   torch.ops.npu_axpy.axpy(2.0, x, y)
#include <Python.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <torch_npu/torch_npu.h>

namespace {

NPU_OPERATOR(aclnnAdd);

at::Tensor axpy_npu(const at::Scalar& a, const at::Tensor& x, const at::Tensor& y) {
  TORCH_CHECK(x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type(), "axpy: x is ", x.scalar_type(), x.sizes(), ", y is ",
              y.scalar_type(), y.sizes(), "; they must agree");
  auto out = at::empty_like(y);
  torch_npu::op::run(aclnnAdd, y, x, a, out);
  return out;
}

at::Tensor axpy(const at::Scalar& a, const at::Tensor& x, const at::Tensor& y) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("npu_axpy::axpy", "").typed<decltype(axpy)>();
  return op.call(a, x, y);
}

class Axpy : public torch::autograd::Function<Axpy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Scalar& a, const at::Tensor& x,
                            const at::Tensor& y) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["a"] = a;
    return axpy(a, x, y);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {at::Tensor(), at::mul(gradients[0], context->saved_data["a"].toScalar()), gradients[0]};
  }
};

at::Tensor axpy_autograd(const at::Scalar& a, const at::Tensor& x, const at::Tensor& y) { return Axpy::apply(a, x, y); }

}  // namespace

TORCH_LIBRARY(npu_axpy, library) { library.def("axpy(Scalar a, Tensor x, Tensor y) -> Tensor"); }
TORCH_LIBRARY_IMPL(npu_axpy, PrivateUse1, library) { library.impl("axpy", axpy_npu); }
TORCH_LIBRARY_IMPL(npu_axpy, AutogradPrivateUse1, library) { library.impl("axpy", axpy_autograd); }

// `import npu_axpy` loads the library; the operator is under torch.ops.
PyMODINIT_FUNC PyInit_npu_axpy() {
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "npu_axpy", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  return PyModule_Create(&definition);
}
