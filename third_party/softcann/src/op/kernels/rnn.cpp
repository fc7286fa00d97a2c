// Recurrent networks of several layers and two directions, in one operator: LSTM and GRU with their gradients.
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/gemm.h"
#include "op/kernels/rnn.h"

using namespace softcann::op;

namespace {

bool packed(const at::Tensor& batch_sizes) { return batch_sizes.defined() && batch_sizes.numel() > 0; }
// With batchSizes the input is a matrix, rows for the whole batch at every step.
Layout layout_of(const at::Tensor& input, const at::Tensor& batch_sizes, bool batch_first, int64_t batch) {
  if (!packed(batch_sizes)) {
    TORCH_CHECK(input.dim() == 3, "the input has ", input.dim(), " dimensions, not 3");
    return softcann::op::layout_of(input.size(batch_first ? 1 : 0), batch, {});
  }
  const at::Tensor counts = batch_sizes.to(at::kLong).contiguous();
  const int64_t rows = input.numel() / std::max<int64_t>(input.size(-1), 1);
  TORCH_CHECK(rows == counts.numel() * batch, "the input has ", rows, " rows, not ", counts.numel(), " steps of ", batch);
  return softcann::op::layout_of(counts.numel(), batch, counts);
}

at::Tensor to_rows(const at::Tensor& tensor, bool swap) {
  const at::Tensor wide = widened(tensor);
  return (swap ? wide.transpose(0, 1) : wide).reshape({-1, tensor.size(-1)});
}
void put_rows(const at::Tensor& out, const at::Tensor& rows, bool swap) { put_reshaped(swap ? out.transpose(0, 1) : out, rows); }

struct Shape {
  int64_t layers, directions, per_cell;
  size_t cells() const { return static_cast<size_t>(layers * directions); }
};

Shape shape_of(at::TensorList params, bool has_bias, int64_t layers, bool bidirectional) {
  const Shape shape{layers, bidirectional ? 2 : 1, has_bias ? 4 : 2};
  TORCH_CHECK(layers > 0 && params.size() == shape.cells() * shape.per_cell, params.size(), " parameters for ", layers,
              " layers of ", shape.directions, " directions with ", shape.per_cell, " each");
  return shape;
}

Weights weights_of(at::TensorList params, const Shape& shape, size_t cell) {
  const size_t first = cell * shape.per_cell;
  const bool bias = shape.per_cell == 4;
  return {widened(params[first]), widened(params[first + 1]), bias ? widened(params[first + 2]) : at::Tensor(),
          bias ? widened(params[first + 3]) : at::Tensor()};
}

at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return bias.defined() ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
}

void check_kept(std::initializer_list<at::TensorList> lists, const Shape& shape) {
  for (const at::TensorList list : lists) {
    TORCH_CHECK(list.size() == shape.cells(), "a list for the gradient has ", list.size(), " tensors, not ", shape.cells());
  }
}

// Rows of the weights are those of the gates, one behind the other.
void require_gates(const Weights& weights, int64_t gates, int64_t size) {
  const auto fits = [&](const at::Tensor& bias) { return !bias.defined() || bias.numel() == gates * size; };
  TORCH_CHECK(weights.input.dim() == 2 && weights.hidden.dim() == 2 && weights.input.size(0) == gates * size &&
                  weights.hidden.size(0) == gates * size && weights.hidden.size(1) == size && fits(weights.input_bias) &&
                  fits(weights.hidden_bias),
              "weights ", weights.input.sizes(), " and ", weights.hidden.sizes(), " of ", gates, " gates of ", size);
}

// The value of `rows` one step before each step in this direction; before the first, that of `initial`.
at::Tensor previous(const Layout& layout, bool reverse, const at::Tensor& rows, const at::Tensor& initial) {
  const at::Tensor result = at::zeros_like(rows);
  const at::Tensor state = initial.clone();
  for (size_t i = 0; i < layout.steps.size(); ++i) {
    const Step step = layout.at(reverse, i);
    result.narrow(0, step.begin, step.count).copy_(state.narrow(0, 0, step.count));
    state.narrow(0, 0, step.count).copy_(rows.narrow(0, step.begin, step.count));
  }
  return result;
}

// Rows of sequences that have ended are zeros in what is kept.
void clear_unused(const Layout& layout, const at::Tensor& rows) {
  const int64_t batch = layout.rows / std::max<int64_t>(static_cast<int64_t>(layout.steps.size()), 1);
  for (const Step& step : layout.steps) {
    if (step.count < batch) rows.narrow(0, step.begin + step.count, batch - step.count).zero_();
  }
}

}  // namespace

namespace softcann::op {

Layout layout_of(int64_t steps, int64_t batch, const at::Tensor& counts) {
  Layout layout;
  for (int64_t t = 0; t < steps; ++t) {
    const int64_t count = counts.defined() ? counts.const_data_ptr<int64_t>()[t] : batch;
    TORCH_CHECK(count >= 0 && count <= batch && (t == 0 || count <= layout.steps.back().count), "step ", t, " has ", count,
                " sequences, of ", batch);
    layout.steps.push_back({layout.rows, count});
    layout.rows += batch;
  }
  return layout;
}

LstmSaved lstm_forward(const Layout& layout, bool reverse, const at::Tensor& x, const Weights& weights, const at::Tensor& h,
                       const at::Tensor& c) {
  require_gates(weights, 4, h.size(1));
  const at::Tensor gates = product(x, weights.input, weights.input_bias);
  const std::vector<at::Tensor> all = gates.chunk(4, 1);
  LstmSaved kept{all[0], all[1], all[2], all[3], at::zeros({layout.rows, h.size(1)}, gates.options()), {}, {}};
  kept.c = at::zeros_like(kept.h);
  kept.tanh_c = at::zeros_like(kept.h);
  for (size_t k = 0; k < layout.steps.size(); ++k) {
    const Step step = layout.at(reverse, k);
    const at::Tensor h_now = h.narrow(0, 0, step.count), c_now = c.narrow(0, 0, step.count);
    const at::Tensor sums = gates.narrow(0, step.begin, step.count).add_(product(h_now, weights.hidden, weights.hidden_bias));
    const std::vector<at::Tensor> part = sums.chunk(4, 1);
    for (const int gate : {0, 1, 3}) part[gate].sigmoid_();
    part[2].tanh_();
    c_now.mul_(part[1]).addcmul_(part[0], part[2]);
    const at::Tensor tanh_c = at::tanh(c_now);
    h_now.copy_(part[3] * tanh_c);
    kept.h.narrow(0, step.begin, step.count).copy_(h_now);
    kept.c.narrow(0, step.begin, step.count).copy_(c_now);
    kept.tanh_c.narrow(0, step.begin, step.count).copy_(tanh_c);
  }
  clear_unused(layout, gates);
  return kept;
}

LstmGradient lstm_backward(const Layout& layout, bool reverse, const LstmSaved& kept, const at::Tensor& h, const at::Tensor& c,
                           const at::Tensor& hidden_weight, const at::Tensor& by_output, const at::Tensor& by_h,
                           const at::Tensor& by_c) {
  const LstmGradient made{at::zeros({layout.rows, 4 * h.size(1)}, kept.h.options()), previous(layout, reverse, kept.h, h)};
  const at::Tensor c_before = previous(layout, reverse, kept.c, c);
  for (size_t k = layout.steps.size(); k-- > 0;) {
    const Step step = layout.at(reverse, k);
    const auto now = [&](const at::Tensor& all) { return all.narrow(0, step.begin, step.count); };
    const at::Tensor in = now(kept.i), forget = now(kept.f), fresh = now(kept.j), out = now(kept.o), tanh_c = now(kept.tanh_c);
    const at::Tensor h_now = by_h.narrow(0, 0, step.count), c_now = by_c.narrow(0, 0, step.count);
    const at::Tensor by_hidden = now(by_output) + h_now;
    c_now.add_(by_hidden * out * (1 - tanh_c.square()));
    now(made.by_sums)
        .copy_(at::cat({c_now * fresh * in * (1 - in), c_now * now(c_before) * forget * (1 - forget),
                        c_now * in * (1 - fresh.square()), by_hidden * tanh_c * out * (1 - out)},
                       1));
    c_now.mul_(forget);
    h_now.copy_(at::mm(now(made.by_sums), hidden_weight));
  }
  return made;
}

GruSaved gru_forward(const Layout& layout, bool reverse, const at::Tensor& x, const Weights& weights, const at::Tensor& h) {
  require_gates(weights, 3, h.size(1));
  const at::Tensor gates = product(x, weights.input, weights.input_bias);
  const std::vector<at::Tensor> all = gates.chunk(3, 1);
  GruSaved kept{all[0], all[1], all[2], at::zeros({layout.rows, h.size(1)}, gates.options()), {}};
  kept.h = at::zeros_like(kept.hidden_new);
  for (size_t k = 0; k < layout.steps.size(); ++k) {
    const Step step = layout.at(reverse, k);
    const auto now = [&](const at::Tensor& rows) { return rows.narrow(0, step.begin, step.count); };
    const at::Tensor h_now = h.narrow(0, 0, step.count), update = now(kept.update), fresh = now(kept.fresh);
    const std::vector<at::Tensor> hidden = product(h_now, weights.hidden, weights.hidden_bias).chunk(3, 1);
    now(kept.hidden_new).copy_(hidden[2]);
    update.add_(hidden[1]).sigmoid_();
    fresh.addcmul_(now(kept.reset).add_(hidden[0]).sigmoid_(), hidden[2]).tanh_();
    h_now.sub_(fresh).mul_(update).add_(fresh);
    now(kept.h).copy_(h_now);
  }
  clear_unused(layout, gates);
  return kept;
}

GruGradient gru_backward(const Layout& layout, bool reverse, const GruSaved& kept, const at::Tensor& h,
                         const at::Tensor& hidden_weight, const at::Tensor& by_output, const at::Tensor& by_h) {
  GruGradient made{at::zeros({layout.rows, 3 * h.size(1)}, kept.h.options()), {}, previous(layout, reverse, kept.h, h)};
  made.by_hidden = at::zeros_like(made.by_input);
  for (size_t k = layout.steps.size(); k-- > 0;) {
    const Step step = layout.at(reverse, k);
    const auto now = [&](const at::Tensor& rows) { return rows.narrow(0, step.begin, step.count); };
    const at::Tensor reset = now(kept.reset), update = now(kept.update), fresh = now(kept.fresh);
    const at::Tensor h_now = by_h.narrow(0, 0, step.count);
    const at::Tensor total = now(by_output) + h_now;
    const at::Tensor by_new = total * (1 - update) * (1 - fresh.square());
    const at::Tensor by_update = total * (now(made.h_before) - fresh) * update * (1 - update);
    const at::Tensor by_reset = by_new * now(kept.hidden_new) * reset * (1 - reset);
    now(made.by_input).copy_(at::cat({by_reset, by_update, by_new}, 1));
    now(made.by_hidden).copy_(at::cat({by_reset, by_update, by_new * reset}, 1));
    h_now.copy_((total * update).addmm_(now(made.by_hidden), hidden_weight));
  }
  return made;
}

}  // namespace softcann::op

namespace {

// Without dropout between layers: the gradient's parameters have no place for what was dropped.
void refuse_dropout(double dropout, bool train, int64_t layers) {
  if (dropout != 0 && train && layers > 1) invalid("dropout between layers is not supported, dropout is %g", dropout);
}

double cost(const at::Tensor& input, at::TensorList params) {
  double weights = 0;
  for (const at::Tensor& one : params) weights += one.numel();
  return 50000 + gemm_cost(static_cast<double>(input.numel()) / std::max<int64_t>(input.size(-1), 1), weights, 1);
}
double forward_cost(const at::Tensor& input, at::TensorList params, double dropout, bool train, int64_t layers) {
  refuse_dropout(dropout, train, layers);
  return cost(input, params);
}

// Gradients of the weights from those of the gates' sums, rows of the whole sequence each.
void put_weight_gradients(at::TensorList out, const Shape& shape, size_t cell, const at::Tensor& x, const at::Tensor& before,
                          const at::Tensor& by_input, const at::Tensor& by_hidden) {
  const size_t first = cell * shape.per_cell;
  put(out.at(first), at::mm(by_input.t(), x));
  put(out.at(first + 1), at::mm(by_hidden.t(), before));
  if (shape.per_cell == 4) {
    put(out.at(first + 2), by_input.sum(0));
    put(out.at(first + 3), by_hidden.sum(0));
  }
}

// What a layer got: the input, or what both directions of the layer below gave.
at::Tensor layer_input(const at::Tensor& input, at::TensorList h, const Shape& shape, int64_t layer, const Layout& layout) {
  if (layer == 0) return input;
  std::vector<at::Tensor> below;
  for (int64_t d = 0; d < shape.directions; ++d) {
    below.push_back(widened(h[(layer - 1) * shape.directions + d]).reshape({layout.rows, -1}));
  }
  return at::cat(below, 1);
}

at::Tensor or_zeros(const at::Tensor& given, at::IntArrayRef sizes, const at::Tensor& model) {
  return given.defined() && given.numel() > 0 ? widened(given).reshape(sizes).clone() : at::zeros(sizes, model.options());
}

}  // namespace

namespace {

// What a client did not give begins with zeros.
at::Tensor start_of(const at::Tensor& state, const at::Tensor& input, at::TensorList params, const Shape& shape,
                    const at::Tensor& batch_sizes, bool batch_first) {
  if (given(state)) return state;
  const int64_t batch = packed(batch_sizes) ? batch_sizes.reshape({-1})[0].item<int64_t>() : input.size(batch_first ? 0 : 1);
  TORCH_CHECK(params.size() > 1, "weights: ", params.size(), " tensors");
  return at::zeros({shape.layers * shape.directions, batch, params[1].size(1)}, at::kFloat);
}

}  // namespace

OP_COST(aclnnLSTM, forward_cost(input, params, dropout, train, numLayers)) {
  const Shape shape = shape_of(params, hasBias, numLayers, bidirectional);
  TORCH_CHECK(hx.size() == 2 || hx.empty(), "hx has ", hx.size(), " tensors, not h and c");
  const auto start = [&](size_t i) {
    return start_of(hx.empty() ? at::Tensor() : hx[i], input, params, shape, batchSizes, batchFirst);
  };
  const at::Tensor first_h = start(0), first_c = start(1);
  const Layout layout = layout_of(input, batchSizes, batchFirst, first_h.size(1));
  const bool swap = batchFirst && !packed(batchSizes);
  if (train) check_kept({iOut, jOut, fOut, oOut, hOut, cOut, tanhCOut}, shape);
  at::Tensor x = to_rows(input, swap);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    std::vector<at::Tensor> outputs;
    for (int64_t direction = 0; direction < shape.directions; ++direction) {
      const size_t cell = static_cast<size_t>(layer * shape.directions + direction);
      const Weights weights = weights_of(params, shape, cell);
      const at::Tensor h = widened(first_h.select(0, cell)).clone(), c = widened(first_c.select(0, cell)).clone();
      const LstmSaved kept = lstm_forward(layout, direction == 1, x, weights, h, c);
      put(hy.select(0, cell), h);
      put(cy.select(0, cell), c);
      if (train) {
        put_reshaped(iOut[cell], kept.i);
        put_reshaped(fOut[cell], kept.f);
        put_reshaped(jOut[cell], kept.j);
        put_reshaped(oOut[cell], kept.o);
        put_reshaped(hOut[cell], kept.h);
        put_reshaped(cOut[cell], kept.c);
        put_reshaped(tanhCOut[cell], kept.tanh_c);
      }
      outputs.push_back(kept.h);
    }
    x = outputs.size() == 1 ? outputs[0] : at::cat(outputs, 1);
  }
  put_rows(output, x, swap);
}

OP_COST(aclnnLstmBackward, 3 * cost(input, params)) {
  const Shape shape = shape_of(params, hasBias, numLayers, bidirectional);
  TORCH_CHECK(hx.size() == 2, "hx has ", hx.size(), " tensors, not h and c");
  const Layout layout = layout_of(input, batchSizesOptional, batchFirst, hx[0].size(1));
  const bool swap = batchFirst && !packed(batchSizesOptional);
  check_kept({i, g, f, o, h, c, tanhc}, shape);
  const auto rows = [&](at::TensorList list, size_t cell) { return widened(list[cell]).reshape({layout.rows, -1}); };
  const at::Tensor first_input = to_rows(input, swap);
  const int64_t size = params[1].size(1);
  at::Tensor by_output = dy.defined() && dy.numel() > 0
                             ? to_rows(dy, swap)
                             : at::zeros({layout.rows, shape.directions * size}, first_input.options());
  const at::Tensor by_h = or_zeros(dh, hx[0].sizes(), first_input), by_c = or_zeros(dc, hx[1].sizes(), first_input);
  for (int64_t layer = shape.layers - 1; layer >= 0; --layer) {
    const at::Tensor x = layer_input(first_input, h, shape, layer, layout);
    const at::Tensor by_x = at::zeros_like(x);
    for (int64_t direction = 0; direction < shape.directions; ++direction) {
      const size_t cell = static_cast<size_t>(layer * shape.directions + direction);
      const bool reverse = direction == 1;
      const Weights weights = weights_of(params, shape, cell);
      const LstmSaved kept{rows(i, cell), rows(f, cell), rows(g, cell),    rows(o, cell),
                           rows(h, cell), rows(c, cell), rows(tanhc, cell)};
      const auto [by_sums, h_before] =
          lstm_backward(layout, reverse, kept, widened(hx[0].select(0, cell)), widened(hx[1].select(0, cell)), weights.hidden,
                        by_output.narrow(1, direction * size, size), by_h.select(0, cell), by_c.select(0, cell));
      put_weight_gradients(dparamsOut, shape, cell, x, h_before, by_sums, by_sums);
      by_x.addmm_(by_sums, weights.input);
    }
    by_output = by_x;
  }
  put_rows(dxOut, by_output, swap);
  put(dhPrevOut, by_h);
  put(dcPrevOut, by_c);
}

OP_COST(aclnnGRU, forward_cost(input, params, dropout, train, numLayers)) {
  const Shape shape = shape_of(params, hasBias, numLayers, bidirection);
  const at::Tensor first = start_of(hx, input, params, shape, batchSizes, batchFirst);
  const Layout layout = layout_of(input, batchSizes, batchFirst, first.size(1));
  const bool swap = batchFirst && !packed(batchSizes);
  if (train) check_kept({rOut, zOut, nOut, hnOut, hOut}, shape);
  at::Tensor x = to_rows(input, swap);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    std::vector<at::Tensor> outputs;
    for (int64_t direction = 0; direction < shape.directions; ++direction) {
      const size_t cell = static_cast<size_t>(layer * shape.directions + direction);
      const Weights weights = weights_of(params, shape, cell);
      const at::Tensor h = widened(first.select(0, cell)).clone();
      const GruSaved kept = gru_forward(layout, direction == 1, x, weights, h);
      put(hy.select(0, cell), h);
      if (train) {
        put_reshaped(rOut[cell], kept.reset);
        put_reshaped(zOut[cell], kept.update);
        put_reshaped(nOut[cell], kept.fresh);
        put_reshaped(hnOut[cell], kept.hidden_new);
        put_reshaped(hOut[cell], kept.h);
      }
      outputs.push_back(kept.h);
    }
    x = outputs.size() == 1 ? outputs[0] : at::cat(outputs, 1);
  }
  put_rows(output, x, swap);
}

OP_COST(aclnnGRUBackward, 3 * cost(input, params)) {
  const Shape shape = shape_of(params, hasBias, numLayers, bidirection);
  const Layout layout = layout_of(input, batchSizes, batchFirst, hx.size(1));
  const bool swap = batchFirst && !packed(batchSizes);
  check_kept({r, z, n, hn, h}, shape);
  const auto rows = [&](at::TensorList list, size_t cell) { return widened(list[cell]).reshape({layout.rows, -1}); };
  const at::Tensor first_input = to_rows(input, swap);
  const int64_t size = params[1].size(1);
  at::Tensor by_output = dy.defined() && dy.numel() > 0
                             ? to_rows(dy, swap)
                             : at::zeros({layout.rows, shape.directions * size}, first_input.options());
  const at::Tensor by_h = or_zeros(dh, hx.sizes(), first_input);
  for (int64_t layer = shape.layers - 1; layer >= 0; --layer) {
    const at::Tensor x = layer_input(first_input, h, shape, layer, layout);
    const at::Tensor by_x = at::zeros_like(x);
    for (int64_t direction = 0; direction < shape.directions; ++direction) {
      const size_t cell = static_cast<size_t>(layer * shape.directions + direction);
      const bool reverse = direction == 1;
      const Weights weights = weights_of(params, shape, cell);
      const GruSaved kept{rows(r, cell), rows(z, cell), rows(n, cell), rows(hn, cell), rows(h, cell)};
      const auto [by_input, by_hidden, h_before] =
          gru_backward(layout, reverse, kept, widened(hx.select(0, cell)), weights.hidden,
                       by_output.narrow(1, direction * size, size), by_h.select(0, cell));
      put_weight_gradients(dparamsOut, shape, cell, x, h_before, by_input, by_hidden);
      by_x.addmm_(by_input, weights.input);
    }
    by_output = by_x;
  }
  put_rows(dxOut, by_output, swap);
  put(dhPrevOut, by_h);
}
