#include "op/checked.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "op/formats.h"
#include "op/indices.h"
#include "op/tensor.h"
#include "rt/base/error.h"

namespace softcann::op {
namespace {

// Calls `function(offset, bytes)` for each piece without a gap of what the tensor's view reaches, until it returns false.
template <class F>
void for_each_piece(const aclTensor& made, F&& function) {
  if (made.tensor.numel() == 0) return;
  struct Dim {
    int64_t size, stride;
  };
  std::vector<Dim> dims;
  for (int64_t i = 0; i < made.tensor.dim(); ++i) {
    if (made.tensor.size(i) > 1 && made.tensor.stride(i) != 0) dims.push_back({made.tensor.size(i), made.tensor.stride(i)});
  }
  std::sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.stride > b.stride; });
  int64_t run = 1;
  for (; !dims.empty() && dims.back().stride <= run; dims.pop_back()) run += (dims.back().size - 1) * dims.back().stride;
  std::vector<int64_t> at(dims.size(), 0);
  for (int64_t offset = 0;;) {
    if (!function(static_cast<size_t>(offset * made.item), static_cast<size_t>(run * made.item))) return;
    size_t i = dims.size();
    for (; i > 0; --i) {
      offset += dims[i - 1].stride;
      if (++at[i - 1] < dims[i - 1].size) break;
      offset -= dims[i - 1].stride * dims[i - 1].size;
      at[i - 1] = 0;
    }
    if (i == 0) return;
  }
}

template <class F>
void for_each_tensor(const aclOpExecutor& executor, uint64_t mask, F&& function) {
  const OpInfo& info = *executor.op;
  for (uint64_t left = mask & (info.tensors | info.tensor_lists); left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    const Object* object = executor.slots[i].object;
    if (object == nullptr) continue;
    if (object->kind == Kind::tensor) {
      function(i, *static_cast<const aclTensor*>(object));
      continue;
    }
    for (const aclTensor* element : static_cast<const aclTensorList*>(object)->elements) {
      if (element != nullptr) function(i, *current(element));
    }
  }
}

void refuse_tensor(const OpInfo& info, int index, const aclTensor& made) {
  const char* first = made.first_byte();
  for_each_piece(made, [&](size_t offset, size_t bytes) {
    const size_t found = check::first_unwritten(first + offset, bytes);
    if (found == bytes) return true;
    const char* name = info.params;
    for (int i = 0; i < index; ++i) name = std::strchr(name, ',') + 1;
    const std::string parameter(name, std::strcspn(name, ","));
    char text[256];
    std::snprintf(text, sizeof text, "parameter %s: element %zu of its memory, at %p, was never written", parameter.c_str(),
                  (offset + found) / static_cast<size_t>(made.item), static_cast<const void*>(first + offset + found));
    check::say("init: %s reads what nobody wrote: %s", info.name, text);
    throw Error(ErrorKind::bad_argument, text);
  });
}

}  // namespace

void refuse_unwritten(const aclOpExecutor& executor) {
  const OpInfo& info = *executor.op;
  for_each_tensor(executor, info.read & ~info.written, [&](int index, const aclTensor& made) {
    // Of what is reached through indices, or padded by its format, a part may well be left as it was.
    if (is_base_format(made.format) && !reached_by_index(info, index)) refuse_tensor(info, index, made);
  });
}

void note_results(const aclOpExecutor& executor) {
  for_each_tensor(executor, executor.op->written, [](int, const aclTensor& made) {
    if (!is_base_format(made.format)) return check::mark_written(made.address, made.storage->nbytes());
    for_each_piece(made, [&](size_t offset, size_t bytes) {
      check::mark_written(made.first_byte() + offset, bytes);
      return true;
    });
  });
}

void note_accesses(const aclOpExecutor& executor) {
  const OpInfo& info = *executor.op;
  for_each_tensor(executor, info.tensors | info.tensor_lists, [&](int, const aclTensor& made) {
    if (made.reached_bytes() != 0) check::note_access(&executor, info.name, made.first_byte(), made.reached_bytes());
  });
}

}  // namespace softcann::op
