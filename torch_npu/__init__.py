"""PyTorch on Ascend NPUs: importing this package adds the device type ``npu`` and ``torch.npu``.

No NPU is needed: without one, the bundled software CANN runs everything on the CPU.
"""

import sys
from typing import Any

_autoload_error = None


def _autoload() -> None:
    """Entry point of the group ``torch.backends``: PyTorch calls it while it is being imported.

    A torch_npu that cannot work must not take PyTorch down with it, so the cause becomes one warning,
    and the half-loaded package is dropped: an explicit ``import torch_npu`` then raises the cause.
    """
    if _autoload_error is None:
        return
    import warnings

    for name in [name for name in sys.modules if name == "torch_npu" or name.startswith("torch_npu.")]:
        del sys.modules[name]
    try:
        warnings.warn(f"torch_npu was not loaded: {_autoload_error}", RuntimeWarning, stacklevel=2)
    except RuntimeWarning:  # -W error: not even then does `import torch` fail
        print(f"torch_npu was not loaded: {_autoload_error}", file=sys.stderr)


def _torch_is_importing() -> Any:
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    return getattr(spec, "_initializing", False)


def _load() -> None:
    from torch_npu import _bootstrap

    _bootstrap.start()
    globals().update(_bootstrap.public_names())


if _torch_is_importing():
    try:
        _load()
    except Exception as error:
        _autoload_error = error
else:
    _load()
