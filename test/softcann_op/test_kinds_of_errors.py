"""The kind of a kernel's failure decides the code, and whether the stream goes on: not the wording of ATen's message."""
import pytest
from test_descriptors import INVALID, KERNEL_FAILED, run

F, L = "torch.ones(3, 4)", "torch.tensor"
OUTSIDE = {
    "aclnnIndexSelect": f"{F}, 0, {L}([3]), torch.empty(1, 4)",
    "aclnnIndexSelect, negative": f"{F}, 0, {L}([-1]), torch.empty(1, 4)",
    "aclnnGather": f"{F}, 1, {L}([[4]]), torch.empty(1, 1)",
    "aclnnIndex": f"{F}, [{L}([0]), {L}([4])], torch.empty(1)",
    "aclnnIndexPutImpl": f"{F}, [{L}([-4])], torch.ones(1, 4), False, False",
    "aclnnScatter": f"{F}, 0, {L}([[7]]), torch.ones(1, 1), 0, torch.empty(3, 4)",
    "aclnnInplaceIndexCopy": f"{F}, 0, {L}([3]), torch.ones(1, 4)",
    "aclnnTake": f"{F}, {L}([12]), torch.empty(1)",
    "aclnnInplacePut": f"{F}, {L}([-13]), torch.ones(1), False",
    "aclnnEmbedding": f"{F}, {L}([5]), torch.empty(1, 4)",
    "aclnnNLLLoss": f"{F}, {L}([0, 1, 4]), None, 1, -100, torch.empty(()), torch.empty(())",
    "aclnnGatherNd": f"{F}, {L}([[3]]), False, torch.empty(1, 4)",
    "aclnnInplaceScatterUpdate": f"torch.zeros(1, 4, 2), {L}([3]), torch.ones(1, 2, 2), -2",
    "aclnnMaxUnpool2d": f"torch.ones(1, 1, 2, 2), {L}([[[[0, 1], [2, 99]]]]), [4, 4], torch.empty(1, 1, 4, 4)",
}
REFUSED = {  # wrong otherwise, whatever the words
    "aclnnIndexSelect, dimension": f"{F}, 5, {L}([0]), torch.empty(1, 4)",
    "aclnnIndexSelect, type": f"{F}, 0, {L}([0.5]), torch.empty(1, 4)",
    "aclnnGather, rank": f"{F}, 1, {L}([0]), torch.empty(1)",
    "aclnnRepeat, too many": f"{F}, [1 << 20, 1 << 18], torch.empty(3, 4)",
    "aclnnRepeat, past 64 bits": f"{F}, [1 << 40, 1 << 40], torch.empty(3, 4)",
    "aclnnFloorDivide": f"{L}([1, 2]), {L}([1, 0]), {L}([0, 0])",
}


@pytest.mark.parametrize("inline_ns", ["20000000", "0"])
def test_kinds(libraries, inline_ns):
    body = f"""
import ctypes
for name, arguments, outside in {[(n, a, True) for n, a in OUTSIDE.items()] + [(n, a, False) for n, a in REFUSED.items()]!r}:
    call.stream = ctypes.c_void_p()
    call.check(call.acl.aclrtCreateStream(ctypes.byref(call.stream)), "stream")
    call.check(call.acl.aclrtSetStreamFailureMode(call.stream, ctypes.c_uint64(1)), "stop on failure")
    codes = []
    for _ in range(2):
        try:
            call(name.split(",")[0], *eval("(" + arguments + ")"))
            codes.append(0)
        except RuntimeError as error:
            codes.append(int(str(error).split(": ")[1]))
            text = str(error)
        call.acl.aclrtSynchronizeStream(call.stream)
    x = torch.ones(3)
    try:
        call("aclnnNeg", x, x)
    except RuntimeError:
        pass
    wanted = {KERNEL_FAILED} if outside else {INVALID}
    if codes[0] != wanted or (not outside and x[0] != -1):
        print("WRONG", name, codes, x, text)
print("done")
"""
    done = run(libraries, body, SOFTCANN_INLINE_NS=inline_ns)
    assert done.returncode == 0 and "WRONG" not in done.stdout and "done" in done.stdout, done.stdout
