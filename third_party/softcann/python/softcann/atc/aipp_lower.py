"""A static AIPP block as operators at the head of the graph: exact integer arithmetic until the mean is taken off."""

import torch

from .aipp_config import CHANNELS

WIDEST = 4096  # of what AIPP makes
INPUT_CHANNELS = {"YUV420SP_U8": 1, "YUV400_U8": 1, "RGB888_U8": 3, "XRGB8888_U8": 4}  # of the raw input


class Picture:
    """Sizes of a block for a model's input `dims` (N, C, H, W, or N, H, W, C for NHWC; -1 free)."""

    def __init__(self, block, name, dims, layout):
        self.block, self.layout = block, layout
        if len(dims) != 4:
            raise block.wrong(f"input {name} has {len(dims)} dimensions; AIPP makes 4")
        batch, channels, height, width = dims if layout == "NCHW" else (dims[0], dims[3], dims[1], dims[2])
        self.batch, self.channels, self.height, self.width = batch, channels, height, width
        if -1 in (channels, height, width):
            raise block.wrong(
                f"channels, height and width of input {name} must be fixed",
                "Use AIPP with fixed sizes or with --dynamic_batch_size.",
            )
        self.set_sizes(block)
        self.check(name)

    def set_sizes(self, block):
        pads = self.pads()
        inner = (self.height - pads[2] - pads[3], self.width - pads[0] - pads[1])
        self.crop_h, self.crop_w = block.crop_size_h or inner[0], block.crop_size_w or inner[1]
        self.start_h, self.start_w = (block.load_start_pos_h, block.load_start_pos_w) if block.crop else (0, 0)
        self.source_h, self.source_w = block.src_image_size_h, block.src_image_size_w
        if not self.source_h or not self.source_w:
            if block.crop or block.padding:
                raise block.wrong("src_image_size_h and src_image_size_w are needed with crop or padding")
            self.source_h, self.source_w = self.source_h or self.height, self.source_w or self.width
        if not block.crop:
            self.crop_h, self.crop_w = self.source_h, self.source_w

    def pads(self):
        """Left, right, top, bottom."""
        block = self.block
        sizes = block.left_padding_size, block.right_padding_size, block.top_padding_size, block.bottom_padding_size
        return sizes if block.padding else (0, 0, 0, 0)

    def check(self, name):
        block, pads = self.block, self.pads()
        if self.start_h + self.crop_h > self.source_h or self.start_w + self.crop_w > self.source_w:
            raise block.wrong(
                f"the crop of {self.crop_h} x {self.crop_w} from {self.start_h}, {self.start_w} leaves the picture of "
                f"{self.source_h} x {self.source_w}"
            )
        made = self.crop_h + pads[2] + pads[3], self.crop_w + pads[0] + pads[1]
        if made != (self.height, self.width):
            raise block.wrong(
                f"it makes pictures of {made[0]} x {made[1]}, input {name} is {self.height} x {self.width}",
                "Make crop and padding give the input's sizes.",
            )
        if block.input_format == "YUV420SP_U8" and (self.source_h % 2 or self.source_w % 2):
            raise block.wrong("the sizes of a YUV420SP_U8 picture must be even")
        if made[1] > WIDEST:
            raise block.wrong(f"it makes pictures {made[1]} wide; {WIDEST} is the most")
        offered = CHANNELS[block.input_format]
        if block.input_format == "XRGB8888_U8" and (self.channels != 4 or block.csc_switch):
            offered = 3
        if self.channels != offered and not (block.csc_switch and self.channels == 1):
            raise block.wrong(f"it makes {offered} channels, input {name} has {self.channels}")

    def raw_dims(self):
        """The input that the .om has instead: uint8, N, H, W, C; a YUV420SP picture has half as many rows more, for U and V."""
        rows = self.source_h * 3 // 2 if self.block.input_format == "YUV420SP_U8" else self.source_h
        return [self.batch, rows, self.source_w, INPUT_CHANNELS[self.block.input_format]]


def lower(builder, picture, raw, dtype):
    """The value that the model's input had, from the raw one; of the model's type `dtype`."""
    builder.origin = ("Aipp", f"aipp_{raw.source}")
    block, emit = picture.block, builder.emit
    x = swapped(builder, picture, planes(builder, picture, raw))
    if block.crop:
        x = emit("aten::slice.Tensor", x, 2, picture.start_h, picture.start_h + picture.crop_h, 1)
        x = emit("aten::slice.Tensor", x, 3, picture.start_w, picture.start_w + picture.crop_w, 1)
    if block.csc_switch and block.input_format != "YUV400_U8":
        x = converted(builder, block, x)
    if x.dims[1] > picture.channels:
        x = emit("aten::slice.Tensor", x, 1, 0, picture.channels, 1)
    if dtype.is_floating_point:
        shift, factor = block.channel_values(picture.channels)
        x = builder.cast(x, torch.float32)
        shape = [1, picture.channels, 1, 1]
        if any(shift):
            x = emit("aten::sub.Tensor", x, builder.constant(torch.tensor(shift).reshape(shape)))
        if any(one != 1 for one in factor):
            x = emit("aten::mul.Tensor", x, builder.constant(torch.tensor(factor).reshape(shape)))
    x = builder.cast(x, dtype)
    if any(picture.pads()):
        value = block.padding_value if dtype.is_floating_point else int(block.padding_value)
        x = emit("aten::constant_pad_nd", x, list(picture.pads()), value)
    return x if picture.layout == "NCHW" else emit("aten::permute", x, [0, 2, 3, 1])


def planes(builder, picture, raw):
    """N, C, H, W of the picture as it lies in memory; U and V spread over their four pixels."""
    emit = builder.emit
    if picture.block.input_format != "YUV420SP_U8":
        return emit("aten::permute", raw, [0, 3, 1, 2])
    height, width = picture.source_h, picture.source_w
    rows = emit("aten::squeeze.dim", raw, 3)
    luma = emit("aten::unsqueeze", emit("aten::slice.Tensor", rows, 1, 0, height, 1), 1)
    pairs = emit(
        "aten::reshape", emit("aten::slice.Tensor", rows, 1, height, height * 3 // 2, 1), [-1, height // 2, width // 2, 2]
    )
    colours = emit("aten::permute", pairs, [0, 3, 1, 2])
    for axis in (2, 3):
        colours = emit("aten::repeat_interleave.self_int", colours, 2, axis)
    return emit("aten::cat", [luma, colours], 1)


def swapped(builder, picture, x):
    """Channels in the order that the switches ask for; the X of XRGB comes last, and goes unless the model has four."""
    block = picture.block
    order = list(range(CHANNELS[block.input_format]))
    if block.input_format == "XRGB8888_U8":
        order = [1, 2, 3, 0] if block.ax_swap_switch else order
        order = order if picture.channels == 4 else order[:3]
    if block.rbuv_swap_switch:
        first, last = (1, 2) if block.input_format == "YUV420SP_U8" else (0, 2)
        if len(order) > last:
            order[first], order[last] = order[last], order[first]
    if order == list(range(CHANNELS[block.input_format])):
        return x
    return builder.emit("aten::index_select", x, 1, builder.constant(torch.tensor(order)))


def converted(builder, block, x):
    """Colour conversion in integers: from YUV the bias is taken off before, to YUV it is added after; 8 bits are shifted away."""
    emit = builder.emit
    from_yuv = block.input_format == "YUV420SP_U8"
    matrix = builder.constant(torch.tensor(block.matrix(), dtype=torch.int32).reshape(3, 3, 1, 1))
    bias = builder.constant(torch.tensor(block.bias("input" if from_yuv else "output"), dtype=torch.int32).reshape(1, 3, 1, 1))
    x = builder.cast(x, torch.int32)
    if x.dims[1] == 4:
        x = emit("aten::slice.Tensor", x, 1, 0, 3, 1)
    if from_yuv:
        x = emit("aten::sub.Tensor", x, bias)
    products = emit("aten::mul.Tensor", emit("aten::unsqueeze", x, 1), matrix)
    x = emit("aten::bitwise_right_shift.Tensor_Scalar", emit("aten::sum.dim_IntList", products, [2], False, dtype=torch.int32), 8)
    x = x if from_yuv else emit("aten::add.Tensor", x, bias)
    return emit("aten::clamp", x, 0, 255)
