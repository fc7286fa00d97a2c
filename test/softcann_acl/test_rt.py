"""acl and acl.rt: results, arguments, memory, streams, callbacks."""
import ctypes
import gc
import os
import pathlib
import re
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from acl_tools import LIBRARIES, PACKAGES, ROOT

SITE_CODE = "import acl, sys; print(acl.init(), *acl.rt.get_device_count(), 'numpy' in sys.modules, hasattr(acl.rt, 'malloc_host'))"


def test_results_are_values_and_the_code(acl):
    assert acl.rt.get_device() == (0, 0)
    assert acl.rt.get_run_mode() == (1, 0)
    assert acl.get_soc_name().startswith("Ascend")
    free, total, ret = acl.rt.get_mem_info(1)
    assert ret == 0 and 0 < free <= total
    assert acl.data_type_size(0) == 4 and acl.float16_to_float(acl.float_to_float16(1.5)) == 1.5
    assert acl.rt.set_device(1000) != 0 and "1000" in acl.get_recent_err_msg()
    assert acl.app_log(1, "100 %s") == 0


def test_arguments_of_a_wrong_kind(acl):
    with pytest.raises(TypeError, match=r"acl\.rt\.malloc, argument 2"):
        acl.rt.malloc("4", 0)
    with pytest.raises(TypeError, match="takes 2 arguments"):
        acl.rt.malloc(4)
    with pytest.raises(OverflowError):
        acl.rt.malloc(-1, 0)
    ptr, ret = acl.rt.malloc(np.int64(32), 0)
    assert ret == 0 and acl.rt.free(ptr) == 0 and acl.rt.free(None) != 0


def test_names_that_the_library_does_not_have(acl):
    assert hasattr(acl.rt, "reduce_async") and not hasattr(acl.tdt, "create_channel") and not hasattr(acl.rt, "nothing")
    for module, name, text in ((acl.tdt, "create_channel", "acltdtCreateChannel"),
                               (acl.rt, "set_current_context", "is acl.rt.set_context here"), (acl.media, "vdec_nothing", "aclvdecNothing"),
                               (acl.rt, "pointer_get_attributes", "not bound; ctypes"), (acl.mdl, "ri_nothing", "aclmdlRINothing")):
        with pytest.raises(AttributeError, match=text):
            getattr(module, name)
    assert "create_channel" not in dir(acl.tdt) and {"reduce_async", "malloc", "memcpy_async", "launch_callback"} <= set(dir(acl.rt))


def test_published_names_are_there_or_refused_by_name(acl):
    """What public programs call: but for kernels of their own they are there, and each of those says which function of C is missing."""
    names = [name for name in (pathlib.Path(__file__).parent / "pyacl_names.txt").read_text().split("\n") if name.startswith("acl.")]
    missing = {}
    for name in names:
        module, _, last = name.rpartition(".")
        try:
            getattr(acl if module == "acl" else getattr(acl, module[4:]), last)
        except AttributeError as error:
            missing[name] = str(error)
    assert len(names) > 230 and len(missing) < 30, sorted(missing)
    assert not [name for name, text in missing.items() if not re.search(r"\bacl[a-z]+[A-Z]", text)]
    assert {name.rsplit(".", 1)[0] for name in missing} <= {"acl.rt"}   # kernels of the client's own


def test_every_declared_function_is_there():
    """CANN's programs link what its headers declare; what is refused has a name, too."""
    headers = sorted((ROOT / "third_party/cann/include/acl").glob("*.h"))
    libraries = [ctypes.CDLL(str(LIBRARIES / f"lib{name}.so")) for name in ("ascendcl", "acl_op_compiler", "msprofiler")]
    names = {name for path in headers for name in re.findall(r"^\w[^;{}#/]*?\b(acl\w+)\(", path.read_text(), re.M)}
    assert len(names) > 580
    assert not [name for name in sorted(names) if not any(hasattr(library, name) for library in libraries)]


def test_the_tables_name_declared_functions(acl):
    """Each line's number of arguments is that of the declaration."""
    headers = "".join(path.read_text() for path in (ROOT / "third_party/cann/include/acl").glob("*.h"))
    declared = {name: arguments for name, arguments in re.findall(r"\b(acl\w+)\(([^()]*)\);", headers)}
    checked = 0
    for module in (acl._base.TABLE, *(one._TABLE for one in (acl.rt, acl.mdl, acl.op, acl.prof))):
        for name, (symbol, *_) in module.lines.items():
            if symbol in declared and name != "app_log":   # which takes any number
                kinds = module.kinds(name)
                arguments = [one.strip() for one in declared[symbol].split(",") if one.strip() not in ("", "void")]
                kinds = [kind for kind in kinds if not kind.startswith("=")]
                assert len(kinds) == len(arguments), (name, symbol)
                for kind, argument in zip(kinds, arguments):
                    assert not kind.startswith((">", "ptr", "str")) or "*" in argument or "acl" in argument or "(" in argument, (name, argument)
                checked += 1
    assert checked > 150


def test_memory_there_and_back(acl):
    sent = np.arange(12, dtype=np.float32).reshape(3, 4)
    device, ret = acl.rt.malloc(sent.nbytes, 0)
    assert ret == 0
    assert acl.rt.memcpy(device, sent.nbytes, acl.util.numpy_to_ptr(sent), sent.nbytes, 1) == 0
    host, ret = acl.rt.malloc_host(sent.nbytes)
    assert acl.rt.memcpy(host, sent.nbytes, device, sent.nbytes, 2) == 0
    shared = acl.util.ptr_to_numpy(host, (3, 4), 11)
    assert (shared == sent).all() and acl.util.ptr_to_bytes(host, 8) == sent.tobytes()[:8]
    shared[0, 0] = 7
    assert acl.util.ptr_to_bytes(host, 4) == np.float32(7).tobytes()
    assert acl.rt.free_host(host) == 0 and acl.rt.free(device) == 0


def test_arrays_and_addresses(acl):
    assert acl.util.ptr_to_numpy(acl.util.bytes_to_ptr(b"abcd"), (4,), np.dtype("uint8")).tobytes() == b"abcd"   # of bytes nobody else has
    columns = np.arange(6).reshape(2, 3)[:, ::2]
    with pytest.raises(ValueError, match="numpy_contiguous_to_ptr"):
        acl.util.numpy_to_ptr(columns)
    ptr, made = acl.util.numpy_contiguous_to_ptr(columns)
    assert ptr == made.ctypes.data and (made == columns).all()
    for wrong in (lambda: acl.util.bytes_to_ptr("a"), lambda: acl.util.numpy_to_ptr([1]), lambda: acl.util.ptr_to_numpy(ptr, [2], 1)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError):
        acl.util.ptr_to_numpy(0, (2,), 11)


def test_a_queued_copy_keeps_its_source(acl):
    stream, _ = acl.rt.create_stream()
    device, _ = acl.rt.malloc(64, 0)
    source = np.full(64, 3, np.uint8)
    alive = weakref.ref(source)
    assert acl.rt.memcpy_async(device, 64, acl.util.numpy_to_ptr(source), 64, 1, stream) == 0
    del source
    gc.collect()
    assert alive() is not None
    assert acl.rt.synchronize_stream(stream) == 0
    gc.collect()
    assert alive() is None
    back = np.zeros(64, np.uint8)
    assert acl.rt.memcpy(acl.util.numpy_to_ptr(back), 64, device, 64, 2) == 0 and (back == 3).all()
    assert acl.rt.destroy_stream(stream) == 0 and acl.rt.free(device) == 0


def test_callbacks_in_a_thread_of_the_client(acl):
    stream, _ = acl.rt.create_stream()
    context, _ = acl.rt.get_context()
    over, seen, arrived = threading.Event(), [], threading.Event()

    def reports(arguments):
        seen.append(arguments)
        acl.rt.set_context(context)
        while not over.is_set():
            acl.rt.process_report(100)

    def callback(data):
        seen.append((data, threading.get_ident()))
        arrived.set()
    tid, ret = acl.util.start_thread(reports, ["given"])
    assert ret == 0 and acl.rt.subscribe_report(tid, stream) == 0
    assert acl.rt.launch_callback(callback, {"a": 1}, 1, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0 and arrived.is_set()   # it blocks the stream
    assert acl.rt.unsubscribe_report(tid, stream) == 0
    over.set()
    assert acl.util.stop_thread(tid) == 0 and acl.util.stop_thread(tid) == 100000
    assert seen == [["given"], ({"a": 1}, tid)]
    assert acl.rt.launch_callback(callback, None, 0, stream) != 0   # nobody is subscribed
    assert acl.rt.launch_host_func(stream, seen.append, "host") == 0 and acl.rt.synchronize_stream(stream) == 0 and seen[-1] == "host"
    assert not acl.rt._calls
    assert acl.rt.destroy_stream(stream) == 0


@pytest.mark.parametrize("way", ["installed", "path", "home"])
def test_the_library_that_is_found(tmp_path, way):
    site = tmp_path / "site"
    site.mkdir()
    (site / "acl").symlink_to(PACKAGES / "acl")
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")}
    environment["PYTHONPATH"] = str(site)
    if way == "installed":
        (site / "softcann").mkdir()
        (site / "softcann" / "__init__.py").touch()
        (site / "softcann" / "lib").symlink_to(LIBRARIES)
    elif way == "path":
        environment["LD_LIBRARY_PATH"] = str(LIBRARIES)
    else:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "lib64").symlink_to(LIBRARIES)
        environment["ASCEND_HOME_PATH"] = str(tmp_path / "home")
    found = subprocess.run([sys.executable, "-c", SITE_CODE], env={**environment, "SOFTCANN_DEVICE_COUNT": "3"}, cwd=tmp_path,
                           capture_output=True, text=True)
    assert found.stdout.split() == ["0", "3", "0", "False", "True"], found.stderr


def test_packaged():
    text = pathlib.Path(PACKAGES.parent / "pyproject.toml").read_text()
    assert '"acl"' in re.search(r"packages = \[.*\]", text)[0]


FAILS = """
import ctypes
import acl
lib, told = ctypes.CDLL("libascendcl.so"), []
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def tell(info):
    told.append([getattr(lib, f"aclrtGet{name}FromExceptionInfo")(ctypes.c_void_p(info)) for name in ("DeviceId", "StreamId", "TaskId", "ErrorCode")])
assert acl.init() == 0 and acl.rt.set_device(0) == 0 and lib.aclrtSetExceptionInfoCallback(tell) == 0
stream, device = acl.rt.create_stream()[0], acl.rt.malloc(64, 0)[0]
number = acl.rt.stream_get_id(stream)[0]
for _ in range(3):
    acl.rt.memset_async(device, 64, 0, 64, stream)
    assert acl.rt.synchronize_stream(stream) in (0, 507011)
assert told == [[0, number, 1, 507011]], told
assert lib.aclrtSetExceptionInfoCallback(None) == 0
"""


def test_a_failure_of_a_task_is_told(tmp_path):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES), "PYTHONPATH": str(PACKAGES),
                   "SOFTCANN_FAULT": "task.aclrtMemsetAsync:nth=2:code=507011"}
    done = subprocess.run([sys.executable, "-c", FAILS], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
