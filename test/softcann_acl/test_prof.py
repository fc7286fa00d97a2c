"""acl.prof: a program profiles itself."""
import ctypes
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


def test_a_program_subscribes_to_a_model(acl, fixed_model):
    """As ascendfly does it: a pipe, a thread that reads, records taken apart."""
    number, ret = acl.mdl.load_from_file(str(fixed_model))
    assert ret == 0
    reader, writer = os.pipe()
    config = acl.prof.create_subscribe_config(1, 0, writer)
    assert config and acl.prof.model_subscribe(number, config) == 0
    size, ret = acl.prof.get_op_desc_size()
    assert ret == 0 and size > 0
    desc = acl.mdl.create_desc()
    assert acl.mdl.get_desc(desc, number) == 0
    sets = []
    for kind in ("input", "output"):
        made = acl.mdl.create_dataset()
        for index in range(getattr(acl.mdl, f"get_num_{kind}s")(desc)):
            length = getattr(acl.mdl, f"get_{kind}_size_by_index")(desc, index)
            memory, ret = acl.rt.malloc(length, 0)
            assert ret == 0 and acl.rt.memset(memory, length, 0, length) == 0
            acl.mdl.add_dataset_buffer(made, acl.create_data_buffer(memory, length))
        sets.append(made)
    assert acl.mdl.execute(number, *sets) == 0 and acl.prof.model_un_subscribe(number) == 0
    os.close(writer)
    data = b"".join(iter(lambda: os.read(reader, 1 << 16), b""))
    os.close(reader)
    info = ctypes.create_string_buffer(data, len(data))
    place = (ctypes.addressof(info), len(data))
    count, ret = acl.prof.get_op_num(*place)
    assert ret == 0 and count == len(data) // size > 0
    for index in range(count):
        kind, ret = acl.prof.get_op_type(*place, index, 65)
        assert ret == 0 and kind
        name, ret = acl.prof.get_op_name(*place, index, 275)
        assert ret == 0 and len(name) + 1 == acl.prof.get_op_name_len(*place, index)[0]
        assert acl.prof.get_model_id(*place, index) == number
        begin, end = acl.prof.get_op_start(*place, index), acl.prof.get_op_end(*place, index)
        assert 0 < begin <= end and acl.prof.get_op_duration(*place, index) == end - begin
    assert acl.prof.get_op_name(*place, 0, 1)[1] != 0
    assert acl.prof.destroy_subscribe_config(config) == 0 and acl.mdl.unload(number) == 0
