#include "op/parameters.h"

#include <algorithm>
#include <iterator>
#include <sstream>

namespace torch_npu::op {
namespace {

constexpr Parameters kOperators[] = {
#include "aclnn/aclnn_names.inc"
};

}  // namespace

std::string Parameters::name(size_t position) const {
  std::istringstream words{std::string(names_)};
  std::string name;
  for (size_t i = 0; i <= position; ++i) words >> name;
  return name;
}

const Parameters* parameters_of(std::string_view op) {
  const auto* found = std::lower_bound(std::begin(kOperators), std::end(kOperators), op,
                                       [](const Parameters& row, std::string_view name) { return row.op() < name; });
  return found != std::end(kOperators) && found->op() == op ? found : nullptr;
}

}  // namespace torch_npu::op
