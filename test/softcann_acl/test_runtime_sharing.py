"""What is left of events and notifies that processes share when one of them ends, and tables of another layout."""
import ctypes
import mmap
import os
import struct
import subprocess
import sys

import pytest
from acl_tools import LIBRARIES

IPC_ERROR, IPC_EVENT = 507022, 64
ENTRIES = 4096   # of a table
none = ctypes.c_uint64(0)

CHILD = """
import ctypes, os, signal, sys
rt = ctypes.CDLL({library!r})
assert rt.aclInit(None) == rt.aclrtSetDevice(0) == 0
handle = ctypes.c_char * 64
for line in sys.stdin:
    made = ctypes.c_void_p()
    if line[9] == "n":
        code = rt.aclrtNotifyImportByKey(ctypes.byref(made), line.strip().encode(), ctypes.c_uint64(0))
    else:
        class Handle(ctypes.Structure):
            _fields_ = [("reserved", handle)]
        code = rt.aclrtIpcOpenEventHandle(Handle(line.strip().encode()), ctypes.byref(made))
    assert code == 0, code
print("imported", flush=True)
signal.pause()
"""


def notify_of(rt):
    made, key = ctypes.c_void_p(), ctypes.create_string_buffer(65)
    assert rt.aclrtCreateNotify(ctypes.byref(made), none) == 0
    assert rt.aclrtNotifyGetExportKey(made, key, ctypes.c_size_t(65), ctypes.c_uint64(2)) == 0
    return made, key.value.decode()


def event_of(rt):
    made, key = ctypes.c_void_p(), ctypes.create_string_buffer(64)
    assert rt.aclrtCreateEventExWithFlag(ctypes.byref(made), IPC_EVENT) == 0 == rt.aclrtIpcGetEventHandle(made, key)
    return made, key.value.decode()


@pytest.mark.parametrize("make, destroy", [(notify_of, "aclrtDestroyNotify"), (event_of, "aclrtDestroyEvent")])
def test_entries_of_a_process_that_was_killed_are_free_again(acl, rt, make, destroy):
    made = [make(rt) for _ in range(ENTRIES)]
    child = subprocess.Popen([sys.executable, "-c", CHILD.format(library=str(LIBRARIES / "libascendcl.so"))], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    child.stdin.write("\n".join(key for _, key in made))
    child.stdin.close()
    assert child.stdout.readline() == "imported\n"
    assert [getattr(rt, destroy)(one) for one, _ in made] == [0] * ENTRIES
    with pytest.raises(AssertionError):
        make(rt)   # the other process has them all
    child.kill()
    child.wait()
    one, _ = make(rt)
    assert getattr(rt, destroy)(one) == 0


@pytest.mark.parametrize("magic, size", [(0x656C626174736674, 8 << 20), (0x656C626174736674, 4096), (0, 16 << 20)])
def test_tables_of_another_layout_are_not_read(acl, rt, magic, size):
    """Of another version of softcann, whose key names an entry that would lie elsewhere."""
    file = os.memfd_create("softcann-shares", os.MFD_CLOEXEC)
    os.ftruncate(file, size)
    nonce = 0x1234567
    with mmap.mmap(file, size) as memory:
        memory[:16] = struct.pack("<QIi", magic, nonce, os.getpid())
        key = f"softcann-n-{os.getpid()}-{nonce:08x}-4095-1".encode()
        assert rt.aclrtNotifyImportByKey(ctypes.byref(ctypes.c_void_p()), key, none) == IPC_ERROR
        assert "another version of softcann" in acl.get_recent_err_msg()
    os.close(file)
