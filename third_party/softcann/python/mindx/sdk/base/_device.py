"""Start and end, and memory by address."""
import ctypes
import dataclasses

import acl
import numpy as np
from aclruntime.session import ALREADY
from aclruntime.tensor import DEVICE_TO_HOST, Memory, check


@dataclasses.dataclass
class AppGlobalCfgExtra:
    """How many channels of each kind a pool has. It is kept and has no effect: each ImageProcessor has a channel of its own."""
    vpcChnNum: int = 48
    jpegdChnNum: int = 24
    pngdChnNum: int = 24
    jpegeChnNum: int = 24


def mx_init(config=None):
    """Starts AscendCL; 0, or CANN's code. A program that has started it already may call it."""
    ret = acl.init()
    return 0 if ret == ALREADY else ret


def mx_deinit():
    """Ends AscendCL; 0, or CANN's code. Models, tensors and pictures must be gone."""
    return acl.finalize()


def use_device(device):
    mx_init()
    check(acl.rt.set_device(device), f"acl.rt.set_device({device})")


class DeviceMemory:
    """`size` bytes of the current device, freed with this object."""

    def __init__(self, size):
        self._memory = Memory(size)

    def get_data(self):
        """The address."""
        return int(self._memory.address)


class PictureMemory(Memory):
    """Memory that DVPP reads and writes, freed with its last user."""

    def __init__(self, size):
        self.size = size
        self.address, ret = acl.media.dvpp_malloc(size)
        check(ret, f"acl.media.dvpp_malloc of {size} bytes")

    def __del__(self):
        if getattr(self, "address", 0):
            acl.media.dvpp_free(self.address)


def host_bytes(memory, size):
    """The first `size` bytes of a Memory as an array."""
    found = np.empty(size, np.uint8)
    check(acl.rt.memcpy(acl.util.numpy_to_ptr(found), size, memory.address, size, DEVICE_TO_HOST), "acl.rt.memcpy")
    return found


def bytes_to_ptr(data):
    """The address of bytes, which the caller keeps alive."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
