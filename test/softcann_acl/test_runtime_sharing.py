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
if {forks} and os.fork() == 0:
    signal.alarm(60)
    signal.pause()
print("imported", flush=True)
signal.pause()
"""
MAKER = """
import ctypes, sys
rt = ctypes.CDLL({library!r})
made, key = ctypes.c_void_p(), ctypes.create_string_buffer(65)
assert rt.aclInit(None) == rt.aclrtSetDevice(0) == rt.aclrtCreateNotify(ctypes.byref(made), ctypes.c_uint64(0)) == 0
assert rt.aclrtNotifyGetExportKey(made, key, ctypes.c_size_t(65), ctypes.c_uint64(2)) == 0
print(key.value.decode(), flush=True)
sys.stdin.read()
"""


def started(program, **settings):
    text = program.format(library=str(LIBRARIES / "libascendcl.so"), **settings)
    return subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def open_tables():
    """Files of tables that this process has open."""
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return [link for link in links if os.path.islink(link) and "softcann-shares" in os.readlink(link)]


def notify_of(rt):
    made, key = ctypes.c_void_p(), ctypes.create_string_buffer(65)
    assert rt.aclrtCreateNotify(ctypes.byref(made), none) == 0
    assert rt.aclrtNotifyGetExportKey(made, key, ctypes.c_size_t(65), ctypes.c_uint64(2)) == 0
    return made, key.value.decode()


def event_of(rt):
    made, key = ctypes.c_void_p(), ctypes.create_string_buffer(64)
    assert rt.aclrtCreateEventExWithFlag(ctypes.byref(made), IPC_EVENT) == 0 == rt.aclrtIpcGetEventHandle(made, key)
    return made, key.value.decode()


@pytest.mark.parametrize("make, destroy, forks", [(notify_of, "aclrtDestroyNotify", False), (event_of, "aclrtDestroyEvent", False),
                                                  (notify_of, "aclrtDestroyNotify", True)])
def test_entries_of_a_process_that_was_killed_are_free_again(acl, rt, make, destroy, forks):
    """Also where a process that it forked lives on."""
    made = [make(rt) for _ in range(ENTRIES)]
    child = started(CHILD, forks=forks)
    child.stdin.write("\n".join(key for _, key in made))
    child.stdin.close()
    assert child.stdout.readline() == "imported\n"
    assert [getattr(rt, destroy)(one) for one, _ in made] == [0] * ENTRIES
    with pytest.raises(AssertionError, match="20700[79]"):
        make(rt)   # the other process has them all
    child.kill()
    child.wait()
    one, _ = make(rt)
    assert getattr(rt, destroy)(one) == 0


@pytest.mark.parametrize("magic, size", [(0x656C626174736674, 8 << 20), (0x656C626174736674, 4096), (0, 16 << 20), (None, 8 << 20)])
def test_tables_of_another_layout_are_not_read(acl, rt, magic, size):
    """Of another version of softcann, whose key names an entry that would lie elsewhere."""
    file = os.memfd_create("softcann-shares", os.MFD_CLOEXEC)
    os.ftruncate(file, size)
    nonce = 0x1234567
    if magic is None:   # of this version, and another size
        made, _ = notify_of(rt)
        with open(open_tables()[0], "rb") as own:
            magic, = struct.unpack("<Q", own.read(8))
        assert rt.aclrtDestroyNotify(made) == 0
    with mmap.mmap(file, size) as memory:
        memory[:16] = struct.pack("<QIi", magic, nonce, os.getpid())
        key = f"softcann-n-{os.getpid()}-{nonce:08x}-4095-1".encode()
        assert rt.aclrtNotifyImportByKey(ctypes.byref(ctypes.c_void_p()), key, none) == IPC_ERROR
        assert "another version of softcann" in acl.get_recent_err_msg()
    os.close(file)


def test_files_of_processes_that_ended_are_closed(acl, rt):
    made, _ = notify_of(rt)   # so that this process has a table
    for _ in range(3):
        child = started(MAKER)
        imported = ctypes.c_void_p()
        assert rt.aclrtNotifyImportByKey(ctypes.byref(imported), child.stdout.readline().strip().encode(), none) == 0
        assert len(open_tables()) == 2 and rt.aclrtDestroyNotify(imported) == 0
        child.stdin.close()
        assert child.wait() == 0
    assert rt.aclrtDestroyNotify(made) == 0
