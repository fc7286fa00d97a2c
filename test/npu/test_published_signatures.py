"""Whatever a call of the published torch_npu may give, by position or by name, ours takes, with the same defaults."""
import ast
import inspect
import pathlib

import pytest
from published_absent import ABSENT
from test_published_names import resolve

import torch_npu  # noqa: F401

LINES = [line for line in pathlib.Path(__file__).with_name("published_signatures.txt").read_text().splitlines()
         if not line.startswith(("#", *ABSENT))]


def literal(node):
    """The value of a default, or its text."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def differences(text, signature):
    """What a call of the published function ``text`` could find missing in ``signature``."""
    given = ast.parse(f"def f{text[text.index('('):]}: pass").body[0].args
    names = [a.arg for a in given.posonlyargs + given.args]
    defaults = dict(zip(names[len(names) - len(given.defaults):], map(literal, given.defaults)))
    defaults.update({a.arg: literal(d) for a, d in zip(given.kwonlyargs, given.kw_defaults) if d is not None})
    ours, kinds = signature.parameters, inspect.Parameter
    positional = [p for p in ours.values() if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    anything = {p.kind for p in ours.values()} & {kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD}
    for place, name in enumerate(names):
        if kinds.VAR_POSITIONAL in anything and place >= len(positional):
            break
        if place >= len(positional) or positional[place].name != name:
            yield f"argument {place + 1} is {positional[place].name if place < len(positional) else 'not there'}, not {name}"
    for name in [a.arg for a in given.kwonlyargs]:
        if name not in ours and kinds.VAR_KEYWORD not in anything:
            yield f"there is no {name}"
    for name, value in defaults.items():
        if name in ours and not isinstance(value, str) and ours[name].default != value:
            yield f"{name} is {ours[name].default!r} by default, not {value!r}"
    for parameter in ours.values():
        if parameter.default is parameter.empty and parameter.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY):
            if parameter.name not in names + [a.arg for a in given.kwonlyargs] or parameter.name in defaults:
                yield f"{parameter.name} must be given"


def test_the_comparison_sees_differences():
    found = lambda text, function: list(differences(text, inspect.signature(function)))
    assert found("f(a, b=1)", lambda a, b=1, c=2: 0) == []
    assert found("f(a, b=1)", lambda *args, **kwargs: 0) == []
    assert found("f(a, b=1)", lambda b=1, a=0: 0) == ["argument 1 is b, not a", "argument 2 is a, not b"]
    assert found("f(a, b=1)", lambda a, b=2: 0) == ["b is 2 by default, not 1"]
    assert found("f(a)", lambda a, b: 0) == ["b must be given"]
    assert found("f(*, a=1)", lambda b=1: 0) == ["there is no a"]


@pytest.mark.parametrize("text", LINES, ids=lambda text: text[:text.index("(")])
def test_takes_what_the_published_one_takes(text):
    name = text[:text.index("(")]
    value = resolve(name.replace("torch.npu.", "torch_npu.npu.") if name.startswith("torch.npu.") else name)
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):  # of C: its own tests
        return
    assert list(differences(text, signature)) == []
