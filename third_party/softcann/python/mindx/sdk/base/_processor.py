"""DVPP: JPEG and PNG, sizes, areas, borders, colours."""
import contextlib
import dataclasses
import pathlib

import acl
import numpy as np
from aclruntime.tensor import HOST_TO_DEVICE, check

from ._device import PictureMemory, host_bytes, use_device
from ._enums import Rect, Size, image_format, interpolation
from ._image import Image, aligned

CONVERTIBLE = (image_format.nv12, image_format.nv21, image_format.rgb, image_format.bgr)
SUBSAMPLED = [image_format(number) for number in (1, 2, 3, 4, 7, 8, 9, 10)]
WITH_ALPHA = (2, 4)   # channels of a PNG


def value(pair, what):
    found, ret = pair
    check(ret, what)
    return found


class ImageProcessor:
    """Works on pictures of one device; each call is done when it returns. Not for several threads at once.

    DVPP's rules hold (softcann's docs/media.md): sizes of 10 x 6 to 8192 x 8192, changes of 1/32 to 16 times. Areas of YUV begin
    and end at even pixels: their corners move outwards.
    """

    def __init__(self, deviceId=0):
        use_device(deviceId)
        self._device = deviceId
        self._stream = value(acl.rt.create_stream(), "acl.rt.create_stream")
        self._channel = acl.media.dvpp_create_channel_desc()
        check(acl.media.dvpp_create_channel(self._channel), "dvpp_create_channel")

    def __del__(self):
        if getattr(self, "_channel", 0):
            acl.media.dvpp_destroy_channel(self._channel)
            acl.media.dvpp_destroy_channel_desc(self._channel)
            acl.rt.destroy_stream(self._stream)

    def decode(self, inputPath, decodeFormat=image_format.nv12):
        """The picture of a JPEG file, in nv12, nv21, rgb or bgr; of a PNG file, in rgba or, without alpha, rgb or bgr."""
        try:
            content = pathlib.Path(inputPath).read_bytes()
        except OSError as error:
            raise RuntimeError(f"decode: {inputPath}: {error.strerror}") from error
        return self.decode_bytes(content, len(content), decodeFormat)

    def decode_bytes(self, data, dataSize, decodeFormat=image_format.nv12):
        """decode() of a file's bytes."""
        if dataSize != len(data):
            raise RuntimeError(f"decode_bytes: dataSize is {dataSize}, and {len(data)} bytes are given")
        use_device(self._device)
        return self._png(data, decodeFormat) if data[:4] == b"\x89PNG" else self._jpeg(data, decodeFormat)

    def encode(self, inputImage, savePath, encodeLevel=100):
        """Writes a JPEG (a path that ends in .jpg) of quality 1 to 100."""
        if pathlib.Path(savePath).suffix.lower() != ".jpg":
            raise RuntimeError(f"encode: {savePath} does not end in .jpg")
        content = self.encode_bytes(inputImage, encodeLevel)
        try:
            pathlib.Path(savePath).write_bytes(content)
        except OSError as error:
            raise RuntimeError(f"encode: {savePath}: {error.strerror}") from error

    def encode_bytes(self, inputImage, encodeLevel=100):
        """The bytes of a JPEG of quality 1 to 100."""
        if not 1 <= encodeLevel <= 100:
            raise RuntimeError(f"encode: level {encodeLevel}; 1 to 100 are possible")
        picture = inputImage if inputImage.format in CONVERTIBLE[:2] else self.convert_format(inputImage, image_format.nv12)
        config = acl.media.dvpp_create_jpege_config()
        source = self._desc(picture)
        try:
            check(acl.media.dvpp_set_jpege_config_level(config, encodeLevel), "dvpp_set_jpege_config_level")
            room = PictureMemory(value(acl.media.dvpp_jpeg_predict_enc_size(source, config), "dvpp_jpeg_predict_enc_size"))
            size = np.array([room.size], np.uint32)
            self._done(acl.media.dvpp_jpeg_encode_async(self._channel, source, room.address, acl.util.numpy_to_ptr(size), config,
                                                        self._stream), "dvpp_jpeg_encode_async")
        finally:
            acl.media.dvpp_destroy_jpege_config(config)
            acl.media.dvpp_destroy_pic_desc(source)
        return host_bytes(room, int(size[0])).tobytes()

    def resize(self, inputImage, resize, interpolation=interpolation.huaweiu_high_order_filter):
        """The picture in the Size `resize`."""
        whole = Rect(0, 0, inputImage.original_width, inputImage.original_height)
        return self._cut(inputImage, whole, resize, interpolation)

    def crop(self, inputImage, cropRectVec):
        """The areas of a picture, or all areas of each picture of a list, as a list."""
        pictures = inputImage if isinstance(inputImage, (list, tuple)) else [inputImage]
        areas = [(picture, _area(picture, rect)) for picture in pictures for rect in cropRectVec]
        return [self._cut(picture, area, Size(area.x1 - area.x0, area.y1 - area.y0)) for picture, area in areas]

    def crop_resize(self, inputImage, cropResizeVec):
        """The areas of a picture, each in its own size: of a list of (Rect, Size)."""
        return [self._cut(inputImage, _area(inputImage, rect), size) for rect, size in cropResizeVec]

    def crop_paste(self, inputImage, cropPasteRect, pastedImage):
        """Puts the first area of `inputImage`, resized, where the second is in `pastedImage`; that begins at a multiple of 16."""
        source = _area(inputImage, cropPasteRect[0])
        place = _area(pastedImage, cropPasteRect[1])
        place.x0 = aligned(place.x0, 16)
        with self._roi(source) as cut, self._roi(place) as paste:
            self._work("dvpp_vpc_crop_and_paste_async", inputImage, pastedImage, cut, paste)

    def padding(self, inputImage, padDim, color, borderType):
        """The picture with a border; `color` is that of a constant border, in the picture's own channels."""
        made = self._new(inputImage.format, Size(inputImage.original_width + padDim.left + padDim.right,
                                                 inputImage.original_height + padDim.top + padDim.bottom))
        config = acl.media.dvpp_create_border_config()
        try:
            given = {"border_type": borderType.value, **dataclasses.asdict(padDim)}
            for name, number in given.items():
                check(getattr(acl.media, f"dvpp_set_border_config_{name}")(config, number), name)
            for channel, number in enumerate((color.channel_zero, color.channel_one, color.channel_two)):
                check(acl.media.dvpp_set_border_config_value(config, channel, float(number)), "the colour")
            self._work("dvpp_vpc_make_border_async", inputImage, made, config)
        finally:
            acl.media.dvpp_destroy_border_config(config)
        return made

    def convert_format(self, inputImage, outputFormat):
        """The picture in another of nv12, nv21, rgb, bgr."""
        if outputFormat == inputImage.format or not {outputFormat, inputImage.format} <= set(CONVERTIBLE):
            raise RuntimeError(f"convert_format: {inputImage.format} to {outputFormat}; two of nv12, nv21, rgb, bgr are possible")
        made = self._new(outputFormat, Size(inputImage.original_width, inputImage.original_height))
        self._work("dvpp_vpc_convert_color_async", inputImage, made)
        return made

    def _jpeg(self, data, form):
        if form not in CONVERTIBLE:
            raise RuntimeError(f"decode: a JPEG to {form}; nv12, nv21, rgb or bgr are possible")
        found = acl.media.dvpp_jpeg_get_image_info(acl.util.bytes_to_ptr(bytes(data)), len(data))
        check(found[-1], "decode")
        decoded = form if form in CONVERTIBLE[:2] else image_format.nv12
        picture = self._decoded("dvpp_jpeg_decode_async", data, decoded, Size(*found[:2]), 64)
        return picture if decoded == form else self.convert_format(picture, form)

    def _png(self, data, form):
        width, height, channels, ret = acl.media.dvpp_png_get_image_info(acl.util.bytes_to_ptr(bytes(data)), len(data))
        check(ret, "decode")
        decoded = image_format.rgba if channels in WITH_ALPHA else image_format.rgb
        picture = self._decoded("dvpp_png_decode_async", data, decoded, Size(width, height), 128)
        return self.convert_format(picture, form) if (decoded, form) == (image_format.rgb, image_format.bgr) else picture

    def _decoded(self, name, data, form, size, align):
        """Decoders pad to `align` columns and 16 rows."""
        padded = Size(aligned(size.width, align), aligned(size.height, 16))
        made = self._new(form, size, padded)
        coded, address = PictureMemory(len(data)), acl.util.bytes_to_ptr(bytes(data))
        check(acl.rt.memcpy(coded.address, len(data), address, len(data), HOST_TO_DEVICE), "acl.rt.memcpy")
        desc = self._desc(made, even=True)
        try:
            self._done(getattr(acl.media, name)(self._channel, coded.address, len(data), desc, self._stream), name)
        finally:
            acl.media.dvpp_destroy_pic_desc(desc)
        return made

    def _cut(self, picture, area, size, filter=interpolation.huaweiu_high_order_filter):
        made = self._new(picture.format, Size(size.width, size.height))
        config = acl.media.dvpp_create_resize_config()
        try:
            check(acl.media.dvpp_set_resize_config_interpolation(config, filter.value), "interpolation")
            if area == Rect(0, 0, picture.original_width, picture.original_height):
                self._work("dvpp_vpc_resize_async", picture, made, config)
            else:
                with self._roi(area) as cut:
                    self._work("dvpp_vpc_crop_resize_async", picture, made, cut, config)
        finally:
            acl.media.dvpp_destroy_resize_config(config)
        return made

    def _new(self, form, size, padded=None):
        if min(size.width, size.height) <= 0:
            raise RuntimeError(f"a picture of {size.width} x {size.height} pixels")
        padded = padded or Size(aligned(size.width, 16), aligned(size.height, 2))
        use_device(self._device)
        memory = PictureMemory(padded.height * form.rows // 2 * padded.width * form.channels)
        return Image._on_device(memory, form, size, padded, self._device)

    def _desc(self, picture, even=False):
        """A description of a picture on this device; of one that counts in pairs of pixels the next even sizes."""
        if picture.device != self._device:
            raise RuntimeError(f"the picture is on {'the host' if picture.device < 0 else f'device {picture.device}'}: call "
                               f"to_device({self._device}) first")
        unit = 2 if even or picture.format in SUBSAMPLED else 1
        made = acl.media.dvpp_create_pic_desc()
        for name, field in {"data": picture._memory.address, "size": picture._memory.size, "format": picture.format.value,
                            "width": aligned(picture.original_width, unit), "height": aligned(picture.original_height, unit),
                            "width_stride": picture.width * picture.format.channels, "height_stride": picture.height}.items():
            check(getattr(acl.media, f"dvpp_set_pic_desc_{name}")(made, field), name)
        return made

    def _work(self, name, source, made, *more):
        use_device(self._device)
        descs = [self._desc(source), self._desc(made)]
        try:
            self._done(getattr(acl.media, name)(self._channel, *descs, *more, self._stream), name)
        finally:
            for desc in descs:
                acl.media.dvpp_destroy_pic_desc(desc)

    @contextlib.contextmanager
    def _roi(self, area):
        made = acl.media.dvpp_create_roi_config(area.x0, area.x1 - 1, area.y0, area.y1 - 1)
        try:
            yield made
        finally:
            acl.media.dvpp_destroy_roi_config(made)

    def _done(self, ret, name):
        check(ret, name)
        check(acl.rt.synchronize_stream(self._stream), name)


def _area(picture, rect):
    """The area inside of the picture; of YUV, whose corners must be even, with the corners moved outwards."""
    if not (0 <= rect.x0 < rect.x1 <= picture.original_width and 0 <= rect.y0 < rect.y1 <= picture.original_height):
        raise RuntimeError(f"{rect} is no area of a picture of {picture.original_width} x {picture.original_height} pixels")
    if picture.format not in SUBSAMPLED:
        return Rect(rect.x0, rect.y0, rect.x1, rect.y1)
    return Rect(rect.x0 // 2 * 2, rect.y0 // 2 * 2, aligned(rect.x1, 2), aligned(rect.y1, 2))
