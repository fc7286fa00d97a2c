"""Functions of C as functions of Python: a text names them, and CANN's headers say what they take (_headers.py).

A line of the text has names whose functions in C are those of pyACL's rule (`c_name`); or it is `name CName`, or `name CName
kind...` where the headers do not tell all: the kinds of the arguments in C's order (`KINDS`). A kind after `>` is written by C
through a pointer, and becomes a result. The last word `=kind` says what C returns; without it that is the error code, which
comes last.
"""
import ctypes
import functools
import operator
import sys

from . import _headers, _library


class Pointer(int):
    """An address that keeps alive what stands there (`.owner`)."""

    def __new__(cls, address, owner):
        self = super().__new__(cls, address)
        self.owner = owner
        return self


def _integer(kind):
    bits, signed = 8 * ctypes.sizeof(kind), kind(-1).value < 0
    low, high = (-1 << bits - 1, (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def convert(value):
        number = operator.index(value)
        if not low <= number <= high:
            raise OverflowError(f"{number} is not from {low} to {high}")
        return kind(number)
    return kind, convert


def _address(value):
    return ctypes.c_void_p(0 if value is None else operator.index(value))


def _text(value):
    if isinstance(value, bytes):
        return ctypes.c_char_p(value)
    if not isinstance(value, str):
        raise TypeError(f"a str is needed, not {type(value).__name__}")
    if "\0" in value:
        raise ValueError("a str without null characters is needed")
    return ctypes.c_char_p(value.encode("utf-8", "surrogateescape"))


KINDS = {
    "ptr": (ctypes.c_void_p, _address),
    "str": (ctypes.c_char_p, _text),
    "float": (ctypes.c_float, lambda value: ctypes.c_float(float(value))),
    "double": (ctypes.c_double, lambda value: ctypes.c_double(float(value))),
    "i8": _integer(ctypes.c_int8),
    "i16": _integer(ctypes.c_int16),
    "i32": _integer(ctypes.c_int32),
    "i64": _integer(ctypes.c_int64),
    "u8": _integer(ctypes.c_uint8),
    "u16": _integer(ctypes.c_uint16),
    "u32": _integer(ctypes.c_uint32),
    "u64": _integer(ctypes.c_uint64),
    "size": _integer(ctypes.c_size_t),
}


def plain(value, kind):
    """What ctypes gave, as pyACL has it: addresses are ints, a null pointer is 0, text is a str."""
    if kind == "ptr":
        return value or 0
    return value.decode("utf-8", "replace") if kind == "str" and value is not None else value


def c_name(module, name):
    """acl.rt.set_device: aclrtSetDevice; acl.media.vdec_send_frame: aclvdecSendFrame; acl.mdl.ri_execute: aclmdlRIExecute."""
    words = name.split("_")
    prefix = module.replace(".", "")
    if module == "acl.media":
        prefix, words = "acl" + words[0], words[1:]
    if prefix == "aclmdl" and words[:1] == ["ri"]:
        prefix, words = prefix + "RI", words[1:]
    return prefix + "".join(word[:1].upper() + word[1:] for word in words)


class Call:
    """One function of C, bound."""

    def __init__(self, name, function, kinds, result):
        self.__name__, self.function, self.kinds, self.result = name, function, kinds, result
        function.restype = None if result == "void" else ctypes.c_int if result == "error" else KINDS[result][0]
        self.count = sum(not kind.startswith(">") for kind in kinds)

    def __repr__(self):
        return f"<{self.__name__}({', '.join(kind for kind in self.kinds if not kind.startswith('>'))})>"

    def __call__(self, *given):
        if len(given) != self.count:
            raise TypeError(f"{self.__name__} takes {self.count} arguments ({len(given)} given)")
        values, arguments, results = iter(given), [], []
        for position, kind in enumerate(self.kinds):
            if kind.startswith(">"):
                results.append((KINDS[kind[1:]][0](), kind[1:]))
                arguments.append(ctypes.byref(results[-1][0]))
                continue
            try:
                arguments.append(KINDS[kind][1](next(values)))
            except (TypeError, ValueError, OverflowError) as error:
                raise type(error)(f"{self.__name__}, argument {position + 1}: {error}") from None
        returned = self.function(*arguments)
        returned = 0 if self.result == "void" else plain(returned, self.result)
        return (*(plain(value.value, kind) for value, kind in results), returned) if results else returned


class Table:
    """The functions of one module: those of its text, and those that `function` adds."""

    def __init__(self, module, libraries, lines):
        self.module, self.libraries, self.written, self._calls, self.lines = module, libraries, {}, {}, {}
        for words in map(str.split, lines.strip().splitlines()):
            one = len(words) > 1 and words[1].startswith("acl")
            self.lines.update({words[0]: words[1:]} if one else {name: [c_name(module, name)] for name in words})

    def function(self, *symbols):
        """Decorator: `_name` is the module's `name` where the library has `symbols`."""
        def add(function):
            self.written[function.__name__[1:]] = (symbols, function)
            return function
        return add

    def family(self, *names):
        """Decorator: the function, with the name of a line before its arguments, is what the module has by each of `names`."""
        def add(function):
            self.written.update({name: (self.lines[name][:1], functools.partial(function, name)) for name in names})
            return function
        return add

    def names(self):
        """Names whose functions the library has."""
        return sorted(name for name in {*self.lines, *self.written}
                      if all(_library.symbol(self.libraries, one) for one in self.symbols(name)))

    def symbols(self, name):
        return self.written[name][0] if name in self.written else self.lines[name][:1]

    def c(self, name, *arguments):
        """Calls the function of a line, as it stands in C."""
        return self._bound(name)(*arguments)

    def c_function(self, name):
        """ctypes' function of a line, for calls of another form."""
        return self._found(name, self.lines[name][0])

    def _found(self, name, symbol):
        function = _library.symbol(self.libraries, symbol)
        if function is None:
            raise AttributeError(f"{self.module}.{name} is {symbol}, which {' and '.join(self.libraries)} in {_library.folder()} "
                                 "do not have: test with hasattr, or give the CANN that has it by LD_LIBRARY_PATH")
        return function

    def attribute(self, name):
        """For __getattr__ of the module."""
        if name.startswith("__"):
            raise AttributeError(f"module {self.module!r} has no attribute {name!r}")
        if name not in self.lines and name not in self.written:
            raise AttributeError(f"module {self.module!r} has no attribute {name!r}: {self._refusal(name)}")
        for one in self.symbols(name):
            self._found(name, one)
        found = self.written[name][1] if name in self.written else self._bound(name)
        found.__name__ = f"{self.module}.{name}"
        if self.module in sys.modules:   # not when the interpreter ends, where objects still close what they have
            setattr(sys.modules[self.module], name, found)
        return found

    def _refusal(self, name):
        """What CANN's function of that name is in C, by pyACL's rule of names, and why it is not here."""
        symbol = c_name(self.module, name)
        others = [other for other in self.lines if self.lines[other][0] == symbol]
        if others:
            return f"{symbol} is {self.module}.{others[0]} here"
        if _library.symbol(self.libraries, symbol) is None:
            where = f"{' and '.join(self.libraries)} in {_library.folder()}"
            return f"by CANN's names it is {symbol}, which {where} do not have"
        return f"{symbol} is not bound; ctypes can call it in {' or '.join(self.libraries)}"

    def kinds(self, name):
        """Of the arguments and the result of a line's function."""
        symbol, *kinds = self.lines[name]
        return kinds or _headers.kinds(symbol)

    def _bound(self, name):
        if name not in self._calls:
            symbol, kinds = self.lines[name][0], self.kinds(name)
            result = kinds.pop()[1:] if kinds and kinds[-1].startswith("=") else "error"
            self._calls[name] = Call(f"{self.module}.{name}", self._found(name, symbol), kinds, result)
        return self._calls[name]
