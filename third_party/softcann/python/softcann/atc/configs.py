"""The small files that options name: precision lists, operators that keep their type, fusion switches."""

import json
import os
import re

from .errors import AtcError

_F16, _F32 = frozenset({"float16"}), frozenset({"float32"})
CUSTOMIZED = re.compile(r"(?:OpType::(?P<type>[^:]+)|(?P<name>.+?):):InputDtype:(?P<inputs>.*?),?OutputDtype:(?P<outputs>.*)")
CUSTOM = {(_F16, _F16): "half", (_F32, _F32): "float", (_F16, _F32): "cube"}  # by the types of inputs and outputs


def read_text(path, option):
    """The file's text; refuses one that is not there."""
    if not os.path.isfile(path):
        raise AtcError(
            "E13001", f"{path}, given by {option}, cannot be opened: there is no such file", solution="Check the path."
        )
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def read_json(path, option):
    try:
        return json.loads(read_text(path, option))
    except ValueError as error:
        raise AtcError("E10032", f"{path}, given by {option}, is not json: {error}", solution="Correct the file.") from error


def mix_lists(path):
    """(white, black, gray) operator types that --modify_mixlist adds; those removed from a list become the others' or gray."""
    content = read_json(path, "--modify_mixlist")
    if not isinstance(content, dict):
        raise AtcError(
            "E10032",
            f"{path}, given by --modify_mixlist, is no json object",
            solution='Write {"white-list": {"to-add": ["MatMul"]}}.',
        )
    lists = {}
    for name in ("white-list", "black-list", "gray-list"):
        entry = content.get(name, {})
        lists[name] = set(entry.get("to-add", [])), set(entry.get("to-remove", []))
    gray = lists["gray-list"][0] | lists["white-list"][1]
    return lists["white-list"][0], lists["black-list"][0], gray - lists["white-list"][0] - lists["black-list"][0]


def kept_operators(path):
    """Names and, after "OpType::", types of the operators that keep the model's precision."""
    lines = (line.strip() for line in read_text(path, "--keep_dtype").splitlines())
    return [line.partition("OpType::")[2] or line for line in lines if line and not line.startswith("#")]


def customized(path):
    """{name or type: policy} of --customize_dtypes: lines "node::InputDtype:float16,OutputDtype:float16", or of a type
    "OpType::MatMul:InputDtype:...". The policies are half, float, and cube, which is half in, float out."""
    option, policies = "--customize_dtypes", {}
    for line in filter(None, (line.strip() for line in read_text(path, option).splitlines())):
        if line.startswith("#"):
            continue
        match = CUSTOMIZED.fullmatch(line)
        sides = tuple(frozenset(re.findall(r"[a-z]*float\d*", match[side])) for side in ("inputs", "outputs")) if match else ()
        policy = CUSTOM.get(sides)
        if policy is None:
            raise AtcError(
                "E10032",
                f'{path}, given by {option}: "{line}" is not float16, float32, or float16 with float32 outputs',
                solution="Write node::InputDtype:float16,float16,OutputDtype:float16, or OpType::MatMul:InputDtype:...",
            )
        policies[match["type"] or match["name"]] = policy
    return policies


def fusion_switches(path):
    """{name: bool} of a fusion switch file, json or lines "name:on"; "ALL" stands for those that are not named."""
    text = read_text(path, "--fusion_switch_file")
    if text.lstrip().startswith("{"):
        content = read_json(path, "--fusion_switch_file")
        groups = content.get("Switch", content)
        pairs = [(name, state) for group in groups.values() if isinstance(group, dict) for name, state in group.items()]
        pairs += [(name, state) for name, state in groups.items() if not isinstance(state, dict)]
    else:
        pairs = [tuple(part.strip() for part in line.rsplit(":", 1)) for line in text.splitlines() if ":" in line]
    wrong = [name for name, state in pairs if str(state).lower() not in ("on", "off")]
    if wrong:
        raise AtcError(
            "E10032", f'{path}, given by --fusion_switch_file: {wrong[0]} is neither "on" nor "off"', solution="Write on or off."
        )
    return {name: str(state).lower() == "on" for name, state in pairs}
