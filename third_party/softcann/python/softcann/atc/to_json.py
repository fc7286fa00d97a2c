"""An .om's model as the json that mode 1 prints."""

import json

from .container import read_parts, to_model


def attribute(value):
    """One AttrDef as tools read it: {"s": ...}, {"i": ...}, {"list": {"s": [...]}}."""
    kind = value.WhichOneof("value")
    if kind == "list":
        lists = {
            "s": [item.decode(errors="replace") for item in value.list.s],
            "i": list(value.list.i),
            "f": list(value.list.f),
            "b": list(value.list.b),
        }
        return {"list": {name: items for name, items in lists.items() if items}}
    found = getattr(value, kind) if kind else ""
    return {kind or "s": found.decode(errors="replace") if isinstance(found, bytes) else found}


def tree(message):
    """A message as a dict; maps of attributes become lists of key and value."""
    result = {}
    for field, value in message.ListFields():
        if field.name == "attr":
            result["attr"] = [{"key": key, "value": attribute(value[key])} for key in sorted(value)]
        elif field.type == field.TYPE_MESSAGE and repeated(field):
            result[field.name] = [tree(item) for item in value]
        elif field.type == field.TYPE_MESSAGE:
            result[field.name] = tree(value)
        elif field.type == field.TYPE_ENUM:
            result[field.name] = field.enum_type.values_by_number[value].name
        else:
            result[field.name] = list(value) if repeated(field) else value
    return result


def repeated(field):
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def of_file(path):
    """The dict of an .om."""
    return tree(read_parts(path)[1])


def of_program(program):
    """The dict of a program that is not written yet."""
    return tree(to_model(program)[0])


def write(content, path):
    with open(path, "w") as file:
        json.dump(content, file, indent=2)
