"""Initialisation of the NPU at first use, and the calls that wait for it.

Nothing touches a device before it is needed, so a program may import torch_npu, seed and fork first.
"""

import logging
import os
import threading
import traceback
from typing import Any, Callable, List, Tuple

from torch_npu import _C, _options, _runtime
from torch_npu._debug import logs

_log = logging.getLogger("torch_npu.device")
_lock = threading.RLock()
_initialized = False
_initializing = threading.local()
# Calls made before initialisation, in order: (kind, function, where it was asked for).
_waiting: List[Any] = []
default_generators: Tuple[Any, ...] = ()


def _renew_lock() -> None:
    """In a child: another thread of the parent may have held it."""
    global _lock, _initializing
    _lock, _initializing = threading.RLock(), threading.local()


os.register_at_fork(after_in_child=_renew_lock)


def is_initialized() -> bool:
    """True once this process has used an NPU; False again in a process forked after that."""
    return _initialized and not _C._in_bad_fork()


def is_in_bad_fork() -> bool:
    """True in a process forked after its parent had initialised the NPU: no NPU call can work here."""
    return _C._in_bad_fork()


def init() -> None:
    """Initialises the NPU now instead of at first use; does nothing if that was done.

    Raises RuntimeError when no CANN can be used, with the cause, or in a process forked after initialisation.
    """
    lazy_init()


def lazy_init() -> None:
    global _initialized, default_generators
    if _C._in_bad_fork():
        raise RuntimeError(
            "the NPU was initialised before this process was forked and cannot be used in it; start worker "
            "processes with the 'spawn' method (torch.multiprocessing.set_start_method('spawn')), or fork "
            "before the first use of the NPU"
        )
    if _initialized or getattr(_initializing, "active", False):
        return
    with _lock:
        if _initialized:
            return
        choice = _runtime.use_chosen()
        _initializing.active = True
        try:
            _start(choice)
            default_generators = tuple(_C._default_generator(i) for i in range(_C._device_count()))
            for _, function, asked_at in _waiting:
                try:
                    function()
                except Exception as error:
                    place = "".join(asked_at)
                    raise RuntimeError(f"a call that waited for the NPU failed: {error}\nIt was made at\n{place}") from error
            _waiting.clear()
            _initialized = True
            _C._end_init()
            _pin_threads()
            _log.info("opened: %s", logs.lazily(lambda: _opened(choice)))
        finally:
            _initializing.active = False


def _opened(choice: Any) -> str:
    chosen = f"{choice.runtime}, because {choice.reason}" if choice else "the libraries that were open already"
    return f"{len(default_generators)} x {_C._soc_name()}, CANN {_C._cann_version()} ({chosen})"


def _pin_threads() -> None:
    configuration = _options.published("CPU_AFFINITY_CONF")
    if configuration:
        from torch_npu.utils import affinity

        affinity.apply_configuration(configuration, _C._current_device())


def _start(choice: Any) -> None:
    try:
        _C._init()
    except RuntimeError as error:
        if choice is not None:   # the same exception: callers tell its kind and code
            error.args = (f"{error}\nThe {choice.runtime} runtime was chosen because {choice.reason}.", *error.args[1:])
        raise


def lazy_call(cb: Callable[..., Any], kind: str = "other") -> None:
    """Runs ``cb`` now, or at initialisation if that has not happened.

    ``kind`` "seed_all" replaces waiting "seed" and "seed_all" calls, "seed" replaces waiting "seed" calls: only
    the last one counts.
    """
    if not (is_initialized() or getattr(_initializing, "active", False)):
        with _lock:
            if not is_initialized():  # else another thread did it while we waited for the lock, and ran what waited
                superseded = {"seed_all": ("seed", "seed_all"), "seed": ("seed",)}.get(kind, ())
                _waiting[:] = [call for call in _waiting if call[0] not in superseded]
                _waiting.append((kind, cb, traceback.format_stack()))
                return
    cb()
