"""What the program shall hear of torch_npu: warnings and logs."""

import warnings

from torch_npu import _options
from torch_npu._debug import logs


def apply() -> None:
    """TORCH_NPU_DISABLED_WARNING, TORCH_NPU_WARNING_DISABLE: no warnings of torch_npu's Python part. TORCH_NPU_LOGS: its
    loggers (torch_npu._debug.logs)."""
    names = ("TORCH_NPU_DISABLED_WARNING", "TORCH_NPU_WARNING_DISABLE")
    if any(_options.published(name) in ("1", "true", "True") for name in names):
        warnings.filterwarnings("ignore", module=r"torch_npu(\.|$)")
    text = _options.published("TORCH_NPU_LOGS")
    if text:
        logs.apply(text)
