"""Appends operators to a graph: binds arguments to ATen's schema, folds what is constant, follows types and sizes.

Types and sizes come from the operators themselves, run on torch's meta device; numbers that follow from shapes alone are
computed for each sample of the free dimensions, so that a shape computed by the graph stays known.
"""

import torch

from .kernels import FUNCTIONS, LISTS, invoke
from .program import All, Of, Op, Value
from .tokens import schema_of

KEPT_NUMBERS = 4096  # of a sample, those of longer tensors are not worth keeping
FOLD_BYTES = 1 << 20  # a folded result may be this large, or FOLD_GROWTH times its inputs
FOLD_GROWTH = 4
RANDOM = ("rand", "bernoulli", "multinomial", "normal", "dropout")


def bind(kernel, args, kwargs):
    """All arguments in the schema's order, trailing defaults left out."""
    arguments = schema_of(kernel).arguments
    if len(args) > len(arguments) or not set(kwargs) <= {argument.name for argument in arguments[len(args) :]}:
        raise TypeError(f"{kernel} has no such arguments: {args}, {kwargs}")
    bound, last = list(args), len(args)
    for index, argument in enumerate(arguments[len(args) :], len(args)):
        if argument.name in kwargs:
            bound.append(kwargs[argument.name])
            last = index + 1
        else:
            bound.append(argument.default_value)
    return bound[: max(last, _required(arguments))]


def _required(arguments):
    return max((index + 1 for index, argument in enumerate(arguments) if not argument.has_default_value()), default=0)


def substitute(arg, tensor_of):
    """The argument with tensors and numbers in the place of values."""
    if isinstance(arg, Value):
        return tensor_of(arg)
    if isinstance(arg, Of):
        return _real(tensor_of(arg.value)).item()
    if isinstance(arg, All):
        return _real(tensor_of(arg.value)).tolist()
    if isinstance(arg, (list, tuple)):
        return [substitute(one, tensor_of) for one in arg]
    return arg


class NotKnown(Exception):
    """A sample's numbers depend on data."""


def _real(tensor):
    if tensor is None or tensor.is_meta:
        raise NotKnown
    return tensor


class Builder:
    """One graph that is being written. `samples` is how many sets of sizes the free dimensions are tried with."""

    def __init__(self, program, graph, samples, fold=True, precision=None):
        self.program, self.graph, self.samples, self.fold, self.precision = program, graph, samples, fold, precision
        self.origin = ("", "")  # ONNX type and name of what is being lowered

    def constant(self, tensor):
        """A value for a tensor, or for what torch.tensor takes."""
        tensor = tensor if isinstance(tensor, torch.Tensor) else torch.tensor(tensor)
        return Value(self.program.new_name(), [tensor] * self.samples, const=tensor.contiguous())

    def emit(self, kernel, *args, returns=None, **kwargs):
        """Values of one operator: one, or a tuple as the schema returns. `returns` is how many tensors a list has that the
        schema returns, for the case that the samples do not tell."""
        args = list(args) if kernel.startswith("softcann::") else bind(kernel, args, kwargs)
        args = [self._simplify(arg) for arg in args]
        op = Op(kernel, args, [], *self.origin)
        folded = self._fold(op) if self.fold else None
        if folded is not None:
            return folded
        if self.precision is not None:
            op.args = self.precision.convert(self, kernel, args)
        if kernel in LISTS:
            op.outputs = [Value(self.program.new_name(), [None] * self.samples, op=op, is_list=True)]
            self.graph.ops.append(op)
            return op.outputs[0]
        sampled = [self._sample(op, index) for index in range(self.samples)]
        count = max((len(results) for results in sampled if results is not None), default=returns or self._returns(kernel))
        op.outputs = [
            Value(self.program.new_name(), [None if results is None else results[index] for results in sampled], op=op)
            for index in range(count)
        ]
        for value in op.outputs:
            if any(sample is None for sample in value.samples):
                value.samples = [None] * self.samples
        self.graph.ops.append(op)
        return tuple(op.outputs) if returns else self._pack(sampled[0], op.outputs)

    def _fold(self, op):
        """Constants in the place of an operator on constants; None if it must stay."""
        inputs = op.inputs()
        if any(value.const is None for value in inputs) or op.kernel in LISTS or any(word in op.kernel for word in RANDOM):
            return None
        results = self._run(op, lambda value: value.const)
        if not self._worth_folding(results, inputs):
            return None
        return self._pack(results, [self.constant(result) for result in results])

    def cast(self, value, dtype):
        """The value converted, once for each type."""
        if value.dtype == dtype:
            return value
        if dtype not in value.casts:
            if value.const is not None:
                value.casts[dtype] = self.constant(self._convert(value.const, dtype))
                value.casts[dtype].source, value.casts[dtype].exact = value.source, value.exact
            else:
                value.casts[dtype] = self.emit("aten::to.dtype", value, dtype)
        return value.casts[dtype]

    def _convert(self, tensor, dtype):
        """Large weights stay finite in half precision where the option says so (--is_weight_clip)."""
        if dtype == torch.float16 and tensor.is_floating_point() and self.precision is not None and self.precision.clip:
            limit = torch.finfo(dtype).max
            tensor = torch.where(tensor.isfinite(), tensor.clamp(-limit, limit), tensor)
        return tensor.to(dtype)

    def append(self, op, outputs):
        """An operator whose outputs the caller describes: a list of samples for each of them."""
        op.outputs = [Value(self.program.new_name(), samples, op=op) for samples in outputs]
        self.graph.ops.append(op)
        return op.outputs

    def _simplify(self, arg):
        """Numbers of constants are written down."""
        if isinstance(arg, Of) and arg.value.const is not None:
            return arg.value.const.item()
        if isinstance(arg, All) and arg.value.const is not None:
            return arg.value.const.tolist()
        return [self._simplify(one) for one in arg] if isinstance(arg, (list, tuple)) else arg

    @staticmethod
    def _returns(kernel):
        return 1 if kernel.startswith("softcann::") else len(schema_of(kernel).returns)

    @staticmethod
    def _pack(results, values):
        return (
            values[0] if len(values) == 1 and (results is None or not getattr(results, "is_sequence", False)) else tuple(values)
        )

    @staticmethod
    def _run(op, tensor_of):
        with torch.no_grad():
            results = invoke(op.kernel, substitute(op.args, tensor_of))
        return Results(results)

    @staticmethod
    def _worth_folding(results, inputs):
        if not all(isinstance(result, torch.Tensor) for result in results):
            return False
        size = sum(result.numel() * result.element_size() for result in results)
        return size <= max(FOLD_BYTES, FOLD_GROWTH * sum(value.const.numel() * value.const.element_size() for value in inputs))

    def _sample(self, op, index):
        """Results of the operator for one set of sizes, None if they depend on data or torch cannot tell."""
        if op.kernel.startswith("softcann::") and op.kernel not in FUNCTIONS:
            return None
        tensors = {id(value): None if value.is_list else value.samples[index] for value in op.inputs()}
        if any(tensor is None for tensor in tensors.values()):
            return None
        direct = [value for arg in op.args for value in _tensors(arg)]
        if any(tensors[id(value)].is_meta for value in direct):
            for value in direct:
                tensors[id(value)] = tensors[id(value)].to("meta")
        try:
            if op.kernel == "aten::_shape_as_tensor":
                return Results(torch.tensor(list(tensors[id(direct[0])].shape), dtype=torch.int64))
            results = self._run(op, lambda value: tensors[id(value)])
        except (NotKnown, RuntimeError, NotImplementedError, IndexError, ValueError, TypeError):
            return None
        results[:] = [result.to("meta") if result.numel() > KEPT_NUMBERS else result for result in results]
        return results


class Results(list):
    """What an operator returned, as a list; `is_sequence` where it was one."""

    def __init__(self, results):
        self.is_sequence = isinstance(results, (list, tuple))
        super().__init__(results if self.is_sequence else [results])


def _tensors(arg):
    if isinstance(arg, Value):
        return [arg]
    return [value for one in arg for value in _tensors(one)] if isinstance(arg, (list, tuple)) else []
