"""Models for several sizes (gears), and control flow."""
import ctypes

import pytest
import torch
from model_client import GEAR_INPUT, Dims, Error, Loaded
from om_writer import om, operator

NOT_DYNAMIC, BATCH_INVALID = 100019, 145013


def doubled(dims, **gears):
    return om([dict(inputs=[f"v0 x float32 NCHW {dims}"], outputs=[f"v1 y float32 ND {dims}"],
                    ops=[operator("aten::add.Tensor", ["t:v0", "t:v0"], ["v1"])], **gears)])


def run(acl, model, x, inputs):
    outputs = model.output_set()
    acl.aclmdlExecute(model.id, inputs, outputs)
    assert torch.equal(model.read(outputs, 0), 2 * x)


@pytest.mark.parametrize("known", [{}, {"gear_outputs": ["1,3", "4,3"]}], ids=["found out", "in the file"])
def test_dynamic_batch(acl, known):
    model = Loaded(acl, doubled("-1,3", dynamic_batch=[1, 4], **known))
    assert acl.aclmdlGetNumInputs(model.desc) == 2 and acl.aclmdlGetInputNameByIndex(model.desc, 1) == GEAR_INPUT
    assert model.dims("aclmdlGetInputDims", 0) == [-1, 3] and model.dims("aclmdlGetInputDims", 1) == [1]
    assert acl.aclmdlGetInputSizeByIndex(model.desc, 0) == acl.aclmdlGetOutputSizeByIndex(model.desc, 0) == 48
    assert model.dims("aclmdlGetOutputDims", 0) == model.dims("aclmdlGetCurOutputDims", 0) == [4, 3]   # the largest until one is set
    batches = (ctypes.c_uint64 * 129)()
    acl.aclmdlGetDynamicBatch(model.desc, ctypes.byref(batches))
    assert batches[:3] == [2, 1, 4]
    index = ctypes.c_size_t()
    acl.aclmdlGetInputIndexByName(model.desc, GEAR_INPUT, ctypes.byref(index))
    for size in (4, 1):
        x = torch.randn(size, 3)
        inputs = model.input_set([x], gear=True)
        acl.aclmdlSetDynamicBatchSize(model.id, inputs, index.value, size)
        assert model.dims("aclmdlGetCurOutputDims", 0) == [size, 3] and model.dims("aclmdlGetOutputDims", 0) == [4, 3]
        run(acl, model, x, inputs)
    with pytest.raises(Error, match="was not made for 2, but for 1; 4") as failed:
        acl.aclmdlSetDynamicBatchSize(model.id, inputs, index.value, 2)
    assert failed.value.code == BATCH_INVALID
    with pytest.raises(Error, match="set its size"):
        acl.aclmdlExecute(model.id, model.input_set([x], gear=True), model.output_set())
    with pytest.raises(Error, match="dynamic_image_size") as failed:
        acl.aclmdlSetDynamicHWSize(model.id, inputs, index.value, 2, 2)
    assert failed.value.code == NOT_DYNAMIC


def test_dynamic_image_size(acl):
    model = Loaded(acl, doubled("1,3,-1,-1", dynamic_image=["4,6", "8,8"]))
    sizes = (ctypes.c_uint64 * 257)()
    acl.aclmdlGetDynamicHW(model.desc, ctypes.c_size_t(-1), ctypes.byref(sizes))
    assert sizes[:5] == [2, 4, 6, 8, 8]
    assert acl.aclmdlGetOutputSizeByIndex(model.desc, 0) == 3 * 64 * 4 and model.dims("aclmdlGetInputDims", 1) == [2]
    x = torch.randn(1, 3, 4, 6)
    inputs = model.input_set([x], gear=True)
    acl.aclmdlSetDynamicHWSize(model.id, inputs, 1, 4, 6)
    run(acl, model, x, inputs)


def test_dynamic_dims_of_several_inputs(acl):
    data = om([dict(inputs=["v0 a float32 ND -1,3", "v1 b float32 ND 2,-1"], outputs=["v2 y float32 ND -1,-1"],
                    ops=[operator("aten::transpose.int", ["t:v0", "i:0", "i:1"], ["v3"]),
                         operator("aten::slice.Tensor", ["t:v3", "i:0", "i:0", "i:2"], ["v4"]),
                         operator("aten::cat", ["T:v4,v1", "i:1"], ["v2"])], dynamic_dims=["4,1", "2,5"])])
    model = Loaded(acl, data)
    count = ctypes.c_size_t()
    acl.aclmdlGetInputDynamicGearCount(model.desc, ctypes.c_size_t(-1), ctypes.byref(count))
    gears = (Dims * count.value)()
    acl.aclmdlGetInputDynamicDims(model.desc, ctypes.c_size_t(-1), gears, count.value)
    assert [gear.list() for gear in gears] == [[4, 3, 2, 1], [2, 3, 2, 5]]
    a, b = torch.randn(2, 3), torch.randn(2, 5)
    inputs = model.input_set([a, b], gear=True)
    acl.aclmdlSetInputDynamicDims(model.id, inputs, 2, ctypes.byref(gears[1]))
    assert model.dims("aclmdlGetCurOutputDims", 0) == [2, 7]
    outputs = model.output_set()
    acl.aclmdlExecute(model.id, inputs, outputs)
    assert torch.equal(model.read(outputs, 0), torch.cat([a.t()[:2], b], 1))


def test_if(acl):
    data = om([dict(inputs=["v0 x float32 ND 3"], outputs=["v9 y float32 ND 3"],
                    ops=[operator("aten::sum", ["t:v0"], ["v1"]), operator("aten::gt.Scalar", ["t:v1", "i:0"], ["v2"]),
                         operator("softcann::if", ["t:v2", "i:1", "i:2"], ["v9"])]),
               dict(inputs=[], outputs=["v3 t float32 ND 3"], ops=[operator("aten::neg", ["t:v0"], ["v3"])]),
               dict(inputs=[], outputs=["v0 e float32 ND 3"], ops=[])])
    model = Loaded(acl, data)
    for x in (torch.ones(3), -torch.ones(3)):
        assert torch.equal(model(x), -torch.ones(3))


@pytest.mark.parametrize("trips, condition", [("i:4", "n"), ("n", "t:yes"), ("t:trips", "b:1")])
def test_loop(acl, trips, condition):
    """Powers of two until there are four of them, or one is 16."""
    body = dict(inputs=["v10 i int64 ND -", "v11 c bool ND -", "v12 s float32 ND 2"],
                outputs=["v14 c bool ND -", "v13 s float32 ND 2", "v15 row float32 ND -"],
                ops=[operator("aten::add.Tensor", ["t:v12", "t:v12"], ["v13"]), operator("aten::sum", ["t:v13"], ["v15"]),
                     operator("aten::lt.Scalar", ["t:v15", "i:32"], ["v14"])])
    data = om([dict(inputs=["v0 x float32 ND 2"], outputs=["v1 y float32 ND 2", "v2 rows float32 ND 4"],
                    ops=[operator("softcann::loop", [trips, condition, "i:1", "T:v0"], ["v1", "v2"])]), body],
              {"yes": torch.tensor(True), "trips": torch.tensor(4)})
    y, rows = Loaded(acl, data)(torch.ones(2))
    assert y.tolist() == [16, 16] and rows.tolist() == [4, 8, 16, 32]


def test_scan_backwards_along_an_axis(acl):
    body = dict(inputs=["v10 s float32 ND 3", "v11 x float32 ND 3"], outputs=["v12 s float32 ND 3", "v12 o float32 ND 3"],
                ops=[operator("aten::add.Tensor", ["t:v10", "t:v11"], ["v12"])])
    data = om([dict(inputs=["v0 x float32 ND 3,4"], outputs=["v1 y float32 ND 3", "v2 all float32 ND 3,4"],
                    ops=[operator("softcann::scan", ["i:1", "T:zero", "T:v0", "I:1", "I:1", "I:1", "I:1"], ["v1", "v2"])]), body],
              {"zero": torch.zeros(3)})
    x = torch.randn(3, 4)
    total, running = Loaded(acl, data)(x)
    assert torch.allclose(total, x.sum(1), atol=1e-6) and torch.allclose(running, x.flip(1).cumsum(1).flip(1), atol=1e-6)


def test_sequences(acl):
    ops = [operator("softcann::seq_split", ["t:v0", "i:2", "i:0", "b:1"], ["l1"]),
           operator("softcann::seq_insert", ["L:l1", "t:v0", "i:-1"], ["l2"]),
           operator("softcann::seq_erase", ["L:l2", "i:0"], ["l3"]),
           operator("softcann::seq_at", ["L:l3", "i:-1"], ["v1"]),
           operator("softcann::seq_length", ["L:l3"], ["v2"]),
           operator("aten::cat", ["L:l3"], ["v3"])]
    data = om([dict(inputs=["v0 x float32 ND 5"], outputs=["v1 last float32 ND 1", "v2 n int64 ND -", "v3 all float32 ND 8"], ops=ops)])
    x = torch.randn(5)
    last, count, joined = Loaded(acl, data)(x)
    assert torch.equal(last, x[4:]) and count.item() == 3 and torch.equal(joined, torch.cat([x[2:4], x, x[4:]]))


def test_non_maximum_suppression(acl):
    boxes = torch.tensor([[[0, 0, 2, 2], [0, 0, 2.1, 2], [5, 5, 6, 6], [5, 5, 6, 6.1]]])
    scores = torch.tensor([[[0.5, 0.9, 0.3, 0.2]]])
    data = om([dict(inputs=["v0 boxes float32 ND 1,4,4", "v1 scores float32 ND 1,1,4"], outputs=["v2 kept int64 ND -1,3"],
                    ops=[operator("softcann::nms", ["t:v0", "t:v1", "i:3", "f:0.5", "f:0.25", "b:0"], ["v2"])])])
    kept = Loaded(acl, data)(boxes, scores, described=True, sizes=[96])
    assert kept.tolist() == [[0, 0, 1], [0, 0, 2]]
