// Schemas of the custom operators, torch.ops.npu. Their kernels are registered by the generated files, by autograd.cpp
// and, for CPU and meta tensors, by torch_npu/_ops/custom.py.
#include <torch/library.h>

#include "generated/custom_table.h"

namespace torch_npu::native {

c10::ArrayRef<CustomOp> custom_ops() { return kCustomOps; }

void define_operators(const std::string& name_space, const std::vector<std::string>& schemas) {
  static auto* libraries = new std::vector<torch::Library>;
  auto& library = libraries->emplace_back(torch::Library::FRAGMENT, name_space, std::nullopt, __FILE__, __LINE__);
  for (const auto& schema : schemas) library.def(schema.c_str(), {at::Tag::pt2_compliant_tag});
}

namespace {

TORCH_LIBRARY_FRAGMENT(npu, m) {
  for (const CustomOp& op : kCustomOps) m.def(op.schema, {at::Tag::pt2_compliant_tag});
}

}  // namespace
}  // namespace torch_npu::native
