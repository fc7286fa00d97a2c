#include "op/profile_operands.h"

#include <string>

#include "op/executor.h"
#include "op/names.h"
#include "rt/dump/dump_values.h"

namespace softcann::op {
namespace {

struct Fields {
  std::string shapes, types, formats;
  bool empty = true;

  void add(const aclTensor& tensor) {
    if (!std::exchange(empty, false)) {
      shapes += ';';
      types += ';';
      formats += ';';
    }
    for (int64_t i = 0; i < tensor.tensor.dim(); ++i) shapes += (i ? "," : "") + std::to_string(tensor.tensor.size(i));
    types += type_name(tensor.type);
    formats += dump::format_name(tensor.format);
  }
  std::string text() const { return empty ? "N/A\tN/A\tN/A" : shapes + '\t' + types + '\t' + formats; }
};

}  // namespace

void note_operands(const aclOpExecutor& executor) {
  const OpInfo& info = *executor.op;
  Fields read, written;
  for (int i = 0; i < info.count; ++i) {
    const uint64_t bit = uint64_t{1} << i;
    const Object* object = (info.tensors | info.tensor_lists) & bit ? executor.slots[i].object : nullptr;
    if (object == nullptr) continue;
    const auto add = [&](const aclTensor& tensor) {
      if (info.written & bit) written.add(tensor);
      if (info.read & bit || !(info.written & bit)) read.add(tensor);
    };
    if (object->kind == Kind::tensor) {
      add(*static_cast<const aclTensor*>(object));
    } else {
      for (const aclTensor* tensor : static_cast<const aclTensorList*>(object)->elements) {
        if (tensor != nullptr) add(*tensor);  // one may be left out
      }
    }
  }
  recorder::note_operands(&executor, read.text() + '\t' + written.text() + "\tN/A\tN/A\tN/A");
}

}  // namespace softcann::op
