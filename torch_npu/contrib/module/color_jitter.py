"""Random brightness, contrast, saturation and hue of a picture, in one pass over its pixels."""

import random
from typing import Any, List, Tuple, Union

from torch import nn

__all__ = ["FusedColorJitter"]

_Range = Union[float, Tuple[float, float]]
_GREY = (0.299, 0.587, 0.114)


def _limits(name: str, value: _Range, centre: float, bound: Tuple[float, float]) -> List[float]:
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"{name} is {value}: a single number must not be negative")
        low, high = centre - value, centre + value
        low = max(low, 0.0) if name != "hue" else low
    else:
        low, high = value
    if not bound[0] <= low <= high <= bound[1]:
        raise ValueError(f"{name} from {low} to {high}: expected numbers from {bound[0]} to {bound[1]}")
    return [low, high]


class FusedColorJitter(nn.Module):
    """``forward(img)``: a PIL image of mode RGB with brightness, contrast and saturation multiplied by random factors and the hue
    turned by a random part of the circle. A number b means [max(0, 1 - b), 1 + b], for the hue [-b, b] (at most 0.5).

    The four changes are one 3 x 4 matrix on (red, green, blue, 1); results are rounded and clipped once.
    """

    def __init__(self, brightness: _Range = 0, contrast: _Range = 0, saturation: _Range = 0, hue: _Range = 0) -> None:
        super().__init__()
        self.brightness = _limits("brightness", brightness, 1.0, (0.0, float("inf")))
        self.contrast = _limits("contrast", contrast, 1.0, (0.0, float("inf")))
        self.saturation = _limits("saturation", saturation, 1.0, (0.0, float("inf")))
        self.hue = _limits("hue", hue, 0.0, (-0.5, 0.5))

    def forward(self, img: Any) -> Any:
        import numpy as np
        from PIL import Image

        pixels = np.asarray(img.convert("RGB"), dtype=np.float32)
        grey = np.tile(np.array(_GREY, dtype=np.float32), (3, 1))
        one = np.eye(3, dtype=np.float32)
        brightness, contrast, saturation, hue = (
            random.uniform(*limits) for limits in (self.brightness, self.contrast, self.saturation, self.hue))
        mean = float((pixels * brightness).clip(0, 255).mean((0, 1)) @ np.array(_GREY, dtype=np.float32))
        matrix = (saturation * one + (1 - saturation) * grey) @ _turned(hue) * (brightness * contrast)
        out = pixels @ matrix.T + (1 - contrast) * mean
        return Image.fromarray((out + 0.5).clip(0, 255).astype(np.uint8), "RGB")

    def extra_repr(self) -> str:
        return f"brightness={self.brightness}, contrast={self.contrast}, saturation={self.saturation}, hue={self.hue}"


def _turned(part: float) -> Any:
    """The matrix that turns the hue by a part of the circle: a rotation about the axis of greys, in YIQ."""
    import numpy as np

    to_yiq = np.array([_GREY, (0.596, -0.274, -0.322), (0.211, -0.523, 0.312)], dtype=np.float32)
    angle = 2 * np.pi * part
    cos, sin = np.cos(angle), np.sin(angle)
    turn = np.array([(1, 0, 0), (0, cos, -sin), (0, sin, cos)], dtype=np.float32)
    return np.linalg.inv(to_yiq) @ turn @ to_yiq
