#include "op/operands.h"

#include <utility>

#include "op/formats.h"
#include "op/parameters.h"

namespace torch_npu::op {
namespace {

struct Noted {
  const char* op;
  std::vector<Operand> operands;
};

// The innermost last: an argument may be made by a launch of its own. What CANN refused is left here, so old ones are dropped.
constexpr size_t kMostNoted = 8;
thread_local std::vector<Noted> noted;

}  // namespace

void set_note_operands(bool on) { set_argument_watcher(kOperands, on); }

void note_operands(const char* op, c10::ArrayRef<NumberSource> sources) {
  const Parameters* parameters = parameters_of(op);
  if (noted.size() == kMostNoted) noted.erase(noted.begin());
  std::vector<Operand>& operands = noted.emplace_back(Noted{op, {}}).operands;
  operands.reserve(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    const bool written = parameters != nullptr && parameters->writes(i);
    const bool read = parameters == nullptr || parameters->reads(i);
    for (const auto& tensor : sources[i].tensors) {
      if (!tensor.defined()) continue;
      const auto* impl = tensor.unsafeGetTensorImpl();
      const bool has_format = tensor.device().type() == c10::DeviceType::PrivateUse1 && internal_format(*impl) != nullptr;
      // CANN's numbers of what the adapter names base formats, by rank.
      constexpr int64_t kByRank[] = {ACL_FORMAT_ND,  ACL_FORMAT_ND,   ACL_FORMAT_ND,
                                     ACL_FORMAT_NCL, ACL_FORMAT_NCHW, ACL_FORMAT_NCDHW};
      const int64_t base = tensor.dim() < 6 ? kByRank[tensor.dim()] : int64_t{ACL_FORMAT_ND};
      operands.push_back(
          {at::DimVector(tensor.sizes()), tensor.scalar_type(), has_format ? format_of(tensor) : base, read, written});
    }
  }
}

std::vector<Operand> take_operands(const char* op) {
  for (size_t i = noted.size(); i-- > 0;) {
    if (noted[i].op != op) continue;
    std::vector<Operand> taken = std::move(noted[i].operands);
    noted.resize(i);
    return taken;
  }
  return {};
}

}  // namespace torch_npu::op
