"""Gives the inputs of an ONNX model their shapes, infers types, and makes a program of it."""

import dataclasses
import faulthandler
import os
import resource
import typing
import warnings

import onnx
import torch

from .aipp_config import Aipp
from .aipp_lower import Picture
from .builder import Builder
from .errors import AtcError
from .importer import FreeDimension, Importer, dim_of, value_types
from .passes import clean
from .precision import Precision
from .tensors import torch_dtype

INFERENCE_BYTES = 1 << 30  # a larger model's shapes are left to the operators
INFERENCE_SECONDS = 10  # of processor time
LARGEST = (1 << 31) - 1  # of an input's sizes
EMBEDDED = 4096  # bytes of an initialiser that shape inference may need


@dataclasses.dataclass
class Options:
    """What the compiler itself must know; the command line makes it (`softcann.atc.cli`)."""

    shapes: typing.Dict[str, typing.List[int]] = dataclasses.field(default_factory=dict)  # of inputs, -1 free
    tried: typing.Dict[str, typing.List[typing.List[int]]] = dataclasses.field(
        default_factory=dict
    )  # sizes of free inputs to try
    precision: typing.Optional[Precision] = None  # None: as the model has it
    fold: bool = True
    passes: typing.Optional[typing.Callable] = None  # program -> None
    progress: typing.Optional[typing.Callable] = None
    halves: typing.Sequence[str] = ()  # inputs that are given in half precision
    aipp: typing.Dict[int, Aipp] = dataclasses.field(default_factory=dict)  # by input
    layout: str = "NCHW"  # of the inputs that AIPP makes
    outputs: typing.Optional[typing.Callable] = None  # program -> None, may set the ports' types


def graph_inputs(model):
    """Inputs that are not initialisers."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [info for info in model.graph.input if info.name not in constants]


def set_shapes(model, shapes):
    """Writes the given shapes into the model's inputs; a free dimension keeps its name or gets one."""
    infos = {info.name: info for info in graph_inputs(model)}
    for name, dims in shapes.items():
        if name not in infos:
            raise AtcError(
                "E10016",
                f"--input_shape names {name}, which is no input of the model; its inputs are {', '.join(infos)}",
                solution="Use the names of the model's inputs.",
            )
        tensor = infos[name].type.tensor_type
        known = [dim_of(dim) for dim in tensor.shape.dim] if tensor.HasField("shape") else None
        if known is not None and len(known) != len(dims):
            raise AtcError(
                "E10002",
                f"--input_shape gives {name} {len(dims)} dimensions, the model has {len(known)}",
                solution="Give one number for each dimension.",
            )
        for index, (have, want) in enumerate(zip(known or [None] * len(dims), dims)):
            if isinstance(have, int) and have > 0 and want not in (-1, have):
                raise AtcError(
                    "E10002",
                    f"--input_shape gives dimension {index} of {name} the size {want}, the model fixes it to {have}",
                    solution="Export the model with a dynamic dimension, or give its own size.",
                )
        tensor.ClearField("shape")
        tensor.shape.SetInParent()
        for index, want in enumerate(dims):
            dim, have = tensor.shape.dim.add(), known[index] if known else None
            if want >= 0:
                dim.dim_value = want
            else:
                dim.dim_param = have if isinstance(have, str) else f"{name}_{index}"
    relax_outputs(model, shapes)


def relax_outputs(model, shapes):
    """New input sizes make new output sizes: what the model says of them no longer binds."""
    if not shapes:
        return
    del model.graph.value_info[:]
    for info in model.graph.output:
        if info.type.HasField("tensor_type"):
            for dim in info.type.tensor_type.shape.dim:
                dim.Clear()


class Types:
    """What `infer` tells of a model, found when it is first asked for."""

    def __init__(self, model):
        self.model, self.found = model, None

    def get(self, name):
        if self.found is None:
            self.found = infer(self.model)
        return self.found.get(name)


def infer(model):
    """Types by name, as far as onnx can tell. Large constants are left out: only their types matter."""
    if model.ByteSize() > INFERENCE_BYTES:
        return value_types(model.graph, {})
    slim = onnx.ModelProto()
    slim.CopyFrom(model)
    for tensor in list(slim.graph.initializer):
        if len(tensor.raw_data) > EMBEDDED or tensor.data_location == onnx.TensorProto.EXTERNAL:
            info = slim.graph.input.add()
            info.CopyFrom(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
            slim.graph.initializer.remove(tensor)
    data = isolated(lambda: onnx.shape_inference.infer_shapes(slim, data_prop=True).SerializeToString())
    # What it cannot infer, the operators tell.
    return value_types(model.graph if data is None else onnx.ModelProto.FromString(data).graph, {})


def isolated(work):
    """The bytes that `work` returns, from a child process; None where that fails or ends. (onnx's inference trusts attributes: it
    ends the process where one is wrong, or goes on without end.)"""
    receive, send = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child runs nothing that other threads could have locked
        child = os.fork()
    if child == 0:
        status = 1
        try:
            faulthandler.disable()
            resource.setrlimit(resource.RLIMIT_CPU, (INFERENCE_SECONDS, INFERENCE_SECONDS))
            os.close(receive)
            with os.fdopen(send, "wb") as file:
                file.write(work())
            status = 0
        except Exception:
            pass
        finally:
            os._exit(status)
    os.close(send)
    with os.fdopen(receive, "rb") as file:
        data = file.read()
    return data if os.waitpid(child, 0)[1] == 0 else None


def input_shapes(model):
    """The inputs, and the dimensions of each by name: numbers, names of free ones, None."""
    infos = graph_inputs(model)
    shapes = {}
    for info in infos:
        kind = info.type.WhichOneof("value")
        if kind != "tensor_type":
            raise AtcError(
                "E10501",
                f"input {info.name} is a {kind}: only tensors can be inputs",
                solution="Export the model with tensors as inputs.",
            )
        shape = info.type.tensor_type.shape.dim if info.type.tensor_type.HasField("shape") else None
        if shape is None:
            raise AtcError(
                "E10001", f"the model does not say the shape of input {info.name}", solution="Give it by --input_shape."
            )
        shapes[info.name] = [dim_of(dim) for dim in shape]
        if any(isinstance(dim, int) and not 0 <= dim <= LARGEST for dim in shapes[info.name]):
            raise AtcError(
                "E10001",
                f"input {info.name} of the model has the sizes {shapes[info.name]}",
                solution="Export the model again, or give its sizes by --input_shape where they are open.",
            )
    return infos, shapes


def compile_model(model, options, folder=""):
    """The program of an ONNX model (a ModelProto), which is changed by it."""
    set_shapes(model, options.shapes)
    infos, shapes = input_shapes(model)
    free = any(not isinstance(dim, int) for dims in shapes.values() for dim in dims)
    try:
        importer, program = import_model(model, options, folder, infos, shapes, 2 if free else 1)
    except FreeDimension:
        importer, program = import_model(model, options, folder, infos, shapes, 2)
    restore_outputs(program, model, importer, options)
    clean.remove_dead(program)
    if options.passes is not None:
        options.passes(program)
        clean.remove_dead(program)
    return program


def import_model(model, options, folder, infos, shapes, samples):
    samples = max([samples, *map(len, options.tried.values())])
    importer = Importer(model, Types(model), folder, options.fold, options.precision, samples, options.progress)
    inputs = []
    for index, info in enumerate(infos):
        dims = shapes[info.name]
        tried = options.tried.get(info.name)
        if tried and len(tried) < samples:
            tried = [*tried, *[tried[-1]] * (samples - len(tried))]
        tried = tried or [
            [importer.tried(dim, info.name, axis, sample) for axis, dim in enumerate(dims)] for sample in range(importer.samples)
        ]
        dtype = torch.float16 if info.name in options.halves else torch_dtype(info.type.tensor_type.elem_type)
        dims = [dim if isinstance(dim, int) else -1 for dim in dims]
        block = options.aipp.get(index)
        if block and block.mode == "dynamic":
            block.check_input(info.name, dims)
        elif block:
            picture = Picture(block, info.name, dims, options.layout)
            block.check_padding(dtype)
            importer.pictures[index] = picture, dtype
            dtype, dims = torch.uint8, picture.raw_dims()
            tried = [[sizes[0], *dims[1:]] for sizes in tried]
        inputs.append((info.name, dtype, dims, tried[: importer.samples]))
    return importer, importer.run(inputs)


def restore_outputs(program, model, importer, options):
    """Outputs have the model's types, or those that the options ask for, whatever the precision inside."""
    builder = Builder(program, program.graphs[0], importer.samples, importer.fold)
    builder.origin = ("Cast", "output")
    declared = {info.name: info.type.tensor_type.elem_type for info in model.graph.output if info.type.HasField("tensor_type")}
    for port in program.graphs[0].outputs:
        port.dtype = torch_dtype(declared[port.name]) if declared.get(port.name) else port.dtype
    if options.outputs is not None:
        options.outputs(program)
    for port in program.graphs[0].outputs:
        if not port.value.is_list and port.dtype is not None and port.value.dtype != port.dtype:  # or not known
            port.value = builder.cast(port.value, port.dtype)
