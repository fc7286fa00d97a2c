// Launches that extensions make by themselves: see Note [Prebuilt extensions].
#include <memory>
#include <utility>

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include <acl/acl_op_compiler.h>

#include <torch_npu/acl/library.h>
#include <torch_npu/core/error.h>
#include <torch_npu/op/dtype.h>
#include <torch_npu/op/launch_hooks.h>

#include <torch_npu/csrc/framework/OpCommand.h>

namespace at_npu::native {
namespace {

namespace acl {

using torch_npu::acl::Library;
using torch_npu::acl::Symbol;

#define ACL_SYMBOL(name) const Symbol<decltype(::name)> name(Library::ascendcl, #name)
ACL_SYMBOL(aclCreateTensorDesc);
ACL_SYMBOL(aclSetTensorPlaceMent);
ACL_SYMBOL(aclGetTensorDescNumDims);
ACL_SYMBOL(aclGetTensorDescDimV2);
ACL_SYMBOL(aclDestroyTensorDesc);
ACL_SYMBOL(aclCreateDataBuffer);
ACL_SYMBOL(aclDestroyDataBuffer);
ACL_SYMBOL(aclopCreateAttr);
ACL_SYMBOL(aclopDestroyAttr);
ACL_SYMBOL(aclopSetAttrBool);
ACL_SYMBOL(aclopSetAttrInt);
ACL_SYMBOL(aclopSetAttrFloat);
ACL_SYMBOL(aclopSetAttrString);
ACL_SYMBOL(aclopSetAttrDataType);
ACL_SYMBOL(aclopSetAttrListInt);
ACL_SYMBOL(aclopSetAttrListFloat);
ACL_SYMBOL(aclopSetAttrListBool);
#undef ACL_SYMBOL
const Symbol<decltype(::aclopCompileAndExecuteV2)> aclopCompileAndExecuteV2(Library::op_compiler, "aclopCompileAndExecuteV2");
const Symbol<decltype(::aclopCompileAndExecute)> aclopCompileAndExecute(Library::op_compiler, "aclopCompileAndExecute");

}  // namespace acl

void check(int status, const char* what) {
  if (C10_UNLIKELY(status != 0)) torch_npu::core::throw_cann_error(status, what, __FILE__, __LINE__);
}

// Contiguous tensors as CANN's single operators take them. An undefined one is left out; one of the CPU stays there.
class Operands {
 public:
  explicit Operands(const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& tensor : tensors) {
      const bool given = tensor.defined();
      const auto type = given ? torch_npu::op::acl_type(tensor.scalar_type()) : ACL_DT_UNDEFINED;
      const auto format = given && tensor.dim() == 4   ? ACL_FORMAT_NCHW
                          : given && tensor.dim() == 5 ? ACL_FORMAT_NCDHW
                                                       : ACL_FORMAT_ND;
      descriptors_.push_back(acl::aclCreateTensorDesc(given ? type : ACL_DT_UNDEFINED, given ? static_cast<int>(tensor.dim()) : 0,
                                                      given ? tensor.sizes().data() : nullptr,
                                                      given ? format : ACL_FORMAT_UNDEFINED));
      if (given && tensor.is_cpu())
        check(acl::aclSetTensorPlaceMent(descriptors_.back(), ACL_MEMTYPE_HOST), "aclSetTensorPlaceMent");
      buffers_.push_back(acl::aclCreateDataBuffer(given ? tensor.data_ptr() : nullptr, given ? tensor.nbytes() : 0));
    }
  }
  ~Operands() {
    for (const aclTensorDesc* each : descriptors_) acl::aclDestroyTensorDesc(each);
    for (const aclDataBuffer* each : buffers_) (void)acl::aclDestroyDataBuffer(each);
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  int size() const { return static_cast<int>(descriptors_.size()); }
  aclTensorDesc** descriptors() { return descriptors_.data(); }
  aclDataBuffer** buffers() { return buffers_.data(); }
  std::vector<int64_t> sizes_of(size_t i) const {
    std::vector<int64_t> sizes(acl::aclGetTensorDescNumDims(descriptors_[i]));
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      check(acl::aclGetTensorDescDimV2(descriptors_[i], dim, &sizes[dim]), "aclGetTensorDescDimV2");
    }
    return sizes;
  }

 private:
  std::vector<aclTensorDesc*> descriptors_;
  std::vector<aclDataBuffer*> buffers_;
};

struct Attributes {
  aclopAttr* handle = acl::aclopCreateAttr();

  Attributes() = default;
  ~Attributes() { acl::aclopDestroyAttr(handle); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  void set(const char* name, bool value) { check(acl::aclopSetAttrBool(handle, name, value), name); }
  void set(const char* name, int64_t value) { check(acl::aclopSetAttrInt(handle, name, value), name); }
  void set(const char* name, float value) { check(acl::aclopSetAttrFloat(handle, name, value), name); }
  void set(const char* name, const std::string& value) { check(acl::aclopSetAttrString(handle, name, value.c_str()), name); }
  void set(const char* name, at::ScalarType value) {
    check(acl::aclopSetAttrDataType(handle, name, torch_npu::op::acl_type(value)), name);
  }
  void set(const char* name, const std::vector<int64_t>& value) {
    check(acl::aclopSetAttrListInt(handle, name, static_cast<int>(value.size()), value.data()), name);
  }
  void set(const char* name, const std::vector<float>& value) {
    check(acl::aclopSetAttrListFloat(handle, name, static_cast<int>(value.size()), value.data()), name);
  }
  void set(const char* name, const std::vector<uint8_t>& value) {
    check(acl::aclopSetAttrListBool(handle, name, static_cast<int>(value.size()), value.data()), name);
  }
};

}  // namespace

struct OpCommand::Launch {
  std::string name;
  PROC_FUNC handler;
  std::vector<at::Tensor> inputs, outputs;
  std::vector<std::pair<std::string, Attribute>> attributes;
  bool waits = false;
  std::vector<int64_t> resized;

  void run_operator() const {
    TORCH_CHECK(!outputs.empty(), "OpCommand ", name, " has neither a handler nor an output");
    std::vector<at::Tensor> results;
    for (const at::Tensor& output : outputs) results.push_back(output.contiguous());
    const auto stream = c10_npu::getCurrentNPUStream().stream();
    torch_npu::op::launch_with_hooks({name.c_str(), stream}, [&] {
      Operands in(inputs), out(results);
      Attributes all;
      for (const auto& [key, value] : attributes) {
        std::visit([&all, key = key.c_str()](const auto& each) { all.set(key, each); }, value);
      }
      const int status = resized.empty() ? acl::aclopCompileAndExecute(
                                               name.c_str(), in.size(), const_cast<const aclTensorDesc**>(in.descriptors()),
                                               const_cast<const aclDataBuffer**>(in.buffers()), out.size(),
                                               const_cast<const aclTensorDesc**>(out.descriptors()), out.buffers(), all.handle,
                                               ACL_ENGINE_SYS, ACL_COMPILE_SYS, nullptr, stream)
                                         : acl::aclopCompileAndExecuteV2(name.c_str(), in.size(), in.descriptors(), in.buffers(),
                                                                         out.size(), out.descriptors(), out.buffers(), all.handle,
                                                                         ACL_ENGINE_SYS, ACL_COMPILE_SYS, nullptr, stream);
      check(status, name.c_str());
      for (const int64_t i : resized) results.at(static_cast<size_t>(i)).resize_(out.sizes_of(static_cast<size_t>(i)));
    });
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!results[i].is_same(outputs[i])) outputs[i].resize_(results[i].sizes()).copy_(results[i]);
    }
    if (waits) c10_npu::getCurrentNPUStream().synchronize();
  }
};

OpCommand::OpCommand() : launch_(new Launch) {}

OpCommand& OpCommand::Name(const std::string& name) {
  launch_->name = name;
  return *this;
}

OpCommand& OpCommand::SetCustomHandler(PROC_FUNC handler) {
  launch_->handler = std::move(handler);
  return *this;
}

OpCommand& OpCommand::Input() {
  launch_->inputs.emplace_back();
  return *this;
}

OpCommand& OpCommand::Input(const at::Tensor& input, const std::string&, const std::optional<aclFormat>&, const std::string&) {
  const bool elsewhere = input.defined() && input.is_cpu();
  const at::Tensor there =
      elsewhere ? input.to(c10::Device(c10::DeviceType::PrivateUse1, c10_npu::getCurrentNPUStream().device_index())) : input;
  launch_->inputs.push_back(there.defined() ? there.contiguous() : there);
  return *this;
}

OpCommand& OpCommand::InputWithoutContiguous(const at::Tensor& input, const std::string&, const std::string&) {
  launch_->inputs.push_back(input);
  return *this;
}

OpCommand& OpCommand::Input(const c10::IntArrayRef& numbers, at::ScalarType dtype, CompileType, const std::string&,
                            const std::string&) {
  launch_->inputs.push_back(at::tensor(numbers, at::kLong).to(dtype));
  return *this;
}

OpCommand& OpCommand::Input(const c10::ArrayRef<double>& numbers, at::IntArrayRef sizes, at::ScalarType dtype, CompileType,
                            const std::string&) {
  launch_->inputs.push_back(at::tensor(numbers, at::kDouble).view(sizes).to(dtype));
  return *this;
}

OpCommand& OpCommand::Input(const c10::Scalar& number, at::ScalarType dtype, CompileType) {
  launch_->inputs.push_back(at::scalar_tensor(number, at::dtype(dtype).device(at::kCPU)));
  return *this;
}

OpCommand& OpCommand::Inputs(const at::TensorList& inputs) {
  for (const at::Tensor& input : inputs) Input(input);
  return *this;
}

OpCommand& OpCommand::Output(at::Tensor& output, const std::string&, const std::optional<aclFormat>&, const std::string&) {
  TORCH_CHECK(output.defined() && !output.is_cpu(), "OpCommand ", launch_->name, ": an output is a tensor of the NPU");
  launch_->outputs.push_back(output);
  return *this;
}

OpCommand& OpCommand::Sync(c10::SmallVector<int64_t, N>& outputs) {
  launch_->resized.assign(outputs.begin(), outputs.end());
  return Sync();
}

OpCommand& OpCommand::Sync() {
  launch_->waits = true;
  return *this;
}

OpCommand& OpCommand::SetAttribute(const std::string& name, Attribute value) {
  launch_->attributes.emplace_back(name, std::move(value));
  return *this;
}

void OpCommand::Run() {
  const std::unique_ptr<Launch> launch(std::exchange(launch_, nullptr));
  TORCH_CHECK(launch, "OpCommand::Run() was called before");
  if (!launch->handler && !(launch->inputs.empty() && launch->outputs.empty())) return launch->run_operator();
  RunOpApiV2(launch->name, launch->handler);
}

void OpCommand::RunOpApi(const std::string& name, PROC_FUNC handler, bool sync) { RunOpApiV2(name, handler, sync); }

void OpCommand::RunOpApiV2(const std::string& name, const PROC_FUNC& handler, bool sync) {
  TORCH_CHECK(handler, "OpCommand ", name, " has no handler: give it one with SetCustomHandler()");
  const auto stream = c10_npu::getCurrentNPUStream();
  torch_npu::op::launch_with_hooks({name.c_str(), stream.stream()}, [&] { check(handler(), name.c_str()); });
  if (sync) stream.synchronize();
}

}  // namespace at_npu::native
