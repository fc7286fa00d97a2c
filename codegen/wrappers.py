"""What stands around a kernel: the function that the dispatcher calls, its device, and what is checked before."""
from typing import List


def cpp_name(overload: str) -> str:
    """'add_.Tensor' -> 'add_inplace_Tensor': no reserved double underscore, no clash between overloads."""
    base, _, rest = overload.partition(".")
    if base.endswith("_") and not base.endswith("__"):
        base = f"{base[:-1]}_inplace"
    return "_".join(filter(None, [base.strip("_") if not base.startswith("_") else f"private{base}", rest]))


def signature_of(function, symint: bool = False, prefix: str = ""):
    from torchgen.api.types import DispatcherSignature
    return DispatcherSignature.from_schema(function.func, prefix=prefix, symint=symint)


def forward(binding) -> str:
    """An argument handed on; those passed by value are moved where that saves something."""
    by_value = binding.nctype.cpp_type() in ("::std::optional<at::Generator>", "at::Storage")
    return f"std::move({binding.name})" if by_value else binding.name


def symbolic(function, kernel: str) -> List[str]:
    """`kernel` as the dispatcher calls it boxed, with what Python made of sizes that are tensors: a list of SymInt. PyTorch's own
    operators are called by their autograd kernels instead, which make plain integers of them. Empty without SymInt in the schema.
    """
    plain, symints = signature_of(function), signature_of(function, symint=True)
    if plain.decl() == symints.decl():
        return []
    arguments = [f"concrete({given.name})" if given.nctype != wanted.nctype else forward(given)
                 for given, wanted in zip(symints.arguments(), plain.arguments())]
    return [symints.decl(name=f"{kernel}_symint") + " {", f"  return {kernel}({', '.join(arguments)});", "}", ""]


def structured_wrapper(function, group, kernel: str, arguments: List[str], computed: bool, fast: List[str],
                        direct: bool, casts: List[str]) -> List[str]:
    """What the dispatcher calls: meta() makes or checks the outputs, then the shared kernel runs. `direct`: CANN's operator
    writes to the outputs while it reads."""
    from torchgen.api import meta, structured
    from torchgen.api.translate import translate
    from torchgen.model import SchemaKind
    kind = function.func.kind()
    signature = signature_of(function)
    base = f"at::meta::structured_{meta.name(group)}"
    outputs = [a.name for a in function.func.arguments.out]
    count = len(function.func.returns)
    if kind is SchemaKind.functional:
        op = f"Functional<{base}, {count}> op;"
        result = ("op.take(0)" if count == 1 else
                  f"{{{', '.join(f'op.take({i})' for i in range(count))}}}")
    else:
        targets = outputs or ["self"]
        how = "Inplace" if kind is SchemaKind.inplace else "Out"
        op = f"{how}<{base}, {count}> op({', '.join(targets)});"
        result = targets[0] if count == 1 else f"{{{', '.join(targets)}}}"
    meta_arguments = ", ".join(e.expr for e in translate(signature.arguments(), structured.meta_arguments(group)))
    return [signature.decl(name=f"npu_{cpp_name(str(function.func.name))}") + " {",
            *fast,
            *device_check(function),
            *casts,
            f"  {op}",
            f"  {'[[maybe_unused]] const auto computed = ' if computed else ''}op.meta({meta_arguments});",
            *(_overlap_check(function, group) if direct and kind is SchemaKind.out else []),
            f"  {kernel}({', '.join(arguments)});",
            f"  return {result};",
            "}", ""]


def _tensor_like(function) -> List:
    return [a for a in function.func.arguments.flat_all if a.type.is_tensor_like()]


def device_check(function) -> List[str]:
    """All tensors on one device, unless the schema says that the operator sees to it (TensorIterator)."""
    from torchgen.model import DeviceCheckType
    names = [a.name for a in _tensor_like(function)]
    if function.device_check is DeviceCheckType.NoCheck or len(names) < 2:
        return []
    labels = ", ".join(f'"{name}"' for name in names)
    return [f"  check_same_device(\"{function.func.name}\", {{{labels}}}, {', '.join(names)});"]


def output_check(function) -> List[str]:
    """Of a hand-written kernel: what out= gives is on the device of what is read."""
    outputs = [a.name for a in function.func.arguments.out if str(a.type) == "Tensor"]
    if not outputs:
        return []
    inputs = [a.name for a in function.func.arguments.flat_non_out if str(a.type) == "Tensor"]
    given = ", ".join(f'{{"{name}", {name}}}' for name in outputs)
    return [f"  check_outputs(\"{function.func.name}\", {{{given}}}{', ' + inputs[0] if inputs else ''});"]


def _overlap_check(function, group) -> List[str]:
    """What out= gives shares no memory in part with what is read. TensorIterator sees to it where it is the meta function."""
    inputs = [a.name for a in function.func.arguments.flat_non_out if str(a.type) == "Tensor"]
    if group.out.structured_inherits is not None or not inputs:
        return []
    return [f"  check_apart({output.name}, {{{', '.join(inputs)}}});" for output in function.func.arguments.out]


def device_scope(function) -> List[str]:
    arguments = function.func.arguments
    candidates = [arguments.self_arg.argument] if arguments.self_arg else []
    candidates += [*arguments.out, *arguments.flat_positional]
    tensor = next((a for a in candidates if a.type.is_tensor_like()), None)
    if tensor is not None:
        return [f"  const DeviceScope scope({tensor.name});"]
    if arguments.tensor_options:
        return ["  const DeviceScope scope(device);"]
    return []
