"""What a lowering sees of an ONNX node."""

import onnx
import torch

from ..errors import Unsupported
from ..program import All, Of, Value

MOST_ELEMENTS = 4096  # of a list whose elements are picked one by one


class Node:
    """Inputs are values, None for an absent one. `opset` is the version of the node's domain."""

    def __init__(self, importer, builder, proto, inputs, opset):
        self.importer, self.builder, self.proto, self.inputs, self.opset = importer, builder, proto, inputs, opset
        self.type, self.name = proto.op_type, proto.name or (proto.output[0] if proto.output else "")
        self.attributes = {attribute.name: attribute for attribute in proto.attribute}

    def attr(self, name, default=None):
        """An attribute's value: number, str, list, TensorProto, GraphProto."""
        if name not in self.attributes:
            return default
        value = onnx.helper.get_attribute_value(self.attributes[name])
        if isinstance(value, bytes):
            return value.decode()
        return [item.decode() if isinstance(item, bytes) else item for item in value] if isinstance(value, list) else value

    def x(self, index):
        """The input, None if it is absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def emit(self, kernel, *args, **kwargs):
        return self.builder.emit(kernel, *args, **kwargs)

    def constant(self, data, dtype=None):
        return self.builder.constant(data if dtype is None else torch.as_tensor(data, dtype=dtype))

    def cast(self, value, dtype):
        return self.builder.cast(value, dtype)

    def output_count(self):
        return len(self.proto.output)

    def wants(self, index):
        """Whether the node has this output."""
        return index < len(self.proto.output) and self.proto.output[index] != ""

    def numbers(self, index):
        """A constant input as a flat list; None if it is absent or not constant."""
        value = self.x(index)
        return None if value is None or value.const is None else value.const.flatten().tolist()

    def number(self, index, default=None):
        """The only element of an input: a number, or `Of` it where it is known at run time."""
        value = self.x(index)
        return default if value is None else value.const.item() if value.const is not None else Of(value)

    def fixed(self, index, what):
        """A constant input as a flat list; refuses the node if it is not constant."""
        found = self.numbers(index)
        if found is None:
            raise self.refuse(f"its {what} must be a constant")
        return found

    def elements(self, value):
        """A 1-D value as a list of numbers, each `Of` an element where it is known at run time only."""
        if value.const is not None:
            return value.const.tolist()
        count = value.dims[0] if value.known and value.rank == 1 else None
        if count is None or count > MOST_ELEMENTS:
            return All(value)
        return [Of(self.emit("aten::select.int", value, 0, index)) for index in range(count)]

    def rank(self, value):
        if not value.known:
            raise self.refuse("the number of dimensions of its input is not known before the model runs")
        return value.rank

    def axis(self, value, axis):
        """Not negative."""
        return axis + self.rank(value) if axis < 0 else axis

    def shape(self, value):
        """1-D int64 value with the sizes."""
        if value.static:
            return self.constant(value.dims, torch.int64)
        return self.emit("aten::_shape_as_tensor", value)

    def size(self, value, axis):
        """A size as a number, or `Of` it."""
        axis = self.axis(value, axis)
        if value.dims[axis] is not None:
            return value.dims[axis]
        return Of(self.emit("aten::select.int", self.shape(value), 0, axis))

    def sizes(self, value):
        """All sizes as numbers, or `Of` them."""
        self.rank(value)
        return [self.size(value, axis) for axis in range(value.rank)]

    def reshape(self, value, sizes):
        return self.emit("aten::reshape", value, sizes)

    def refuse(self, reason):
        return Unsupported(f"operator {self.name} of type {self.type}: {reason}")


def is_float(value: Value):
    return value.dtype is not None and value.dtype.is_floating_point
