"""Vision SDK's Python interface: models, tensors and pictures (`mindx.sdk.base`), on acl. Streams of plugins are not served."""
from . import base
from .base import *  # noqa: F403
from .base import __all__ as _names

__all__ = ["base", *_names]


def __getattr__(name):
    if name in ("StreamManagerApi", "PluginNode", "SequentialStream", "FunctionalStream", "MxDataInput", "StringVector"):
        raise AttributeError(f"mindx.sdk.{name}: streams of plugins are not served; call Model and ImageProcessor of "
                             "mindx.sdk.base")
    raise AttributeError(f"module 'mindx.sdk' has no attribute {name!r}")
