"""What ``torch.npu.npurt()`` gives: calls of CANN's runtime by address, as ``torch.cuda.cudart()`` has CUDA's.

Each returns CANN's code, 0 for success; nothing is raised for another one.
"""

from torch_npu import _C
from torch_npu.npu import _state


def npuHostRegister(address: int, size: int, type: int) -> int:
    """Lets the NPU reach ``size`` bytes of the host's memory at ``address``. ``type`` 0: mapped into the device's addresses;
    CANN's aclrtHostRegisterType has the others."""
    _state.lazy_init()
    return _C._npurt_host_register(address, size, type)


def npuHostUnregister(address: int) -> int:
    """Takes back :func:`npuHostRegister`."""
    _state.lazy_init()
    return _C._npurt_host_unregister(address)


def npuStreamCreate(address: int) -> int:
    """Makes a stream on the current device and writes its handle (aclrtStream) to ``address``, which has room for a pointer."""
    _state.lazy_init()
    return _C._npurt_stream_create(address)


def npuStreamDestroy(stream: int) -> int:
    """Destroys the stream of that handle."""
    _state.lazy_init()
    return _C._npurt_stream_destroy(stream)
