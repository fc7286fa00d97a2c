"""Runs the samples of torch's OpInfo in many forms, or Ascend's own operators (custom_results.py), and writes what came of each:
the dtype, shape, strides and values of the results, or the exception. Run by ci/compare_results.py, once with the published client
and once with our adapter.

    python results.py FILE [--custom] [--after CASE] [--part I --parts N] [--operator TEXT]

FILE gets a pickled record for each step; a device that fails ends the process, and --after goes on behind the case that did it.
"""
import argparse
import itertools
import os
import pickle
import types
import warnings

import custom_results
import torch
from torch.utils._pytree import tree_leaves, tree_map

import torch_npu  # noqa: F401

warnings.simplefilter("ignore")
DTYPES = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
          "int8": torch.int8, "int16": torch.int16, "int32": torch.int32, "int64": torch.int64, "uint8": torch.uint8,
          "bool": torch.bool, "complex64": torch.complex64}
OTHER = {torch.float32: torch.float64, torch.int32: torch.int64, torch.bool: torch.int64}   # of a result, for out=
MOST_VALUES = 3000


class NotACase(Exception):
    """The operator or the sample has no such form."""


def is_tensor(x):
    return isinstance(x, torch.Tensor)


def on_tensors(change, value):
    return tree_map(lambda x: change(x) if is_tensor(x) else x, value)


def moved(sample, change=lambda x: x):
    def there(x):
        if is_tensor(x):
            return change(x.detach().npu())
        return torch.device("npu") if isinstance(x, torch.device) or x == "cpu" else x
    return tree_map(there, (sample.input, sample.args, sample.kwargs))


def call(op, sample, change=lambda x: x):
    first, args, kwargs = moved(sample, change)
    return op(first, *args, **kwargs)


def in_place(op, sample):
    if op.inplace_variant is None:
        raise NotACase
    first, args, kwargs = moved(sample)
    return [op.inplace_variant(first, *args, **kwargs), first]


def into(op, sample, make):
    if not op.supports_out:
        raise NotACase
    first, args, kwargs = moved(sample)
    result = op(first, *args, **kwargs)
    if not all(map(is_tensor, tree_leaves(result))):
        raise NotACase
    out = on_tensors(make, result)
    op(first, *args, **kwargs, out=out if is_tensor(out) else tuple(out))
    return out


def gradient(op, sample):
    if not op.supports_autograd:
        raise NotACase
    leaves = []

    def leaf(x):
        if x.is_floating_point() or x.is_complex():
            x = x.requires_grad_()
            leaves.append(x)
        return x
    results = [x for x in tree_leaves(call(op, sample, leaf)) if is_tensor(x) and x.requires_grad]
    if not results:
        raise NotACase
    torch.autograd.backward(results, [torch.ones_like(x) for x in results])
    return [x.grad for x in leaves]


def transposed(x):
    return x.mT.contiguous().mT if x.dim() >= 2 and x.layout == torch.strided else x


def channels_last(x):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.contiguous(memory_format=formats[x.dim()]) if x.dim() in formats and x.layout == torch.strided else x


def autocast(op, sample, dtype):
    with torch.autocast("npu", dtype):
        return call(op, sample)


def of_another_dtype(op, sample, place, dtype):
    """The first or last tensor cast."""
    tensors = [x for x in tree_leaves((sample.input, sample.args, sample.kwargs)) if is_tensor(x)]
    if len(tensors) < 2 or tensors[place].dtype == dtype or tensors[place].is_complex():
        raise NotACase
    first, args, kwargs = on_tensors(lambda x: x.detach().to(dtype) if x is tensors[place] else x,
                                     (sample.input, sample.args, sample.kwargs))
    return call(op, types.SimpleNamespace(input=first, args=args, kwargs=kwargs))


def with_number(op, sample, number):
    if not sample.args or not is_tensor(sample.args[0]):
        raise NotACase
    return call(op, types.SimpleNamespace(input=sample.input, args=(number, *sample.args[1:]), kwargs=sample.kwargs))


def empty(op, sample):
    if not is_tensor(sample.input) or sample.input.dim() == 0 or sample.input.layout != torch.strided:
        raise NotACase
    return call(op, types.SimpleNamespace(input=sample.input[:0], args=sample.args, kwargs=sample.kwargs))


FORMS = {
    "call": call, "in_place": in_place, "gradient": gradient, "empty": empty,
    "out": lambda op, s: into(op, s, lambda x: x.new_empty(0)), "out_shape": lambda op, s: into(op, s, lambda x: x.new_empty((*x.shape, 2))),
    "out_dtype": lambda op, s: into(op, s, lambda x: x.new_empty(x.shape, dtype=OTHER.get(x.dtype, torch.float32))),
    "out_int": lambda op, s: into(op, s, lambda x: x.new_empty(x.shape, dtype=torch.int32)),
    "transposed": lambda op, s: call(op, s, transposed), "channels_last": lambda op, s: call(op, s, channels_last),
    "autocast_half": lambda op, s: autocast(op, s, torch.float16), "autocast_bfloat16": lambda op, s: autocast(op, s, torch.bfloat16),
    **{f"{name}_{str(dtype)[6:]}": lambda op, s, place=place, dtype=dtype: of_another_dtype(op, s, place, dtype)
       for name, place in (("first", 0), ("last", -1)) for dtype in (torch.float16, torch.float32, torch.int32, torch.bool)},
    **{f"number_{number}": lambda op, s, number=number: with_number(op, s, number) for number in (2.5, True)},
}
FEW = ("call", "in_place", "out_dtype")
OF_DTYPE = {"float32": tuple(FORMS), "float16": (*FEW, "gradient", "transposed", "last_float32", "last_int32"),
            "int64": (*FEW, "out_int", "empty", "last_float32", "last_int32", "number_2.5", "number_True"),
            "complex64": (*FEW, "gradient"), "bool": (*FEW, "last_float32", "number_True"), "int8": ("call",), "int16": ("call",)}


def samples_of(op, dtype):
    """Of this dtype; where the operator has none, those of another, cast."""
    known = [d for d in (dtype, torch.float32, torch.int64, torch.bool, torch.complex64) if d in op.dtypes]
    if not known:
        return []
    torch.manual_seed(0)
    try:
        found = list(itertools.islice(op.sample_inputs("cpu", known[0]), 12))
    except Exception:   # a sample that this build of torch cannot make
        return []

    def changed(x):
        if is_tensor(x):
            return x.detach().to(dtype) if x.dtype == known[0] else x
        return dtype if isinstance(x, torch.dtype) and x == known[0] else x
    for sample in found:
        sample.input, sample.args, sample.kwargs = tree_map(changed, (sample.input, sample.args, sample.kwargs))
    return found


def cases(part, parts, text):
    from torch.testing._internal.common_methods_invocations import op_db
    for op in op_db[part::parts]:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if text and text not in name:
            continue
        for label, dtype in DTYPES.items():
            found = samples_of(op, dtype)
            for form in OF_DTYPE.get(label, FEW):
                for place in {0, len(found) // 2} if form in ("call", "gradient") and found else range(min(len(found), 1)):
                    yield f"{name}|{label}|{place}|{form}", lambda op=op, form=form, sample=found[place]: FORMS[form](op, sample)


def described(x):
    if not is_tensor(x):
        return type(x).__name__, repr(x)[:200] if isinstance(x, (int, float, complex, bool, str, torch.dtype)) else ""
    if x.layout != torch.strided:
        return "tensor", str(x.dtype), tuple(x.shape), str(x.layout), None
    values = x.detach().cpu().resolve_conj().resolve_neg().flatten()
    values = values[:: values.numel() // MOST_VALUES + 1]
    wide = torch.complex128 if x.is_complex() else x.dtype if x.dtype in (torch.int64, torch.bool) else torch.float64
    return "tensor", str(x.dtype), tuple(x.shape), x.stride(), values.to(wide).numpy()


def run(name, function, write):
    write("begin", name)
    torch.manual_seed(1)
    try:
        result = function()
        torch.npu.synchronize()
        write("served", name, [described(x) for x in tree_leaves(result)])
    except NotACase:
        write("none", name)
    except Exception as error:
        write("refused", name, [cls.__name__ for cls in type(error).__mro__], str(error)[:300])
        torch.npu.synchronize()   # a device that has failed ends the process here
        (torch.ones(2, device="npu") + 1).cpu()


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("file")
    options.add_argument("--after", help="case to go on behind")
    options.add_argument("--part", type=int, default=0)
    options.add_argument("--parts", type=int, default=1)
    options.add_argument("--operator", help="only operators that have this in their name")
    options.add_argument("--custom", action="store_true", help="Ascend's own operators")
    given = options.parse_args()
    with open(given.file, "ab") as file:
        def write(*record):
            pickle.dump(record, file)
            file.flush()

        waiting = given.after
        chosen = (itertools.islice(custom_results.cases(given.operator), given.part, None, given.parts) if given.custom
                  else cases(given.part, given.parts, given.operator))
        for name, function in chosen:
            if waiting is None:
                run(name, function, write)
            elif name == waiting:
                waiting = None
        write("end", "")
    os._exit(0)   # nothing is left to do, and a device that failed would fail again


if __name__ == "__main__":
    main()
