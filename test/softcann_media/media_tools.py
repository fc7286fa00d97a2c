"""Pictures in device memory for the tests of libacl_dvpp, and what they hold as NumPy arrays."""
import contextlib
import ctypes
import os
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
LIBRARIES = pathlib.Path(os.environ.get("TEST_LIBRARIES") or ROOT / "torch_npu/softcann/lib")
YUV400, NV12, NV21, YUV422SP, YVU422SP, YUV444SP, YVU444SP, YUYV, UYVY, YVYU, VYUY, YUV444, RGB, BGR, ARGB, ABGR, RGBA, BGRA = range(18)
YUV440SP = 1000
SEMI_PLANAR = {NV12: (1, 1), NV21: (1, 1), YUV422SP: (1, 0), YVU422SP: (1, 0), YUV444SP: (0, 0), YVU444SP: (0, 0),
               YUV440SP: (0, 1)}   # shifts of chroma
PACKED_422 = {YUYV: (0, 1, 3), UYVY: (1, 0, 2), YVYU: (0, 3, 1), VYUY: (1, 2, 0)}   # first Y, U, V
PACKED = {YUV444: (0, 1, 2), RGB: (0, 1, 2), BGR: (2, 1, 0), ARGB: (1, 2, 3, 0), ABGR: (3, 2, 1, 0), RGBA: (0, 1, 2, 3),
          BGRA: (2, 1, 0, 3)}
ALL = [YUV400, *SEMI_PLANAR, *PACKED_422, *PACKED]


def aligned(value, to):
    return -(-value // to) * to


def row_bytes(form, width, align=16):
    if form in PACKED_422:
        return aligned(2 * width, align)
    return aligned(width, align) * (len(PACKED[form]) if form in PACKED else 1)


def planes_in(form, raw, width, height, stride, rows):
    """The channels of a picture's bytes, copied from what the format says and nothing else."""
    first = raw[:stride * rows].reshape(rows, stride)
    if form in PACKED:
        pixels = first[:height, :width * len(PACKED[form])].reshape(height, width, -1)
        return [pixels[:, :, place] for place in PACKED[form]]
    if form in PACKED_422:
        y, u, v = PACKED_422[form]
        line = first[:height, :2 * width]
        return [line[:, y::2], line[:, u::4], line[:, v::4]]
    if form == YUV400:
        return [first[:height, :width]]
    shift_x, shift_y = SEMI_PLANAR[form]
    pairs = raw[stride * rows:].reshape(rows >> shift_y, 2 * (stride >> shift_x))[:height >> shift_y, :2 * (width >> shift_x)]
    order = (1, 0) if form in (NV21, YVU422SP, YVU444SP) else (0, 1)
    return [first[:height, :width], *(pairs[:, place::2] for place in order)]


class Picture:
    """A picture in memory of acldvppMalloc, with its description."""

    def __init__(self, media, form, width, height, *, stride=None, rows=None, align=16):
        self.media, self.form, self.width, self.height = media, form, width, height
        self.stride, self.rows = stride or row_bytes(form, width, align), rows or aligned(height, 2)
        self.bytes = self.stride * self.rows
        if form in SEMI_PLANAR:
            self.bytes += 2 * (self.bytes >> sum(SEMI_PLANAR[form]))
        self.data, ret = media.acl.media.dvpp_malloc(self.bytes)
        assert ret == 0
        self.desc = media.acl.media.dvpp_create_pic_desc()
        self.describe(self.desc)
        self.raw = np.full(self.bytes, 77, np.uint8)
        self.upload()

    def describe(self, desc):
        call = self.media.acl.media
        assert [call.dvpp_set_pic_desc_data(desc, self.data), call.dvpp_set_pic_desc_size(desc, self.bytes),
                call.dvpp_set_pic_desc_format(desc, self.form), call.dvpp_set_pic_desc_width(desc, self.width),
                call.dvpp_set_pic_desc_height(desc, self.height), call.dvpp_set_pic_desc_width_stride(desc, self.stride),
                call.dvpp_set_pic_desc_height_stride(desc, self.rows)] == [0] * 7

    def upload(self):
        assert self.media.acl.rt.memcpy(self.data, self.bytes, self.raw.ctypes.data, self.bytes, 1) == 0

    def fill(self, planes):
        for to, source in zip(self.planes(), planes):
            to[...] = source
        self.upload()
        return self

    def random(self, seed=0):
        made = np.random.default_rng(seed)
        return self.fill([made.integers(0, 256, one.shape, np.uint8) for one in self.planes()])

    def planes(self):
        return planes_in(self.form, self.raw, self.width, self.height, self.stride, self.rows)

    def read(self):
        assert self.media.acl.rt.memcpy(self.raw.ctypes.data, self.bytes, self.data, self.bytes, 2) == 0
        return [one.astype(np.int64) for one in self.planes()]


class Media:
    """A channel and a stream."""

    def __init__(self, acl):
        self.acl = acl
        self.stream, ret = acl.rt.create_stream()
        self.channel = acl.media.dvpp_create_channel_desc()
        assert ret == 0 and acl.media.dvpp_create_channel(self.channel) == 0

    def picture(self, *given, **more):
        return Picture(self, *given, **more)

    def config(self, interpolation=0):
        made = self.acl.media.dvpp_create_resize_config()
        assert self.acl.media.dvpp_set_resize_config_interpolation(made, interpolation) == 0
        return made

    def area(self, left, top, width, height):
        made = self.acl.media.dvpp_create_roi_config(left, left + width - 1, top, top + height - 1)
        assert made
        return made

    def border(self, kind, left, right, top, bottom, values=()):
        call, made = self.acl.media, self.acl.media.dvpp_create_border_config()
        assert [call.dvpp_set_border_config_border_type(made, kind), call.dvpp_set_border_config_left(made, left),
                call.dvpp_set_border_config_right(made, right), call.dvpp_set_border_config_top(made, top),
                call.dvpp_set_border_config_bottom(made, bottom)] == [0] * 5
        for index, value in enumerate(values):
            assert call.dvpp_set_border_config_value(made, index, value) == 0
        return made

    def run(self, name, *given):
        """Calls acl.media.dvpp_<name>_async on the stream; the code of the call, otherwise of the stream."""
        ret = getattr(self.acl.media, f"dvpp_{name}_async")(self.channel, *given, self.stream)
        return ret or self.acl.rt.synchronize_stream(self.stream)

    @contextlib.contextmanager
    def bytes(self, content):
        """Bytes in memory of acldvppMalloc."""
        place, ret = self.acl.media.dvpp_malloc(max(len(content), 1))
        assert ret == 0
        assert not content or self.acl.rt.memcpy(place, len(content), host(content), len(content), 1) == 0
        yield place
        assert self.acl.media.dvpp_free(place) == 0

    def error(self):
        return self.acl.get_recent_err_msg()


def host(content):
    return ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p).value
