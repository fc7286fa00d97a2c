"""Operators that name a communicator: where there is none, refused in phase 1; and of one rank. More ranks are in test/witness and
test/distributed."""
import pytest
from test_descriptors import run

X, W = "torch.ones(4, 6)", "torch.ones(6, 8)"
CALLS = {
    "aclnnMatmulAllReduce": f"{X}, {W}, None, 'nobody', 'sum', 0, 1, torch.empty(4, 8)",
    "aclnnAllGatherMatmul": f"{X}, {W}, None, 'nobody', 0, 0, 1, torch.empty(8, 8), None",
    "aclnnMatmulReduceScatter": f"{X}, {W}, None, 'nobody', 'sum', 0, 1, torch.empty(2, 8)",
    "aclnnDistributeBarrier": f"{X}, 'nobody', 2",
}


@pytest.mark.parametrize("loaded", [False, True], ids=["without libhccl", "with libhccl"])
def test_nobody(libraries, loaded):
    done = run(libraries, f"""
import ctypes
if {loaded}:
    ctypes.CDLL({str(libraries)!r} + "/libhccl.so")
for name, arguments in {CALLS!r}.items():
    try:
        call(name, *eval("[" + arguments + "]"))
    except RuntimeError as error:
        assert "161002" in str(error) and "communicator called 'nobody'" in str(error), error
    else:
        raise AssertionError(name + " found a communicator")
""")
    assert done.returncode == 0, done.stdout


ONE_RANK = """
import ctypes
hccl = ctypes.CDLL(FOLDER + "/libhccl.so")
root, comm, group = ctypes.create_string_buffer(4108), ctypes.c_void_p(), ctypes.create_string_buffer(128)
call.check(hccl.HcclGetRootInfo(root), "HcclGetRootInfo")
call.check(hccl.HcclCommInitRootInfo(1, root, 0, ctypes.byref(comm)), "HcclCommInitRootInfo")
call.check(hccl.HcclGetCommName(comm, group), "HcclGetCommName")
"""


@pytest.mark.parametrize("inplace", [False, True], ids=["", "Inplace"])
@pytest.mark.parametrize("kind", ["", "Quant", "WeightQuant"])
def test_a_sum_is_normalized(libraries, kind, inplace):
    """The sum over one rank is the product itself."""
    done = run(libraries, f"FOLDER = {str(libraries)!r}" + ONE_RANK + f"""
kind = {kind!r}
x, w = torch.randn(2, 3, 6).bfloat16(), torch.randn(6, 8).bfloat16()
if kind:
    w = torch.randint(-9, 9, (6, 8), dtype=torch.int8)
if kind == "Quant":
    x = torch.randint(-9, 9, (2, 3, 6), dtype=torch.int8)
scale = torch.rand(8).bfloat16() / 20
residual, gamma = torch.randn(2, 3, 8).bfloat16(), torch.rand(8).bfloat16()
product = ((x.float() @ w.float()) * (scale.float() if kind else 1)).bfloat16()
total = product + residual
wanted = torch.nn.functional.rms_norm(total.float(), [8], gamma.float(), 1e-5)
y, normal = torch.empty_like(residual), torch.empty_like(residual)
given = dict(x1=x, x2=w, residual=residual, gamma=gamma, epsilon=1e-5, group=group.value.decode(), reduceOp="sum", streamMode=1,
             normOut=normal)
if kind:
    given["dequantScale" if kind == "Quant" else "antiquantScale"] = scale
if {inplace}:
    y = residual
else:
    given["y"] = y
call.named("aclnn{'Inplace' if inplace else ''}{kind}MatmulAllReduceAddRmsNorm", **given)
torch.testing.assert_close(y, total)
torch.testing.assert_close(normal, wanted.bfloat16())
""")
    assert done.returncode == 0, done.stdout


PRODUCTS = ["MatmulAllReduce", "MatmulAllReduceV2", "MatmulAllReduceV3", "QuantMatmulAllReduce", "QuantMatmulAllReduceV2",
            "QuantMatmulAllReduceV3", "QuantMatmulAllReduceV4", "QuantMatmulAllReduceV5", "WeightQuantMatmulAllReduce",
            "WeightQuantMatmulAllReduceV2", "AllGatherMatmul", "AllGatherMatmulV2", "MatmulReduceScatter", "MatmulReduceScatterV2",
            "AlltoAllMatmul", "AlltoAllMatmulV2", "MatmulAlltoAll", "MatmulAlltoAllV2"]


def test_every_version_of_a_product(libraries):
    """Of one rank: the product itself, with what the version adds to it."""
    done = run(libraries, f"FOLDER = {str(libraries)!r}" + ONE_RANK + f"""
from nn_client import CALLED
for name in {PRODUCTS!r}:
    params = [p.name for p in CALLED["aclnn" + name].params]
    whole_x, whole_w = name.startswith("Quant"), "Quant" in name
    x = torch.randint(-9, 9, (4, 6), dtype=torch.int8) if whole_x else torch.randn(4, 6).half()
    w = torch.randint(-9, 9, (6, 8), dtype=torch.int8) if whole_w else torch.randn(6, 8).half()
    scale, wanted = torch.rand(8) / 20, x.float() @ w.float()
    given = dict(x1=x, x2=w, group=group.value.decode(), commMode="aiv", reduceOp="sum", streamMode=1,
                 alltoAllAxesOptional=[-1, -2] if name.startswith("MatmulAllto") else [-2, -1])
    if whole_x:
        given.update(dequantScale=scale, x2Scale=scale)
    elif whole_w:
        given["antiquantScale"] = scale = scale.half()
    wanted = wanted * scale.float() if whole_w else wanted
    for more in {{"x3", "x3Optional"}}.intersection(params):
        given[more] = torch.randn(4, 8).half()
        wanted = wanted + given[more].float()
    out = torch.empty(4, 8, dtype=torch.half)
    call.named("aclnn" + name, **{{key: value for key, value in given.items() if key in params}}, output=out)
    torch.testing.assert_close(out.float(), wanted, rtol=2e-3, atol=2e-3, msg=lambda text: name + ": " + text)
""")
    assert done.returncode == 0, done.stdout
