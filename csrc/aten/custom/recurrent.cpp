// Whole recurrent networks: LSTM and GRU of several layers and directions, and their gradients.
//
// Note [Packed sequences]
// With the numbers of sequences at each step CANN wants a row for every sequence at every step. The data of a PackedSequence,
// which has none for sequences that ended, is spread for it and gathered again; data that has all rows goes as it is.
#include <ATen/Functions.h>

#include "aten/custom/shapes.h"
#include "aten/factory.h"
#include "generated/torch_npu_custom_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnLSTM);
NPU_OPERATOR(aclnnLstmBackward);
NPU_OPERATOR(aclnnGRU);
NPU_OPERATOR(aclnnGRUBackward);

namespace {

constexpr bool kKeepForGradient = true;
constexpr double kNoDropout = 0;

struct Network {
  at::Tensor counts, used;  // of packed sequences: int64 [time], bool [time * batch] where rows are left out
  int64_t cells, directions, time, batch, hidden;
  bool batch_first;

  Network(const char* op, const at::Tensor& input, const at::Tensor& hx, at::TensorList params, int64_t layers, double dropout,
          bool train, bool bidirectional, std::optional<bool> batch_first_given, const std::optional<at::Tensor>& batch_sizes)
      : directions(bidirectional ? 2 : 1), batch(hx.size(1)), batch_first(batch_first_given.value_or(false)) {
    TORCH_CHECK_NOT_IMPLEMENTED(dropout == 0 || !train || layers <= 1, op,
                                ": dropout between layers is not supported; torch.nn has it, or put it between calls");
    TORCH_CHECK_VALUE(params.size() >= 2, op, ": params has ", params.size(), " tensors");
    cells = layers * directions;
    hidden = params[1].size(1);
    if (!given(batch_sizes) || batch_sizes->numel() == 0) {
      time = input.size(batch_first ? 1 : 0);
      return;
    }
    counts = batch_sizes->to(input.device(), at::kLong);
    time = counts.numel();
    if (input.size(0) == time * batch) return;
    used = at::arange(batch, counts.options()).lt(counts.unsqueeze(1)).reshape({-1});
  }
  at::Tensor spread(const at::Tensor& rows) const {
    if (!used.defined() || !rows.defined()) return rows;
    return at::zeros({time * batch, rows.size(-1)}, rows.options()).index_put_({used}, rows);
  }
  at::Tensor gathered(const at::Tensor& rows) const { return used.defined() ? rows.index({used}) : rows; }

  at::Tensor results(const at::Tensor& input) const {
    at::DimVector sizes(input.sizes());
    sizes.back() = directions * hidden;
    return empty_like_with(input, sizes);
  }
};

// What the gradient needs: N tensors of all cells, and each cell's part of them.
template <size_t N>
struct Saved {
  std::array<at::Tensor, N> whole;
  std::array<std::vector<at::Tensor>, N> parts;

  Saved(const Network& network, const at::Tensor& x) {
    for (size_t k = 0; k < N; ++k) {
      whole[k] = empty_like_with(x, {network.cells, network.time, network.batch, network.hidden});
      parts[k] = whole[k].unbind(0);
    }
  }
};

std::vector<at::Tensor> empty_like_each(at::TensorList tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(empty_like_with(tensor, tensor.sizes()));
  return result;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>
lstm_network(const at::Tensor& input, at::TensorList hx, at::TensorList params, bool has_biases, int64_t num_layers,
             double dropout, bool train, bool bidirectional, std::optional<bool> batch_first,
             const std::optional<at::Tensor>& batch_sizes) {
  TORCH_CHECK_VALUE(hx.size() == 2, "_lstm_npu: hx has ", hx.size(), " tensors, not h and c");
  const Network network("_lstm_npu", input, hx[0], params, num_layers, dropout, train, bidirectional, batch_first, batch_sizes);
  const at::Tensor x = network.spread(input);
  auto out = network.results(x), h = empty_like_with(hx[0], hx[0].sizes()), c = empty_like_with(hx[1], hx[1].sizes());
  const Saved<7> saved(network, x);
  op::run(aclnnLSTM, x, params, hx, network.counts, has_biases, num_layers, kNoDropout, kKeepForGradient, bidirectional,
          network.batch_first, out, h, c, saved.parts[0], saved.parts[1], saved.parts[2], saved.parts[3], saved.parts[4],
          saved.parts[5], saved.parts[6]);
  return {
      network.gathered(out), h, c, saved.whole[0], saved.whole[1], saved.whole[2], saved.whole[3], saved.whole[4], saved.whole[5],
      saved.whole[6]};
}

std::tuple<at::Tensor, std::vector<at::Tensor>, std::vector<at::Tensor>> lstm_network_backward(
    const at::Tensor& grad_y, const at::Tensor& grad_hy, const at::Tensor& grad_cy, const at::Tensor& input, at::TensorList hx,
    at::TensorList params, const at::Tensor& i, const at::Tensor& j, const at::Tensor& f, const at::Tensor& o,
    const at::Tensor& h, const at::Tensor& c, const at::Tensor& tanhc, bool has_biases, int64_t num_layers, double dropout,
    bool train, bool bidirectional, std::optional<bool> batch_first, const std::optional<at::Tensor>& batch_sizes) {
  TORCH_CHECK_VALUE(hx.size() == 2, "_lstm_npu_backward: hx has ", hx.size(), " tensors, not h and c");
  const Network network("_lstm_npu_backward", input, hx[0], params, num_layers, dropout, train, bidirectional, batch_first,
                        batch_sizes);
  const at::Tensor x = network.spread(input);
  auto dx = empty_like_with(x, x.sizes());
  auto dstates = empty_like_each(hx), dparams = empty_like_each(params);
  op::run(aclnnLstmBackward, x, hx, params, network.spread(grad_y), grad_hy, grad_cy, i.unbind(0), j.unbind(0), f.unbind(0),
          o.unbind(0), h.unbind(0), c.unbind(0), tanhc.unbind(0), network.counts, has_biases, num_layers, kNoDropout,
          kKeepForGradient, bidirectional, network.batch_first, at::ArrayRef<bool>(), dx, dstates[0], dstates[1], dparams);
  return {network.gathered(dx), std::move(dstates), std::move(dparams)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_network(
    const at::Tensor& input, const at::Tensor& hx, at::TensorList params, bool has_biases, int64_t num_layers, double dropout,
    bool train, bool bidirectional, std::optional<bool> batch_first, const std::optional<at::Tensor>& batch_sizes) {
  const Network network("_gru_npu", input, hx, params, num_layers, dropout, train, bidirectional, batch_first, batch_sizes);
  const at::Tensor x = network.spread(input);
  auto out = network.results(x), h = empty_like_with(hx, hx.sizes());
  const Saved<5> saved(network, x);
  op::run(aclnnGRU, x, params, hx, network.counts, has_biases, num_layers, kNoDropout, kKeepForGradient, bidirectional,
          network.batch_first, out, h, saved.parts[0], saved.parts[1], saved.parts[2], saved.parts[3], saved.parts[4]);
  return {network.gathered(out), h, saved.whole[0], saved.whole[1], saved.whole[2], saved.whole[3], saved.whole[4]};
}

std::tuple<at::Tensor, at::Tensor, std::vector<at::Tensor>> gru_network_backward(
    const at::Tensor& grad_y, const at::Tensor& grad_h, const at::Tensor& input, const at::Tensor& hx, at::TensorList params,
    const at::Tensor& r, const at::Tensor& z, const at::Tensor& n, const at::Tensor& h_n, const at::Tensor& h, bool has_biases,
    int64_t num_layers, double dropout, bool train, bool bidirectional, std::optional<bool> batch_first,
    const std::optional<at::Tensor>& batch_sizes) {
  const Network network("_gru_npu_backward", input, hx, params, num_layers, dropout, train, bidirectional, batch_first,
                        batch_sizes);
  const at::Tensor x = network.spread(input);
  auto dx = empty_like_with(x, x.sizes()), dstate = empty_like_with(hx, hx.sizes());
  auto dparams = empty_like_each(params);
  op::run(aclnnGRUBackward, x, params, hx, network.spread(grad_y), grad_h, r.unbind(0), z.unbind(0), n.unbind(0), h_n.unbind(0),
          h.unbind(0), network.counts, has_biases, num_layers, bidirectional, network.batch_first, dx, dstate, dparams);
  return {network.gathered(dx), dstate, std::move(dparams)};
}

}  // namespace torch_npu::native
