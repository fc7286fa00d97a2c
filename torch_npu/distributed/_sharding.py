"""DTensor rules of the custom operators, and of one_hot, whose decomposition DTensor cannot follow: along which dimensions their
arguments may be sharded, and what comes out.

The operators that are composed of others need none: DTensor sees the others. An operator without a rule is an error of
DTensor's that names it.

What they need of torch.distributed.tensor is imported in functions, for the import of that imports this module.
"""

import operator
from typing import Any, List, Optional

import torch
from torch import Tensor

# One letter for each tensor among the arguments, and one for each result:
#   s  sharded along the dimension      r  whole on each rank
#   b  as s, but whole where its size is 1: it is broadcast against the first argument
#   p  a sum over the ranks             q  as p where the argument of the same letter b is broadcast, else s
#   t  the loss: s with reduction="none"; with "sum" p as a result, r as its gradient
#   0  sharded along dimension 0, where attention's statistics have the batch
#   -  no tensor
# npu_rms_norm's gamma has the sizes of the last dimensions of its input, those that are normalized.


def _all(arguments: Any, x: Any) -> Any:
    return range(x.ndim)


def _but_the_last(count: int) -> Any:
    return lambda arguments, x: range(x.ndim - count)


def _but_the_named(arguments: Any, x: Any) -> List[int]:
    return [d for d in range(x.ndim) if d != arguments["dim"] % x.ndim]


def _rows(arguments: Any, x: Any) -> Any:
    return range(x.ndim - arguments["gamma"].ndim)


def _hidden(arguments: Any, x: Any) -> List[int]:
    return [1]


def _rows_of_loss(arguments: Any, x: Any) -> List[int]:
    """Of a mean, each rank would have to know how many rows count."""
    plain = not arguments.get("return_zloss") and arguments["lse_square_scale_for_zloss"] == 0
    return [0] if plain and arguments["reduction"] != "mean" else []


def _samples(arguments: Any, x: Any) -> List[int]:
    """The dimension of the batch. Heads do not qualify, as head_num counts those of the whole tensor."""
    dims = {"BSH": 0, "BSND": 0, "BNSD": 0, "SBH": 1}
    layout = arguments["input_layout"]
    plain = arguments["keep_prob"] == 1 and arguments["pse"] is None and arguments["sink"] is None
    mask = arguments["atten_mask"]
    return [dims[layout]] if layout in dims and plain and (mask is None or mask.ndim == 2) else []


RULES = {
    "npu_fast_gelu": (_all, "s", "s"),
    "npu_fast_gelu_backward": (_all, "ss", "s"),
    "fast_gelu": (_all, "s", "s"),
    "npu_swiglu": (_but_the_named, "s", "s"),
    "npu_swiglu_backward": (_but_the_named, "ss", "s"),
    "npu_geglu": (_but_the_named, "s", "ss"),
    "npu_geglu_grad": (_but_the_named, "sss", "s"),
    "npu_gelu_mul": (_but_the_last(1), "s", "s"),
    "npu_rms_norm": (_rows, "sr", "ss"),
    "npu_rms_norm_backward": (_rows, "ssrs", "sp"),
    "npu_gemma_rms_norm": (_rows, "sr", "ss"),
    "npu_add_rms_norm": (_rows, "ssr", "sss"),
    "npu_add_rms_norm_cast": (_rows, "ssr", "ssss"),
    "npu_deep_norm": (_rows, "ssrr", "sss"),
    "npu_deep_norm_backward": (_rows, "sssrss", "sspp"),
    "npu_rotary_mul": (_but_the_last(1), "sbb", "s"),
    "npu_rotary_mul_backward": (_but_the_last(1), "ssbb", "sqq"),
    "npu_scaled_masked_softmax": (_but_the_last(2), "sb", "s"),
    "npu_scaled_masked_softmax_backward": (_but_the_last(2), "ssb", "s"),
    "npu_moe_token_permute": (_hidden, "sr", "sr"),
    "npu_moe_token_permute_grad": (_hidden, "ssrr", "s"),
    "npu_moe_token_unpermute": (_hidden, "srr", "s"),
    "npu_moe_token_unpermute_grad": (_hidden, "ssrr", "sp"),
    "npu_cross_entropy_loss": (_rows_of_loss, "ssr", "tsrr"),
    "npu_cross_entropy_loss_backward": (_rows_of_loss, "tssrrr", "s"),
    "aten.one_hot": (_all, "s", "s"),
    "npu_fusion_attention": (_samples, "sssrrrrr", "s00r---"),
    "npu_fusion_attention_grad": (_samples, "ssssrrr00rsr", "sssrr"),
}


class _Rule:
    """What register_sharding wants of one operator: the placements of its results and arguments that fit together."""

    def __init__(self, schema: Any, dims: Any, inputs: Any, outputs: Any) -> None:
        self._names = [argument.name for argument in schema.arguments]
        self._defaults = {argument.name: argument.default_value for argument in schema.arguments}
        self._tensors = [a.name for a in schema.arguments if isinstance(_plain(a.type), torch.TensorType)]
        self._dims, self._inputs, self._outputs = dims, inputs, outputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arguments = {**self._defaults, **dict(zip(self._names, args)), **kwargs}
        given = [name for name in (*self._names[: len(args)], *kwargs)]
        letters = dict(zip(self._tensors, self._inputs))
        tensors = {name: arguments[name] for name in given if hasattr(arguments[name], "placements")}
        first = arguments[self._tensors[0]]
        whole = [_placement("r", 0) if letter != "-" else None for letter in self._outputs]
        found = [(whole, [_placement("r", 0) if name in tensors else None for name in given])]
        for dim in self._dims(arguments, first):
            sources = [_input(letters.get(name, "r"), tensors.get(name), dim, arguments) for name in given]
            broadcast = iter(name for name, letter in letters.items() if letter == "b")
            found.append(([_output(letter, dim, broadcast, arguments) for letter in self._outputs], sources))
        return found


def _plain(kind: Any) -> Any:
    return kind.getElementType() if isinstance(kind, torch.OptionalType) else kind


def _input(letter: Any, tensor: Optional[Tensor], dim: Any, arguments: Any) -> Any:
    if tensor is None:
        return None
    if letter == "t":
        letter = "s" if arguments["reduction"] == "none" else "r"
    if letter == "b":
        letter = "r" if tensor.shape[dim] == 1 else "s"
    return _placement(letter, dim)


def _output(letter: Any, dim: Any, broadcast: Any, arguments: Any) -> Any:
    if letter == "-":
        return None
    if letter == "t":
        letter = "s" if arguments["reduction"] == "none" else "p"
    if letter == "q":
        letter = "p" if arguments[next(broadcast)].shape[dim] == 1 else "s"
    return _placement(letter, dim)


def _placement(letter: Any, dim: Any) -> Any:
    from torch.distributed.tensor import Partial, Replicate, Shard

    return {"r": Replicate(), "p": Partial(), "s": Shard(dim), "0": Shard(0)}[letter]


def register() -> None:
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.experimental import register_sharding

    infos = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info
    for name, (dims, inputs, outputs) in RULES.items():
        op = operator.attrgetter(name if "." in name else f"npu.{name}")(torch.ops).default
        register_sharding(op)(_Rule(op._schema, dims, inputs, outputs))
        # register_sharding has DTensor remember a rule's answer by the arguments from the first int on; a text counts, too.
        for place, argument in enumerate(op._schema.arguments):
            if isinstance(argument.type, torch.StringType):
                infos[op].static_argnum = min(infos[op].static_argnum, place)
