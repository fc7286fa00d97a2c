// Operators that clients name: recurrent layers.
#include "op/kernels/common.h"
#include "op/kernels/rnn.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

// Columns of weights by gate, in the order that the attribute gate_order spells; `in_torch` spells torch's.
class GateOrder {
 public:
  GateOrder(std::string letters, const std::string& in_torch) : place_(in_torch.size()) {
    for (char& letter : letters) letter = letter == 'c' ? 'j' : letter;
    for (size_t k = 0; k < place_.size(); ++k) {
      place_[k] = letters.find(in_torch[k]);
      TORCH_CHECK(letters.size() == place_.size() && place_[k] != std::string::npos, "gate_order ", letters, " is not known");
    }
  }
  at::Tensor to_torch(const at::Tensor& columns) const {
    const std::vector<at::Tensor> part = parts(columns);
    std::vector<at::Tensor> placed(part.size());
    for (size_t k = 0; k < part.size(); ++k) placed[k] = part[place_[k]];
    return at::cat(placed, -1);
  }
  at::Tensor from_torch(const at::Tensor& columns) const {
    const std::vector<at::Tensor> part = parts(columns);
    std::vector<at::Tensor> placed(part.size());
    for (size_t k = 0; k < part.size(); ++k) placed[place_[k]] = part[k];
    return at::cat(placed, -1);
  }

 private:
  std::vector<at::Tensor> parts(const at::Tensor& columns) const {
    const auto gates = static_cast<int64_t>(place_.size());
    TORCH_CHECK(columns.size(-1) % gates == 0, columns.size(-1), " columns are not those of ", gates, " gates");
    return columns.chunk(gates, -1);
  }
  std::vector<size_t> place_;
};

struct GateLetters {
  const char *in_torch, *otherwise;  // otherwise: the order of a call that says nothing
};
constexpr GateLetters kLstm{"ifjo", "ijfo"}, kGru{"rzh", "zrh"};

struct Rnn {
  Rnn(const Named& call, const at::Tensor& x, const at::Tensor& h, const GateLetters& letters = kLstm)
      : order(call.attribute<std::string>("gate_order", letters.otherwise), letters.in_torch),
        reverse(direction(call)),
        size(h.size(-1)),
        batch(x.size(1)) {
    TORCH_CHECK(!call.attribute("use_peephole", false), "peepholes are not supported");
    TORCH_CHECK(call.attribute("cell_clip", -1.0F) <= 0 && call.attribute<int64_t>("num_proj", 0) == 0,
                "clipping and projection are not supported");
    TORCH_CHECK(call.attribute("forget_bias", 0.0F) == 0, "forget_bias is not supported");
    TORCH_CHECK(call.attribute("time_major", true), "time_major 0 is not supported");
    TORCH_CHECK(call.attribute<std::string>("activation", "tanh") == "tanh", "activations other than tanh are not supported");
  }
  static bool direction(const Named& call) {
    const auto text = call.attribute<std::string>("direction", "UNIDIRECTIONAL");
    TORCH_CHECK(text == "UNIDIRECTIONAL" || text == "REDIRECTIONAL", "direction ", text, " is not supported");
    return text == "REDIRECTIONAL";
  }
  // seq_length: the lengths [batch], the longest first, or a mask that is 1 where a sequence goes on, [steps, batch, size]. One
  // number for several sequences says nothing.
  Layout layout(const at::Tensor& x, const at::Tensor& seq_length) const {
    if (!seq_length.defined() || seq_length.numel() < batch) return layout_of(x.size(0), batch, {});
    if (seq_length.dim() == 3) return layout_of(x.size(0), batch, seq_length.select(2, 0).to(at::kLong).sum({1}).contiguous());
    const at::Tensor lengths = seq_length.flatten().to(at::kLong);
    TORCH_CHECK(lengths.numel() == batch && lengths.slice(0, 1).le(lengths.slice(0, 0, -1)).all().item<bool>(), "seq_length ",
                seq_length.sizes(), " of ", batch, " sequences: one length for each, the longest first");
    return layout_of(x.size(0), batch, at::arange(x.size(0)).unsqueeze(1).lt(lengths).sum({1}).contiguous());
  }
  at::Tensor rows(const at::Tensor& tensor) const { return widened(tensor).reshape({-1, tensor.size(-1)}); }
  // A state to begin with, [batch, size], that may be changed.
  at::Tensor state(const at::Tensor& given, const at::Tensor& like) const {
    return given.defined() ? rows(given).clone() : at::zeros({batch, size}, like.options());
  }
  // A sequence that has ended keeps its state: clients take the last step's as that of all.
  void carry(const Layout& layout, const at::Tensor& all, at::Tensor before) const {
    for (size_t k = 0; k < layout.steps.size(); ++k) {
      const Step step = layout.at(reverse, k);
      const int64_t ended = batch - step.count;
      const at::Tensor now = all.narrow(0, step.begin, batch);
      now.narrow(0, step.count, ended).copy_(before.narrow(0, step.count, ended));
      before = now;
    }
  }

  GateOrder order;
  bool reverse;
  int64_t size, batch;
};

// weights: [features, 4 * size].
void rnn_forward(const Named& call, const at::Tensor& input_weight, const at::Tensor& hidden_weight, const at::Tensor& bias,
                 const at::Tensor& mask, const at::Tensor& h0, const at::Tensor& c0) {
  const at::Tensor& x = call.in(0);
  const Rnn rnn(call, x, h0.defined() ? h0 : call.out(1));
  const Weights weights{rnn.order.to_torch(widened(input_weight)).t(), rnn.order.to_torch(widened(hidden_weight)).t(),
                        bias.defined() ? rnn.order.to_torch(widened(bias)) : at::Tensor(), at::Tensor()};
  const at::Tensor h = rnn.state(h0, weights.input), c = rnn.state(c0, weights.input);
  const Layout layout = rnn.layout(x, mask);
  const LstmSaved kept = lstm_forward(layout, rnn.reverse, rnn.rows(x), weights, h, c);
  put_reshaped(call.out(0), kept.h);
  rnn.carry(layout, kept.h, rnn.state(h0, weights.input));
  rnn.carry(layout, kept.c, rnn.state(c0, weights.input));
  put_reshaped(call.out(1), kept.h);
  put_reshaped(call.out(2), kept.c);
  put_reshaped(call.out(3), kept.i);
  put_reshaped(call.out(4), kept.j);
  put_reshaped(call.out(5), kept.f);
  put_reshaped(call.out(6), kept.o);
  put_reshaped(call.out(7), kept.tanh_c);
}

}  // namespace

// x, w of input and state together, b, seq_length, init_h, init_c.
NAMED(DynamicRNN) {
  const int64_t features = call.in(0).size(2);
  const at::Tensor& w = call.in(1);
  TORCH_CHECK(4 * (w.size(0) - features) == w.size(1), "weights of ", w.sizes(), " do not fit ", features,
              " features: projection is not supported");
  rnn_forward(call, w.narrow(0, 0, features), w.narrow(0, features, w.size(0) - features), call.in(2), call.in(3), call.in(4),
              call.in(5));
}
// x, weights of the input and of the state, b, seq_length, init_h, init_c.
NAMED(DynamicRNNV2) { rnn_forward(call, call.in(1), call.in(2), call.in(3), call.in(4), call.in(5), call.in(6)); }

namespace {

struct RnnGradient {
  at::Tensor by_gates, h_before, by_bias, by_h, by_c;  // the first two are rows
};

// Inputs from init_h on are those of both operators: init_h, init_c, h, c, dy, dh, dc, i, j, f, o, tanhc, and a mask or a number.
RnnGradient rnn_backward(const Named& call, const at::Tensor& x, const at::Tensor& hidden_weight, size_t first) {
  const at::Tensor &h0 = call.in(first), &c0 = call.in(first + 1), &mask = call.in(first + 12);
  const Rnn rnn(call, x, h0);
  const auto rows = [&](size_t i) { return rnn.rows(call.in(first + i)); };
  const LstmSaved kept{rows(7), rows(9), rows(8), rows(10), rows(2), rows(3), rows(11)};
  const Layout layout = rnn.layout(x, mask.defined() && mask.dim() == 3 ? mask : at::Tensor());
  RnnGradient made;
  made.by_h = rows(5).clone();
  made.by_c = rows(6).clone();
  const auto [by_sums, h_before] = lstm_backward(layout, rnn.reverse, kept, rnn.rows(h0), rnn.rows(c0),
                                                 rnn.order.to_torch(widened(hidden_weight)).t(), rows(4), made.by_h, made.by_c);
  made.by_gates = rnn.order.from_torch(by_sums);
  made.h_before = h_before;
  made.by_bias = made.by_gates.sum(0);
  return made;
}

}  // namespace

NAMED(DynamicRNNGrad) {
  const at::Tensor &x = call.in(0), w = widened(call.in(1));
  const int64_t features = x.size(2);
  const at::Tensor rows = widened(x).reshape({-1, features});
  const RnnGradient by = rnn_backward(call, x, w.narrow(0, features, w.size(0) - features), 4);
  put(call.out(0), at::mm(at::cat({rows, by.h_before}, 1).t(), by.by_gates));
  put(call.out(1), by.by_bias);
  put_reshaped(call.out(2), at::mm(by.by_gates, w.narrow(0, 0, features).t()));
  put(call.out(3), by.by_h);
  put(call.out(4), by.by_c);
}
// One step of a cell: x has no dimension for time.
NAMED(DynamicRNNV2Grad) {
  const at::Tensor x = call.in(0).dim() == 2 ? call.in(0).unsqueeze(0) : call.in(0), input_weight = widened(call.in(1));
  const at::Tensor rows = widened(x).reshape({-1, x.size(2)});
  const RnnGradient by = rnn_backward(call, x, call.in(2), 4);
  put(call.out(0), at::mm(rows.t(), by.by_gates));
  put(call.out(1), at::mm(by.h_before.t(), by.by_gates));
  put(call.out(2), by.by_bias);
  put(call.out(3), at::mm(by.by_gates, input_weight.t()));
  put(call.out(4), by.by_h);
  put(call.out(5), by.by_c);
}

namespace {

Rnn gru_of(const Named& call, const at::Tensor& h) {
  TORCH_CHECK(call.attribute("reset_after", true), "reset_after 0 is not supported: the reset gate multiplies after the product");
  return {call, call.in(0), h, kGru};
}

}  // namespace

// x, weights of the input and of the state, their biases, seq_length, init_h; y, output_h, update, reset, new, hidden_new.
NAMED(DynamicGRUV2) {
  const at::Tensor& h0 = call.in(6);
  const Rnn rnn = gru_of(call, h0.defined() ? h0 : call.out(1));
  const auto bias = [&](size_t i) { return call.in(i).defined() ? rnn.order.to_torch(widened(call.in(i))) : at::Tensor(); };
  const Weights weights{rnn.order.to_torch(widened(call.in(1))).t(), rnn.order.to_torch(widened(call.in(2))).t(), bias(3),
                        bias(4)};
  const Layout layout = rnn.layout(call.in(0), call.in(5));
  const GruSaved kept = gru_forward(layout, rnn.reverse, rnn.rows(call.in(0)), weights, rnn.state(h0, weights.input));
  put_reshaped(call.out(0), kept.h);
  rnn.carry(layout, kept.h, rnn.state(h0, weights.input));
  put_reshaped(call.out(1), kept.h);
  put_reshaped(call.out(2), kept.update);
  put_reshaped(call.out(3), kept.reset);
  put_reshaped(call.out(4), kept.fresh);
  put_reshaped(call.out(5), kept.hidden_new);
}
// x, the two weights, y, init_h, h, dy, dh, update, reset, new, hidden_new, seq_length, mask; the gradients of the weights, of
// the biases, of x and of init_h. A mask, or lengths, that are one number say nothing.
NAMED(DynamicGRUV2Grad) {
  for (const size_t i : {12U, 13U}) {
    TORCH_CHECK(!call.in(i).defined() || call.in(i).numel() <= 1, "sequences of several lengths are not supported");
  }
  const at::Tensor& h0 = call.in(4);
  const Rnn rnn = gru_of(call, h0);
  const auto rows = [&](size_t i) { return rnn.rows(call.in(i)); };
  const at::Tensor x = rows(0), by_h = rows(7).clone();
  const GruSaved kept{rows(9), rows(8), rows(10), rows(11), rows(5)};
  const GruGradient made = gru_backward(rnn.layout(call.in(0), {}), rnn.reverse, kept, rnn.rows(h0),
                                        rnn.order.to_torch(widened(call.in(2))).t(), rows(6), by_h);
  const at::Tensor by_input = rnn.order.from_torch(made.by_input), by_hidden = rnn.order.from_torch(made.by_hidden);
  put(call.out(0), at::mm(x.t(), by_input));
  put(call.out(1), at::mm(made.h_before.t(), by_hidden));
  put(call.out(2), by_input.sum(0));
  put(call.out(3), by_hidden.sum(0));
  put_reshaped(call.out(4), at::mm(by_input, widened(call.in(1)).t()));
  put(call.out(5), by_h);
}
