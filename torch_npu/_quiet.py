"""What the program shall hear of torch_npu: warnings and logs."""

import logging
import warnings

from torch_npu import _options

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR, "all": logging.DEBUG}


def apply() -> None:
    """TORCH_NPU_DISABLED_WARNING, TORCH_NPU_WARNING_DISABLE: no warnings of torch_npu's Python part. TORCH_NPU_LOGS: the level of
    its loggers, which then write to stderr; another word is told and changes nothing."""
    names = ("TORCH_NPU_DISABLED_WARNING", "TORCH_NPU_WARNING_DISABLE")
    if any(_options.published(name) in ("1", "true", "True") for name in names):
        warnings.filterwarnings("ignore", module=r"torch_npu(\.|$)")
    text = (_options.published("TORCH_NPU_LOGS") or "").strip().lower()
    if not text:
        return
    logger = logging.getLogger("torch_npu")
    logger.addHandler(logging.StreamHandler())
    if text in _LEVELS:
        logger.setLevel(_LEVELS[text])
    else:
        logger.warning("TORCH_NPU_LOGS=%s: expected one of %s", text, ", ".join(_LEVELS))
