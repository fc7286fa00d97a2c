#include "op/named.h"

#include <c10/util/Exception.h>
#include <map>
#include <string_view>

#include "op/descriptor.h"
#include "op/kernels/storage_format.h"
#include "op/saturate.h"
#include "op/scope.h"

namespace softcann::op {
namespace {

std::map<std::string_view, void (*)(const Named&)>& operators() {
  static auto* instance = new std::map<std::string_view, void (*)(const Named&)>;
  return *instance;
}

// Whose elements lie in blocks: kernels get a copy in the base format, and what they write goes back at the end.
Stored stored(const NamedTensor& one, at::ScalarType type) {
  return {at::from_blob(one.data, {one.capacity}, at::TensorOptions().dtype(type)), one.blocks, one.type, one.capacity};
}

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& given) {
  std::vector<at::Tensor> made;
  for (const NamedTensor& one : given) {
    if (one.data == nullptr) {
      made.emplace_back();
      continue;
    }
    const at::ScalarType type = to_scalar_type(one.type);
    TORCH_CHECK(type != at::ScalarType::Undefined, "data type ", static_cast<int>(one.type), " is not supported");
    if (one.blocks != ACL_FORMAT_UNDEFINED) {
      made.push_back(base_of(stored(one, type), one.dims));
      continue;
    }
    made.push_back(at::from_blob(one.data, one.dims, at::TensorOptions().dtype(type)));
  }
  return made;
}

}  // namespace

Named::Named(NamedCall& call) : call_(call), in_(tensors_of(call.inputs)), out_(tensors_of(call.outputs)) {}

const at::Tensor& Named::out(size_t i) const {
  TORCH_CHECK(i < out_.size() && out_[i].defined(), "there is no output ", i);
  return out_[i];
}

namespace {

at::Tensor memory_of(const at::Tensor& tensor, const NamedTensor& given) {
  const auto elements = static_cast<int64_t>(given.bytes / tensor.itemsize());
  return at::from_blob(given.data, {elements}, tensor.options());
}

}  // namespace

at::Tensor Named::memory_in(size_t i) const {
  TORCH_CHECK(in(i).defined(), "there is no input ", i);
  return memory_of(in(i), call_.inputs[i]);
}
at::Tensor Named::memory_out(size_t i) const { return memory_of(out(i), call_.outputs[i]); }

void Named::give(size_t i, const at::Tensor& value) const {
  const at::Tensor& room = out(i);
  TORCH_CHECK(value.numel() <= room.numel(), "the result ", value.sizes(), " does not fit into the output ", i, ", ",
              room.sizes());
  room.flatten().narrow(0, 0, value.numel()).copy_(value.flatten());
  call_.outputs[i].dims = value.sizes().vec();
}

void Named::store_results() const {
  for (size_t i = 0; i < out_.size(); ++i) {
    const NamedTensor& one = call_.outputs[i];
    if (out_[i].defined() && one.blocks != ACL_FORMAT_UNDEFINED) store(stored(one, out_[i].scalar_type()), out_[i]);
  }
}

void Named::check_channels_first(size_t i, int64_t dims) const {
  TORCH_CHECK(in(i).dim() == dims, "input ", i, " has ", in(i).dim(), " dimensions, not ", dims);
  const aclFormat format = call_.inputs.at(i).format;
  TORCH_CHECK(format == ACL_FORMAT_NCHW || format == ACL_FORMAT_NCDHW || format == ACL_FORMAT_ND, "input ", i,
              " has a format with the channels last");
}

Integers Named::integers(size_t i) const {
  TORCH_CHECK(in(i).defined(), "there is no input ", i);
  const at::Tensor numbers = in(i).to(at::kLong).contiguous();
  const auto* first = numbers.const_data_ptr<int64_t>();
  return {first, first + numbers.numel()};
}

double Named::number(size_t i) const {
  TORCH_CHECK(in(i).defined() && in(i).numel() == 1, "input ", i, " is one number");
  return in(i).item<double>();
}

NamedOperator::NamedOperator(const char* name, void (*run)(const Named&)) { operators().emplace(name, run); }

}  // namespace softcann::op

extern "C" {

SOFTCANN_API bool softcann_has_named(const char* name) { return softcann::op::operators().count(name) != 0; }

SOFTCANN_API aclError softcann_run_named(softcann::NamedCall& call) {
  using namespace softcann;
  try {
    const op::KernelScope scope;
    const op::Named named(call);
    const bool saturates = saturating() && !op::reads_nonfinite(named.all_inputs());
    op::operators().at(call.name)(named);
    if (saturates) op::saturate_results(named.all_outputs());
    named.store_results();
    return ACL_SUCCESS;
  } catch (const c10::Error& error) {
    task_error("%s: %s", call.name.c_str(), error.what_without_backtrace());
  } catch (const std::exception& error) {
    task_error("%s: %s", call.name.c_str(), error.what());
  }
  return kRefused;  // nothing was computed: see Note [Refused by the kernel]
}
}
