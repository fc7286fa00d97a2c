"""The settings that the published torch_npu adds to ``torch._inductor.config``, and so to ``torch.compile(options=...)``.

They choose and feed generators of kernels. There are none yet (:mod:`torch_npu._compile.backends`), so the settings are kept and
have no effect. A module of its own, for that is what PyTorch makes settings of.
"""

import sys
from typing import Any, Dict, List, Optional

from torch.utils._config_module import install_config_module

# The compiler of kernels: "default" (Triton), "mlir", "dvm" or "ascendc".
npu_backend: str = "default"
# Whether inputs are padded to a few sizes, and to which.
enable_shape_handling: bool = False
shape_handling_configs: List[Any] = []
shape_handling_dict: Optional[Dict[str, Any]] = None

install_config_module(sys.modules[__name__])


def add(config: Any) -> None:
    """For torch._inductor.config."""
    config._config.update(sys.modules[__name__]._config)
