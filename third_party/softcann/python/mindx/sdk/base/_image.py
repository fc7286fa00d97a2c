"""Pictures with the padding that DVPP wants."""
import json
import os
import pathlib

import acl
import numpy as np
from aclruntime.tensor import HOST_TO_DEVICE, check

from ._device import PictureMemory, host_bytes, use_device
from ._enums import Size, dtype, image_format
from ._tensor import NOWHERE, Tensor, host_array

SMALLEST, LARGEST = 6, 8192   # pixels of a side


def aligned(value, to):
    return -(-value // to) * to


class Image:
    """A picture of `b`, an array of uint8 [height, width, channels] in `format` (yuv_400, rgb, bgr, rgba, bgra, argb, abgr).

    `imageSizeInfo`: (the size that counts, the size with padding: its width a multiple of 16, its height of 2); the array has one
    of them. Without it the array's size counts, and padding is added where it is needed.
    """

    def __init__(self, b=None, format=None, imageSizeInfo=None):
        self._bytes, self._memory, self._device = np.zeros(0, np.uint8), None, NOWHERE
        self._format, self._size, self._aligned = format, Size(), Size()
        if b is None:
            return
        array = np.ascontiguousarray(b)
        self._check_array(array)
        height, width = array.shape[:2]
        self._size, self._aligned = imageSizeInfo or (Size(width, height), Size(aligned(width, 16), aligned(height, 2)))
        self._check_sizes((width, height))
        padded = np.zeros((self._aligned.height, self._aligned.width, format.channels), np.uint8)
        padded[:height, :width] = array
        self._bytes = padded.reshape(-1)

    @classmethod
    def _on_device(cls, memory, format, size, with_padding, device):
        self = cls()
        self._bytes, self._memory, self._device = None, memory, device
        self._format, self._size, self._aligned = format, size, with_padding
        return self

    def _check_array(self, array):
        if not isinstance(self._format, image_format) or not self._format.is_plain:
            raise RuntimeError(f"Image: {self._format} is no format of an array: yuv_400, rgb, bgr, rgba, bgra, argb or abgr")
        if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != self._format.channels:
            raise RuntimeError(f"Image: an array of {array.dtype} {array.shape}; uint8 [height, width, {self._format.channels}] "
                               f"is a picture of {self._format.name}")

    def _check_sizes(self, given):
        size, padded = ((one.width, one.height) for one in (self._size, self._aligned))
        if given not in (size, padded):
            raise RuntimeError(f"Image: an array {given[0]} wide and {given[1]} high for a picture of {size}, padded to {padded}")
        if padded[0] % 16 or padded[1] % 2 or size[0] > padded[0] or size[1] > padded[1]:
            raise RuntimeError(f"Image: {size} with padding to {padded}: the padded width must be a multiple of 16, the height "
                               "of 2")
        if min(size) < SMALLEST or max(padded) > LARGEST:
            raise RuntimeError(f"Image: {size} with padding to {padded}: a side has {SMALLEST} to {LARGEST} pixels")

    height = property(lambda self: self._aligned.height, doc="Rows, with padding.")
    width = property(lambda self: self._aligned.width, doc="Columns, with padding.")
    original_height = property(lambda self: self._size.height, doc="Rows without padding.")
    original_width = property(lambda self: self._size.width, doc="Columns without padding.")
    format = property(lambda self: self._format, doc="base.image_format.")
    device = property(lambda self: self._device, doc="The device's number, -1 on the host.")

    def to_device(self, deviceId):
        """Moves it to DVPP's memory of a device."""
        if self._device not in (NOWHERE, deviceId):
            raise RuntimeError(f"Image is on device {self._device}: call to_host() before it goes to device {deviceId}")
        if self._device == deviceId:
            return
        use_device(deviceId)
        memory = PictureMemory(max(self._bytes.size, 1))
        size = self._bytes.size
        check(acl.rt.memcpy(memory.address, size, acl.util.numpy_to_ptr(self._bytes), size, HOST_TO_DEVICE), "acl.rt.memcpy")
        self._bytes, self._memory, self._device = None, memory, deviceId

    def to_host(self):
        """Moves it to the host."""
        self._bytes, self._memory, self._device = self._on_host(), None, NOWHERE

    def _on_host(self):
        if self._memory is None:
            return self._bytes
        use_device(self._device)
        return host_bytes(self._memory, self._memory.size)

    def _shape(self, size):
        shape = [1, size.height * self._format.rows // 2, size.width]
        return shape if self._format == image_format.yuv_400 else [*shape, self._format.channels]

    def to_tensor(self):
        """A tensor of uint8 where the picture is, padding included: [1, rows, width, channels], of yuv_400 [1, rows, width].

        YUV420SP has 3/2 rows for each of the picture, 422SP 2, 444SP 3.
        """
        if self._memory is None:
            return Tensor(self._bytes.reshape(self._shape(self._aligned)))
        return Tensor._on_device(self._memory, self._shape(self._aligned), dtype.uint8.value, self._device)

    get_tensor = to_tensor

    def get_original_tensor(self):
        """to_tensor() without padding, in memory of its own; of the formats that an array may have."""
        if not self._format.is_plain:
            raise RuntimeError(f"get_original_tensor: a picture of {self._format.name}; convert_format to rgb or bgr first")
        whole = self._on_host().reshape(self._aligned.height, self._aligned.width, self._format.channels)
        made = Tensor(whole[:self._size.height, :self._size.width].reshape(self._shape(self._size)))
        return made if self._device == NOWHERE else made.copied_to(self._device)

    def dump_buffer(self, filePath, forceOverwrite=False):
        """Writes its bytes, padding included, to a new file, readable for the owner and the group."""
        _write(filePath, self._on_host().tobytes(), forceOverwrite)

    def serialize(self, filePath, forceOverwrite=False):
        """Writes it, for unserialize(), to a new file: a line of json about the picture, then its bytes."""
        about = {"format": self._format.name, "size": [self._size.width, self._size.height],
                 "aligned": [self._aligned.width, self._aligned.height]}
        _write(filePath, json.dumps(about).encode() + b"\n" + self._on_host().tobytes(), forceOverwrite)

    def unserialize(self, filePath):
        """Becomes the picture that serialize() wrote, on the host."""
        line, _, content = pathlib.Path(filePath).read_bytes().partition(b"\n")
        try:
            about = json.loads(line)
            form, size, padded = image_format[about["format"]], Size(*about["size"]), Size(*about["aligned"])
        except (ValueError, KeyError, TypeError) as error:
            raise RuntimeError(f"unserialize: {filePath} was not written by serialize()") from error
        if len(content) < padded.height * form.rows // 2 * padded.width * form.channels:
            raise RuntimeError(f"unserialize: {filePath} has {len(content)} bytes of the picture, too few for {padded}")
        self._bytes, self._memory, self._device = np.frombuffer(content, np.uint8).copy(), None, NOWHERE
        self._format, self._size, self._aligned = form, size, padded


def _write(path, content, overwrite):
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_TRUNC if overwrite else os.O_EXCL)
    try:
        with open(os.open(path, flags, 0o640), "wb") as file:
            file.write(content)
    except OSError as error:
        raise RuntimeError(f"{path}: {error.strerror}") from error


def tensor_to_image(tensor, imageFormat):
    """A picture of a tensor of uint8, on its device: [rows, width] (yuv_400), [rows, width, channels] or that with 1 before."""
    shape = list(tensor.shape)
    if imageFormat == image_format.yuv_400 and shape[-1] != 1:
        shape.append(1)
    if len(shape) == 4 and shape[0] == 1:
        shape = shape[1:]
    if tensor.dtype != dtype.uint8 or len(shape) != 3:
        raise RuntimeError(f"tensor_to_image: a tensor of {tensor.dtype.name} {tensor.shape} is no picture")
    array = host_array(tensor).reshape(shape)
    made = Image(array, imageFormat) if imageFormat.is_plain else _semi_planar(array, imageFormat)
    if tensor.device != NOWHERE:
        made.to_device(tensor.device)
    return made


def _semi_planar(array, form):
    """Of the bytes [rows, width, 1] of a YUV picture."""
    rows, width = array.shape[:2]
    if form.value > image_format.yvu_sp_444.value or array.shape[2] != 1 or rows * 2 % form.rows:
        raise RuntimeError(f"tensor_to_image: [{rows}, {width}, {array.shape[2]}] are no bytes of {form.name}")
    made = Image()
    made._format, made._size = form, Size(width, rows * 2 // form.rows)
    made._aligned = Size(aligned(width, 16), aligned(made._size.height, 2))
    padded = np.zeros((made._aligned.height * form.rows // 2, made._aligned.width), np.uint8)
    luma, chroma = made._size.height, rows - made._size.height
    padded[:luma, :width] = array[:luma, :, 0]
    padded[made._aligned.height:made._aligned.height + chroma, :width] = array[luma:, :, 0]
    made._bytes = padded.reshape(-1)
    return made
