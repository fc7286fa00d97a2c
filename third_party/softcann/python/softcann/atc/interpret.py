"""Runs a program on the CPU, operator by operator: what the C++ runtime is compared with, and the compiler's own oracle."""

import torch

from .builder import substitute
from .kernels import CONTROL, invoke


class Interpreter:
    """A program with its constants. `watch(op, results)` is called after each operator of the main graph."""

    def __init__(self, program, watch=None):
        self.program, self.watch = program, watch

    def run(self, inputs):
        """Outputs, a list, for the inputs in the order of the graph's: tensors, or lists of them for sequences."""
        with torch.no_grad():
            return self._graph(self.program.graphs[0], inputs, {})

    def _graph(self, graph, inputs, around):
        values = dict(around)
        if len(inputs) != len(graph.inputs):
            raise ValueError(f"graph {graph.name} has {len(graph.inputs)} inputs, {len(inputs)} were given")
        for port, given in zip(graph.inputs, inputs):
            values[id(port.value)] = given

        def read(value):
            return value.const if value.const is not None else values[id(value)]

        for op in graph.ops:
            args = substitute(op.args, read)
            results = self._control(op, args, values) if op.kernel in CONTROL else invoke(op.kernel, args)
            single = len(op.outputs) == 1 and (not isinstance(results, (list, tuple)) or op.outputs[0].is_list)
            results = [results] if single else results
            for value, result in zip(op.outputs, results):
                values[id(value)] = result
            if self.watch is not None and graph is self.program.graphs[0]:
                self.watch(op, results)
        return [read(port.value) for port in graph.outputs]

    def _control(self, op, args, values):
        kernel = op.kernel[len("softcann::") :]
        results = getattr(self, f"_{kernel}")(values, *args)
        return results[0] if len(op.outputs) == 1 else results

    def _if(self, values, condition, then, otherwise):
        return self._graph(self.program.graphs[then if bool(condition) else otherwise], [], values)

    def _loop(self, values, trips, condition, body, carried):
        graph = self.program.graphs[body]
        condition = torch.tensor(True) if condition is None else condition
        collected = [[] for _ in graph.outputs[1 + len(carried) :]]
        carried, step = list(carried), 0
        while bool(condition) and (trips is None or step < int(trips)):
            condition, *results = self._graph(graph, [torch.tensor(step), condition, *carried], values)
            carried, new = results[: len(carried)], results[len(carried) :]
            for rows, row in zip(collected, new):
                rows.append(row)
            step += 1
        return carried + [stack(rows, port, 0) for rows, port in zip(collected, graph.outputs[1 + len(carried) :])]

    def _scan(self, values, body, states, sequences, axes, backwards, output_axes, output_backwards):
        graph = self.program.graphs[body]
        states, steps = list(states), sequences[0].shape[axes[0]]
        collected = [[] for _ in output_axes]
        for step in range(steps):
            items = [
                sequence.select(axis, steps - 1 - step if back else step)
                for sequence, axis, back in zip(sequences, axes, backwards)
            ]
            results = self._graph(graph, [*states, *items], values)
            states = results[: len(states)]
            for rows, row in zip(collected, results[len(states) :]):
                rows.append(row)
        ports = graph.outputs[len(states) :]
        return states + [
            stack(rows[::-1] if back else rows, port, axis)
            for rows, port, axis, back in zip(collected, ports, output_axes, output_backwards)
        ]


def stack(rows, port, axis):
    """Rows of a collected output; of none of them, an empty tensor of the port's type and sizes."""
    if rows:
        return torch.stack(rows, axis)
    dims = [max(dim, 0) for dim in port.dims or []]
    return torch.empty([*dims[:axis], 0, *dims[axis:]], dtype=port.dtype or torch.float32)
