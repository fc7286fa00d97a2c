"""acl.prof: a program profiles itself."""
import os
import subprocess
import sys

import pytest
from acl_tools import LIBRARIES, PACKAGES

CODE = """
import sys
import acl
assert acl.init() == 0 and acl.rt.set_device(0) == 0
assert acl.prof.init(sys.argv[1]) == 0, acl.get_recent_err_msg()
config = acl.prof.create_config([0], 0, 0, 0x1 | 0x2 | 0x80)   # ACL API, task time, stamps
assert config and acl.prof.start(config) == 0, acl.get_recent_err_msg()
stream, ret = acl.rt.create_stream()
assert acl.prof.mark_ex("a mark of acl", 13, stream) == 0, acl.get_recent_err_msg()
stamp = acl.prof.create_stamp()
assert acl.prof.set_stamp_trace_message(stamp, "a range of acl", 14) == 0
number, ret = acl.prof.range_start(stamp)
assert ret == 0 and acl.prof.range_stop(number) == 0
acl.prof.destroy_stamp(stamp)
device, ret = acl.rt.malloc(64, 0)
assert acl.rt.memset(device, 64, 0, 64) == 0 and acl.rt.synchronize_stream(stream) == 0
assert acl.prof.stop(config) == 0 and acl.prof.destroy_config(config) == 0 and acl.prof.finalize() == 0
assert acl.finalize() == 0
"""


def test_a_program_profiles_itself(tmp_path):
    if not (LIBRARIES / "libmsprofiler.so").exists():
        pytest.skip(f"{LIBRARIES} has no libmsprofiler.so: build first")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES), "PYTHONPATH": str(PACKAGES)}
    done = subprocess.run([sys.executable, "-c", CODE, str(tmp_path)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"a mark of acl" in written and b"a range of acl" in written
