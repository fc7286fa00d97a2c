"""ONNX operators as ATen operators, by family. A lowering gets a `Node` and returns its outputs, a value or a tuple."""

import importlib

REGISTRY = {}
FAMILIES = (
    "elementwise",
    "activation",
    "shape",
    "indexing",
    "reduce",
    "ngram",
    "matrix",
    "conv",
    "deform",
    "norm",
    "recurrent",
    "image",
    "quant",
    "signal",
    "control",
    "sequence",
    "creation",
    "ascend",
    "ascend_boxes",
)


def lowers(*types):
    """Registers the function below it for these ONNX types, other domains before them: npu::NPUMish."""

    def register(function):
        for type in types:
            if type in REGISTRY:
                raise ValueError(f"{type} is lowered twice")
            REGISTRY[type] = function
        return function

    return register


def find(type):
    """The lowering of an ONNX type, None if there is none."""
    if not REGISTRY:
        for family in FAMILIES:
            importlib.import_module(f".{family}", __name__)
    return REGISTRY.get(type)


def of(proto):
    """The lowering of a node (NodeProto), None if there is none."""
    return find(proto.op_type if proto.domain in ("", "ai.onnx", "ai.onnx.ml") else f"{proto.domain}::{proto.op_type}")
