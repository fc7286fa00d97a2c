"""What an entry of the registry means by what it leaves out; README.md has the same in words."""
import dataclasses
from typing import Dict, Optional

from .registry import Entry


def namesake(op: str, contract: Dict[str, "Operator"]) -> Optional[str]:  # noqa: F821 - gen_aclnn's
    """CANN's operator of an operator's name and overload, or of its name: `eq.Tensor_out` is aclnnEqTensor."""
    base, _, overload = op.removeprefix("npu_").partition(".")
    for name in (f"{base}_{overload.removesuffix('out')}", base):
        wanted = "aclnn" + "".join(word[:1].upper() + word[1:] for word in name.split("_"))
        found = [wanted] if wanted in contract else [one for one in contract if one.lower() == wanted.lower()]
        if len(found) == 1:
            return found[0]
    return None


def function_name(function) -> str:
    """The C++ function of an operator by hand: `normal.Tensor_float_out` is normal_tensor_float_out, `random_.to` random_to."""
    from torchgen.model import SchemaKind
    base, _, overload = str(function.func.name).partition(".")
    if function.func.kind() is SchemaKind.out and not overload.endswith("out"):
        overload = "out"    # whatever the schema calls its result
    return f"{base.rstrip('_')}_{overload.lower()}" if overload else base


def complete(entry: Entry, function, contract) -> Entry:
    """The entry with the kernel that its schema gives it, and what all operators on lists of tensors have."""
    op, added = entry.op, {}
    if not any(getattr(entry, key) for key in entry.KERNELS):
        if entry.by_hand and function.structured:
            added["kernel"] = op.partition(".")[0].removeprefix("special_").strip("_") + "_kernel"
        elif entry.by_hand:
            added["impl"] = function_name(function)
        else:
            added["aclnn"] = namesake(op, contract)
            if added["aclnn"] is None:
                raise entry.fail("CANN has no operator of its name: give 'aclnn', or 'reason' where it is made by hand")
    if op.startswith("_foreach_") and not entry.by_hand:
        arguments = {a.name: str(a.type) for a in function.func.arguments.flat_all}
        lists = [name for name, kind in arguments.items() if kind == "Tensor[]"]
        numbers = [name for name, kind in arguments.items() if kind in ("Scalar", "Scalar[]", "Tensor")]
        of = ", ".join(["{" + ", ".join(lists) + "}", *numbers[:1]])
        added["only_if"] = entry.only_if or f"uniform_lists({of})"
        added["out"] = entry.out or ({None: f"like_list({lists[0]})"} if function.func.returns else None)
    return dataclasses.replace(entry, **added)
