"""Models, tensors and pictures of Vision SDK. Failures raise RuntimeError with CANN's code and text.

Not served: video, post-processing (`post`), streams of plugins, MindIR models, arithmetic on tensors.
"""
from . import dvpp, log, post
from ._device import AppGlobalCfgExtra, DeviceMemory, bytes_to_ptr, mx_deinit, mx_init
from ._enums import (
    Color,
    Dim,
    ModelLoadType,
    ModelType,
    Point,
    Rect,
    Size,
    borderType,
    dtype,
    image_format,
    interpolation,
    visionDataFormat,
)
from ._image import Image, tensor_to_image
from ._model import Model, ModelLoadOptV2, model
from ._processor import ImageProcessor
from ._tensor import Tensor, batch_concat, transpose
from .dvpp import read_image as image

_members = {member.name: member for kind in (ModelLoadType, ModelType, borderType, dtype, image_format, interpolation,
                                             visionDataFormat) for member in kind}
globals().update(_members)

__all__ = ["AppGlobalCfgExtra", "Color", "DeviceMemory", "Dim", "Image", "ImageProcessor", "Model", "ModelLoadOptV2",
           "ModelLoadType", "ModelType", "Point", "Rect", "Size", "Tensor", "batch_concat", "borderType", "bytes_to_ptr", "dtype",
           "dvpp", "image", "image_format", "interpolation", "log", "model", "mx_deinit", "mx_init", "post", "tensor_to_image",
           "transpose", "visionDataFormat"]
__all__ += [name for name in _members if name != "bool"]   # which would hide Python's where all names are imported

_VIDEO = {"VideoDecoder", "VideoDecodeConfig", "VdecCallBacker", "VideoEncoder", "VideoEncodeConfig", "VencCallBacker",
          "StreamFormat"}


def __getattr__(name):
    if name in _VIDEO:
        raise AttributeError(f"mindx.sdk.base.{name}: video is not served; decode it on the host (FFmpeg, PyAV, OpenCV) and "
                             "give its frames to Image")
    raise AttributeError(f"module 'mindx.sdk.base' has no attribute {name!r}")
