"""libopapi's core: descriptors, the two phases, executors, errors. Arithmetic is tested elsewhere."""
import ctypes
import os
import subprocess
import sys
import threading

import pytest
import torch

NULL, INVALID, KERNEL_FAILED = 161001, 161002, 507035
BIG = 1 << 20  # elements: dear enough to be queued, not run inline


class Call:
    """Both phases of an operator, by hand."""

    def __init__(self, call, name, *arguments):
        self.call, self.name = call, name
        self.text = ""
        self.size, self.executor = ctypes.c_uint64(), ctypes.c_void_p()
        self.status = getattr(call.lib, name + "GetWorkspaceSize")(
            *arguments, ctypes.byref(self.size), ctypes.byref(self.executor))

    def launch(self, name=None):
        return getattr(self.call.lib, name or self.name)(None, ctypes.c_uint64(0), self.executor, self.call.stream)

    def message(self):
        """Reading the message takes it away, so it is kept here."""
        self.text = (self.call.acl.aclGetRecentErrMsg() or b"").decode() or self.text
        return self.text


def add(call, self, other, out, alpha=1.0):
    made = [call.tensor(self), call.tensor(other), call.scalar(alpha), call.tensor(out)]
    return Call(call, "aclnnAdd", *made), made


def destroy(call, made):
    for descriptor in made:
        kind = "Scalar" if descriptor is made[2] else "Tensor"
        assert getattr(call.lib, "aclDestroy" + kind)(descriptor) == 0


def synchronize(call):
    return call.acl.aclrtSynchronizeStream(call.stream)


@pytest.mark.parametrize("n", [3, BIG])
def test_descriptors_may_go_as_soon_as_phase_2_returned(call, n):
    a, b, out = torch.randn(n), torch.randn(n), torch.empty(n)
    for _ in range(20):
        out.zero_()
        step, made = add(call, a, b, out)
        assert step.status == 0 and step.launch() == 0
        destroy(call, made)
        others = [call.tensor(torch.zeros(n)) for _ in range(3)]  # would take over memory that was freed too early
        assert synchronize(call) == 0
        assert torch.equal(out, a + b)
        for other in others:
            call.lib.aclDestroyTensor(other)


def test_destroying_null_is_fine(call):
    for name in ("Tensor", "Scalar", "IntArray", "FloatArray", "BoolArray", "TensorList", "ScalarList"):
        assert getattr(call.lib, "aclDestroy" + name)(None) == 0
    assert call.lib.aclDestroyAclOpExecutor(None) == 0


def test_lists_destroy_their_elements_and_tell_their_size(call):
    tensors = [torch.randn(4) for _ in range(3)]
    made = (ctypes.c_void_p * 3)(*[call.tensor(t).value for t in tensors])
    tensor_list = ctypes.c_void_p(call.lib.aclCreateTensorList(made, ctypes.c_uint64(3)))
    size = ctypes.c_uint64()
    assert call.lib.aclGetTensorListSize(tensor_list, ctypes.byref(size)) == 0 and size.value == 3
    assert call.lib.aclDestroyTensorList(tensor_list) == 0
    # Pooled: the next three tensors are the same objects, which live again.
    again = [call.tensor(t).value for t in tensors]
    address = (1 << 48) - 1
    assert {handle & address for handle in again} == {handle & address for handle in made} and not set(again) & set(made)
    for descriptor in again:
        call.lib.aclDestroyTensor(ctypes.c_void_p(descriptor))


@pytest.mark.parametrize("missing,name", [(0, "self"), (1, "other"), (2, "alpha"), (3, "out")])
def test_null_parameters_are_refused_by_name(call, missing, name):
    x = torch.ones(2)
    arguments = [call.tensor(x), call.tensor(x), call.scalar(1), call.tensor(x)]
    arguments[missing] = None
    step = Call(call, "aclnnAdd", *arguments)
    assert step.status == NULL
    assert f"aclnnAdd: parameter {name} is null" in step.message()


def test_shapes_that_do_not_broadcast_are_refused(call):
    step, _ = add(call, torch.ones(2, 3), torch.ones(4), torch.ones(2, 3))
    assert step.status == INVALID
    assert "aclnnAdd(self=Float[2,3], other=Float[4], out=Float[2,3])" in step.message()
    assert "[4] does not broadcast to the output's [2, 3]" in step.message()


def test_views_beyond_their_storage_are_refused(call):
    x, one = torch.ones(4), ctypes.c_int64
    beyond = call.lib.aclCreateTensor(ctypes.byref(one(4)), ctypes.c_uint64(1), 0, ctypes.byref(one(1)), one(1), 2,
                                      ctypes.byref(one(4)), ctypes.c_uint64(1), ctypes.c_void_p(x.data_ptr()))
    step = Call(call, "aclnnNeg", ctypes.c_void_p(beyond), call.tensor(x))
    assert step.status == INVALID and "reaches beyond its storage of 16 bytes" in step.message()


def test_complex_numbers_between_addresses_are_refused(call):
    x, one = torch.ones(5, dtype=torch.complex128), ctypes.c_int64
    between = call.lib.aclCreateTensor(ctypes.byref(one(4)), ctypes.c_uint64(1), 17, ctypes.byref(one(1)), one(0), 2, ctypes.byref(one(4)),
                                       ctypes.c_uint64(1), ctypes.c_void_p(x.data_ptr() + 8))
    step = Call(call, "aclnnNeg", ctypes.c_void_p(between), call.tensor(x[:4]))
    assert step.status == INVALID and "is no multiple of 16 bytes" in step.message()


@pytest.mark.parametrize("gaps", [False, True])
def test_a_refused_kernel_leaves_the_shape_of_its_result(call, gaps):
    """ATen gave it another one, which the descriptor kept, and the next that was described so reached too far."""
    x, out = torch.randn(2, 3, 8, 8), torch.zeros(2, 4, 4, 8)[..., ::2] if gaps else torch.zeros(2, 4, 4, 4)
    window = dict(kernelSize=[2, 2], strides=[2, 2], paddings=[0, 0])
    handle = call.tensor(out)
    with pytest.raises(RuntimeError, match="2,4,4,4.*should have had the shape .2, 3, 4, 4"):
        call.named("aclnnAvgPool2d", self=x, out=handle, **window)
    assert call.view_shape(handle) == [2, 4, 4, 4]
    call.named("aclnnAbs", self=x.new_full((2, 4, 4, 4), -2), out=handle)
    assert out.eq(2).all()
    assert call.lib.aclDestroyTensor(handle) == 0
    right = torch.zeros(2, 3, 4, 4)
    call.named("aclnnAvgPool2d", self=x, out=right, **window)
    torch.testing.assert_close(right, torch.nn.functional.avg_pool2d(x, 2))


def test_types_without_a_kernel_are_refused(call):
    x, one, float6 = torch.ones(4), ctypes.c_int64, 38
    packed = call.lib.aclCreateTensor(ctypes.byref(one(4)), ctypes.c_uint64(1), float6, ctypes.byref(one(1)), one(0), 2,
                                      ctypes.byref(one(4)), ctypes.c_uint64(1), ctypes.c_void_p(x.data_ptr()))
    step = Call(call, "aclnnNeg", ctypes.c_void_p(packed), call.tensor(x))
    assert step.status == INVALID and "data type 38" in step.message()


def test_executors_belong_to_their_operator(call):
    x = torch.ones(4)
    step, _ = add(call, x, x, x)
    assert step.launch("aclnnSub") == INVALID and "belongs to aclnnAdd" in step.message()
    assert step.launch() == 0 and synchronize(call) == 0
    assert call.lib.aclnnAdd(None, ctypes.c_uint64(0), None, call.stream) == NULL


def test_repeatable_executors_run_again_and_at_other_addresses(call):
    a, b, first, second = torch.randn(8), torch.randn(8), torch.zeros(8), torch.zeros(8)
    step, made = add(call, a, b, first)
    assert call.lib.aclSetAclOpExecutorRepeatable(step.executor) == 0
    assert step.launch() == 0 and synchronize(call) == 0
    assert torch.equal(first, a + b)
    a.add_(1)
    assert step.launch() == 0 and synchronize(call) == 0
    assert torch.equal(first, a + b)
    at = ctypes.c_void_p(second.data_ptr())
    assert call.lib.aclSetOutputTensorAddr(step.executor, ctypes.c_size_t(0), made[3], at) == 0
    assert step.launch() == 0 and synchronize(call) == 0
    assert torch.equal(second, a + b)
    assert call.lib.aclSetOutputTensorAddr(step.executor, ctypes.c_size_t(1), made[3], at) == INVALID
    assert call.lib.aclDestroyAclOpExecutor(step.executor) == 0
    destroy(call, made)


def test_a_descriptor_in_use_can_be_pointed_elsewhere(call):
    a, b, first, second = torch.randn(BIG), torch.randn(BIG), torch.zeros(BIG), torch.zeros(BIG)
    step, made = add(call, a, b, first)
    assert step.launch() == 0
    assert call.lib.aclSetRawTensorAddr(made[3], ctypes.c_void_p(second.data_ptr())) == 0
    again = Call(call, "aclnnAdd", *made)
    assert again.status == 0 and again.launch() == 0
    destroy(call, made)
    assert synchronize(call) == 0
    assert torch.equal(first, a + b) and torch.equal(second, a + b)


def test_getters_give_back_what_was_described(call):
    base = torch.arange(24.).reshape(2, 3, 4)
    view = base[:, 1:, ::2]
    made = call.tensor(view)

    def longs(name):
        values, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
        assert getattr(call.lib, name)(made, ctypes.byref(values), ctypes.byref(count)) == 0
        return [values[i] for i in range(count.value)]

    assert longs("aclGetViewShape") == [2, 2, 2]
    assert longs("aclGetViewStrides") == [12, 4, 2]
    assert longs("aclGetStorageShape") == [24]
    number, offset, address = ctypes.c_int(-7), ctypes.c_int64(), ctypes.c_void_p()
    assert call.lib.aclGetDataType(made, ctypes.byref(number)) == 0 and number.value == 0
    assert call.lib.aclGetFormat(made, ctypes.byref(number)) == 0 and number.value == 2
    assert call.lib.aclGetViewOffset(made, ctypes.byref(offset)) == 0 and offset.value == 4
    assert call.lib.aclGetRawTensorAddr(made, ctypes.byref(address)) == 0 and address.value == base.data_ptr()
    call.lib.aclDestroyTensor(made)


def test_views_are_computed_without_copies(call):
    base, out = torch.randn(6, 8), torch.zeros(6, 8)
    call("aclnnMul", base[::2, 1:5].t(), base[1::2, 4:].t(), out[:3, :4].t())
    assert torch.equal(out[:3, :4], base[::2, 1:5] * base[1::2, 4:])
    assert out[3:].abs().sum() == 0 and out[:, 4:].abs().sum() == 0


def test_descriptors_cross_threads(call):
    """Made on one thread, launched and destroyed on another, as the published client's queue does."""
    a, b, problems = torch.randn(16), torch.randn(16), []
    outs = [torch.zeros(16) for _ in range(500)]
    steps = [add(call, a, b, out) for out in outs]

    def consume():
        call.acl.aclrtSetDevice(0)
        for step, made in steps:
            if step.status or step.launch():
                problems.append(step.message())
            destroy(call, made)

    for _ in range(3):
        thread = threading.Thread(target=consume)
        thread.start()
        thread.join()
        assert synchronize(call) == 0 and not problems
        assert all(torch.equal(out, a + b) for out in outs)
        steps = [add(call, a, b, out) for out in outs]
    for step, made in steps:
        call.lib.aclDestroyAclOpExecutor(step.executor)
        destroy(call, made)


def run(libraries, body, **environment):
    """A process of its own, with options of its own."""
    script = "\n".join(["import sys, torch", f"sys.path.insert(0, {os.path.dirname(__file__)!r})",
                        "from nn_client import Client", f"call = Client({str(libraries)!r})", body])
    return subprocess.run([sys.executable, "-c", script], env={**os.environ, **environment}, text=True, timeout=1200,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_a_kernel_failure_stops_its_stream_until_it_is_told(libraries):
    done = run(libraries, """
x = torch.ones(3)
codes = []
for _ in range(2):
    try:
        call("aclnnIndexSelect", x, 0, torch.tensor([7]), torch.empty(1))
    except RuntimeError as error:
        print(error)
import ctypes
other = ctypes.c_void_p()
call.check(call.acl.aclrtCreateStream(ctypes.byref(other)), "create")
call.stream = other
call("aclnnNeg", x, x)
print("other stream", x.tolist())
""")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(str(KERNEL_FAILED)) == 2
    assert "aclnnIndexSelect(self=Float[3]" in done.stdout and "out of range" in done.stdout
    assert "other stream [-1.0, -1.0, -1.0]" in done.stdout


def test_noop_computes_nothing(libraries):
    done = run(libraries, "x = torch.ones(3); call('aclnnNeg', x, x); print(x.tolist())", SOFTCANN_NOOP="1")
    assert done.returncode == 0 and "[1.0, 1.0, 1.0]" in done.stdout, done.stdout


@pytest.mark.alone   # counts page faults
def test_temporaries_of_kernels_do_not_fault_again_and_again(libraries):
    done = run(libraries, """
import resource
x, out = torch.ones(1 << 22), torch.empty(1 << 22, dtype=torch.bool)
call("aclnnIsFinite", x, out)   # needs a temporary of 16 MiB, 4096 pages
faults = []
for _ in range(10):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    call("aclnnIsFinite", x, out)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print("faults", min(faults))   # the machine may have taken pages away now and then
""")
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.split("faults")[1]) < 200, done.stdout


def test_submitting_threads_keep_their_own_number_of_threads(libraries):
    done = run(libraries, """
x, y = torch.ones(1 << 22), torch.ones(1 << 22)
torch.set_num_threads(2)
call("aclnnMul", x, y, x)
torch.set_num_threads(1)
call("aclnnMul", x, y, x)
print("threads", torch.get_num_threads())
""")
    assert done.returncode == 0 and "threads 1" in done.stdout, done.stdout
