"""Old names of ImageProcessor's decode and resize."""
from ._enums import image_format, interpolation
from ._processor import ImageProcessor


def read_image(inputPath, deviceId=0, decodeFormat=image_format.nv12):
    """ImageProcessor(deviceId).decode(inputPath, decodeFormat)."""
    return ImageProcessor(deviceId).decode(inputPath, decodeFormat)


def resize(inputImage, resize, interpolation=interpolation.huaweiu_high_order_filter):
    """ImageProcessor.resize on the picture's device."""
    return ImageProcessor(inputImage.device).resize(inputImage, resize, interpolation)
