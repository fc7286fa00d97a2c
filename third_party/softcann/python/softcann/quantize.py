"""python -m softcann.quantize: an int8 model from a float one, calibrated with examples.

Weights of convolutions and products become int8 with a scale for each output channel; their activations pass QuantizeLinear and
DequantizeLinear with the scale that the examples ask for. The result is an ONNX model, which atc converts and other
runtimes of ONNX read.
"""

import argparse
import sys
import zipfile

KINDS = ("Conv", "Gemm", "MatMul")
CHANNEL = {"Conv": 0}  # axis of the weight's output channels; Gemm's depends on transB, MatMul's is the last


def channel_axis(node):
    if node.op_type == "Gemm":
        return 0 if any(attribute.name == "transB" and attribute.i for attribute in node.attribute) else 1
    return CHANNEL.get(node.op_type, 1)


def constants_of(model):
    """Initialisers by name, and by the names that Identity gives to those which layers share."""
    found = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Identity" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


def chosen(model, skip):
    """Nodes with a constant float weight of two dimensions or more, those named in `skip` left out."""
    constants = constants_of(model)
    return [
        node
        for node in model.graph.node
        if node.op_type in KINDS
        and node.name not in skip
        and node.input[1] in constants
        and len(constants[node.input[1]].dims) >= 2
        and constants[node.input[1]].data_type == 1
    ]


def ranges(model, names, examples, percentile):
    """{tensor: largest absolute value over the examples}, each example a dict of arrays by input."""
    import numpy

    from softcann.validate import reference

    most = dict.fromkeys(names, 0.0)
    for number, example in enumerate(examples, 1):
        copy = type(model)()
        copy.CopyFrom(model)
        inputs = {info.name for info in model.graph.input}
        found = {**reference(copy, example, [name for name in names if name not in inputs]), **example}
        for name in names:
            if not numpy.isfinite(found[name]).all():
                raise ValueError(f"{name} has values that are not finite with example {number}: no scale fits them")
            most[name] = max(most[name], float(numpy.percentile(numpy.abs(found[name]), percentile)))
    return most


def quantized_weight(array, axis):
    """int8 numbers and the scale of each channel."""
    import numpy

    other = tuple(index for index in range(array.ndim) if index != axis)
    scale = numpy.maximum(numpy.abs(array).max(other) / 127, numpy.finfo(numpy.float32).tiny).astype(numpy.float32)
    shape = [-1 if index == axis else 1 for index in range(array.ndim)]
    return numpy.clip(numpy.rint(array / scale.reshape(shape)), -127, 127).astype(numpy.int8), scale


class Writer:
    """Puts QuantizeLinear and DequantizeLinear before the operators."""

    def __init__(self, model):
        from onnx import helper, numpy_helper

        self.helper, self.arrays, self.graph = helper, numpy_helper, model.graph
        self.weights = constants_of(model)
        self.nodes, self.done = {}, {}  # operators to go before a node, by its index

    def constant(self, array, name):
        self.graph.initializer.append(self.arrays.from_array(array, name))
        return name

    def activation(self, index, name, most):
        """The tensor after the round trip; once for each."""
        import numpy

        if name not in self.done:
            scale = self.constant(numpy.float32(max(most, 1e-12) / 127), f"{name}_scale")
            zero = self.constant(numpy.int8(0), f"{name}_zero")
            self.done[name] = f"{name}_dequantized"
            self.nodes.setdefault(index, []).extend(
                [
                    self.helper.make_node("QuantizeLinear", [name, scale, zero], [f"{name}_quantized"], f"{name}_quantize"),
                    self.helper.make_node(
                        "DequantizeLinear", [f"{name}_quantized", scale, zero], [self.done[name]], f"{name}_dequantize"
                    ),
                ]
            )
        return self.done[name]

    def weight(self, index, name, axis):
        name = self.weights[name].name
        if (name, axis) not in self.done:
            numbers, scale = quantized_weight(self.arrays.to_array(self.weights[name]), axis)
            names = [self.constant(numbers, f"{name}_int8_{axis}"), self.constant(scale, f"{name}_scale_{axis}")]
            self.done[name, axis] = f"{name}_dequantized_{axis}"
            self.nodes.setdefault(index, []).append(
                self.helper.make_node("DequantizeLinear", names, [self.done[name, axis]], f"{name}_dequantize_{axis}", axis=axis)
            )
        return self.done[name, axis]

    def finish(self):
        """Nodes in order, weights that nobody needs any more gone."""
        nodes = [node for index, old in enumerate(self.graph.node) for node in [*self.nodes.get(index, []), old]]
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        used = {name for node in nodes for name in node.input}
        kept = [tensor for tensor in self.graph.initializer if tensor.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)


def check_examples(model, examples):
    """ValueError where an example is not what the model takes: names, types, sizes."""
    import onnx

    constants = {tensor.name for tensor in model.graph.initializer}
    infos = {info.name: info.type.tensor_type for info in model.graph.input if info.name not in constants}
    for number, example in enumerate(examples, 1):
        if set(example) != set(infos):
            raise ValueError(f"example {number} has arrays for {sorted(example)}, the model's inputs are {sorted(infos)}")
        for name, array in example.items():
            kind = onnx.helper.tensor_dtype_to_np_dtype(infos[name].elem_type)
            if array.dtype != kind:
                raise ValueError(f"example {number} has {name} of the type {array.dtype}, the model takes {kind}")
            dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in infos[name].shape.dim]
            if len(dims) != array.ndim or any(want not in (None, have) for want, have in zip(dims, array.shape)):
                wanted = ", ".join("any" if dim is None else str(dim) for dim in dims)
                raise ValueError(f"example {number} has {name} of the sizes {list(array.shape)}, the model takes [{wanted}]")


def read_example(path):
    """The arrays of an .npz by name. ValueError for another file."""
    import numpy

    try:
        return dict(numpy.load(path))
    except (EOFError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is no .npz of arrays: {error}") from error


def quantize(model, examples, skip=(), percentile=100.0):
    """Changes an ONNX model (opset 13 or newer) in place; how many operators were quantised.

    `examples` are dicts of arrays by input name. ValueError for an older model, without examples, or for one that does not fit.
    """
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    if opset < 13 or not examples:
        raise ValueError(
            f"opset {opset} has no scales by channel: export with 13 or newer" if examples else "give at least one example"
        )
    check_examples(model, examples)
    nodes = chosen(model, skip)
    most = ranges(model, sorted({node.input[0] for node in nodes}), examples, percentile)
    writer, quantized = Writer(model), {node.output[0] for node in nodes}
    for index, node in enumerate(model.graph.node):
        if node.output[0] in quantized:
            node.input[0], node.input[1] = (
                writer.activation(index, node.input[0], most[node.input[0]]),
                writer.weight(index, node.input[1], channel_axis(node)),
            )
    writer.finish()
    return len(nodes)


def main(words=None):
    import onnx

    from softcann.atc import onnx_file
    from softcann.atc.errors import AtcError

    parser = argparse.ArgumentParser(prog="python -m softcann.quantize", description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="the float model, .onnx")
    parser.add_argument("--output", required=True, help="the int8 model, .onnx")
    parser.add_argument(
        "--data", required=True, nargs="+", metavar="FILE.npz", help="examples: arrays by the names of the inputs"
    )
    parser.add_argument("--skip", nargs="*", default=[], help="names of operators that stay as they are")
    parser.add_argument("--percentile", type=float, default=100.0, help="of the values that must fit (default 100)")
    given = parser.parse_args(words)
    try:
        model = onnx_file.read_whole(given.model)
        count = quantize(model, [read_example(path) for path in given.data], given.skip, given.percentile)
        onnx.save(model, given.output)
    except (AtcError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{given.output}: {count} operators quantised with {len(given.data)} examples")
    return 0


if __name__ == "__main__":
    sys.exit(main())
