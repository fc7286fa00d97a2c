"""The program that an .om holds: values, operators in the order of execution, graphs."""

import dataclasses
import typing

import torch

DTYPE_NAMES = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.float64: "float64",
    torch.bfloat16: "bfloat16",
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e5m2: "float8_e5m2",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.bool: "bool",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.uint64: "uint64",
}
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}


class Value:
    """What an operator yields, or a constant, or a graph's input.

    `samples` says what is known of it: for each set of sizes that the free dimensions were given, a tensor on the meta
    device, or a real one where the numbers follow from shapes alone; None where nothing is known. A dimension is fixed if it
    is the same in all samples. For a sequence (`is_list`) a sample is None. `limits` are the least and the greatest number where
    the model has a type of fewer bits than the one here.
    """

    __slots__ = ("name", "samples", "const", "op", "is_list", "casts", "source", "exact", "limits")

    def __init__(self, name, samples, const=None, op=None, is_list=False):
        self.name, self.samples, self.const, self.op, self.is_list = name, samples, const, op, is_list
        self.casts = {}  # dtype -> this value converted
        self.source = name  # for people
        self.exact = const  # a constant before it was rounded to half precision
        self.limits = None

    @property
    def known(self):
        return not self.is_list and self.samples[0] is not None

    @property
    def dtype(self):
        return self.samples[0].dtype if self.known else None

    @property
    def rank(self):
        return self.samples[0].dim() if self.known else None

    @property
    def dims(self):
        """Sizes; None for one that is known at run time only."""
        shapes = [tuple(sample.shape) for sample in self.samples]
        return [sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes)]

    @property
    def static(self):
        return self.known and None not in self.dims

    def __repr__(self):
        return f"<{self.name} {self.dtype} {self.dims if self.known else '?'}>"


@dataclasses.dataclass(frozen=True)
class Of:
    """The only element of a value, as a number."""

    value: Value


@dataclasses.dataclass(frozen=True)
class All:
    """All elements of a 1-D value, as a list of numbers."""

    value: Value


@dataclasses.dataclass
class Op:
    kernel: str
    args: list
    outputs: list  # Values
    type: str = ""  # the ONNX operators it came from
    name: str = ""
    bodies: tuple = ()  # of control flow: positions in args that are numbers of graphs

    def inputs(self):
        """All values that the arguments name, with repetitions."""
        found = []

        def look(arg):
            if isinstance(arg, Value):
                found.append(arg)
            elif isinstance(arg, (Of, All)):
                found.append(arg.value)
            elif isinstance(arg, (list, tuple)):
                for one in arg:
                    look(one)

        look(self.args)
        return found

    def replace(self, old, new):
        """Puts `new` where the arguments name `old`."""

        def change(arg):
            if arg is old:
                return new
            if isinstance(arg, (Of, All)) and arg.value is old:
                return type(arg)(new)
            return [change(one) for one in arg] if isinstance(arg, (list, tuple)) else arg

        self.args = [change(arg) for arg in self.args]


@dataclasses.dataclass
class Port:
    """An input or output of a graph as its users see it."""

    value: Value
    name: str
    dtype: typing.Any  # torch.dtype; None for a sequence
    dims: typing.Any  # list with -1, or None where the rank is not known
    format: str = "ND"


@dataclasses.dataclass
class Graph:
    name: str
    inputs: list = dataclasses.field(default_factory=list)  # Ports
    outputs: list = dataclasses.field(default_factory=list)
    ops: list = dataclasses.field(default_factory=list)
    attrs: dict = dataclasses.field(default_factory=dict)  # more attributes of the GraphDef


@dataclasses.dataclass
class Program:
    """`graphs[0]` is the program, the others are bodies of control flow, called by number."""

    name: str
    graphs: list = dataclasses.field(default_factory=list)
    attrs: dict = dataclasses.field(default_factory=dict)  # attributes of the ModelDef
    count: int = 0
    single_op: dict = dataclasses.field(default_factory=dict)  # of a model of a single operator: what it is, as texts

    def new_name(self):
        self.count += 1
        return f"v{self.count}"

    def ops(self):
        return (op for graph in self.graphs for op in graph.ops)

    def bodies(self, op):
        return [self.graphs[op.args[index]] for index in op.bodies]

    def needs(self, op):
        """Values that the operator reads, those of its bodies from outside included."""
        found = op.inputs()
        for body in self.bodies(op):
            inside = {id(port.value) for port in body.inputs}
            for inner in body.ops:
                found += [value for value in self.needs(inner) if id(value) not in inside]
                inside.update(id(value) for value in inner.outputs)
            found += [port.value for port in body.outputs if id(port.value) not in inside]
        return found

    def constants(self):
        """All constants in use, in the order of their first use."""
        found = {}
        for graph in self.graphs:
            for op in graph.ops:
                found.update((id(value), value) for value in op.inputs() if value.const is not None)
            found.update((id(port.value), port.value) for port in graph.outputs if port.value.const is not None)
        return list(found.values())
