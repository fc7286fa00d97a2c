"""aclruntime: ais_bench's interface, on acl."""
import numpy as np
import pytest
from acl_tools import converted, run_program


@pytest.fixture
def aclruntime(acl):
    import aclruntime
    return aclruntime


def run(session, tensor):
    found, = session.run(["y"], [tensor])
    assert found.device == 0
    found.to_host()
    return np.array(found)


def test_a_fixed_model(aclruntime, fixed_model):
    options = aclruntime.session_options()
    options.loop = 3
    session = aclruntime.InferenceSession(fixed_model, 0, options)
    assert [(one.name, one.shape, one.datatype, one.size) for one in session.get_inputs()] == [("x", [4, 3], aclruntime.dtype.float32, 48)]
    assert [(one.name, one.shape) for one in session.get_outputs()] == [("y", [4, 2])]
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    wanted = x @ np.arange(6, dtype=np.float32).reshape(3, 2) + 1
    tensor = aclruntime.Tensor(x)
    tensor.to_device(0)
    with pytest.raises(RuntimeError, match="to_host"):
        np.array(tensor)
    assert np.array_equal(run(session, tensor), wanted) and len(session.sumary().exec_time_list) == 3
    assert np.array_equal(np.array(_host(session.run([], {"x": aclruntime.Tensor(x)})[0])), wanted)
    other = aclruntime.BaseTensor(tensor._memory.address, tensor.nbytes)   # device memory of the program's
    assert np.array_equal(run(session, other), wanted)
    session.reset_sumaryinfo()
    assert session.sumary().exec_time_list == []
    for wrong in (lambda: session.run(["z"], [tensor]), lambda: session.run(["y"], [])):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(RuntimeError, match="no choice of batch sizes"):
        session.set_dynamic_batchsize(2)
    session.finalize()
    session.finalize()


def _host(tensor):
    tensor.to_host()
    return tensor


def test_dynamic_batch(aclruntime, model):
    session = aclruntime.InferenceSession(str(model[0]), 0, aclruntime.session_options())
    assert [one.name for one in session.get_inputs()] == ["x"]
    for batch in (1, 4):
        x = np.full((batch, 3), batch, np.float32)
        session.set_dynamic_batchsize(batch)
        assert np.array_equal(run(session, aclruntime.Tensor(x)), x @ model[1] + 1)
    session.finalize()


def test_sets_of_sizes_and_open_sizes(aclruntime, tmp_path):
    (tmp_path / "gears").mkdir()
    x = np.ones((5, 3), np.float32)
    path, weight = converted(tmp_path / "gears", "n", input_shape="x:-1,3", input_format="ND", dynamic_dims="2;5")
    session = aclruntime.InferenceSession(path)
    session.set_dynamic_dims("x:5,3")
    assert np.array_equal(run(session, aclruntime.Tensor(x)), x @ weight + 1)
    session.finalize()
    path, weight = converted(tmp_path, "n", input_shape="x:-1,3")
    session = aclruntime.InferenceSession(path)
    session.set_dynamic_shape("x:5,3")
    session.set_custom_outsize([40])
    assert np.array_equal(run(session, aclruntime.Tensor(x)), x @ weight + 1)
    session.finalize()


def test_a_model_that_is_not_there(aclruntime):
    with pytest.raises(RuntimeError, match="145002"):
        aclruntime.InferenceSession("none.om", 0)
    with pytest.raises(TypeError):
        aclruntime.Tensor(np.zeros(1, np.complex64))


def test_memory_of_the_host_and_for_images(aclruntime, fixed_model):
    """Addresses of the host's memory are copied, as ais_bench's own module does; times of the copies are kept."""
    aclruntime.MemorySummary().reset()
    session = aclruntime.model(fixed_model)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    wanted = x @ np.arange(6, dtype=np.float32).reshape(3, 2) + 1
    assert np.array_equal(run(session, aclruntime.BaseTensor(x.ctypes.data, x.nbytes)), wanted)
    picture = aclruntime.Tensor(x)
    picture.to_dvpp(0)
    assert picture.type == aclruntime.type.memory_dvpp and np.array_equal(run(session, picture), wanted)
    with pytest.raises(ValueError, match="memory_dvpp"):
        picture.to_device(1)
    assert [len(found) for found in (aclruntime.MemorySummary().H2D_time_list, aclruntime.MemorySummary().D2H_time_list)] == [2, 2]
    session.finalize()


def test_files_and_batches(aclruntime, fixed_model, tmp_path):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    (tmp_path / "a").write_bytes(x[:1].tobytes())
    (tmp_path / "b").write_bytes(x[1:].tobytes())
    session = aclruntime.InferenceSession(fixed_model)
    desc, = session.get_inputs()
    made = session.create_tensor_from_fileslist(desc, [str(tmp_path / "a"), str(tmp_path / "b")])
    assert (made.shape, made.device) == ([4, 3], 0) and np.array_equal(np.array(_host(made)), x)
    with pytest.raises(ValueError, match="48 bytes, and the files 12"):
        session.create_tensor_from_fileslist(desc, [str(tmp_path / "a")])
    rows = [aclruntime.Tensor(x[:1]), aclruntime.Tensor(x[1:2])]
    assert np.array_equal(np.array(aclruntime.batch(rows, keep_dims=True)), x[:2])
    assert aclruntime.batch(rows).shape == [2, 1, 3]
    assert f"{desc.datatype} {int(desc.datatype)}" == "dtype.float32 0"
    session.finalize()


def test_bytes_of_what_was_chosen(aclruntime, model, tmp_path):
    session = aclruntime.InferenceSession(str(model[0]))
    assert [(one.size, one.realsize) for one in session.get_inputs()] == [(48, 48)]
    session.set_dynamic_batchsize("1")
    assert [(one.size, one.realsize) for one in session.get_inputs()] == [(48, 12)]
    session.set_staticbatch()
    assert session.get_inputs()[0].realsize == 48
    session.finalize()
    session = aclruntime.InferenceSession(converted(tmp_path, "n", input_shape="x:-1,3")[0])
    session.set_dynamic_shape("x:5,3")
    assert [(one.size, one.realsize) for one in session.get_inputs()] == [(0, 60)]
    session.finalize()


def test_a_program_that_ends_with_all_open(acl, fixed_model, tmp_path):
    code = ("import sys, numpy as np, aclruntime; s = aclruntime.InferenceSession(sys.argv[1]); "
            "t = aclruntime.Tensor(np.ones((4, 3), np.float32)); o = s.run(['y'], [t]); print(o[0].shape)")
    done = run_program(tmp_path, "-c", code, fixed_model)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[4, 2]\n", "")


def test_float8_inside_of_a_model(aclruntime, tmp_path):
    onnx = pytest.importorskip("onnx", reason="softcann[atc] is not installed")
    from softcann import atc

    make, kinds = onnx.helper, onnx.TensorProto
    nodes = [make.make_node("Cast", ["x"], ["small"], to=kinds.FLOAT8E4M3FN), make.make_node("Cast", ["small"], ["y"], to=kinds.FLOAT)]
    graph = make.make_graph(nodes, "g", [make.make_tensor_value_info("x", kinds.FLOAT, [6])],
                            [make.make_tensor_value_info("y", kinds.FLOAT, [6])])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 19)], ir_version=9), tmp_path / "m.onnx")
    session = aclruntime.InferenceSession(atc.convert(tmp_path / "m.onnx", tmp_path / "m", precision_mode_v2="origin"))
    x = np.array([1.07, -3.3, 17, 1000, -np.inf, 0.0015], np.float32)
    assert run(session, aclruntime.Tensor(x)).tolist() == [1.125, -3.25, 16.0, 448.0, -448.0, 2.0**-9]
    session.finalize()
