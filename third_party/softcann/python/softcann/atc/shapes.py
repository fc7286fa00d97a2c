"""--input_shape, ranges and gears."""

import dataclasses
import re
import typing

from .errors import AtcError

MOST_GEARS = 100


@dataclasses.dataclass
class InputShapes:
    """`dims` by input, -1 free. `ranges` by input: (low, high) of each dimension, high -1 where it is open."""

    dims: typing.Dict[str, list] = dataclasses.field(default_factory=dict)
    ranges: typing.Dict[str, list] = dataclasses.field(default_factory=dict)
    batch: list = dataclasses.field(default_factory=list)
    images: list = dataclasses.field(default_factory=list)
    gears: list = dataclasses.field(default_factory=list)
    fixed: list = dataclasses.field(default_factory=list)

    def dynamic(self):
        return bool(self.batch or self.images or self.gears)

    def choices(self):
        """For each gear the sizes of all inputs by name."""
        if self.batch:
            return [self.fill([size] * self.free_count()) for size in self.batch]
        if self.images:
            return [self.fill([size for _ in range(self.free_count() // 2) for size in image]) for image in self.images]
        return [self.fill(gear) for gear in self.gears]

    def free_count(self):
        return sum(dim == -1 for dims in self.dims.values() for dim in dims)

    def fill(self, values):
        values = iter(values)
        return {name: [next(values) if dim == -1 else dim for dim in dims] for name, dims in self.dims.items()}


def split_inputs(text, option):
    """(name, sizes) pairs of "name:1,3;name:[1~8,3]"; a name may hold colons."""
    for part in filter(None, (item.strip() for item in text.split(";"))):
        name, colon, rest = part.rpartition(":")
        if not colon or not name:
            raise AtcError(
                "E10002", f'"{part}" in {option} is not of the form name:sizes', solution='Write "name:1,3,224,224;other:1,16".'
            )
        rest = rest.strip()
        yield name.strip(), rest[1:-1] if rest.startswith("[") and rest.endswith("]") else rest


def dimension(text, option):
    """(size or -1, low, high) of one dimension: 3, -1 or 1~8."""
    match = re.fullmatch(r"(-1|\d+)(?:~(-1|\d+))?", text.strip())
    if match is None:
        raise AtcError(
            "E10002", f'"{text}" in {option} is no size', solution="Write a number, -1 for a free one, or a range as 1~8."
        )
    low, high = int(match[1]), match[2]
    if high is not None:
        high = int(high)
        if low < 0 or (high != -1 and high < low):
            raise AtcError(
                "E10050",
                f"the range {text} in {option} ends before it begins",
                solution="Write low~high; -1 leaves the end open.",
            )
        return (low, low, high) if low == high else (-1, low, high)
    return (-1, 1, -1) if low == -1 else (low, low, low)


def parse_shapes(given):
    """The InputShapes of a command line (values by option)."""
    shapes = InputShapes()
    option = "--input_shape"
    entries = list(split_inputs(given.get("input_shape", ""), option))
    if given.get("input_shape_range"):
        option = "--input_shape_range"
        entries += split_inputs(given["input_shape_range"], option)
    for name, rest in entries:
        if name in shapes.dims and option == "--input_shape":
            raise AtcError("E10002", f"{option} names {name} twice", solution="Give each input once.")
        found = [dimension(item, option) for item in rest.split(",")] if rest else []
        shapes.dims[name] = [size for size, _, _ in found]
        shapes.ranges[name] = [(low, high) for _, low, high in found]
    add_gears(shapes, given)
    return shapes


def numbers(text, option):
    try:
        found = [int(item) for item in text.split(",") if item.strip()]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise AtcError(
            "E10038" if found else "E10001",
            f'"{text}" in {option} is no list of sizes',
            solution="Write sizes of 1 or more, separated by commas.",
        )
    return found


def add_gears(shapes, given):
    free = {name: [index for index, dim in enumerate(dims) if dim == -1] for name, dims in shapes.dims.items()}
    count = sum(map(len, free.values()))
    kinds = [name for name in ("dynamic_batch_size", "dynamic_image_size", "dynamic_dims") if given.get(name)]
    if not kinds:
        return
    kind = kinds[0]
    if count == 0:
        raise AtcError(
            "E10040",
            f"--{kind} is given, but no dimension in --input_shape is -1",
            solution="Write -1 where the size is to be chosen.",
        )
    if kind == "dynamic_batch_size":
        wrong = [name for name, places in free.items() if places not in ([], [0])]
        if wrong:
            raise AtcError(
                "E10018",
                f"with --dynamic_batch_size only the first dimension may be -1; that of {wrong[0]} in --input_shape is not "
                "the only one",
                solution="Fix its other dimensions, or use --dynamic_dims.",
            )
        shapes.batch = gears_of(numbers(given[kind], f"--{kind}"), kind)
    elif kind == "dynamic_image_size":
        layout = given.get("input_format") or "NCHW"
        places = [1, 2] if layout == "NHWC" else [2, 3]
        wrong = [name for name, found in free.items() if found not in ([], places)]
        if wrong:
            raise AtcError(
                "E10019",
                f"with --dynamic_image_size height and width must be -1, and nothing else; see {wrong[0]}",
                solution=f"In {layout} write -1 for dimensions {places[0]} and {places[1]}.",
            )
        shapes.images = gears_of([numbers(part, f"--{kind}") for part in given[kind].split(";") if part.strip()], kind)
        if any(len(gear) != 2 for gear in shapes.images):
            raise AtcError(
                "E10020",
                "--dynamic_image_size holds something else than pairs of height and width",
                solution='Write "416,416;832,832".',
            )
    else:
        if given.get("input_format", "ND") not in ("", "ND"):
            raise AtcError("E10001", "--dynamic_dims needs --input_format=ND", solution="Add --input_format=ND.")
        shapes.gears = gears_of([numbers(part, f"--{kind}") for part in given[kind].split(";") if part.strip()], kind)
        wrong = [gear for gear in shapes.gears if len(gear) != count]
        if wrong:
            raise AtcError(
                "E10037",
                f"a gear of --dynamic_dims has {len(wrong[0])} values, --input_shape has {count} dimensions of -1",
                solution="Give one value for each -1, in order.",
            )
    shapes.fixed = [name for name, places in free.items() if not places]


def gears_of(gears, kind):
    if len(gears) < 2:
        raise AtcError(
            "E10035",
            f"--{kind} has {len(gears)} gear; there must be at least 2",
            solution="For one size give it in --input_shape.",
        )
    if len(gears) > MOST_GEARS:
        raise AtcError("E10036", f"--{kind} has {len(gears)} gears; there may be {MOST_GEARS}", solution="Leave some out.")
    if len({str(gear) for gear in gears}) != len(gears):
        raise AtcError("E10039", f"--{kind} has the same gear twice", solution="Write each gear once.")
    return gears
