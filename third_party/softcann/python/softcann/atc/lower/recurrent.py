"""RNN, LSTM, GRU: torch's where their form is the usual one, otherwise step by step."""

import torch

from . import lowers

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# torch orders the gates of an LSTM input, forget, cell, output and those of a GRU reset, update, new.
ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
DEFAULT = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


class Recurrence:
    """The parts of the node, by direction."""

    def __init__(self, node):
        self.node, self.kind = node, node.type
        self.x, self.w, self.r, self.b, self.lengths, self.h = (node.x(index) for index in range(6))
        self.c, self.peepholes = (node.x(6), node.x(7)) if self.kind == "LSTM" else (None, None)
        self.direction = node.attr("direction", "forward")
        self.directions = 2 if self.direction == "bidirectional" else 1
        self.hidden = node.attr("hidden_size") or self.r.dims[-1]
        self.activations = node.attr("activations") or DEFAULT[self.kind] * self.directions
        self.batch_first = node.attr("layout", 0)
        if self.batch_first:
            self.x = node.emit("aten::transpose.int", self.x, 0, 1)
            self.h, self.c = (
                None if value is None else node.emit("aten::transpose.int", value, 0, 1) for value in (self.h, self.c)
            )
        self.batch = node.size(self.x, 1)

    def usual(self):
        """Whether torch's operator computes this."""
        node = self.node
        if self.lengths is not None and not self.full_length():
            return False
        plain = "clip" not in node.attributes and self.peepholes is None and not node.attr("input_forget", 0)
        if self.kind == "GRU" and not node.attr("linear_before_reset", 0):
            return False
        expected = DEFAULT[self.kind] * self.directions
        relu = self.kind == "RNN" and self.activations == ["Relu"] * self.directions
        return plain and (self.activations == expected or relu)

    def full_length(self):
        steps = self.x.dims[0]
        return self.lengths.const is not None and steps is not None and bool((self.lengths.const == steps).all())

    def start(self, state):
        """[directions, batch, hidden]; zeros where there is none."""
        if state is not None:
            return state
        return self.node.emit("aten::full", [self.directions, self.batch, self.hidden], 0.0, dtype=self.x.dtype)

    def pick(self, value, direction):
        return self.node.emit("aten::select.int", value, 0, direction)

    def gates(self, value, direction, order=None):
        """Rows of one direction by gate; `order` puts them one after the other again."""
        value = self.pick(value, direction)
        parts = self.node.emit("aten::split_with_sizes", value, [self.hidden] * GATES[self.kind], 0)
        return parts if order is None else self.node.emit("aten::cat", [parts[index] for index in order], 0)

    def biases(self, direction):
        """Input and recurrent bias of a direction, each [gates * hidden]."""
        rows = GATES[self.kind] * self.hidden
        if self.b is None:
            zero = self.node.cast(self.node.constant(torch.zeros(rows)), self.w.dtype)
            return zero, zero
        return self.node.emit("aten::split_with_sizes", self.pick(self.b, direction), [rows, rows], 0)

    def ordered(self, vector):
        if len(ORDER[self.kind]) == 1:
            return vector
        parts = self.node.emit("aten::split_with_sizes", vector, [self.hidden] * GATES[self.kind], 0)
        return self.node.emit("aten::cat", [parts[index] for index in ORDER[self.kind]], 0)


@lowers("LSTM", "GRU", "RNN")
def recurrent(node):
    parts = Recurrence(node)
    if parts.usual():
        y, states = with_torch(parts)
    else:
        y, states = step_by_step(parts)
    if parts.batch_first:
        y = node.emit("aten::permute", y, [2, 0, 1, 3])
        states = [node.emit("aten::transpose.int", state, 0, 1) for state in states]
    return (y, *states)


def with_torch(parts):
    node, order = parts.node, ORDER[parts.kind]
    x = node.emit("aten::flip", parts.x, [0]) if parts.direction == "reverse" else parts.x
    weights = []
    for direction in range(parts.directions):
        weights += [parts.gates(parts.w, direction, order), parts.gates(parts.r, direction, order)]
        if parts.b is not None:
            weights += [parts.ordered(vector) for vector in parts.biases(direction)]
    state = parts.start(parts.h)
    tail = (parts.b is not None, 1, 0.0, False, parts.directions == 2, False)
    if parts.kind == "LSTM":
        y, *states = node.emit("aten::lstm.input", x, [state, parts.start(parts.c)], weights, *tail)
    else:
        kernel = "aten::gru.input" if parts.kind == "GRU" else f"aten::rnn_{parts.activations[0].lower()}.input"
        y, *states = node.emit(kernel, x, state, weights, *tail)
    if parts.direction == "reverse":
        y = node.emit("aten::flip", y, [0])
    y = node.reshape(y, [node.size(parts.x, 0), parts.batch, parts.directions, parts.hidden])
    return node.emit("aten::permute", y, [0, 2, 1, 3]), states


def step_by_step(parts):
    """[steps, directions, batch, hidden] and the last states, one operator after the other for each step."""
    steps = parts.x.dims[0]
    if steps is None:
        raise parts.node.refuse("this form of it needs a sequence length that is known before the model runs")
    outputs, last_h, last_c = [], [], []
    for direction in range(parts.directions):
        y, h, c = one_direction(parts, direction, steps)
        outputs.append(y)
        last_h.append(h)
        last_c.append(c)
    node = parts.node
    states = [node.emit("aten::stack", last_h, 0)]
    if parts.kind == "LSTM":
        states.append(node.emit("aten::stack", last_c, 0))
    return node.emit("aten::stack", outputs, 1), states


def one_direction(parts, direction, steps):
    node, emit = parts.node, parts.node.emit
    cell = Cell(parts, direction)
    back = parts.direction == "reverse" or direction == 1
    h = parts.pick(parts.start(parts.h), direction)
    c = parts.pick(parts.start(parts.c), direction) if parts.kind == "LSTM" else None
    lengths = None if parts.lengths is None else emit("aten::unsqueeze", node.cast(parts.lengths, torch.int64), 1)
    rows = [None] * steps
    for step in reversed(range(steps)) if back else range(steps):
        new_h, new_c = cell.step(emit("aten::select.int", parts.x, 0, step), h, c)
        if lengths is None:
            h, c, rows[step] = new_h, new_c, new_h
            continue
        inside = emit("aten::gt.Scalar", lengths, step)
        rows[step] = emit("aten::where.self", inside, new_h, emit("aten::zeros_like", new_h))
        h = emit("aten::where.self", inside, new_h, h)
        c = None if c is None else emit("aten::where.self", inside, new_c, c)
    return emit("aten::stack", rows, 0), h, c


class Cell:
    """One step of one direction, by the standard's equations."""

    def __init__(self, parts, direction):
        node = parts.node
        self.node, self.parts, self.emit = node, parts, node.emit
        self.w, self.r = parts.gates(parts.w, direction), parts.gates(parts.r, direction)
        count = GATES[parts.kind]
        self.wb, self.rb = (
            node.emit("aten::split_with_sizes", vector, [parts.hidden] * count, 0) for vector in parts.biases(direction)
        )
        self.p = None
        if parts.peepholes is not None:
            self.p = node.emit("aten::split_with_sizes", parts.pick(parts.peepholes, direction), [parts.hidden] * 3, 0)
        number = len(DEFAULT[parts.kind])
        names = parts.activations[direction * number : (direction + 1) * number]
        alphas, betas = node.attr("activation_alpha", []), node.attr("activation_beta", [])
        self.functions = [
            self.function(name, *(values[index : index + 1] for values in (alphas, betas))) for index, name in enumerate(names)
        ]
        self.clip = node.attr("clip")

    def function(self, name, alpha, beta):
        emit = self.emit
        plain = {"Sigmoid": "sigmoid", "Tanh": "tanh", "Relu": "relu", "Softsign": None, "Softplus": "softplus"}
        if plain.get(name):
            return lambda x: emit(f"aten::{plain[name]}", x)
        if name == "LeakyRelu":
            return lambda x: emit("aten::leaky_relu", x, alpha[0] if alpha else 0.01)
        if name == "Elu":
            return lambda x: emit("aten::elu", x, alpha[0] if alpha else 1.0)
        if name == "HardSigmoid":
            a, b = alpha[0] if alpha else 0.2, beta[0] if beta else 0.5
            return lambda x: emit("aten::clamp", emit("aten::add.Scalar", emit("aten::mul.Scalar", x, a), b), 0.0, 1.0)
        raise self.node.refuse(f"activation {name} is not served")

    def gate(self, index, x, h, peephole=None, state=None):
        total = self.emit(
            "aten::add.Tensor",
            self.emit("aten::linear", x, self.w[index], self.wb[index]),
            self.emit("aten::linear", h, self.r[index], self.rb[index]),
        )
        if self.p is not None and peephole is not None:
            total = self.emit("aten::add.Tensor", total, self.emit("aten::mul.Tensor", self.p[peephole], state))
        return self.clipped(total)

    def clipped(self, total):
        return total if self.clip is None else self.emit("aten::clamp", total, -self.clip, self.clip)

    def step(self, x, h, c):
        return getattr(self, f"step_{self.parts.kind.lower()}")(x, h, c)

    def step_rnn(self, x, h, _):
        return self.functions[0](self.gate(0, x, h)), None

    def step_gru(self, x, h, _):
        emit, (f, g) = self.emit, self.functions
        z, r = f(self.gate(0, x, h)), f(self.gate(1, x, h))
        if self.node.attr("linear_before_reset", 0):
            inner = emit("aten::mul.Tensor", r, emit("aten::linear", h, self.r[2], self.rb[2]))
        else:
            inner = emit("aten::linear", emit("aten::mul.Tensor", r, h), self.r[2], self.rb[2])
        n = g(self.clipped(emit("aten::add.Tensor", emit("aten::linear", x, self.w[2], self.wb[2]), inner)))
        return emit("aten::lerp.Tensor", n, h, z), None

    def step_lstm(self, x, h, c):
        emit, (f, g, last) = self.emit, self.functions
        i = f(self.gate(0, x, h, 0, c))
        forget = emit("aten::rsub.Scalar", i, 1) if self.node.attr("input_forget", 0) else f(self.gate(2, x, h, 2, c))
        new = g(self.gate(3, x, h))
        cell = emit("aten::add.Tensor", emit("aten::mul.Tensor", forget, c), emit("aten::mul.Tensor", i, new))
        o = f(self.gate(1, x, h, 1, cell))
        return emit("aten::mul.Tensor", o, last(cell)), cell
