"""The kind of a kernel's failure decides the code, and whether the stream goes on: not the wording of ATen's message."""
import pytest
import torch
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

# What CANN refuses before anything is queued, so that its clients raise where the call stands.
AT_ONCE = {
    "aclnnMm": (torch.ones(2, 3), torch.ones(2, 3), torch.empty(2, 3), 0),
    "aclnnMatmul": (torch.ones(2, 3), torch.ones(4), torch.empty(2), 0),
    "aclnnMatmul, batches": (torch.ones(2, 4, 3), torch.ones(3, 3, 4), torch.empty(2, 4, 4), 0),
    "aclnnBatchMatMul": (torch.ones(2, 4, 3), torch.ones(2, 2, 4), torch.empty(2, 4, 4), 0),
    "aclnnMv": (torch.ones(2, 3), torch.ones(2), torch.empty(2), 0),
    "aclnnDot": (torch.ones(3), torch.ones(4), torch.empty(())),
    "aclnnAddmm": (torch.ones(2), torch.ones(2, 3), torch.ones(4, 2), 1, 1, torch.empty(2, 2), 0),
    "aclnnGemm": (torch.ones(2, 3), torch.ones(3, 4), torch.ones(2, 4), 1.0, 1.0, 0, 1, torch.empty(2, 4), 0),
    "aclnnBaddbmm": (torch.ones(1, 2, 3), torch.ones(1, 2, 3), torch.ones(1, 2, 3), 1, 1, torch.empty(1, 2, 3), 0),
    "aclnnCat": ([torch.ones(2, 3), torch.ones(2, 4)], 0, torch.empty(4, 3)),
    "aclnnCat, rank": ([torch.ones(2, 3), torch.ones(2)], 0, torch.empty(4, 3)),
    "aclnnCat, dimension": ([torch.ones(2), torch.ones(2)], 1, torch.empty(4)),
    "aclnnStack": ([torch.ones(2), torch.ones(3)], 0, torch.empty(2, 2)),
    "aclnnStack, dimension": ([torch.ones(2), torch.ones(2)], 2, torch.empty(2, 2)),
    "aclnnTopk": (torch.ones(3), 5, 0, True, True, torch.empty(5), torch.empty(5, dtype=torch.int64)),
    "aclnnGather": (torch.ones(3, 2), 0, torch.zeros(1, dtype=torch.int64), torch.empty(1)),
    "aclnnGather, length": (torch.ones(3, 2), 0, torch.zeros(1, 3, dtype=torch.int64), torch.empty(1, 3)),
    "aclnnEmbedding": (torch.ones(3, 2), torch.ones(2), torch.empty(2, 2)),
    "aclnnSoftmax": (torch.ones(2, 3, dtype=torch.int32), 1, torch.empty(2, 3, dtype=torch.int32)),
    "aclnnRmsNorm": (torch.ones(2, 3), torch.ones(4), 1e-6, torch.empty(2, 3), torch.empty(2, 1)),
}


@pytest.mark.parametrize("case", AT_ONCE)
def test_refused_in_phase_1(call, case):
    name = case.split(",")[0]
    with pytest.raises(RuntimeError, match=f"{name}GetWorkspaceSize: {INVALID}"):
        call(name, *AT_ONCE[case])


def test_what_only_looks_wrong_is_computed(call):
    empty, out = torch.empty(0), torch.zeros(2, 3)
    call("aclnnCat", [empty, torch.ones(2, 3), empty], -2, out)   # torch.cat passes such tensors over
    assert out.eq(1).all()
    out = torch.zeros(2, 4, 5)
    call("aclnnMatmul", torch.ones(4, 3), torch.ones(2, 3, 5), out, 0)
    assert out.eq(3).all()
    out = torch.zeros(2, 3, 4, 5)
    call("aclnnMatmul", torch.ones(2, 1, 4, 3), torch.ones(3, 3, 5), out, 0)
    assert out.eq(3).all()
    out = torch.zeros(2, 1)
    call("aclnnGather", torch.arange(6.0).view(3, 2), 0, torch.tensor([[2], [0]]), out)   # shorter than it may be
    assert out.flatten().tolist() == [4, 0]
    out = torch.zeros(2, 4)
    call.named("aclnnGemm", A=torch.ones(3, 2), B=torch.ones(4, 3), C=out.clone(), alpha=1.0, beta=0.0, transA=1, transB=1, out=out)
    assert out.eq(3).all()
    out = torch.zeros(2, 3)
    call("aclnnSoftmax", torch.ones(2, 3, dtype=torch.int32), 1, out)
    torch.testing.assert_close(out, torch.full((2, 3), 1 / 3))


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
