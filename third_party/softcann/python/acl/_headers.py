"""What CANN's headers say of a function: the kinds of its arguments and of its result, as _binding.py writes them."""
import functools
import pathlib
import re

NUMBERS = {"int8_t": "i8", "int16_t": "i16", "int32_t": "i32", "int64_t": "i64", "uint8_t": "u8", "uint16_t": "u16",
           "uint32_t": "u32", "uint64_t": "u64", "size_t": "size", "float": "float", "double": "double", "int": "i32",
           "aclFloat16": "u16", "aclError": "i32"}
_PROTOTYPE = re.compile(r"([\w *]+[ *])(\w+)\(([^()]*)\) ?$")
_ARGUMENT = re.compile(r"(.*[\s*])\w+ ?(\[\w*\])?")


def _folder():
    """In softcann's wheel, or in the source tree the contract's."""
    here = pathlib.Path(__file__).resolve().parent
    places = (here.parent / "softcann" / "cann" / "include" / "acl", here.parent.parent.parent / "cann" / "include" / "acl")
    found = next(filter(pathlib.Path.is_dir, places), None)
    if found is None:
        raise ImportError(f"acl needs CANN's headers in {places[0]}: install the wheel that bash ci/build.sh makes")
    return found


@functools.lru_cache(maxsize=None)
def _declared():
    """({function: (result, arguments)}, names of enumerations, of pointer types)."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(_folder().rglob("*.h")))
    text = " ".join(";".join(re.sub(r"//.*|^#.*", "", one, flags=re.M) for one in texts).split())
    found = filter(None, (_PROTOTYPE.search(statement) for statement in text.split(";")))
    return {name: (result.strip(), arguments) for result, name, arguments in (one.groups() for one in found)}, \
        set(re.findall(r"typedef enum[^;{]*{[^}]*} (\w+);", text)), set(re.findall(r"typedef [\w ]+\* ?(\w+);", text))


def _kind(text):
    _, enumerations, pointers = _declared()
    base, depth = text.replace("const", "").replace("*", "").strip(), text.count("*")
    number = NUMBERS.get(base, "i32" if base in enumerations else None)
    if depth == 0:
        return number or "ptr"
    if depth == 1 and base == "char":
        return "str" if "const" in text else "ptr"
    written = "const" not in text and (depth == 2 or number or base in pointers)
    return f">{number if depth == 1 and number else 'ptr'}" if written else "ptr"


def kinds(symbol):
    """Of a function's arguments, `>` for those that it writes, and `=` of a result that is no error code; arrays are pointers."""
    result, arguments = _declared()[0][symbol]
    found = []
    for argument in arguments.split(","):
        if argument.strip() not in ("", "void"):
            kind, array = _ARGUMENT.fullmatch(argument.strip()).groups()
            found.append("ptr" if array else _kind(kind))
    return found if result == "aclError" else [*found, "=void" if result == "void" else f"={_kind(result)}"]
