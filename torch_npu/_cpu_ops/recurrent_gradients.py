"""Gradients of the recurrent layers of recurrent.py. What the layers saved is not needed: it is found again."""

from typing import Any, Callable, Optional, Sequence, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import wide
from torch_npu._cpu_ops._gradient import gradients
from torch_npu._cpu_ops.recurrent import npu_gru, npu_lstm, npu_lstm_data

Given = Optional[Tensor]


def found(function: Callable[..., Any], inputs: Sequence[Given], grads: Sequence[Given]) -> Tuple[Any, ...]:
    """Gradients of the first results of ``function``, as many as there are ``grads``; zeros if all of those are None."""
    if all(grad is None for grad in grads):
        return tuple(None if t is None else t.new_zeros(t.shape) for t in inputs)
    return gradients(lambda *given: tuple(function(*given)[: len(grads)]), inputs, grads)


def npu_lstm_backward(
    grady: Given,
    gradh: Given,
    gradc: Given,
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    hx: Tensor,
    cx: Tensor,
    *_: Tensor,
) -> Tuple[Any, ...]:
    """Gradients of :func:`npu_lstm`, time first and from the first step on, for input, weight, bias, h and c.

    ``grady``, ``gradh``, ``gradc``: of its results, states h and states c, [time, batch, hidden] each, or None.
    """

    def forward(*given: Tensor) -> Any:
        x, w, b, h, c = given
        return npu_lstm(x, w, b, x.new_empty(0), h, c, True, 1, 0.0, True, False, False, False, False)

    return found(forward, (input, weight, bias, hx, cx), (grady, gradh, gradc))


def npu_lstm_data_backward(
    grady_opt: Given,
    gradh_opt: Given,
    gradc_opt: Given,
    input: Tensor,
    batch_sizes: Tensor,
    weight: Tensor,
    bias: Tensor,
    init_h: Tensor,
    init_c: Tensor,
    *saved: Any,
) -> Tuple[Any, ...]:
    """Gradients of :func:`npu_lstm_data` for input, weight, bias, h and c; the last argument: its ``direction``."""

    def forward(*given: Tensor) -> Any:
        x, w, b, h0, c0 = given
        return npu_lstm_data(x, batch_sizes, w, b, x.new_empty(0), h0, c0, True, 1, 0.0, True, False, False, True, saved[-1])

    return found(forward, (input, weight, bias, init_h, init_c), (grady_opt, gradh_opt, gradc_opt))


def npu_lstm_cell_backward(
    grady: Given,
    gradh: Given,
    gradc: Given,
    input: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    h: Tensor,
    c: Tensor,
    y_output: Tensor,
    h_output: Tensor,
    c_output: Tensor,
    i: Tensor,
    j: Tensor,
    f: Tensor,
    o: Tensor,
    tanhc: Tensor,
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of :func:`npu_lstm_cell` for input, w_ih, w_hh, b_ih, b_hh, h and c, out of its gates.

    ``grady``, ``gradh``, ``gradc``: of its first three results, of their shapes, or None. Each has the shape and the dtype, a
    floating point one, of what it is the gradient of.
    """
    shape = c.shape
    i, j, f, o, tanhc, cell = (wide(t).reshape(shape) for t in (i, j, f, o, tanhc, c))
    for_state, for_cell = (
        sum((wide(g).reshape(shape) for g in given if g is not None), cell.new_zeros(shape))
        for given in ((grady, gradh), (gradc,))
    )
    for_cell = for_cell + for_state * o * (1 - tanhc * tanhc)
    gates = torch.cat([
        for_cell * j * i * (1 - i), for_cell * cell * f * (1 - f), for_cell * i * (1 - j * j), for_state * tanhc * o * (1 - o)
    ], -1)  # fmt: skip
    for_bias = gates.sum(0).to(w_ih.dtype)
    return (
        (gates @ wide(w_ih).t()).to(input.dtype),
        (wide(input).t() @ gates).to(w_ih.dtype),
        (wide(h).t() @ gates).to(w_hh.dtype),
        for_bias,
        for_bias.clone(),
        (gates @ wide(w_hh).t()).to(h.dtype),
        (for_cell * f).to(c.dtype),
    )


def npu_gru_backward(
    grady: Given,
    gradh: Given,
    input: Tensor,
    weight_input: Tensor,
    weight_hidden: Tensor,
    bias_input: Tensor,
    bias_hidden: Tensor,
    seq_length: Tensor,
    hx: Tensor,
    *_: Tensor,
) -> Tuple[Any, ...]:
    """Gradients of :func:`npu_gru`, time first, for weight_input, weight_hidden, input, bias_input, bias_hidden and hx.

    ``grady`` and ``gradh``: of its results and its states, [time, batch, hidden] each, or None.
    """

    def forward(*given: Tensor) -> Any:
        w, u, x, b, c, h = given
        return npu_gru(x, h, w, u, b, c, seq_length, True, 1, 0.0, True, False, False)

    return found(forward, (weight_input, weight_hidden, input, bias_input, bias_hidden, hx), (grady, gradh))
