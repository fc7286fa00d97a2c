"""Functions of clients that the runtime calls: at aclInit and aclFinalize, when devices are set, reset, aborted, when tasks fail."""
import ctypes
import json

from acl_tools import LIBRARIES, run_program

INVALID, INTERNAL = 100000, 500000
DEVICE = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int, ctypes.c_void_p)
ABORT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)
EXCEPTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def test_devices_that_are_set_and_reset(acl, rt):
    told = []
    function = DEVICE(lambda device, state, data: told.append((device, state, data)))
    assert rt.aclrtRegDeviceStateCallback(b"test", function, ctypes.c_void_p(5)) == 0
    assert rt.aclrtSetDevice(0) == 0 and told == []   # it was
    assert rt.aclrtResetDevice(0) == 0 == rt.aclrtSetDevice(0)
    assert told == [(0, 2, 5), (0, 3, 5), (0, 0, 5), (0, 1, 5)]
    assert rt.aclrtRegDeviceStateCallback(b"test", None, None) == 0 and rt.aclrtRegDeviceStateCallback(b"test", None, None) == INVALID
    assert rt.aclrtRegDeviceStateCallback(b"", function, None) == INVALID == rt.aclrtRegDeviceStateCallback(None, function, None)


def test_a_device_that_does_not_exist_is_told_to_nobody(acl, rt):
    told = []
    function = DEVICE(lambda *what: told.append(what))
    assert rt.aclrtRegDeviceStateCallback(b"test", function, None) == 0
    assert [rt.aclrtSetDevice(device) for device in (-1, 999)] == [107001, 107001] and told == []
    assert rt.aclrtRegDeviceStateCallback(b"test", None, None) == 0


def test_a_device_whose_tasks_are_aborted(acl, rt, stream):
    told = []
    function = ABORT(lambda *what: told.append(what) or 0)
    assert rt.aclrtSetDeviceTaskAbortCallback(b"test", function, None) == 0
    assert rt.aclrtDeviceTaskAbort(0, 1000) == 0 and told == [(0, 0, 1000, None), (0, 1, 1000, None)]
    assert rt.aclrtSetDeviceTaskAbortCallback(b"test", None, None) == 0 == rt.aclrtDeviceTaskAbort(0, 1000) and len(told) == 2


def test_tasks_that_fail(acl, rt, stream):
    told = []
    functions = [EXCEPTION(lambda info, which=which: told.append((which, rt.aclrtGetErrorCodeFromExceptionInfo(ctypes.c_void_p(info)))))
                 for which in range(3)]
    register, forget = rt.aclrtExceptionInfoCallbackRegister, rt.aclrtExceptionInfoCallbackUnregister
    assert [register(function) for function in functions[:2]] == [0, 0] == [register(functions[0]), rt.aclrtSetExceptionInfoCallback(functions[2])]
    notify = ctypes.c_void_p()
    assert rt.aclrtCreateNotify(ctypes.byref(notify), ctypes.c_uint64(0)) == 0

    def fails():
        assert rt.aclrtWaitAndResetNotify(notify, stream, 1) == 0 and acl.rt.synchronize_stream(stream.value) == 107019
    fails()
    assert told == [(0, 107019), (1, 107019), (2, 107019)]
    assert forget(functions[0]) == 0 == forget(functions[0]) and rt.aclrtSetExceptionInfoCallback(None) == 0
    fails()
    assert told[3:] == [(1, 107019)] and forget(functions[1]) == 0 == rt.aclrtDestroyNotify(notify)
    assert register(None) == INVALID == forget(None)


PROGRAM = """
import ctypes
acl = ctypes.CDLL({library!r})
INIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, ctypes.c_void_p)
FINAL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
code, told = [0], []
init = INIT(lambda config, length, data: told.append((config[:length].decode(), data)) or code[0])
final = FINAL(lambda data: told.append(data) or code[0])
said = lambda *codes: print(*codes, told) or told.clear()
said(acl.aclInitCallbackRegister(0, init, ctypes.c_void_p(7)), acl.aclInitCallbackRegister(0, init, None),
     acl.aclInitCallbackRegister(0xFFFF, init, None), acl.aclInitCallbackRegister(9, init, None), acl.aclInitCallbackRegister(1, None, None))
said(acl.aclFinalizeCallbackRegister(3, final, ctypes.c_void_p(8)), acl.aclInit(b"acl.json"))
said(acl.aclInitCallbackRegister(1, init, ctypes.c_void_p(9)))
said(acl.aclFinalize())
said(acl.aclInitCallbackUnRegister(0xFFFF, init), acl.aclInitCallbackUnRegister(0xFFFF, init), acl.aclInit(None), acl.aclFinalize())
code[0] = 123
said(acl.aclInit(None), acl.aclFinalize())
said(acl.aclInitCallbackUnRegister(0, init), acl.aclInitCallbackUnRegister(1, init), acl.aclInit(None), acl.aclFinalize())
code[0] = 0
said(acl.aclFinalizeCallbackUnRegister(3, final), acl.aclInit(None), acl.aclFinalize())
"""


def test_init_and_finalize(tmp_path):
    text = json.dumps({"defaultDevice": {"default_device": "0"}})
    (tmp_path / "acl.json").write_text(text)
    program = tmp_path / "told.py"
    program.write_text(PROGRAM.format(library=str(LIBRARIES / "libascendcl.so")))
    done = run_program(tmp_path, program)
    config = repr(text)
    assert done.stdout.splitlines() == [
        f"0 {INTERNAL} 0 {INVALID} {INVALID} []",
        f"0 0 [({config}, 7), ({config}, None)]",
        f"0 [({config}, 9)]",
        "0 [8]",
        f"0 {INVALID} 0 0 [('', 7), ('', 9), 8]",
        "123 100037 [('', 7)]",
        "0 0 0 123 [8]",
        "0 0 0 []"], done.stdout + done.stderr


def test_limits_of_operators_in_milliseconds(rt):
    found = ctypes.c_uint32()
    assert rt.aclrtSetOpExecuteTimeOutWithMs(1500) == 0 == rt.aclrtGetOpExecuteTimeout(ctypes.byref(found)) and found.value == 1500
    assert rt.aclrtSetOpExecuteTimeOutWithMs(0) == 0
