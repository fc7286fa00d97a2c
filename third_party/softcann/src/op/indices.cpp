#include "op/indices.h"

#include <ATen/ops/aminmax.h>
#include <algorithm>
#include <iterator>
#include <string_view>

namespace softcann::op {
namespace {

// How many places there are for an index.
enum class Room : uint8_t {
  dim,       // along the dimension that the parameter `dim` or `axis` names
  rows,      // along the first dimension
  classes,   // along the second dimension, or the only one
  elements,  // all elements
  planes2,   // elements of the last two dimensions
  planes3,   // of the last three
  slots,     // all but the last two dimensions: a paged cache
  each,      // a list of indices: the n-th leads along the n-th dimension
};

struct Row {
  std::string_view op, index, target;  // parameters of the operator
  Room room;
  bool from_the_end = false;  // negative indices count from there
};

constexpr Row rows[] = {
    {"aclnnAdaptiveMaxPool2dBackward", "indices", "self", Room::planes2, true},
    {"aclnnAdaptiveMaxPool3dBackward", "indices", "self", Room::planes3, true},
    {"aclnnCrossEntropyLoss", "target", "input", Room::classes},
    {"aclnnEmbedding", "indices", "weight", Room::rows},
    {"aclnnEmbeddingBag", "indices", "weight", Room::rows},
    {"aclnnEmbeddingDenseBackward", "indices", "out", Room::rows},
    {"aclnnEmbeddingRenorm", "indices", "selfRef", Room::rows},
    {"aclnnGather", "index", "self", Room::dim},
    {"aclnnGatherV2", "index", "self", Room::dim},
    {"aclnnGatherV3", "index", "self", Room::dim},
    {"aclnnIndex", "indices", "self", Room::each, true},
    {"aclnnIndexAdd", "index", "self", Room::dim},
    {"aclnnIndexAddV2", "index", "self", Room::dim},
    {"aclnnIndexCopy", "index", "selfRef", Room::dim},
    {"aclnnIndexFill", "index", "self", Room::dim},
    {"aclnnIndexFillTensor", "index", "self", Room::dim, true},
    {"aclnnIndexPutImpl", "indices", "selfRef", Room::each, true},
    {"aclnnIndexSelect", "index", "self", Room::dim},
    {"aclnnInplaceIndexCopy", "index", "selfRef", Room::dim},
    {"aclnnInplaceIndexFill", "index", "selfRef", Room::dim},
    {"aclnnInplaceIndexFillTensor", "index", "selfRef", Room::dim, true},
    {"aclnnInplacePut", "index", "selfRef", Room::elements, true},
    {"aclnnInplaceScatter", "index", "selfRef", Room::dim},
    {"aclnnInplaceScatterReduce", "index", "selfRef", Room::dim},
    {"aclnnInplaceScatterValue", "index", "selfRef", Room::dim},
    {"aclnnMaxPool2dWithIndicesBackward", "indices", "self", Room::planes2, true},
    {"aclnnMaxPool3dWithArgmaxBackward", "indices", "self", Room::planes3, true},
    {"aclnnMaxUnpool2d", "indices", "out", Room::planes2},
    {"aclnnMaxUnpool2dBackward", "indices", "gradOutput", Room::planes2},
    {"aclnnMaxUnpool3d", "indices", "outRef", Room::planes3},
    {"aclnnMaxUnpool3dBackward", "indices", "gradOutput", Room::planes3},
    {"aclnnMultilabelMarginLoss", "target", "self", Room::classes, true},
    {"aclnnNLLLoss", "target", "self", Room::classes},
    {"aclnnNLLLoss2d", "target", "self", Room::classes},
    {"aclnnNLLLoss2dBackward", "target", "self", Room::classes},
    {"aclnnNLLLossBackward", "target", "self", Room::classes},
    {"aclnnScatter", "index", "self", Room::dim},
    {"aclnnScatterAdd", "index", "self", Room::dim},
    {"aclnnScatterPaCache", "slotMapping", "keyCacheRef", Room::slots, true},
    {"aclnnScatterPaKvCache", "slotMapping", "keyCacheRef", Room::slots, true},
    {"aclnnScatterReduce", "index", "self", Room::dim},
    {"aclnnScatterValue", "index", "self", Room::dim},
    {"aclnnTake", "index", "self", Room::elements, true},
};

// -1 when the operator has no such parameter.
int position(const OpInfo& info, std::string_view wanted) {
  std::string_view rest(info.params);
  for (int i = 0; i < info.count; ++i) {
    const size_t comma = rest.find(',');
    if (rest.substr(0, comma) == wanted) return i;
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return -1;
}

int64_t last_elements(const at::Tensor& target, int64_t dims) {
  int64_t elements = 1;
  for (int64_t i = std::max<int64_t>(0, target.dim() - dims); i < target.dim(); ++i) elements *= target.size(i);
  return elements;
}

// -1: there is no such dimension.
int64_t room_for(const Row& row, const aclOpExecutor& executor, const at::Tensor& target, int64_t entry) {
  int64_t dim = 0;
  switch (row.room) {
    case Room::elements:
      return target.numel();
    case Room::planes2:
      return last_elements(target, 2);
    case Room::planes3:
      return last_elements(target, 3);
    case Room::slots:
      return target.numel() / std::max<int64_t>(1, last_elements(target, 2));
    case Room::dim:
      dim = executor.slots[position(*executor.op, "dim")].integer;
      break;
    case Room::classes:
      dim = target.dim() > 1 ? 1 : 0;
      break;
    case Room::each:
      dim = entry;
      break;
    case Room::rows:
      break;
  }
  if (target.dim() == 0) return 1;
  if (dim < 0) dim += target.dim();
  return dim >= 0 && dim < target.dim() ? target.size(dim) : -1;
}

bool outside(int64_t least, int64_t greatest, int64_t room, bool from_the_end) {
  return room >= 0 && (greatest >= room || least < (from_the_end ? -room : 0));
}

bool leads_outside(const at::Tensor& index, int64_t room, bool from_the_end, const int64_t* ignored) {
  if (!index.defined() || (index.scalar_type() != at::kLong && index.scalar_type() != at::kInt)) return false;
  at::Tensor values = index.to(at::kLong).flatten();
  if (ignored) values = values.masked_select(values.ne(*ignored));
  if (values.numel() == 0) return false;
  const auto [least, greatest] = at::aminmax(values);
  return outside(least.item<int64_t>(), greatest.item<int64_t>(), room, from_the_end);
}

}  // namespace

bool indices_lead_outside(const aclOpExecutor& executor) {
  const OpInfo& info = *executor.op;
  const auto* row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.op == info.name; });
  if (row == std::end(rows)) return false;
  const int index = position(info, row->index), ignored = position(info, "ignoreIndex");
  const auto* target = static_cast<const aclTensor*>(executor.slots[position(info, row->target)].object);
  const Object* given = executor.slots[index].object;
  if (!given || !target) return false;
  const auto room = [&](int64_t entry) { return room_for(*row, executor, target->tensor, entry); };
  if (given->kind == Kind::int_array) {
    const auto values = static_cast<const aclIntArray*>(given)->ref();
    return std::any_of(values.begin(), values.end(), [&](int64_t i) { return outside(i, i, room(0), row->from_the_end); });
  }
  if (given->kind == Kind::tensor_list) {
    const auto& list = static_cast<const aclTensorList*>(given)->values;
    for (size_t i = 0; i < list.size(); ++i) {
      if (leads_outside(list[i], room(static_cast<int64_t>(i)), row->from_the_end, nullptr)) return true;
    }
    return false;
  }
  return leads_outside(static_cast<const aclTensor*>(given)->tensor, room(0), row->from_the_end,
                       ignored < 0 ? nullptr : &executor.slots[ignored].integer);
}

bool reached_by_index(const OpInfo& info, int parameter) {
  return std::any_of(std::begin(rows), std::end(rows),
                     [&](const Row& row) { return row.op == info.name && position(info, row.target) == parameter; });
}

}  // namespace softcann::op
