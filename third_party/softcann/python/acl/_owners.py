"""What C still reads, by the handle that reads it. The lock is never held through a call of C."""
import threading

from ._binding import Pointer

_lock = threading.Lock()
_buffers = {}     # data buffer: the address it was made of
_datasets = {}    # dataset: its data buffers
_released = set()   # data buffers that the program destroyed while a dataset has them
_copies = {}      # stream: addresses of copies that may not have run


def keep(buffer, address):
    with _lock:
        if isinstance(address, Pointer):
            _buffers[buffer] = address
        else:
            _buffers.pop(buffer, None)


def add(dataset, buffer):
    with _lock:
        _datasets.setdefault(dataset, []).append(buffer)


def release(buffer):
    """Whether the data buffer may be destroyed now; otherwise with its dataset. None where it has been released before."""
    with _lock:
        if buffer in _released:
            return None
        if any(buffer in buffers for buffers in _datasets.values()):
            _released.add(buffer)
            return False
        _buffers.pop(buffer, None)
        return True


def leave(dataset):
    """The dataset is gone: the data buffers that are to be destroyed now."""
    with _lock:
        buffers = set(_datasets.pop(dataset, ()))
        gone = [one for one in buffers & _released if not any(one in others for others in _datasets.values())]
        for one in gone:
            _released.discard(one)
            _buffers.pop(one, None)
        return gone


def queued(stream, *addresses):
    """The stream reads or writes at these addresses some time."""
    kept = [address for address in addresses if isinstance(address, Pointer)]
    if kept:
        with _lock:
            _copies.setdefault(stream or 0, []).extend(kept)


def waiting(stream):
    with _lock:
        return list(_copies.get(stream or 0, ()))


def done(stream, addresses):
    """The copies of these addresses on a stream have run."""
    with _lock:
        left = _copies.get(stream or 0, [])[len(addresses):]
        if left:
            _copies[stream or 0] = left
        else:
            _copies.pop(stream or 0, None)
