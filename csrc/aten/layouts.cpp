// Sparse, nested and quantized tensors of the NPU.
//
// Note [Layouts]
// Such a tensor is made of dense ones, and these lie on the NPU. Most of torch's functions for them are made of operators on
// those parts; the generated register_layouts.cpp takes them as they are. For what torch wrote for the CPU alone, CANN has no
// operator either: the tensors are taken apart, their parts copied to the CPU and put together there, and the results go the
// same way back. It is counted and warned of like every other operator that runs on the CPU.
#include <unordered_map>
#include <vector>

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/Functions.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/ops/_empty_affine_quantized_native.h>
#include <ATen/ops/_empty_per_channel_affine_quantized_native.h>
#include <ATen/ops/empty_native.h>
#include <ATen/quantized/Quantizer.h>
#include <torch/library.h>

#include "aten/fallback.h"
#include "core/device.h"

namespace torch_npu::native {
namespace {

bool is_compressed(const at::Tensor& tensor) {
  const auto layout = tensor.layout();
  return layout == at::kSparseCsr || layout == at::kSparseCsc || layout == at::kSparseBsr || layout == at::kSparseBsc;
}

at::SparseTensorImpl& coo(const at::Tensor& tensor) { return *static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl()); }

at::SparseCsrTensorImpl& compressed(const at::Tensor& tensor) {
  return *static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
}

// The whole storage as a tensor of bytes.
at::Tensor bytes_of(const at::Tensor& tensor) {
  const auto& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  const auto count = static_cast<int64_t>(storage.nbytes());
  return at::empty({0}, at::TensorOptions(at::kByte).device(tensor.device())).set_(storage, 0, {count}, {1});
}

at::QuantizerPtr quantizer_on(const at::Tensor& tensor, at::Device device) {
  auto quantizer = static_cast<at::QTensorImpl*>(tensor.unsafeGetTensorImpl())->quantizer();
  const auto* channels = dynamic_cast<const at::PerChannelAffineQuantizer*>(quantizer.get());
  if (channels == nullptr) return quantizer;
  return at::make_per_channel_affine_quantizer(channels->scales().to(device), channels->zero_points().to(device),
                                               channels->axis(), tensor.scalar_type());
}

// Not at::new_qtensor: with QNNPACK as engine it takes the CPU's memory whatever the device.
at::Tensor quantized_in(at::Storage storage, const at::Tensor& model) {
  const auto device = storage.device();
  const auto key = device.is_cpu() ? c10::DispatchKey::QuantizedCPU : c10::DispatchKey::QuantizedPrivateUse1;
  auto result = at::detail::make_tensor<at::QTensorImpl>(std::move(storage), c10::DispatchKeySet(key), model.dtype(),
                                                         quantizer_on(model, device));
  result.unsafeGetTensorImpl()->set_sizes_and_strides(model.sizes(), model.strides(), model.storage_offset());
  return result;
}

at::Tensor quantized_on(const at::Tensor& tensor, at::Device device) {
  return quantized_in(bytes_of(tensor).to(device).storage(), tensor);
}

// The tensor, of any layout, on another device.
at::Tensor moved(const at::Tensor& tensor, at::Device device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  const auto options = tensor.options().device(device);
  if (tensor.layout() == at::kSparse) {
    const auto& impl = coo(tensor);
    return at::_sparse_coo_tensor_with_dims_and_tensors(impl.sparse_dim(), impl.dense_dim(), tensor.sizes(),
                                                        impl.indices().to(device), impl.values().to(device), options,
                                                        impl.coalesced());
  }
  if (is_compressed(tensor)) {
    const auto& impl = compressed(tensor);
    return at::_sparse_compressed_tensor_unsafe(impl.compressed_indices().to(device), impl.plain_indices().to(device),
                                                impl.values().to(device), tensor.sizes(), options);
  }
  if (tensor.is_nested()) {
    const auto* impl = at::native::get_nested_tensor_impl(tensor);
    return at::detail::make_tensor<at::native::NestedTensorImpl>(impl->get_unsafe_storage_as_tensor().to(device),
                                                                 impl->get_nested_sizes(), impl->get_nested_strides(),
                                                                 impl->get_storage_offsets());
  }
  return tensor.is_quantized() ? quantized_on(tensor, device) : tensor.to(device);
}

// Gives `target`, which the operator wrote on the CPU, what it has there.
void assign(const at::Tensor& target, const at::Tensor& written) {
  const auto device = target.device();
  if (target.layout() == at::kSparse) {
    const auto& from = coo(written);
    auto& to = coo(target);
    to.raw_resize_(from.sparse_dim(), from.dense_dim(), written.sizes());
    to.set_indices_and_values_unsafe(from.indices().to(device), from.values().to(device));
    to.set_coalesced(from.coalesced());
  } else if (is_compressed(target)) {
    const auto& from = compressed(written);
    compressed(target).set_member_tensors(from.compressed_indices().to(device), from.plain_indices().to(device),
                                          from.values().to(device), written.sizes());
  } else if (target.is_nested() || target.is_quantized()) {
    auto to = bytes_of(target), from = bytes_of(written);
    TORCH_CHECK(to.numel() == from.numel(), "an operator that runs on the CPU cannot resize this ", target.toString());
    to.copy_(from);
  } else {
    if (target.sizes() != written.sizes()) target.resize_(written.sizes());
    target.copy_(written);
  }
}

// The arguments of one call as they go to the CPU.
class HostCall {
 public:
  at::Tensor host(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
    device_ = tensor.device();
    auto& copy = copies_[tensor.unsafeGetTensorImpl()];
    if (!copy.defined()) {
      copy = moved(tensor, at::kCPU);
      // Some operators keep for the backward pass only what their arguments will ask for.
      if (tensor.requires_grad()) copy.set_requires_grad(true);
    }
    return copy;
  }

  c10::IValue host(const c10::IValue& value) {
    if (value.isTensor()) return host(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& tensor : value.toTensorVector()) list.push_back(host(tensor));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
        list.push_back(tensor ? std::optional<at::Tensor>(host(*tensor)) : std::nullopt);
      }
      return list;
    }
    if (value.isDevice() && value.toDevice().is_privateuseone()) {
      device_ = value.toDevice();
      return c10::Device(at::kCPU);
    }
    return value;
  }

  c10::IValue back(const c10::IValue& value) const {
    if (value.isTensor()) return moved(value.toTensor(), device_);
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    for (const auto& tensor : value.toTensorVector()) list.push_back(moved(tensor, device_));
    return list;
  }

  void write_back(const c10::IValue& argument) const {
    auto one = [&](const at::Tensor& tensor) {
      const auto copy = tensor.defined() ? copies_.find(tensor.unsafeGetTensorImpl()) : copies_.end();
      if (copy != copies_.end()) assign(tensor, copy->second);
    };
    if (argument.isTensor()) one(argument.toTensor());
    if (argument.isTensorList()) {
      for (const auto& tensor : argument.toTensorVector()) one(tensor);
    }
  }

 private:
  at::Device device_ = at::kCPU;
  std::unordered_map<c10::TensorImpl*, at::Tensor> copies_;
};

void run_on_parts(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  for (const auto& returned : schema.returns()) {
    TORCH_CHECK_NOT_IMPLEMENTED(!returned.alias_info() || returned.alias_info()->isWrite(), c10::toString(op.operator_name()),
                                " makes a view of a tensor whose layout the NPU does not have; it cannot run on the CPU instead");
  }
  const auto arguments = torch::jit::pop(*stack, schema.arguments().size());
  HostCall call;
  torch::jit::Stack host;
  for (const auto& argument : arguments) host.push_back(call.host(argument));
  {
    at::AutoDispatchBelowADInplaceOrView below;  // the call is differentiated as a whole, further up
    op.callBoxed(&host);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias && alias->isWrite()) call.write_back(arguments[i]);
  }
  for (size_t k = 0; k < host.size(); ++k) {
    const auto* alias = schema.returns()[k].alias_info();
    const c10::IValue* same = nullptr;
    for (size_t i = 0; alias && i < arguments.size(); ++i) {
      const auto* other = schema.arguments()[i].alias_info();
      if (other && other->beforeSets() == alias->beforeSets()) same = &arguments[i];
    }
    stack->push_back(same ? *same : call.back(host[k]));
  }
}

void layout_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { run_counted(op, stack, run_on_parts); }

at::Tensor copy_quantized(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  auto on_cpu = moved(dst, at::kCPU);
  on_cpu.copy_(moved(self, at::kCPU), non_blocking);
  if (!dst.is_cpu()) assign(dst, on_cpu);
  return dst;
}

// Memory of the NPU for what torch's function describes on the CPU.
at::Tensor empty_on(std::optional<at::Device> device, const at::Tensor& model) {
  const auto bytes = static_cast<int64_t>(model.storage().nbytes());
  const auto place = device.value_or(at::Device(at::kPrivateUse1));
  return quantized_in(at::empty({bytes}, at::TensorOptions(at::kByte).device(place)).storage(), model);
}

at::Tensor empty_affine(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                        std::optional<at::Device> device, std::optional<bool> pin_memory, double scale, int64_t zero_point,
                        std::optional<at::MemoryFormat> memory_format) {
  return empty_on(
      device, at::native::empty_affine_quantized(size, dtype, layout, at::kCPU, pin_memory, scale, zero_point, memory_format));
}

at::Tensor empty_per_channel(at::IntArrayRef size, const at::Tensor& scales, const at::Tensor& zero_points, int64_t axis,
                             std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                             std::optional<at::Device> device, std::optional<bool> pin_memory,
                             std::optional<at::MemoryFormat> memory_format) {
  return empty_on(device, at::native::empty_per_channel_affine_quantized(size, scales, zero_points, axis, dtype, layout, at::kCPU,
                                                                         pin_memory, memory_format));
}

at::Tensor empty_unknown(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory,
                         std::optional<at::MemoryFormat> memory_format) {
  return empty_on(device, at::native::empty_unknown_quantized(size, dtype, layout, at::kCPU, pin_memory, memory_format));
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  m.impl("_empty_affine_quantized", empty_affine);
  m.impl("_empty_per_channel_affine_quantized", empty_per_channel);
  m.impl("empty.memory_format", empty_unknown);
  m.impl("_copy_from", copy_quantized);
  // A fallback comes after torch's composite kernel, which asks for an empty quantized tensor of given strides.
  m.impl("clone", torch::CppFunction::makeFromBoxedFunction<&layout_fallback>());
}

// A fallback goes into the table of every operator that PyTorch has, some milliseconds for each key, and no tensor of these
// layouts is made before the device is used: the functions that make one have kernels of their own.
void register_fallbacks() {
  static auto* libraries = new std::vector<torch::Library>;
  for (const auto key : {c10::DispatchKey::SparsePrivateUse1, c10::DispatchKey::SparseCsrPrivateUse1,
                         c10::DispatchKey::NestedTensorPrivateUse1, c10::DispatchKey::QuantizedPrivateUse1}) {
    libraries->emplace_back(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
    libraries->back().fallback(torch::CppFunction::makeFromBoxedFunction<&layout_fallback>());
  }
}

const bool waits = (core::at_first_use(register_fallbacks), true);

}  // namespace
}  // namespace torch_npu::native
