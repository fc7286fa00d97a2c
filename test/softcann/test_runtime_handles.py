"""Handles that were destroyed, twice or while others have taken their place, that are of another kind, or that never were: CANN's
code and a text, and no crash. Each kind in a process of its own."""
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

LIBRARIES = pathlib.Path(os.environ.get("TEST_LIBRARIES") or
                         pathlib.Path(__file__).resolve().parents[2] / "torch_npu" / "softcann" / "lib")
BEGIN = f"""
import ctypes
from ctypes import byref, c_char_p, c_int64, c_size_t, c_uint32, c_void_p
acl = ctypes.CDLL({str(LIBRARIES / "libascendcl.so")!r}, mode=ctypes.RTLD_GLOBAL)
ops = ctypes.CDLL({str(LIBRARIES / "libacl_op_compiler.so")!r})
hccl = ctypes.CDLL({str(LIBRARIES / "libhccl.so")!r})
acl.aclGetRecentErrMsg.restype = c_char_p
INVALID_PARAM, INVALID_HANDLE, NO_CONTEXT, HCCL_PARA = 100000, 107017, 107002, 1
ONE = (c_int64 * 1)(4)

def made(function, *arguments):
    function.restype = c_void_p
    handle = function(*arguments)
    assert handle, acl.aclGetRecentErrMsg()
    return c_void_p(handle)

def got(function, *arguments, at=0):
    handle = c_void_p()
    arguments = list(arguments)
    arguments.insert(at, byref(handle))
    code = function(*arguments)
    assert code == 0, (code, acl.aclGetRecentErrMsg())
    return handle

def refused(code, found):
    assert found == code and b"not exist" in acl.aclGetRecentErrMsg(), (found, acl.aclGetRecentErrMsg())

WILD = c_void_p(0xdead000)
assert acl.aclrtSetDevice(0) == 0
"""
KINDS = {
    "stream": """
        stream, event = got(acl.aclrtCreateStream), got(acl.aclrtCreateEvent)
        assert acl.aclrtDestroyStream(stream) == 0
        other = got(acl.aclrtCreateStream)
        assert other.value != stream.value
        for bad in (stream, event, WILD):
            refused(INVALID_HANDLE, acl.aclrtSynchronizeStream(bad))
            refused(INVALID_HANDLE, acl.aclrtDestroyStream(bad))
        assert acl.aclrtSynchronizeStream(other) == 0
    """,
    "event": """
        event, stream = got(acl.aclrtCreateEvent), got(acl.aclrtCreateStream)
        assert acl.aclrtDestroyEvent(event) == 0
        other = got(acl.aclrtCreateEvent)
        assert other.value != event.value
        for bad in (event, stream, WILD):
            refused(INVALID_HANDLE, acl.aclrtRecordEvent(bad, None))
            refused(INVALID_HANDLE, acl.aclrtStreamWaitEvent(None, bad))
            refused(INVALID_HANDLE, acl.aclrtDestroyEvent(bad))
        assert acl.aclrtRecordEvent(other, None) == 0 and acl.aclrtSynchronizeEvent(other) == 0
    """,
    "context": """
        import threading
        first = got(acl.aclrtCreateContext, 0)
        ready, gone, answers = threading.Event(), threading.Event(), []
        def other_thread():
            assert acl.aclrtSetCurrentContext(first) == 0
            ready.set(), gone.wait()
            stream = c_void_p()
            answers.extend([acl.aclrtSynchronizeStream(None), acl.aclrtCreateStream(byref(stream))])
        thread = threading.Thread(target=other_thread)
        thread.start(), ready.wait()
        assert acl.aclrtDestroyContext(first) == 0
        second = got(acl.aclrtCreateContext, 0)
        gone.set(), thread.join()
        assert answers == [NO_CONTEXT, NO_CONTEXT], answers
        for bad in (first, got(acl.aclrtCreateStream), WILD):
            refused(INVALID_HANDLE, acl.aclrtSetCurrentContext(bad))
            refused(INVALID_HANDLE, acl.aclrtDestroyContext(bad))
        assert acl.aclrtSetCurrentContext(second) == 0 and acl.aclrtSynchronizeStream(None) == 0
    """,
    "graph": """
        stream = got(acl.aclrtCreateStream)
        def graph():
            assert acl.aclmdlRICaptureBegin(stream, 0) == 0
            return got(acl.aclmdlRICaptureEnd, stream, at=1)
        first = graph()
        assert acl.aclmdlRIDestroy(first) == 0
        second = graph()
        for bad in (first, stream, WILD):
            refused(INVALID_HANDLE, acl.aclmdlRIExecuteAsync(bad, stream))
            refused(INVALID_HANDLE, acl.aclmdlRIDestroy(bad))
        assert acl.aclmdlRIExecuteAsync(second, stream) == 0 and acl.aclrtSynchronizeStream(stream) == 0
    """,
    "communicator": """
        devices, first, second = (ctypes.c_int32 * 1)(0), (c_void_p * 1)(), (c_void_p * 1)()
        assert hccl.HcclCommInitAll(1, devices, first) == 0
        assert hccl.HcclCommDestroy(c_void_p(first[0])) == 0
        assert hccl.HcclCommInitAll(1, devices, second) == 0 and first[0] != second[0]
        rank = c_uint32()
        for bad in (c_void_p(first[0]), got(acl.aclrtCreateStream), WILD):
            refused(HCCL_PARA, hccl.HcclGetRankId(bad, byref(rank)))
            refused(HCCL_PARA, hccl.HcclCommDestroy(bad))
            refused(HCCL_PARA, hccl.HcclBarrier(bad, None))
        assert hccl.HcclGetRankId(c_void_p(second[0]), byref(rank)) == 0 and rank.value == 0
    """,
    "tensor description": """
        acl.aclGetTensorDescSize.restype = c_size_t
        desc, buffer = made(acl.aclCreateTensorDesc, 0, 1, ONE, 2), made(acl.aclCreateDataBuffer, None, c_size_t(0))
        assert acl.aclGetTensorDescSize(desc) == 16 and acl.aclGetTensorDescSize(None) == 0
        acl.aclDestroyTensorDesc(desc)
        other, size = made(acl.aclCreateTensorDesc, 0, 1, ONE, 2), c_int64()
        for bad in (desc, buffer, WILD):
            refused(INVALID_PARAM, acl.aclGetTensorDescDimV2(bad, c_size_t(0), byref(size)))
            refused(0, acl.aclGetTensorDescSize(bad))
            acl.aclDestroyTensorDesc(bad)
            attributes = made(ops.aclopCreateAttr)
            refused(INVALID_PARAM, ops.aclopCompileAndExecute(b"Identity", 1, byref(bad), byref(buffer), 1, byref(other),
                                                              byref(buffer), attributes, 0, 0, None, None))
        assert acl.aclGetTensorDescSize(other) == 16
    """,
    "data buffer": """
        acl.aclGetDataBufferSizeV2.restype = c_size_t
        buffer, desc = made(acl.aclCreateDataBuffer, None, c_size_t(8)), made(acl.aclCreateTensorDesc, 0, 1, ONE, 2)
        assert acl.aclGetDataBufferSizeV2(buffer) == 8 and acl.aclDestroyDataBuffer(buffer) == 0
        dataset = made(acl.aclmdlCreateDataset)
        for bad in (buffer, desc, dataset, WILD):
            refused(INVALID_PARAM, acl.aclUpdateDataBuffer(bad, None, c_size_t(4)))
            refused(INVALID_PARAM, acl.aclDestroyDataBuffer(bad))
            refused(INVALID_PARAM, acl.aclmdlAddDatasetBuffer(dataset, bad))
    """,
    "dataset": """
        acl.aclmdlGetDatasetNumBuffers.restype = c_size_t
        dataset, desc = made(acl.aclmdlCreateDataset), made(acl.aclmdlCreateDesc)
        buffer = made(acl.aclCreateDataBuffer, None, c_size_t(8))
        assert acl.aclmdlDestroyDataset(dataset) == 0
        for bad in (dataset, desc, WILD):
            refused(INVALID_PARAM, acl.aclmdlAddDatasetBuffer(bad, buffer))
            refused(INVALID_PARAM, acl.aclmdlDestroyDataset(bad))
            refused(0, acl.aclmdlGetDatasetNumBuffers(bad))
    """,
    "model description": """
        acl.aclmdlGetNumInputs.restype = c_size_t
        desc, dataset = made(acl.aclmdlCreateDesc), made(acl.aclmdlCreateDataset)
        assert acl.aclmdlDestroyDesc(desc) == 0
        for bad in (desc, dataset, WILD):
            refused(0, acl.aclmdlGetNumInputs(bad))
            refused(INVALID_PARAM, acl.aclmdlDestroyDesc(bad))
    """,
    "attributes": """
        attributes, dataset = made(ops.aclopCreateAttr), made(acl.aclmdlCreateDataset)
        ops.aclopDestroyAttr(attributes)
        for bad in (attributes, dataset, WILD):
            refused(INVALID_PARAM, ops.aclopSetAttrInt(bad, b"axis", c_int64(1)))
            ops.aclopDestroyAttr(bad)
    """,
    "settings of models": """
        config, execution = made(acl.aclmdlCreateConfigHandle), made(acl.aclmdlCreateExecConfigHandle)
        assert acl.aclmdlDestroyConfigHandle(config) == 0
        number = c_uint32()
        for bad in (config, execution, WILD):
            refused(INVALID_PARAM, acl.aclmdlLoadWithConfig(bad, byref(number)))
            refused(INVALID_PARAM, acl.aclmdlDestroyConfigHandle(bad))
        parameters = made(acl.aclmdlCreateAIPP, ctypes.c_uint64(1))
        assert acl.aclmdlDestroyAIPP(parameters) == 0
        for bad in (parameters, execution, WILD):
            refused(INVALID_PARAM, acl.aclmdlSetAIPPInputFormat(bad, 1))
    """,
}


@pytest.mark.parametrize("kind", KINDS)
def test_stale_and_foreign_handles_are_told(kind):
    done = subprocess.run([sys.executable, "-c", BEGIN + textwrap.dedent(KINDS[kind])], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300, env=dict(os.environ, SOFTCANN_MEMORY="256M"))
    assert done.returncode == 0, done.stdout
