"""What softcann has no use for is an error with CANN's code and a text that says what to do instead; never success."""
import ctypes
import re

import pytest
from acl_tools import LIBRARIES, ROOT

UNSUPPORTED = 207000
KERNELS = {"aclopCreateKernel": 7, "aclopRegisterCompileFunc": 2, "aclopUnregisterCompileFunc": 1, "aclopSetKernelArgs": 5,
           "aclopSetKernelWorkspaceSizes": 3, "aclopUpdateParams": 6}
TASKS = {"aclmdlRIGetTasksByStream": 3, "aclmdlRITaskGetType": 2, "aclmdlRITaskGetSeqId": 2,
         "aclmdlRITaskGetParams": 2, "aclmdlRITaskSetParams": 2, "aclmdlRITaskDisable": 1, "aclmdlRIKernelTaskGetAttribute": 3,
         "aclmdlRIUpdate": 1}
INSTEAD = {**dict.fromkeys(KERNELS, "aclopCompileAndExecute"), **dict.fromkeys(TASKS, "aclmdlRICaptureTaskUpdateBegin")}
ARGUMENTS = {**KERNELS, **TASKS}


@pytest.mark.parametrize("name", INSTEAD)
def test_the_text_says_what_to_do(acl, name):
    function = getattr(ctypes.CDLL(str(LIBRARIES / "libascendcl.so")), name)
    room = ctypes.create_string_buffer(256)
    assert function(*[ctypes.byref(room)] * ARGUMENTS[name]) == UNSUPPORTED
    assert room.raw == bytes(256)   # nothing was written
    text = acl.get_recent_err_msg()
    assert text.startswith(f"{name}: ") and INSTEAD[name] in text


# Of third_party/softcann/docs/refused.md: as many arguments as any of them has, none of them written to.
CREATE = {"aclCreateGraphDumpOpt", "aclrtCreateGroupInfo"}   # which return what they made
LISTED = re.findall(r"`(acl\w+)`", "".join(re.findall(r"^\| `.*?\|", (ROOT / "third_party/softcann/docs/refused.md").read_text(), re.M)))


def test_the_page_lists_what_is_refused():
    source = (ROOT / "third_party/softcann/src/rt/unsupported.cpp").read_text()
    refused = set(re.findall(r"SOFTCANN_REFUSED\((acl\w+),", source)) | CREATE
    assert len(refused) > 60 and set(LISTED) == refused


@pytest.mark.parametrize("name", LISTED)
def test_what_the_page_lists_never_succeeds(acl, name):
    function = getattr(ctypes.CDLL(str(LIBRARIES / "libascendcl.so")), name)
    room = ctypes.create_string_buffer(256)
    function.restype = ctypes.c_void_p if name in CREATE else ctypes.c_int
    assert function(*[ctypes.byref(room)] * 11) == (None if name in CREATE else UNSUPPORTED)
    assert room.raw == bytes(256) and acl.get_recent_err_msg().startswith(f"{name}: ")


@pytest.mark.parametrize("name", ["acltdtCreateQueue", "acltdtEnqueue", "acltdtSendTensor", "acltdtReceiveTensor", "acltdtAllocBuf"])
def test_queues_and_channels_are_refused(acl, name):
    library = ctypes.CDLL(str(LIBRARIES / "libacl_tdt_queue.so"))   # CANN's name for it; it leads on to the other
    assert getattr(library, name)(None, None, None) == UNSUPPORTED
    text = acl.get_recent_err_msg()
    assert text.startswith(f"{name}: ") and "aclmdlCreateDataset" in text
    library.acltdtCreateChannel.restype = ctypes.c_void_p
    assert library.acltdtCreateChannel(0, b"name") is None and "acltdtCreateChannel: " in acl.get_recent_err_msg()


def test_sizes_of_results_by_the_operators_model(acl, tmp_path):
    import json

    import numpy as np
    from softcann.atc.cli import main
    from test_op import described

    desc = {"format": "ND", "shape": [2, 3], "type": "float"}
    (tmp_path / "ops.json").write_text(json.dumps([{"op": "Abs", "input_desc": [desc], "output_desc": [desc]}]))
    assert main([f"--singleop={tmp_path}/ops.json", f"--output={tmp_path}/ops", f"--soc_version={acl.get_soc_name()}"]) == 0
    assert acl.op.set_model_dir(str(tmp_path / "ops")) == 0
    infer = ctypes.CDLL(str(LIBRARIES / "libascendcl.so")).aclopInferShape
    x, buffer = described(acl, np.zeros((2, 3), np.float32), 0)
    y = acl.create_tensor_desc(1, [9], 2)
    inputs, outputs = (ctypes.c_void_p * 1)(x), (ctypes.c_void_p * 1)(y)
    attr = ctypes.c_void_p(acl.op.create_attr())
    assert infer(b"Abs", 1, inputs, (ctypes.c_void_p * 1)(buffer), 1, outputs, attr) == 0, acl.get_recent_err_msg()
    assert acl.get_tensor_desc_type(y) == 0 and [acl.get_tensor_desc_dim_v2(y, axis)[0] for axis in range(2)] == [2, 3]
    assert infer(b"Abs", 1, inputs, None, 2, (ctypes.c_void_p * 2)(y, y), attr) == 100022   # it has one output
    other = (ctypes.c_void_p * 1)(acl.create_tensor_desc(0, [7], 2))
    assert infer(b"Abs", 1, other, None, 1, outputs, attr) == 100024 and "Abs(0[7])" in acl.get_recent_err_msg()
