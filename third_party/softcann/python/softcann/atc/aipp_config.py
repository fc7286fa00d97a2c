"""AIPP configurations: protobuf text, checked; and the config for a mean and standard deviation.

python -m softcann aipp --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --size 224,224 --format RGB888_U8
"""

import argparse
import functools
import sys
import typing

import torch
from google.protobuf import text_format

from . import ge_ir
from .configs import read_text
from .errors import AtcError

MODES = {"undefined": 0, "static": 1, "dynamic": 2}
# CANN's names by their numbers; SERVED are those of pictures, which CANN's documents name.
FORMATS = {
    name: number
    for number, name in enumerate(
        "UNDEFINED YUV420SP_U8 XRGB8888_U8 RGB888_U8 YUV400_U8 NC1HWC0DI_FP16 NC1HWC0DI_S8 ARGB8888_U8 YUYV_U8 YUV422SP_U8 "
        "AYUV444_U8 RAW10 RAW12 RAW16 RAW24 RGB16 RGB20 RGB24 RGB8_IR RGB16_IR RGB24_IR".split()
    )
}
CHANNELS = {"YUV420SP_U8": 3, "XRGB8888_U8": 4, "RGB888_U8": 3, "YUV400_U8": 1}  # of the picture
SERVED = tuple(CHANNELS)


class Field(typing.NamedTuple):
    name: str
    number: int
    kind: str
    range: typing.Optional[typing.Tuple[int, int]] = None  # lowest, highest
    repeated: bool = False
    reserved: bool = False  # by CANN, or of formats that are not served


FIELDS = [
    Field("related_input_rank", 2, "uint32"),
    Field("input_edge_idx", 3, "uint32", repeated=True),
    Field("max_src_image_size", 4, "uint32"),
    Field("support_rotation", 5, "bool", reserved=True),
    Field("related_input_name", 6, "string"),
    Field("csc_switch", 52, "bool"),
    Field("cpadding_value", 53, "float", reserved=True),
    Field("rbuv_swap_switch", 54, "bool"),
    Field("ax_swap_switch", 55, "bool"),
    Field("single_line_mode", 56, "bool", reserved=True),
    Field("src_image_size_w", 57, "int32", (0, 4096)),
    Field("src_image_size_h", 58, "int32", (0, 4096)),
    Field("crop", 59, "bool"),
    Field("load_start_pos_w", 60, "int32", (0, 4095)),
    Field("load_start_pos_h", 61, "int32", (0, 4095)),
    Field("crop_size_w", 62, "int32", (0, 4096)),
    Field("crop_size_h", 63, "int32", (0, 4096)),
    Field("resize", 64, "bool", reserved=True),
    Field("resize_output_w", 65, "int32", reserved=True),
    Field("resize_output_h", 66, "int32", reserved=True),
    Field("padding", 67, "bool"),
    Field("left_padding_size", 68, "int32", (0, 32)),
    Field("right_padding_size", 69, "int32", (0, 32)),
    Field("top_padding_size", 70, "int32", (0, 32)),
    Field("bottom_padding_size", 71, "int32", (0, 32)),
    Field("padding_value", 72, "float", (-65504, 65504)),
    Field("raw_rgbir_to_f16_n", 45, "uint32", reserved=True),
]
FIELDS += [Field(f"mean_chn_{index}", number, "int32", (0, 255)) for index, number in enumerate((10, 11, 12, 19))]
FIELDS += [Field(f"min_chn_{index}", number, "float", (0, 255)) for index, number in enumerate((13, 14, 15, 20))]
FIELDS += [Field(f"var_reci_chn_{index}", number, "float", (-65504, 65504), True)
           for index, number in enumerate((16, 17, 18, 21))]
FIELDS += [Field(f"matrix_r{row}c{column}", 30 + 3 * row + column, "int32", (-32768, 32767), True)
           for row in range(3) for column in range(3)]
FIELDS += [Field(f"output_bias_{index}", 39 + index, "int32", (0, 255), True) for index in range(3)]
FIELDS += [Field(f"input_bias_{index}", 42 + index, "int32", (0, 255), True) for index in range(3)]

DEFAULT_MATRIX = ((298, 516, 0), (298, -100, -208), (298, 0, 409))
DEFAULT_BIAS = (16, 128, 128)


@functools.lru_cache(maxsize=None)
def config_class():
    """The message that holds the `aipp_op` blocks of a file."""
    fields = [(field.name, field.number, field.kind, field.repeated) for field in FIELDS]
    messages = {"Op": [("aipp_mode", 1, "Mode", False), ("input_format", 51, "Format", False), *fields],
                "Config": [("aipp_op", 1, "Op", True)]}
    return ge_ir.classes("softcann.aipp", "proto2", {"Mode": MODES, "Format": FORMATS}, messages)["Config"]


class Aipp:
    """One block. Attributes are the fields; those with one value are that value, not lists."""

    def __init__(self, message, path):
        self.path, self.given = path, {field.name for field, _ in message.ListFields()}
        self.input_format = {number: name for name, number in FORMATS.items()}[message.input_format]
        self.mode = {number: name for name, number in MODES.items()}[message.aipp_mode]
        for field in FIELDS:
            value = getattr(message, field.name)
            if field.name == "input_edge_idx":
                value = list(value)
            elif field.repeated:
                if len(value) > 1:
                    raise self.wrong(f"{field.name} is given {len(value)} times")
                value = value[0] if value else None
            setattr(self, field.name, value)
        self.check()

    def wrong(self, reason, solution="Correct the file."):
        return AtcError("E10001", f"{self.path}, given by --insert_op_conf: {reason}", solution=solution)

    def check(self):
        if any(self.input_edge_idx):
            raise AtcError(
                "E10055",
                f"{self.path}: input_edge_idx {max(self.input_edge_idx)}: an input of an ONNX model has one edge",
                solution="Leave it out.",
            )
        if self.mode == "dynamic":
            return self.check_dynamic()
        if self.mode != "static":
            raise self.wrong("aipp_mode is missing", "Write aipp_mode : static, or dynamic.")
        if self.input_format not in SERVED:
            raise self.wrong(f"input_format must be one of {', '.join(SERVED)}")
        for name in (field.name for field in FIELDS if field.reserved):
            if getattr(self, name) and name in self.given:
                raise AtcError("E10055", f"{self.path}: {name} is reserved, and not served", solution="Leave it out.")
        for name, (low, high) in ((field.name, field.range) for field in FIELDS if field.range):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise self.wrong(f"{name} is {value}, outside of {low} to {high}")
        if self.src_image_size_w == 1:
            raise self.wrong("src_image_size_w is 1; it must be 0, or 2 to 4096")
        if self.input_format == "YUV420SP_U8":
            for name in ("src_image_size_w", "src_image_size_h", "load_start_pos_w", "load_start_pos_h"):
                if getattr(self, name) % 2:
                    raise self.wrong(f"{name} is {getattr(self, name)}; it must be even for YUV420SP_U8")

    def check_dynamic(self):
        """What is set at run time has no place in the file."""
        if self.support_rotation:
            raise AtcError("E10055", f"{self.path}: support_rotation is reserved, and not served", solution="Leave it out.")
        early = "aipp_mode max_src_image_size related_input_rank related_input_name input_edge_idx support_rotation"
        late = sorted(self.given - set(early.split()))
        if late:
            raise self.wrong(f"{late[0]} is not for aipp_mode dynamic", "Set it at run time (aclmdlSetAIPP...).")
        if not self.max_src_image_size:
            raise self.wrong("max_src_image_size is missing", "Give the bytes of the largest batch of pictures.")

    def input_of(self, names):
        """The index of its input."""
        if self.related_input_name:
            if self.related_input_name not in names:
                raise self.wrong(
                    f"related_input_name: the model has no input {self.related_input_name}", "Use its inputs' names."
                )
            return names.index(self.related_input_name)
        if self.related_input_rank >= len(names):
            raise self.wrong(
                f"there is a block for input {self.related_input_rank}, the model has {len(names)} inputs",
                "Correct related_input_rank.",
            )
        return self.related_input_rank

    def check_padding(self, dtype):
        """What is padded with must be a value of the network's input."""
        whole = {torch.uint8: (0, 255), torch.int8: (-128, 127)}.get(dtype)
        value = self.padding_value
        if self.padding and whole and not (whole[0] <= value <= whole[1] and value == int(value)):
            raise self.wrong(f"padding_value is {value:g}; the input is of whole numbers from {whole[0]} to {whole[1]}")

    def check_input(self, name, dims):
        """A dynamic block's input `dims`."""
        if len(dims) != 4 or -1 in dims:
            raise self.wrong(f"input {name} has the dims {dims}; dynamic AIPP makes 4, which are fixed", "Give --input_shape.")

    def matrix(self):
        return [[self.first(f"matrix_r{row}c{column}", DEFAULT_MATRIX[row][column]) for column in range(3)] for row in range(3)]

    def bias(self, which):
        return [self.first(f"{which}_bias_{index}", DEFAULT_BIAS[index]) for index in range(3)]

    def first(self, name, default):
        value = getattr(self, name)
        return default if value is None else value

    def channel_values(self, count):
        """mean + min, and 1 / variance, of each channel."""
        shift = [getattr(self, f"mean_chn_{index}") + getattr(self, f"min_chn_{index}") for index in range(count)]
        return shift, [self.first(f"var_reci_chn_{index}", 1.0) for index in range(count)]

    def text(self):
        """What was given, as the attribute `aipp` has it."""
        def value_of(name):
            value = self.input_format if name == "input_format" else getattr(self, name)
            return str(value).lower() if isinstance(value, bool) else value  # as the configuration spells it

        # Which input it is says the index.
        names = sorted(self.given - {"aipp_mode", "related_input_name", "input_edge_idx"})
        return f"{self.mode} " + " ".join(f"{name}={value_of(name)}" for name in names)


def parse(path, names):
    """The blocks of a file by the index of the input that they are for, of the model's inputs `names`: the one that
    related_input_name says, otherwise that of related_input_rank."""
    message = config_class()()
    try:
        text_format.Parse(read_text(path, "--insert_op_conf"), message)
    except text_format.ParseError as error:
        raise AtcError(
            "E10032", f"{path}, given by --insert_op_conf, cannot be read: {error}", solution="Correct the file."
        ) from error
    if not message.aipp_op:
        raise AtcError("E10001", f"{path}, given by --insert_op_conf, has no aipp_op", solution="Write aipp_op { ... }.")
    blocks = {}
    for entry in message.aipp_op:
        block = Aipp(entry, path)
        rank = block.input_of(names)
        if rank in blocks:
            raise block.wrong(f"input {rank} has two blocks")
        blocks[rank] = block
    return blocks


def normalising(mean, std, size, format):
    """The text of a config that computes (x / 255 - mean) / std; `size` is height and width."""
    lines = [
        "aipp_op {",
        "    aipp_mode : static",
        f"    input_format : {format}",
        f"    src_image_size_h : {size[0]}",
        f"    src_image_size_w : {size[1]}",
    ]
    for index, (centre, spread) in enumerate(zip(mean, std)):
        lines += [f"    min_chn_{index} : {255 * centre:.6g}", f"    var_reci_chn_{index} : {1 / (255 * spread):.8g}"]
    return "\n".join([*lines, "}"])


def main(words=None):
    """Prints a config."""
    parser = argparse.ArgumentParser(prog="python -m softcann aipp", description="AIPP config for (x / 255 - mean) / std.")
    numbers = lambda text: [float(item) for item in text.split(",")]
    parser.add_argument("--mean", type=numbers, required=True, help="of each channel, of pixels between 0 and 1")
    parser.add_argument("--std", type=numbers, required=True, help="standard deviation of each channel")
    parser.add_argument("--size", type=lambda text: [int(item) for item in text.split(",")], required=True, help="height,width")
    parser.add_argument("--format", choices=SERVED, default="RGB888_U8")
    given = parser.parse_args(words)
    if len(given.mean) != len(given.std) or len(given.size) != 2 or 0 in given.std:
        parser.error("as many standard deviations as means, none of them 0, and a height and a width")
    print(normalising(given.mean, given.std, given.size, given.format))


if __name__ == "__main__":
    sys.exit(main())
