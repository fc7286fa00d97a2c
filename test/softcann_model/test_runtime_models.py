"""Models without the adapter: loading, describing, running, through the C interface alone."""
import ctypes
import threading

import pytest
import torch
import torch.nn.functional as F
from model_client import Dims, Error, Loaded
from om_writer import om, operator

PARAM_INVALID, MODEL_ID_INVALID, PATH_INVALID, MODEL_EXECUTE = 145000, 145003, 145002, 507011


def linear_model(weight, bias):
    return om([dict(inputs=["v0 x float32 ND 4,3"], outputs=["v3 probability%20of%20it float32 ND 4,5"],
                    ops=[operator("aten::linear", ["t:v0", "t:w", "t:b"], ["v2"], ["v0"]),
                         operator("aten::_softmax", ["t:v2", "i:-1", "b:0"], ["v3"], ["v2"])],
                    workspace_bytes=4096)], {"w": weight, "b": bias})


@pytest.fixture
def weights():
    return torch.randn(5, 3), torch.randn(5)


@pytest.fixture
def file(tmp_path, weights):
    path = tmp_path / "tiny.om"
    path.write_bytes(linear_model(*weights))
    return path


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("from_memory", [False, True])
def test_a_model_runs(acl, file, weights, asynchronous, from_memory):
    model = Loaded(acl, file.read_bytes() if from_memory else file)
    x = torch.randn(4, 3)
    for _ in range(2):
        assert torch.allclose(model(x, asynchronous=asynchronous), F.softmax(F.linear(x, *weights), -1), atol=1e-6)
    acl.aclmdlUnload(model.id)


def test_a_model_is_described(acl, file):
    model = Loaded(acl, file)
    assert acl.aclmdlGetNumInputs(model.desc) == acl.aclmdlGetNumOutputs(model.desc) == 1
    assert acl.aclmdlGetInputNameByIndex(model.desc, 0) == b"x"
    assert acl.aclmdlGetOutputNameByIndex(model.desc, 0) == b"probability of it"
    assert model.dims("aclmdlGetInputDims", 0) == model.dims("aclmdlGetInputDimsV2", 0) == [4, 3]
    assert model.dims("aclmdlGetOutputDims", 0) == model.dims("aclmdlGetCurOutputDims", 0) == [4, 5]
    assert acl.aclmdlGetInputSizeByIndex(model.desc, 0) == 48 and acl.aclmdlGetOutputSizeByIndex(model.desc, 0) == 80
    assert acl.aclmdlGetInputDataType(model.desc, 0) == 0 and acl.aclmdlGetInputFormat(model.desc, 0) == 2
    index = ctypes.c_size_t(7)
    acl.aclmdlGetInputIndexByName(model.desc, b"x", ctypes.byref(index))
    assert index.value == 0
    with pytest.raises(Error, match="has no output 'y'"):
        acl.aclmdlGetOutputIndexByName(model.desc, b"y", ctypes.byref(index))
    assert acl.aclmdlGetOpAttr(model.desc, b"linear_0", b"kernel") == b"aten::linear"
    with pytest.raises(Error, match="input 1 of 1"):
        model.dims("aclmdlGetInputDims", 1)


def test_a_description_comes_from_a_file_without_loading(acl, file):
    described = acl.aclmdlCreateDesc()
    acl.aclmdlGetDescFromFile(described, str(file).encode())
    assert acl.aclmdlGetNumInputs(described) == 1 and acl.aclmdlGetOutputSizeByIndex(described, 0) == 80
    data = file.read_bytes()
    acl.aclmdlGetDescFromMem(described, data, len(data))
    assert acl.aclmdlGetInputNameByIndex(described, 0) == b"x"
    acl.aclmdlDestroyDesc(described)


def test_sizes_and_the_callers_memory(acl, file, weights):
    work, weight = ctypes.c_size_t(), ctypes.c_size_t()
    acl.aclmdlQuerySize(str(file).encode(), ctypes.byref(work), ctypes.byref(weight))
    assert (work.value, weight.value) == (4096, 128)
    data = file.read_bytes()
    acl.aclmdlQuerySizeFromMem(data, len(data), ctypes.byref(work), ctypes.byref(weight))
    assert (work.value, weight.value) == (4096, 128)
    number = ctypes.c_uint32()
    work_at, weight_at = acl.malloc(4096), acl.malloc(128)
    acl.aclmdlLoadFromFileWithMem(str(file).encode(), ctypes.byref(number), work_at, 4096, weight_at, 128)
    acl.aclmdlUnload(number.value)
    with pytest.raises(Error, match="needs 4096 bytes of work memory, 64 are given"):
        acl.aclmdlLoadFromFileWithMem(str(file).encode(), ctypes.byref(number), work_at, 64, weight_at, 128)


def test_the_model_lives_until_its_runs_are_done(acl, file, weights):
    model = Loaded(acl, file)
    x = torch.randn(4, 3)
    inputs, outputs = model.input_set([x]), model.output_set()
    acl.aclmdlExecuteAsync(model.id, inputs, outputs, acl.stream)
    acl.aclmdlUnload(model.id)
    file.unlink()
    acl.aclrtSynchronizeStream(acl.stream)
    assert torch.allclose(model.read(outputs, 0), F.softmax(F.linear(x, *weights), -1), atol=1e-6)
    with pytest.raises(Error) as failed:
        acl.aclmdlExecute(model.id, inputs, outputs)
    assert failed.value.code == MODEL_ID_INVALID


def test_what_does_not_fit_is_refused(acl, file):
    model = Loaded(acl, file)
    with pytest.raises(Error, match="the dataset has 0"):
        acl.aclmdlExecute(model.id, acl.dataset([]), model.output_set())
    small = acl.dataset([(acl.malloc(47), 47)])
    with pytest.raises(Error, match="input 'x' needs 48 bytes, its buffer has 47"):
        acl.aclmdlExecute(model.id, small, model.output_set())
    freed, outputs = acl.malloc(1 << 20), model.output_set()
    acl.aclrtFree(freed)
    with pytest.raises(Error, match="is not allocated"):
        acl.aclmdlExecute(model.id, acl.dataset([(freed, 48)]), outputs)
    with pytest.raises(Error, match="output 'probability of it' needs 80 bytes, its buffer has 40"):
        acl.aclmdlExecute(model.id, model.input_set([torch.zeros(4, 3)]), model.output_set([40]))


def test_a_failing_operator_is_named(acl):
    data = om([dict(inputs=["v0 x float32 ND 4"], outputs=["v1 y float32 ND 4"],
                    ops=[operator("aten::mm", ["t:v0", "t:v0"], ["v1"], name="the_product")])])
    model = Loaded(acl, data)
    for asynchronous in (False, True):
        with pytest.raises(Error, match="operator 'the_product' \\(Mm, aten::mm\\)") as failed:
            model(torch.zeros(4), asynchronous=asynchronous)
        assert failed.value.code == (161002 if asynchronous else MODEL_EXECUTE)
    # The stream goes on.
    ones = torch.ones(4)
    assert torch.equal(Loaded(acl, om([dict(inputs=["v0 x float32 ND 4"], outputs=["v1 y float32 ND 4"],
                                             ops=[operator("aten::neg", ["t:v0"], ["v1"])])]))(ones, asynchronous=True), -ones)


def test_arguments_of_every_kind(acl):
    x = torch.randn(2, 6)
    ops = [operator("aten::split_with_sizes", ["t:v0", "I:2,4", "i:1"], ["v1", "v2"]),
           operator("aten::cat", ["T:v2,v1", "i:1"], ["v3"]),
           operator("aten::_shape_as_tensor", ["t:v0"], ["v4"]),
           operator("aten::prod", ["t:v4"], ["v5"]),
           operator("aten::reshape", ["t:v3", "I:@v5"], ["v6"]),
           operator("aten::reshape", ["t:v6", "I@v4"], ["v7"]),
           operator("aten::add.Tensor", ["t:v7", "t:c"], ["v8"]),
           operator("aten::mul.Scalar", ["t:v8", "f:0x1.8p+1"], ["v9"]),
           operator("aten::index.Tensor", ["t:v9", "T:-,i"], ["v10"]),
           operator("aten::sum.dim_IntList", ["t:v10", "i:1", "b:1", "d:7"], ["v11"]),
           operator("aten::clamp", ["t:v11", "n", "f:inf"], ["v12"]),
           operator("aten::gelu", ["t:v12", "s:tanh"], ["v13"])]
    data = om([dict(inputs=["v0 x float32 ND 2,6"], outputs=["v13 y float64 ND 2,1", "v2 part float32 ND 2,4"], ops=ops)],
              {"c": torch.tensor(2.0), "i": torch.tensor([0, 3, 5])})
    y, part = Loaded(acl, data)(x)
    rolled = ((torch.cat([x[:, 2:], x[:, :2]], 1) + 2) * 3)[:, [0, 3, 5]]
    assert torch.allclose(y, F.gelu(rolled.sum(1, True, dtype=torch.float64), approximate="tanh")) and torch.equal(part, x[:, 2:])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.float64], ids=str)
def test_dtypes_pass_through(acl, dtype):
    name = str(dtype).partition(".")[2]
    x = (torch.randn(3, 5) * 4).to(dtype)
    data = om([dict(inputs=[f"v0 x {name} ND 3,5"], outputs=[f"v1 y {name} ND 5,3"],
                    ops=[operator("aten::transpose.int", ["t:v0", "i:0", "i:1"], ["v1"])])])
    assert torch.equal(Loaded(acl, data)(x), x.t())


def test_a_constant_and_an_input_can_be_outputs(acl):
    data = om([dict(inputs=["v0 x int64 ND 2"], outputs=["v0 same int64 ND 2", "c fixed int64 ND -"], ops=[])], {"c": torch.tensor(7)})
    same, fixed = Loaded(acl, data)(torch.tensor([1, 2]))
    assert same.tolist() == [1, 2] and fixed.item() == 7


def test_threads_run_one_model(acl, file, weights):
    model, wrong = Loaded(acl, file), []

    def run(seed):
        acl.aclrtSetDevice(0)
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))
        for _ in range(20):
            if not torch.allclose(model(x), F.softmax(F.linear(x, *weights), -1), atol=1e-6):
                wrong.append(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_open_model_says_what_it_made(acl):
    data = om([dict(inputs=["v0 x float32 ND -1,3"], outputs=["v1 y float32 ND -1,3"], shape_range=["v0 1~8,3~3"],
                    ops=[operator("aten::cat", ["T:v0,v0"], ["v1"])])])
    model = Loaded(acl, data)
    x = torch.randn(2, 3)
    assert model.dims("aclmdlGetInputDims", 0) == [-1, 3] and acl.aclmdlGetOutputSizeByIndex(model.desc, 0) == 0
    for asynchronous in (False, True):
        assert torch.equal(model(x, described=True, sizes=[1000], asynchronous=asynchronous), torch.cat([x, x]))
        # The client may leave the memory of such an output to the run.
        assert torch.equal(model(x, described=True, sizes=[0], asynchronous=asynchronous), torch.cat([x, x]))
    with pytest.raises(Error, match="has 10"):
        model(x, described=True, sizes=[10])
    with pytest.raises(Error, match="aclmdlSetDatasetTensorDesc"):
        model(x, sizes=[1000])
    with pytest.raises(Error, match="aclmdlSetDatasetTensorDesc"):
        model(torch.randn(9, 3), described=True, sizes=[1000])
    ranges = (ctypes.c_int64 * 257)()
    acl.aclmdlGetInputDimsRange(model.desc, 0, ctypes.byref(ranges))
    assert ranges[:5] == [2, 1, 8, 3, 3]


def test_long_names_have_short_ones(acl):
    long = "n" * 200
    model = Loaded(acl, om([dict(inputs=[f"v0 {long} float32 ND 1"], outputs=["v0 y float32 ND 1"], ops=[])]))
    dims = Dims()
    acl.aclmdlGetInputDims(model.desc, 0, ctypes.byref(dims))
    assert len(dims.name) < 128
    assert acl.aclmdlGetTensorRealName(model.desc, dims.name) == acl.aclmdlGetInputNameByIndex(model.desc, 0) == long.encode()


def test_refusals_are_coded(acl, file):
    number = ctypes.c_uint32()
    with pytest.raises(Error, match="cannot be opened") as failed:
        acl.aclmdlLoadFromFile(b"/nowhere/to/be.om", ctypes.byref(number))
    assert failed.value.code == PATH_INVALID
    with pytest.raises(Error, match="queues"):
        acl.aclmdlLoadFromFileWithQ(str(file).encode(), ctypes.byref(number), None, 0, None, 0)
