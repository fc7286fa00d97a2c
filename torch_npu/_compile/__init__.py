"""torch.compile: tells Dynamo about streams, events and devices of the NPU, AOTAutograd about its generators, and Inductor
that there is no code generation; lets flex_attention take the NPU.

torch._dynamo takes seconds to import and most programs never need it, so each registration waits for the
import of the module that holds its table.
"""

import functools
from typing import Any, NoReturn

from torch.types import Device

from torch_npu._hooks import imports


def register_when_imported() -> None:
    for name, register in _TABLES.items():
        imports.when_imported(name, register)


def _make_interface(table: Any) -> Any:
    import torch

    npu = torch.npu

    class NpuInterface(table.DeviceInterface):
        """What Dynamo asks of a device."""

        device = npu.device
        Event = npu.Event
        Stream = npu.Stream

        class Worker:
            """Answers for compile workers, which must not touch the device: recorded in the main process."""

            @staticmethod
            def set_device(device: Device) -> None:
                table.caching_worker_current_devices["npu"] = device

            @staticmethod
            def current_device() -> Any:
                known = table.caching_worker_current_devices
                return known["npu"] if "npu" in known else npu.current_device()

            @staticmethod
            def get_device_properties(device: Device = None) -> Any:
                index = npu._utils._get_device_index(device, optional=True)
                known = table.caching_worker_device_properties
                if "npu" not in known:
                    known["npu"] = [npu.get_device_properties(i) for i in range(npu.device_count())]
                return known["npu"][index]

        current_device = staticmethod(npu.current_device)
        set_device = staticmethod(npu.set_device)
        device_count = staticmethod(npu.device_count)
        is_available = staticmethod(npu.is_available)
        stream = staticmethod(npu.stream)
        current_stream = staticmethod(npu.current_stream)
        set_stream = staticmethod(npu.set_stream)
        _set_stream_by_id = staticmethod(npu._set_stream_by_id)
        get_raw_stream = staticmethod(npu._get_current_raw_stream)
        synchronize = staticmethod(npu.synchronize)
        exchange_device = staticmethod(npu._exchange_device)
        maybe_exchange_device = staticmethod(npu._maybe_exchange_device)
        memory_allocated = staticmethod(npu.memory_allocated)
        is_bf16_supported = staticmethod(npu.is_bf16_supported)

        @staticmethod
        def get_compute_capability(device: Device = None) -> str:
            properties = npu.get_device_properties(device)
            return f"{properties.major}.{properties.minor}"

    return NpuInterface


def _register_device(table: Any) -> None:
    import torch

    interface = _make_interface(table)
    table.register_interface_for_device("npu", interface)
    for index in range(torch.npu.device_count()):
        table.register_interface_for_device(f"npu:{index}", interface)


def _register_generators(utils: Any) -> None:
    """A recomputed region draws the numbers it drew at first. Through torch 2.12 the NPU cannot say that it can do so."""
    if hasattr(utils, "register_graphsafe_rng_device_type"):
        utils.register_graphsafe_rng_device_type("npu")


def _register_substitutes(_: Any) -> None:
    """What Dynamo traces in place of functions in C++."""
    import torch

    from torch_npu import _C
    from torch_npu._compile import substitutes

    for name in ("_in_bad_fork", "_current_device"):
        torch.compiler.substitute_in_graph(getattr(_C, name), skip_signature_check=True)(getattr(substitutes, name))


def _accept_npu(flex: Any) -> None:
    """flex_attention refuses a device that it does not know by name; what it computes without generated code is made of
    PyTorch's own operators. Needed through torch 2.13; remove it when the oldest supported torch asks the backend.
    """
    original = getattr(flex, "_validate_device", None)
    if original is None:
        return

    @functools.wraps(original)
    def _validate_device(query: Any, key: str, value: Any) -> None:
        if query.device.type != "npu":
            original(query, key, value)

    flex._validate_device = _validate_device


def _refuse(*arguments: Any) -> NoReturn:
    raise NotImplementedError(
        'torch.compile\'s default backend "inductor" generates code, and there is none for the NPU: '
        'unset TORCHDYNAMO_NPU_DEFAULT, or use torch.compile(..., backend="aot_eager")'
    )


class _NoScheduling:
    """Stands where Inductor looks for a generator of kernels, which has to be a class."""

    __init__ = _refuse


class _NoWrapper:
    """Stands where Inductor looks for a generator of the code around kernels; mostly this is what it asks first."""

    supports_caching = property(_refuse)


def _register_no_code(table: Any) -> None:
    """Without an entry, Inductor ends in a KeyError for the device's name."""
    table.register_backend_for_device("npu", _NoScheduling, _NoWrapper(), _NoWrapper())


def _register_backends(registry: Any) -> None:
    from torch_npu._compile import backends

    backends.register(registry)


def _take_default(compile_fx: Any) -> None:
    from torch_npu._compile import backends

    backends.take_default(compile_fx)


def _add_settings(config: Any) -> None:
    from torch_npu._compile import inductor_settings

    inductor_settings.add(config)


def _register_tracing(dynamo: Any) -> None:
    import torch

    from torch_npu._compile import tracing
    from torch_npu._ops import custom

    tracing.register(dynamo)
    custom.register_fakes()
    for operator in custom.without_results():
        torch.fx.node.has_side_effect(operator)  # nobody uses its result, and it is no dead code


_TABLES = {
    "torch._dynamo": _register_tracing,
    "torch._dynamo.backends.registry": _register_backends,
    "torch._inductor.config": _add_settings,
    "torch._inductor.compile_fx": _take_default,
    "torch._dynamo.device_interface": _register_device,
    "torch._functorch._aot_autograd.utils": _register_generators,
    "torch._dynamo.polyfills.loader": _register_substitutes,
    "torch._inductor.codegen.common": _register_no_code,
    "torch.nn.attention.flex_attention": _accept_npu,
}
