"""acl, the Python interface of AscendCL (pyACL): the names, arguments and results of CANN's module of that name.

    import acl
    acl.init()
    acl.rt.set_device(0)
    model, ret = acl.mdl.load_from_file("x.om")

Subjects are modules: `acl.rt` (devices, streams, memory), `acl.mdl` (models), `acl.op` (single operators), `acl.media`,
`acl.prof` and `acl.util`; what C calls `aclrtSetDevice` is `acl.rt.set_device`. Handles and addresses are ints. A function gives
what C's writes through pointers and then the error code, `value, ret = ...`; functions that only give a value give just it. A
failure is a code, never an exception; `acl.get_recent_err_msg()` has the text. Arguments of a wrong type raise TypeError.

It is written in Python, on ctypes: one wheel serves every version of Python, and nothing is compiled against a particular CANN.
The library is the libascendcl.so that the process has loaded already or finds (LD_LIBRARY_PATH, ASCEND_HOME_PATH), otherwise
softcann's. A name whose function that library does not have is no attribute, so that hasattr tells what is served.

Unlike CANN's module it keeps alive what C still reads: bytes and arrays behind an address of `acl.util`, as long as the address,
a data buffer made of it, or a queued copy from it lives; data buffers, as long as a dataset has them.
"""
from . import blas, mdl, media, op, prof, rt, tdt, util
from ._base import TABLE as _TABLE

__all__ = ["blas", "mdl", "media", "op", "prof", "rt", "tdt", "util"]
__getattr__ = _TABLE.attribute


def __dir__():
    return [*__all__, *_TABLE.names()]
