"""torch.onnx.export from an NPU: LSTMCell and GRUCell run as one fused operator each there, which ONNX has not.

The newer exporter takes them apart by the decompositions here, the older one (`dynamo=False`) by symbolic functions. They are
not in torch's own table of decompositions: its compiler refuses to load where that table has an operator which it does not
take apart itself.
"""

import functools
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor


def extend_table(exporter: Any) -> None:
    """The newer exporter's table of decompositions gets the cells', but for those that it can write as they are."""
    built = exporter.create_onnx_friendly_decomposition_table

    @functools.wraps(built)
    def create_onnx_friendly_decomposition_table(onnx_registered_ops: Any) -> Dict[Any, Any]:
        table = built(onnx_registered_ops)
        for name, decomposition in (("_thnn_fused_lstm_cell", _lstm_cell), ("_thnn_fused_gru_cell", _gru_cell)):
            overload = getattr(torch.ops.aten, name).default
            if overload not in onnx_registered_ops:
                table.setdefault(overload, decomposition)
        return table

    exporter.create_onnx_friendly_decomposition_table = create_onnx_friendly_decomposition_table


def _lstm_cell(input_gates: Tensor, hidden_gates: Tensor, cx: Tensor, input_bias: Optional[Tensor] = None,
               hidden_bias: Optional[Tensor] = None) -> Tuple[Tensor, Tensor, Tensor]:
    """Gates [N, 4 H] and cx [N, H] to hy [N, H], cy [N, H] and the gates' values [N, 4 H]."""
    gates = _with_bias(input_gates, input_bias) + _with_bias(hidden_gates, hidden_bias)
    into, forget, fresh, out = gates.chunk(4, 1)
    into, forget, fresh, out = into.sigmoid(), forget.sigmoid(), fresh.tanh(), out.sigmoid()
    cy = forget * cx + into * fresh
    return out * cy.tanh(), cy, torch.cat([into, forget, fresh, out], 1)


def _gru_cell(input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, input_bias: Optional[Tensor] = None,
              hidden_bias: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    """Gates [N, 3 H] and hx [N, H] to hy [N, H] and what the gradient needs [N, 5 H]."""
    input_parts = _with_bias(input_gates, input_bias).chunk(3, 1)
    hidden_parts = _with_bias(hidden_gates, hidden_bias).chunk(3, 1)
    reset, update = (input_parts[0] + hidden_parts[0]).sigmoid(), (input_parts[1] + hidden_parts[1]).sigmoid()
    fresh = (input_parts[2] + reset * hidden_parts[2]).tanh()
    return fresh + update * (hx - fresh), torch.cat([reset, update, fresh, hx, hidden_parts[2]], 1)


def _with_bias(gates: Tensor, bias: Optional[Tensor]) -> Tensor:
    return gates if bias is None else gates + bias


def register_symbolics(onnx: Any) -> None:
    for name, symbolic in (("_thnn_fused_lstm_cell", _lstm_symbolic), ("_thnn_fused_gru_cell", _gru_symbolic)):
        onnx.register_custom_op_symbolic(f"aten::{name}", symbolic, 9)


def _lstm_symbolic(g: Any, input_gates: Any, hidden_gates: Any, cx: Any, input_bias: Any, hidden_bias: Any) -> Tuple[Any, ...]:
    gates = g.op("Add", _add_bias(g, input_gates, input_bias), _add_bias(g, hidden_gates, hidden_bias))
    into, forget, fresh, out = _parts(g, gates, 4)
    kept = g.op("Mul", g.op("Sigmoid", forget), cx)
    cy = g.op("Add", kept, g.op("Mul", g.op("Sigmoid", into), g.op("Tanh", fresh)))
    return g.op("Mul", g.op("Sigmoid", out), g.op("Tanh", cy)), cy, gates


def _gru_symbolic(g: Any, input_gates: Any, hidden_gates: Any, hx: Any, input_bias: Any, hidden_bias: Any) -> Tuple[Any, ...]:
    input_parts = _parts(g, _add_bias(g, input_gates, input_bias), 3)
    hidden_parts = _parts(g, _add_bias(g, hidden_gates, hidden_bias), 3)
    reset, update = (g.op("Sigmoid", g.op("Add", input_parts[index], hidden_parts[index])) for index in (0, 1))
    fresh = g.op("Tanh", g.op("Add", input_parts[2], g.op("Mul", reset, hidden_parts[2])))
    return g.op("Add", fresh, g.op("Mul", update, g.op("Sub", hx, fresh))), input_gates


def _add_bias(g: Any, gates: Any, bias: Any) -> Any:
    return gates if bias is None or bias.node().mustBeNone() else g.op("Add", gates, bias)


def _parts(g: Any, gates: Any, count: int) -> List[Any]:
    """[N, count H] as `count` values [N, H], whatever H is."""
    split = g.op("Reshape", gates, g.op("Constant", value_t=torch.tensor([0, count, -1])))
    return [g.op("Gather", split, g.op("Constant", value_t=torch.tensor(index)), axis_i=1) for index in range(count)]
