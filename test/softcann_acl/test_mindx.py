"""mindx.sdk, Vision SDK's Python interface: models and tensors."""
import numpy as np
import pytest
from acl_tools import converted, run_program

PROGRAM = """
import sys
import numpy as np
from mindx.sdk import Tensor, base, visionDataFormat
from mindx.sdk.base import Image, ImageProcessor, Model, Size, log, post

assert base.mx_init() == 0
model = base.model(modelPath=sys.argv[1], deviceId=0)
assert (model.input_num, model.output_num, model.input_shape(0), model.output_shape(0)) == (1, 1, [4, 3], [4, 2])
assert model.input_dtype(0) == base.dtype.float32 == base.float32 and model.input_format == visionDataFormat.NCHW
output, = model.infer([Tensor(np.ones((4, 3), np.float32))])
assert output.device == 0
output.to_host()
print(np.array(output)[0].tolist())
log.info("done")
del output, model
assert base.mx_deinit() == 0
"""


@pytest.fixture
def base(acl):
    from mindx.sdk import base
    return base


def numbers(tensor):
    tensor.to_host()
    return np.array(tensor)


def test_a_program(fixed_model, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    result = run_program(tmp_path, "program.py", fixed_model)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "[7.0, 10.0]\n"


def test_inputs_are_checked_and_stay_where_they_are(base, fixed_model):
    model, x = base.Model(fixed_model), np.arange(12, dtype=np.float32).reshape(4, 3)
    tensor = base.Tensor(x)
    for _ in range(2):
        assert np.array_equal(numbers(model.infer(tensor)[0]), x @ np.arange(6, dtype=np.float32).reshape(3, 2) + 1)
    assert tensor.device == -1 and tensor.shape == [4, 3] and tensor.dtype == base.dtype.float32
    tensor.to_device(0)
    assert tensor.device == 0 and np.array_equal(numbers(model.infer([tensor])[0])[0], [11, 14])
    for wrong, why in ((base.Tensor(x[:2]), r"is \[4, 3\], not \[2, 3\]"), (base.Tensor(x.astype(np.int32)), "is float32, not int32")):
        with pytest.raises(RuntimeError, match=why):
            model.infer(wrong)
    with pytest.raises(RuntimeError, match="1 inputs, and 2 tensors"):
        model.infer(tensor, tensor)
    with pytest.raises(RuntimeError, match="input 1: the model has 1"):
        model.input_shape(1)
    with pytest.raises(RuntimeError, match="nowhere.om"):
        base.Model("nowhere.om")


def test_the_sizes_of_inputs_choose_the_gear(base, model, tmp_path):
    batches = base.Model(str(model[0]))
    assert batches.model_gear() == [[1], [4]] and batches.input_shape(0) == [-1, 3]
    for rows in (1, 4, 1):
        x = np.full((rows, 3), rows, np.float32)
        assert np.array_equal(numbers(batches.infer(base.Tensor(x))[0]), x @ model[1] + 1)
    with pytest.raises(RuntimeError, match=r"sizes \[2\]; the model was converted for \[\[1\], \[4\]\]"):
        batches.infer(base.Tensor(np.ones((2, 3), np.float32)))
    path, weight = converted(tmp_path, "n", input_shape="x:-1,3", input_format="ND", dynamic_dims="2;5")
    several = base.Model(path)
    x = np.ones((5, 3), np.float32)
    assert several.model_gear() == [[2, 3], [5, 3]] and np.array_equal(numbers(several.infer(base.Tensor(x))[0]), x @ weight + 1)


@pytest.mark.parametrize("own_memory", [False, True])
def test_a_model_of_memory(base, acl, fixed_model, own_memory):
    content = open(fixed_model, "rb").read()
    option = base.ModelLoadOptV2()
    option.loadType = base.load_model_from_mem_with_mem if own_memory else base.load_model_from_mem
    option.modelPtr, option.modelSize = base.bytes_to_ptr(content), len(content)
    if own_memory:
        option.workSize, option.weightSize, ret = acl.mdl.query_size(fixed_model)
        assert ret == 0
        work, weights = base.DeviceMemory(option.workSize), base.DeviceMemory(option.weightSize)
        option.modelWorkPtr, option.modelWeightPtr = work.get_data(), weights.get_data()
    model = base.Model(option, 0)
    assert np.array_equal(numbers(model.infer(base.Tensor(np.ones((4, 3), np.float32)))[0])[0], [7, 10])
    option.modelType = base.model_type_mindir
    with pytest.raises(RuntimeError, match="MindIR is not served"):
        base.Model(option=option)


def test_tensors(base):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert np.array_equal(np.array(base.transpose(base.Tensor(x), [0, 2, 1])), x.transpose(0, 2, 1))
    assert np.array_equal(np.array(base.transpose(base.Tensor(x))), x.transpose())
    tensors = [base.Tensor(x), base.Tensor(x + 1)]
    assert np.array_equal(np.array(base.batch_concat(tensors)), np.concatenate([x, x + 1]))
    for one in tensors:
        one.to_device(0)
    joined = base.batch_concat(tensors)
    assert joined.device == 0 and np.array_equal(numbers(joined), np.concatenate([x, x + 1]))
    tensors[0].set_tensor_value(2.5, base.dtype.float32)
    assert (numbers(tensors[0]) == 2.5).all()
    for wrong in (lambda: base.transpose(tensors[1]), lambda: base.transpose(tensors[0], [0, 0, 1]), lambda: base.batch_concat([]),
                  lambda: base.batch_concat(tensors), lambda: tensors[1].set_tensor_value(1, base.dtype.int32),
                  lambda: tensors[0].set_tensor_value(1, base.dtype.float32)):
        with pytest.raises(RuntimeError):
            wrong()


def test_what_is_not_served_says_what_to_do(base):
    import mindx.sdk

    for module, name, why in ((base, "VideoDecoder", "on the host"), (base.post, "Yolov3PostProcess", "Model.infer"),
                              (mindx.sdk, "StreamManagerApi", "ImageProcessor"), (base, "nothing", "has no attribute")):
        with pytest.raises(AttributeError, match=why):
            getattr(module, name)
