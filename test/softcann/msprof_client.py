"""A client below torch for the tests of msprof, and how they read what msprof writes."""
import csv
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ROOT / "torch_npu" / "softcann" / "lib"

# A client below torch: three fills and two copies on a stream.
CLIENT = f"""
import ctypes
acl = ctypes.CDLL({str(LIBRARIES / "libascendcl.so")!r})
assert acl.aclInit(None) == 0 and acl.aclrtSetDevice(0) == 0
memory, size, stream = ctypes.c_void_p(), ctypes.c_size_t(1 << 20), ctypes.c_void_p()
host = ctypes.create_string_buffer(1 << 20)
assert acl.aclrtMalloc(ctypes.byref(memory), size, 0) == 0 and acl.aclrtCreateStream(ctypes.byref(stream)) == 0
def work():
    for value in range(3):
        assert acl.aclrtMemsetAsync(memory, size, value, size, stream) == 0
    for _ in range(2):
        assert acl.aclrtMemcpyAsync(host, size, memory, size, 2, stream) == 0
    assert acl.aclrtSynchronizeStream(stream) == 0
"""
API = """
prof = ctypes.CDLL(LIBRARY)
prof.aclprofCreateConfig.restype = prof.aclprofCreateStamp.restype = prof.aclprofCreateStepInfo.restype = ctypes.c_void_p
def config(kinds=0x83):
    made = prof.aclprofCreateConfig((ctypes.c_uint32 * 1)(0), 1, 255, None, ctypes.c_uint64(kinds))
    assert made
    return ctypes.c_void_p(made)
""".replace("LIBRARY", repr(str(LIBRARIES / "libmsprofiler.so")))


def msprof(*arguments, check=True, **environment):
    return subprocess.run([sys.executable, str(ROOT / "bin" / "msprof"), *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True, check=check, env={**os.environ, **environment})


def tables(folder):
    """Rows by table, as dictionaries; and the timeline."""
    profile, = folder.glob("PROF_*")
    output = profile / "mindstudio_profiler_output"
    found = {}
    for path in output.glob("*.csv"):
        with open(path, newline="") as file:
            found[re.sub(r"_\d{14}$", "", path.stem)] = list(csv.DictReader(file))
    timeline, = output.glob("msprof_*.json")
    return found, json.loads(timeline.read_text())
