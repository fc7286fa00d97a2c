// What an operator does with each of its parameters, by the contract.
#pragma once

#include <string>
#include <string_view>

namespace torch_npu::op {

// One operator of the contract.
class Parameters {
 public:
  constexpr Parameters(std::string_view op, std::string_view names, std::string_view access)
      : op_(op), names_(names), access_(access) {}

  std::string_view op() const { return op_; }
  // Whether the operator reads the parameter at this position, and whether it writes it.
  bool reads(size_t position) const { return at(position) != 'w' && at(position) != 'W'; }
  bool writes(size_t position) const { return at(position) != 'r'; }
  // Whether it writes something that CANN declares as only read.
  bool writes_const() const { return access_.find_first_of("WB") != std::string_view::npos; }
  std::string name(size_t position) const;

 private:
  char at(size_t position) const { return position < access_.size() ? access_[position] : 'r'; }

  std::string_view op_, names_, access_;
};

// Null for an operator that the contract does not have.
const Parameters* parameters_of(std::string_view op);

}  // namespace torch_npu::op
