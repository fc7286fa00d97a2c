// Recurrent networks.
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/parts.h"

using namespace softcann::op;

namespace {

// Gates in torch's order: input, forget, cell, output.
struct Gates {
  at::Tensor input, forget, cell, output;
};
Gates activated(const at::Tensor& sums) {
  TORCH_CHECK(sums.dim() == 2 && sums.size(1) > 0, "LSTM cell: gates of ", sums.sizes());
  const std::vector<at::Tensor> parts = sums.split(equal_parts(sums.size(1), 4), 1);
  return {at::sigmoid(parts[0]), at::sigmoid(parts[1]), at::tanh(parts[2]), at::sigmoid(parts[3])};
}

}  // namespace

// storage keeps the activated gates for the gradient.
OP(aclnnThnnFusedLstmCell) {
  at::Tensor sums = widened(inputGates) + widened(hiddenGates);
  if (inputBiasOptional.defined()) sums.add_(widened(inputBiasOptional));
  if (hiddenBiasOptional.defined()) sums.add_(widened(hiddenBiasOptional));
  const Gates gates = activated(sums);
  const at::Tensor cell = gates.forget * widened(cx) + gates.input * gates.cell;
  put(cyOut, cell);
  put(hyOut, gates.output * at::tanh(cell));
  put(storageOut, at::cat({gates.input, gates.forget, gates.cell, gates.output}, 1));
}
OP(aclnnThnnFusedLstmCellBackward) {
  TORCH_CHECK(storage.dim() == 2 && cx.dim() == 2 && storage.size(1) == 4 * cx.size(1), "LSTM cell: gates of ", storage.sizes(),
              " for a cell of ", cx.sizes());
  const std::vector<at::Tensor> kept = widened(storage).chunk(4, 1);
  const Gates gates{kept[0], kept[1], kept[2], kept[3]};
  const at::Tensor tanh_cell = at::tanh(widened(cy));
  at::Tensor by_cell = gradCOptional.defined() ? widened(gradCOptional).clone() : at::zeros_like(tanh_cell);
  at::Tensor by_output = at::zeros_like(tanh_cell);
  if (gradHyOptional.defined()) {
    const at::Tensor grad = widened(gradHyOptional);
    by_cell = by_cell + grad * gates.output * (1 - tanh_cell.square());
    by_output = grad * tanh_cell;
  }
  const at::Tensor by_sums =
      at::cat({by_cell * gates.cell * gates.input * (1 - gates.input), by_cell * widened(cx) * gates.forget * (1 - gates.forget),
               by_cell * gates.input * (1 - gates.cell.square()), by_output * gates.output * (1 - gates.output)},
              1);
  put(gradGatesOut, by_sums);
  put(gradCxOut, by_cell * gates.forget);
  if (hasBias) put(gradBiasOut, by_sums.sum(0));
}
