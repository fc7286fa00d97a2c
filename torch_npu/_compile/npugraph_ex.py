"""``import npugraph_ex``: the package that the published torch_npu puts beside itself.

Its names are those of :mod:`torch_npu.npu.npugraph_ex` and of TorchAir.
"""

import types
from typing import Any, Dict

from torch_npu._compile import torchair
from torch_npu._compile.torchair_options import CompilerConfig


def get_npu_backend(*, compiler_config: Any = None, custom_decompositions: Any = None, **options: Any) -> Any:
    """As torchair.get_npu_backend, and graphs are captured unless ``compiler_config`` has another mode."""
    if compiler_config is None:
        compiler_config = CompilerConfig()
        compiler_config.mode = "npugraph_ex"
    return torchair.get_npu_backend(compiler_config=compiler_config, custom_decompositions=custom_decompositions, **options)


MODULES: Dict[str, Dict[str, Any]] = {
    "npugraph_ex": {"CompilerConfig": CompilerConfig, "get_npu_backend": get_npu_backend},
    "npugraph_ex.inference": {}, "npugraph_ex.scope": {}, "npugraph_ex.configs": {},
    "npugraph_ex.configs.compiler_config": {"CompilerConfig": CompilerConfig},
}


def fill(module: types.ModuleType) -> None:
    """Gives a module of the package its names."""
    from torch_npu.npu import npugraph_ex

    module.__doc__ = __doc__
    ours = {"npugraph_ex": npugraph_ex, "npugraph_ex.inference": npugraph_ex.inference, "npugraph_ex.scope": npugraph_ex.scope}
    if source := ours.get(module.__name__):
        module.__dict__.update({name: getattr(source, name) for name in source.__all__})
    module.__dict__.update(MODULES[module.__name__])
