"""torch.compile: tells Dynamo about streams, events and devices of the NPU, and AOTAutograd about its generators.

torch._dynamo takes seconds to import and most programs never need it, so each registration waits for the
import of the module that holds its table; no public hook exists for that moment.
"""

import importlib.util
import sys


def register_when_imported():
    for name, register in _TABLES.items():
        if name in sys.modules:
            register(sys.modules[name])
        else:
            sys.meta_path.insert(0, _Finder(name, register))


class _Finder:
    """Watches for one module, lets the other finders load it, and leaves."""

    def __init__(self, name, register):
        self._name, self._register = name, register

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._register)
        return spec


class _Loader:
    def __init__(self, loader, register):
        self._loader, self._register = loader, register

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        self._register(module)


def _make_interface(table):
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
            def set_device(device):
                table.caching_worker_current_devices["npu"] = device

            @staticmethod
            def current_device():
                known = table.caching_worker_current_devices
                return known["npu"] if "npu" in known else npu.current_device()

            @staticmethod
            def get_device_properties(device=None):
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
        def get_compute_capability(device=None):
            major, minor = npu.get_device_capability(device)
            return f"{major}.{minor}"

    return NpuInterface


def _register_device(table):
    import torch

    interface = _make_interface(table)
    table.register_interface_for_device("npu", interface)
    for index in range(torch.npu.device_count()):
        table.register_interface_for_device(f"npu:{index}", interface)


def _register_generators(utils):
    """A recomputed region draws the numbers it drew at first. Through torch 2.12 the NPU cannot say that it can do so."""
    if hasattr(utils, "register_graphsafe_rng_device_type"):
        utils.register_graphsafe_rng_device_type("npu")


_TABLES = {"torch._dynamo.device_interface": _register_device, "torch._functorch._aot_autograd.utils": _register_generators}
