// Attention of a loaded model: heads whose keys and values fit into the second cache. See Note [Channels beside each other].
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "rt/runtime.h"

namespace softcann::op {

// softmax(query @ key^T * scale + mask) @ value of float32, all [batch, heads, rows or keys, size]; as many heads each. `mask` is
// added, broadcasts to the scores' four dimensions, and may be undefined; a row that sees no key is 0. The result's heads lie
// beside each other in memory. Nothing for what is left to ATen.
SOFTCANN_API std::optional<at::Tensor> attend_in_panels(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                                        const at::Tensor& mask, double scale);

}  // namespace softcann::op
