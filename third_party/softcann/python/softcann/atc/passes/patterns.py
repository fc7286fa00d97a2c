"""What fusions ask of a program: who makes a value, who uses it, which constants are numbers."""

import collections

from ..builder import Builder
from ..program import Graph, Value


class Patterns:
    def __init__(self, program):
        self.program = program
        self.uses = collections.Counter()
        for graph in program.graphs:
            self.uses.update(id(port.value) for port in graph.outputs)
            for op in graph.ops:
                self.uses.update(id(value) for value in op.inputs())

    def each(self, kernel):
        """(graph, operator) of a kernel, those of a list made before."""
        return [(graph, op) for graph in self.program.graphs for op in graph.ops if op.kernel == kernel]

    def once(self, value):
        """Whether one argument of one operator is all that uses the value."""
        return self.uses[id(value)] == 1

    @staticmethod
    def made_by(value, *kernels):
        """The operator that makes a value, if it is one of these kernels."""
        op = value.op if isinstance(value, Value) else None
        return op if op is not None and op.kernel in kernels else None

    @staticmethod
    def number(arg):
        """A constant with one element as a number; None for anything else."""
        if isinstance(arg, (int, float)):
            return float(arg)
        if isinstance(arg, Value) and arg.const is not None and arg.const.numel() == 1:
            return float(arg.exact.item())
        return None

    def sum_parts(self, value):
        """(value, number) of `value + number`, (None, None) if it is no such sum."""
        op = self.made_by(value, "aten::add.Tensor", "aten::add.Scalar")
        if op is None or (len(op.args) > 2 and op.args[2] != 1):
            return None, None
        for left, right in (op.args[:2], op.args[1::-1]):
            number = self.number(right)
            if isinstance(left, Value) and number is not None:
                return left, number
        return None, None

    def factors(self, value):
        """The values that are multiplied, and the product of the numbers among them; quotients by numbers are products."""
        values, number, stack = [], 1.0, [value]
        while stack:
            one = stack.pop()
            op = self.made_by(one, "aten::mul.Tensor", "aten::mul.Scalar", "aten::div.Tensor", "aten::div.Scalar")
            quotient = op is not None and op.kernel.startswith("aten::div")
            if op is None or (one is not value and not self.once(one)) or (quotient and not self.number(op.args[1])):
                values.append(one)
                continue
            for index, arg in enumerate(op.args[:2]):
                found = self.number(arg)
                if found is None:
                    stack.append(arg)
                else:
                    number = number / found if quotient and index else number * found
        return values, number

    def constant(self, tensor, like):
        """A constant of the type of a value."""
        exact, tensor = tensor, tensor.to(like.dtype).contiguous()
        value = Value(self.program.new_name(), [tensor] * len(like.samples), const=tensor)
        value.exact = exact
        return value

    def builder(self, op):
        """For operators that go before another one: see `insert`."""
        builder = Builder(self.program, Graph("before"), len(op.outputs[0].samples))
        builder.origin = (op.type, op.name)
        return builder

    @staticmethod
    def insert(graph, op, builder):
        place = next(index for index, one in enumerate(graph.ops) if one is op)
        graph.ops[place:place] = builder.graph.ops

    @staticmethod
    def become(op, kernel, args, *parts):
        """The operator turned into the fused one; `parts` are those that it swallows, for its type."""
        names = [part.type for part in (*parts, op) if part is not None]
        op.kernel, op.args, op.bodies = kernel, list(args), ()
        op.type = "+".join(dict.fromkeys("+".join(names).split("+")))


def close(number, wanted, tolerance=2e-3):
    return number is not None and abs(number - wanted) <= tolerance * abs(wanted)
