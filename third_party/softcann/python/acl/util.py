"""acl.util: addresses of bytes and NumPy arrays, and back; threads for callbacks. NumPy is imported when a function needs it."""
import ctypes
import operator
import threading

from ._binding import Pointer

__all__ = ["bytes_to_ptr", "numpy_contiguous_to_ptr", "numpy_to_ptr", "ptr_to_bytes", "ptr_to_numpy", "start_thread",
           "stop_thread"]
_threads = {}


def bytes_to_ptr(data):
    """The address of the bytes, which stay alive as long as the address does."""
    if not isinstance(data, bytes):
        raise TypeError(f"acl.util.bytes_to_ptr takes bytes, not {type(data).__name__}")
    return Pointer(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value, data)


def ptr_to_bytes(ptr, size):
    """A copy of `size` bytes of host memory."""
    address, count = operator.index(ptr), operator.index(size)
    if count < 0 or (count and not address):
        raise ValueError(f"acl.util.ptr_to_bytes: {count} bytes at address {address}")
    return ctypes.string_at(address, count) if count else b""


def numpy_to_ptr(array):
    """The address of a contiguous array's numbers; the array stays alive as long as the address does."""
    import numpy as np

    if not isinstance(array, np.ndarray):
        raise TypeError(f"acl.util.numpy_to_ptr takes a numpy.ndarray, not {type(array).__name__}")
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError("acl.util.numpy_to_ptr takes a contiguous array: use numpy_contiguous_to_ptr")
    return Pointer(array.ctypes.data, array)


def numpy_contiguous_to_ptr(array):
    """(address, array): of the array itself where it is contiguous, else of a copy."""
    import numpy as np

    contiguous = np.ascontiguousarray(array)
    return Pointer(contiguous.ctypes.data, contiguous), contiguous


def ptr_to_numpy(ptr, shape, data_type):
    """An array that shares host memory. `data_type`: NumPy's type number (float32 is 11), or a dtype. Shape: a tuple."""
    import numpy as np

    if not isinstance(shape, tuple):
        raise TypeError(f"acl.util.ptr_to_numpy takes a tuple as shape, not {type(shape).__name__}")
    dtype = np.dtype(data_type) if isinstance(data_type, (np.dtype, type)) else _numbered(operator.index(data_type))
    count = 1
    for one in shape:
        count *= operator.index(one)
    if not count:
        return np.empty(shape, dtype)
    if not operator.index(ptr) or count < 0:
        raise ValueError(f"acl.util.ptr_to_numpy: shape {shape} at address {int(ptr)}")
    room = (ctypes.c_char * (count * dtype.itemsize)).from_address(ptr)
    room.owner = ptr   # keeps alive what the address belongs to
    return np.frombuffer(room, dtype=dtype).reshape(shape)


def _numbered(number):
    import numpy as np

    for code in "?bBhHiIlLqQfdgFDGe":
        if np.dtype(code).num == number:
            return np.dtype(code)
    raise ValueError(f"acl.util.ptr_to_numpy: {number} is no type number of NumPy's numbers (np.dtype(...).num)")


def start_thread(function, arguments):
    """(thread, ret): `function(arguments)` runs in a thread; the number is what acl.rt.subscribe_report takes."""
    if not callable(function) or not isinstance(arguments, (list, tuple)):
        raise TypeError("acl.util.start_thread takes a function and a list")
    thread = threading.Thread(target=function, args=(arguments,), daemon=True)
    thread.start()
    _threads[thread.ident] = thread
    return thread.ident, 0


def stop_thread(number):
    """Waits until the thread's function returns, which the program must bring about; the error code (100000: no such thread)."""
    thread = _threads.pop(number, None)
    if thread is None:
        return 100000   # ACL_ERROR_INVALID_PARAM
    thread.join()
    return 0
