"""From registry entries to C++ kernels: which overloads an entry serves, and their text."""
import re
from typing import Dict, Iterable, List, NamedTuple, Tuple

from .calls import Resolver, Value, normalize, used_names
from .defaults import complete
from .errors import RegistryError, RegistryErrors
from .mixed import casts
from .registry import VARIANTS, CustomEntry, Entry
from .schemas import Schemas
from .wrappers import cpp_name, device_check, device_scope, forward, output_check, signature_of, structured_wrapper, symbolic


class Unit(NamedTuple):
    """Everything generated from one entry."""
    op: str
    root: str                              # decides the shard; all overloads of an operator stand together
    text: str                              # definitions
    registered: List[Tuple[str, str]]      # (overload, C++ function)
    declarations: List[str]                # hand-written functions
    aclnn: List[str]                       # operators called
    includes: List[str]                    # headers under ATen/ops


def build(entries: List[Entry], schemas: Schemas, contract) -> List[Unit]:
    """One unit per entry that applies to this torch. Raises RegistryErrors with every mistake found."""
    units, errors, owner = [], [], {}
    explicit = {entry.op for entry in entries if entry.applies_to(schemas.torch_version)}
    for entry in entries:
        if not entry.applies_to(schemas.torch_version):
            continue
        try:
            unit = _Builder(entry, schemas, contract, explicit).build()
            for overload, _ in unit.registered:
                if overload in owner:
                    raise RegistryError(entry.where, f"{overload} is already served by {owner[overload]}")
                owner[overload] = entry.op
            units.append(unit)
        except RegistryError as error:
            errors.append(error)
    if errors:
        raise RegistryErrors(errors)
    return units


class _Builder:
    def __init__(self, entry: Entry, schemas: Schemas, contract, explicit):
        self.entry = entry
        self.schemas = schemas
        self.contract = contract
        self.explicit = explicit
        self.aclnn: List[str] = []
        self.includes: List[str] = []

    def fail(self, message: str) -> RegistryError:
        return self.entry.fail(message)

    def build(self) -> Unit:
        function = self.schemas.functions.get(self.entry.op)
        if function is None:
            version = ".".join(map(str, self.schemas.torch_version))
            raise self.fail(f"torch {version} has no such schema (exclude versions by 'since' and 'until')")
        self.entry = complete(self.entry, function, self.contract)
        from torchgen import local
        # Two settings per function that torchgen's type translation reads.
        with local.parametrize(use_const_ref_for_mutable_tensors=function.use_const_ref_for_mutable_tensors,
                               use_ilistref_for_tensor_lists=function.part_of_structured_group):
            return self._build(function)

    def _build(self, function) -> Unit:
        if self.entry.impl:
            return self._hand_written(function)
        if function.structured:
            return self._structured(self.schemas.groups[self.entry.op])
        if self.entry.kernel:
            raise self.fail("'kernel' is for structured operators: torch has no meta function of it, use 'impl'")
        if function.structured_delegate is not None:
            raise self.fail(f"is derived from the structured {function.structured_delegate}: name that one instead")
        return self._unstructured(function)

    def _unit(self, function, text, registered, declarations=(), includes=()) -> Unit:
        found = re.findall(r"\bat::(\w+)\(", text)
        headers = [f"{name}.h" for name in found if self.schemas.has_header(f"{name}.h")]
        return Unit(self.entry.op, function.root_name, text, registered, list(declarations),
                    sorted(set(self.aclnn)), sorted({*includes, *headers, *self.includes}))

    # Hand-written ---------------------------------------------------------------------------------------------------

    def _hand_written(self, function) -> Unit:
        signature = signature_of(function, self.entry.symint)
        name = f"npu_{cpp_name(self.entry.op)}"
        call = f"native::{self.entry.impl}({', '.join(forward(b) for b in signature.arguments())})"
        text = [f"// {self.entry.op}", signature.decl(name=name) + " {", *output_check(function), *device_scope(function),
                f"  return {call};", "}", ""]
        text, name = self._symbolic(function, text, name)
        return self._unit(function, "\n".join(text), [(self.entry.op, name)],
                          [signature.decl(name=self.entry.impl) + ";"])

    # Structured -----------------------------------------------------------------------------------------------------

    def _structured(self, group) -> Unit:
        from torchgen.api import structured
        out = group.out
        if self.entry.out or self.entry.variants:
            raise self.fail("is structured: torch's meta function gives the outputs, drop 'out' and 'variants'")
        if self.entry.casts is True:
            raise self.fail("is structured: 'casts' says which dtype the result has")
        if self.entry.pointwise and not self._elementwise(out):
            raise self.fail("'pointwise' is for elementwise operators, those whose meta function torch builds on TensorIterator")
        if self.entry.only_if:
            raise self.fail("is structured: 'only_if' has no composite kernel to go to")
        if self.entry.symint:
            raise self.fail("is structured: its meta function takes plain integers, drop 'symint'")
        outputs = [argument.name for argument in out.func.arguments.out]
        # Arguments by name; a precomputed value replaces the argument of the same name, others are added.
        bindings = {b.name: b for b in signature_of(out).arguments() if b.name not in outputs}
        types = {a.name: normalize(str(a.type)) for a in out.func.arguments.flat_non_out}
        computed = {}
        if out.precomputed:
            for argument in [a for new in out.precomputed.replace.values() for a in new] + list(out.precomputed.add):
                computed[argument.name] = structured.argument_type(argument, binds=argument.name).cpp_type()
                types[argument.name] = normalize(str(argument.type))
        values = {name: Value(name, kind) for name, kind in types.items()}
        values.update({name: Value(name, "Tensor", written=True) for name in outputs})
        parameters = {name: b.nctype.cpp_type() for name, b in bindings.items()}
        parameters.update(computed)
        parameters.update({name: "const at::Tensor &" for name in outputs})

        declarations = []
        if self.entry.kernel:
            # A precomputed value replaces the argument of its name; those that torch only adds are left out.
            kernel, used = f"native::{self.entry.kernel}", [n for n in parameters if n in bindings or n in outputs]
            text = [f"// {self.entry.op}"]
            declarations = [f"void {self.entry.kernel}({', '.join(f'{parameters[n]} {n}' for n in used)});"]
        else:
            body, used = self._calls(values, out, outputs)
            used = [name for name in parameters if name in used]
            kernel = f"run_{cpp_name(self.entry.op)}"
            text = [f"// {self.entry.op}",
                    f"void {kernel}({', '.join(f'{parameters[name]} {name}' for name in used)}) {{", *body, "}", ""]
        registered = []
        for function in group.functions():
            name = str(function.func.name)
            if name != self.entry.op and name in self.explicit:
                continue    # this overload has an entry of its own
            arguments = [f"computed.{n}" if n in computed else f"op.output({outputs.index(n)})" if n in outputs else n
                         for n in used]
            text += structured_wrapper(function, group, kernel, arguments, bool(computed),
                                        self._pointwise(function, kernel, used, outputs), bool(self.entry.aclnn),
                                        casts(self.entry, function, group))
            registered.append((name, f"npu_{cpp_name(name)}"))
        header = f"{group.functional.root_name}_meta.h"
        return self._unit(out, "\n".join(text), registered, declarations, includes=[header])

    @staticmethod
    def _elementwise(out) -> bool:
        """Whether the one result of a structured operator has shape and dtype of its operands, as far as the schema tells."""
        return (out.structured_inherits == "TensorIteratorBase" and not out.precomputed and len(out.func.arguments.out) == 1
                and {str(a.type) for a in out.func.arguments.flat_non_out} <= {"Tensor", "Scalar", "str"})

    def _pointwise(self, function, kernel: str, used: List[str], outputs: List[str]) -> List[str]:
        """The way past torch's meta function, for operands that need none of its work. See kernel.h, Note [Pointwise]."""
        from torchgen.model import SchemaKind
        kind, gives_bool = function.func.kind(), self.entry.pointwise == "bool"
        out = self.schemas.groups[self.entry.op].out
        if not self.entry.aclnn or self.entry.pointwise == "none" or not self._elementwise(out):
            return []
        if gives_bool and kind is not SchemaKind.functional:
            return []
        arguments = function.func.arguments.flat_non_out
        first, *rest = [a.name for a in arguments if str(a.type) == "Tensor"]
        conditions = [f"plain({first})"]
        conditions += [f"{'alike_or_number' if n in self.entry.scalar else 'alike'}({first}, {n})" for n in rest]
        numbers = [a.name for a in arguments if str(a.type) == "Scalar"]
        conditions += [f"is_real({n})" for n in numbers]
        if gives_bool and numbers:  # a comparison, to which torch gives the number as a tensor
            conditions.append(f"has_usual_strides({first})")
        if kind is SchemaKind.functional:
            target = outputs[0]
            make = f"    at::Tensor {target} = make_plain({first}{', at::kBool' if gives_bool else ''});"
        else:
            target, make = ("self", None) if kind is SchemaKind.inplace else (outputs[0], None)
            inputs = [n for n in [first, *rest] if n != target]
            conditions += [f"alike({first}, {target})"] if target != first else []
            conditions += [f"apart({target}, {n})" for n in inputs]
        run = ", ".join(target if n == outputs[0] else n for n in used)
        return [f"  if (C10_LIKELY({' && '.join(conditions)})) {{", f"    const DeviceScope scope({first});",
                *([make] if make else []), f"    {kernel}({run});", f"    return {target};", "  }"]

    # Unstructured ---------------------------------------------------------------------------------------------------

    def _unstructured(self, function) -> Unit:
        from torchgen.model import SchemaKind
        if self.entry.pointwise:
            raise self.fail("'pointwise' is for structured operators")
        if isinstance(self.entry.casts, str):
            raise self.fail("'casts' of a dtype is for structured operators: here 'out' gives the dtype")
        text, registered = [f"// {self.entry.op}"], []
        for member in self._members(function):
            makes_new = member.func.returns and all(r.annotation is None for r in member.func.returns)
            if makes_new:
                text += self._functional(member)
            elif member.func.kind() is SchemaKind.out:
                text += self._into(member, [a.name for a in member.func.arguments.out])
            else:
                text += self._into(member, [])
            text, name = self._symbolic(member, text, f"npu_{cpp_name(str(member.func.name))}")
            registered.append((str(member.func.name), name))
        return self._unit(function, "\n".join(text), registered)

    def _symbolic(self, function, text: List[str], kernel: str) -> Tuple[List[str], str]:
        """The text with what a custom operator's lists of SymInt need, and the function to register."""
        wrapper = symbolic(function, kernel) if isinstance(self.entry, CustomEntry) else []
        return text + wrapper, f"{kernel}_symint" if wrapper else kernel

    def _members(self, function) -> List:
        """The overloads this entry serves."""
        group = self.schemas.groups.get(self.entry.op)
        if self.entry.variants and group is None:
            raise self.fail("'variants': torch has no variants of it")
        if not self.entry.variants and (group is None or function is not group.functional or not self.entry.out):
            return [function]
        members = [(variant, getattr(group, variant)) for variant in self.entry.variants or VARIANTS]
        there = [member for _, member in members if member is not None and "generated" not in member.tags]
        if not self.entry.variants:
            return [member for member in there if member is function or str(member.func.name) not in self.explicit]
        for variant, member in members:
            if member not in there:
                raise self.fail(f"'variants': torch has no {variant} variant of it")
        return there

    def _functional(self, function) -> List[str]:
        """Makes the outputs by their shape rules, runs, returns them."""
        rules = self.entry.out
        returns = function.func.returns
        if not rules:
            raise self.fail("returns new tensors: 'out' must give the shape rule of each")
        if len(rules) != len(returns):
            raise self.fail(f"returns {len(returns)} tensors, 'out' gives {len(rules)} rules")
        names = [name or "out" for name in rules]
        values = self._arguments(function)
        for name, returned in zip(names, returns):
            if name in values:
                raise self.fail(f"output {name!r} has the name of an argument")
            values[name] = Value(name, normalize(str(returned.type)), written=True)
        body = []
        for name, returned, rule in zip(names, returns, rules.values()):
            plural = normalize(str(returned.type)) == "Tensor[]"
            body.append(f"  {'std::vector<at::Tensor>' if plural else 'at::Tensor'} {name} = make({rule.strip('`')});")
        body += self._calls(values, function, names)[0]
        body.append(f"  return {names[0]};" if len(names) == 1 else
                    f"  return {{{', '.join(f'std::move({n})' for n in names)}}};")
        return self._wrapper(function, body)

    def _into(self, function, outputs: List[str]) -> List[str]:
        """Writes into tensors of the caller: those of out=, or the arguments the schema marks as written."""
        values = self._arguments(function)
        written = [name for name, value in values.items() if value.written]
        body = []
        if self.entry.out:
            rules = list(self.entry.out.items())
            if outputs:
                if len(rules) != len(outputs):
                    raise self.fail(f"writes {len(outputs)} outputs, 'out' gives {len(rules)} rules")
                inputs = [v.cpp for v in values.values() if v.type == "Tensor" and not v.written]
                if self.entry.casts:
                    return self._cast_into(function, values, outputs[0], rules[0][1], inputs)
                for (_, rule), output in zip(rules, outputs):
                    body.append(f"  resize_output({', '.join([output, rule.strip('`')] + inputs)});")
            elif str(function.func.name) == self.entry.op:
                raise self.fail("writes into its arguments: 'out' has no meaning")
            # The calls name the outputs as the rules do.
            for (alias, _), target in zip(rules, outputs or written):
                values.setdefault(alias or "out", Value(target, values[target].type, written=True))
        body += self._calls(values, function, [alias or "out" for alias in self.entry.out or ()] or outputs)[0]
        if not outputs and not self.entry.expanded:
            body = [f"  at::assert_no_internal_overlap({name});" for name in written if values[name].type == "Tensor"] + body
        returns = function.func.returns
        targets = outputs or written
        if len(returns) == 1:
            body.append(f"  return {targets[0]};")
        elif returns:
            body.append(f"  return {{{', '.join(targets)}}};")
        return self._wrapper(function, body)

    def _cast_into(self, function, values: Dict[str, Value], output: str, rule: str, inputs: List[str]) -> List[str]:
        """Into an output of the caller, through one of the rule's dtype where it has another."""
        values[output] = Value("result.value()", values[output].type, written=True)
        values.setdefault("out", values[output])
        body = [f"  CastOutput result({', '.join([output, rule.strip('`')] + inputs)});"]
        body += self._calls(values, function, [output])[0]
        return self._wrapper(function, body + ["  return result.give();"])

    def _arguments(self, function) -> Dict[str, Value]:
        return {a.name: Value(a.name, normalize(str(a.type)), a.is_write) for a in function.func.arguments.flat_all}

    def _wrapper(self, function, body: List[str]) -> List[str]:
        signature = signature_of(function, self.entry.symint, prefix="npu_")
        name = cpp_name(str(function.func.name))
        lines = [signature.decl(name=f"npu_{name}") + " {"]
        lines += device_check(function)
        lines += casts(self.entry, function, self.schemas.groups.get(self.entry.op))
        lines += self._composite_otherwise(function)
        lines += device_scope(function)
        lines += body + ["}", ""]
        words = set(re.findall(r"\w+", "\n".join(lines[1:])))
        # Arguments that the kernel has no use for (a generator, a layout) lose their name.
        unused = [b for b in signature.arguments() if b.name not in words]
        for binding in unused:
            lines[0] = re.sub(rf" {binding.name}(?=[,)])", f" /*{binding.name}*/", lines[0])
        return lines

    def _composite_otherwise(self, function) -> List[str]:
        if not self.entry.only_if:
            return []
        name = str(function.func.name)
        if name not in self.schemas.composites:
            raise self.fail(f"'only_if': torch has no composite kernel of {name} to run instead")
        self.includes.append(f"{function.root_name}_native.h")
        arguments = ", ".join(b.name for b in signature_of(function, self.entry.symint).arguments())
        return [f"  if (!({self.entry.only_if.strip('`')})) "
                f"return at::native::{self.schemas.composites[name]}({arguments});"]

    # Calls ----------------------------------------------------------------------------------------------------------

    def _calls(self, values: Dict[str, Value], function, outputs: Iterable[str]) -> Tuple[List[str], List[str]]:
        """The statements that run the operator, and the names they use. A call without arguments takes the schema's, then the
        outputs."""
        entry = self.entry
        whole = ", ".join([*(a.name for a in function.func.arguments.flat_non_out), *outputs])
        resolver = Resolver(self.contract, values, self.fail)
        lines, used = [], []
        alternatives = [(self._host_scalar(values, name), resolver.call(text, name), [name])
                        for name, text in entry.scalar.items()]
        alternatives += [(condition.strip("`"), resolver.call(text), used_names(condition, values))
                         for condition, text in entry.when]
        last = resolver.call(entry.aclnn if "(" in entry.aclnn else f"{entry.aclnn}({whole})")
        self.aclnn += [last.aclnn] + [call.aclnn for _, call, _ in alternatives]
        lead = "  "
        for condition, call, names in alternatives:
            used += names + call.names
            lines += [f"{lead}if ({condition}) {{", f"    {call.cpp}"]
            lead = "  } else "
        if alternatives:
            lines += ["  } else {", f"    {last.cpp}", "  }"]
        else:
            lines.append(f"  {last.cpp}")
        return lines, used + last.names

    @staticmethod
    def _host_scalar(values: Dict[str, Value], name: str) -> str:
        """Whether an argument can go as a number: beside the first other tensor that is read, if there is one."""
        if name not in values:
            return ""
        beside = [v.cpp for n, v in values.items() if n in ("self", "other", "exponent") and n != name and v.type == "Tensor"]
        return f"is_host_scalar({', '.join([values[name].cpp] + beside[:1])})"
