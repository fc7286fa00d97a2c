// One layer and direction of an LSTM or a GRU, for the operators that have several of them and for those by name.
#pragma once

#include <ATen/core/Tensor.h>
#include <vector>

namespace softcann::op {

// Note [Recurrent layers]
// All sequences lie in one matrix, a row for each step of each sequence, the rows of one step together. Shorter sequences
// come last in the batch and leave the end of a step's rows unused: `counts` says how many are used at each step.
// Gates are in torch's order everywhere: input, forget, cell, output; of a GRU reset, update, new.
struct Step {
  int64_t begin, count;
};
struct Layout {
  std::vector<Step> steps;
  int64_t rows = 0;

  // The steps in the order in which a direction takes them.
  Step at(bool reverse, size_t i) const { return steps[reverse ? steps.size() - 1 - i : i]; }
};

// Of `steps` equal steps, or of as many sequences at each step as `counts` has.
Layout layout_of(int64_t steps, int64_t batch, const at::Tensor& counts);

struct Weights {
  at::Tensor input, hidden, input_bias, hidden_bias;  // [gates * size, features]; biases may be undefined
};
// What the gradient needs, rows each.
struct LstmSaved {
  at::Tensor i, f, j, o, h, c, tanh_c;
};

// x are rows; h and c are the state, [batch, size], and become the last one.
LstmSaved lstm_forward(const Layout& layout, bool reverse, const at::Tensor& x, const Weights& weights, const at::Tensor& h,
                       const at::Tensor& c);

struct LstmGradient {
  at::Tensor by_sums, h_before;  // rows: the gradient of the gates' sums, and the state before each step
};
// by_h and by_c are the gradients of the last state, and become those of the first.
LstmGradient lstm_backward(const Layout& layout, bool reverse, const LstmSaved& kept, const at::Tensor& h, const at::Tensor& c,
                           const at::Tensor& hidden_weight, const at::Tensor& by_output, const at::Tensor& by_h,
                           const at::Tensor& by_c);

// Rows each. hidden_new is the state's part of the new gate's sum, which the reset gate multiplies.
struct GruSaved {
  at::Tensor reset, update, fresh, hidden_new, h;
};
// h is the state, [batch, size], and becomes the last one.
GruSaved gru_forward(const Layout& layout, bool reverse, const at::Tensor& x, const Weights& weights, const at::Tensor& h);

struct GruGradient {
  at::Tensor by_input, by_hidden, h_before;  // rows: the gradients of the two parts of the gates' sums, and the state before
};
// by_h is the gradient of the last state, and becomes that of the first.
GruGradient gru_backward(const Layout& layout, bool reverse, const GruSaved& kept, const at::Tensor& h,
                         const at::Tensor& hidden_weight, const at::Tensor& by_output, const at::Tensor& by_h);

}  // namespace softcann::op
