"""Single operators from their models: atc --singleop, aclopSetModelDir, aclopLoad, aclopExecuteV2, handles, casts, products."""
import json

import numpy as np
import pytest
from test_op import ND, described

FLOAT, HALF, INT32, NOT_FOUND = 0, 1, 3, 100024
NUMBERS = {np.dtype(np.float32): FLOAT, np.dtype(np.float16): HALF, np.dtype(np.int32): INT32}
NAMES = {FLOAT: "float", HALF: "float16", INT32: "int32"}


def desc(kind, shape, **more):
    return {"format": "ND", "shape": list(shape), "type": NAMES[kind], **more}


@pytest.fixture
def folder(acl, tmp_path):
    """make(entries...): a folder with their models, loaded."""
    pytest.importorskip("onnx", reason="softcann[atc] is not installed")
    from softcann.atc.cli import main

    def make(*entries):
        (tmp_path / "ops.json").write_text(json.dumps(entries))
        assert main([f"--singleop={tmp_path}/ops.json", f"--output={tmp_path}/ops", f"--soc_version={acl.get_soc_name()}"]) == 0
        assert acl.op.set_model_dir(str(tmp_path / "ops")) == 0, acl.get_recent_err_msg()
        return tmp_path / "ops"
    return make


def numbers(acl, buffer, like):
    found = np.empty_like(like)
    address = acl.get_data_buffer_addr(buffer)
    assert acl.rt.memcpy(acl.util.numpy_to_ptr(found), found.nbytes, address, found.nbytes, 2) == 0
    return found


def execute(acl, name, inputs, output, attr=None):
    """The output's numbers, or the code."""
    stream, attr = acl.rt.create_stream()[0], attr or acl.op.create_attr()
    given = [described(acl, one, NUMBERS[one.dtype]) for one in inputs]
    made = described(acl, output, NUMBERS[output.dtype])
    ret = acl.op.execute_v2(name, [one for one, _ in given], [one for _, one in given], [made[0]], [made[1]], attr, stream)
    if ret == 0:
        assert acl.rt.synchronize_stream(stream) == 0, acl.get_recent_err_msg()
    result = numbers(acl, made[1], output) if ret == 0 else ret
    assert acl.rt.destroy_stream(stream) == 0 and acl.op.destroy_attr(attr) == 0
    return result


A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 0.5, np.float32)


def test_an_operator_runs_as_its_model_says(acl, folder):
    assert execute(acl, "Sub", [A, B], A * 0) == NOT_FOUND
    text = acl.get_recent_err_msg()
    assert "Sub(0[2,3],0[2,3])" in text and "--singleop" in text
    folder({"op": "Sub", "input_desc": [desc(FLOAT, A.shape)] * 2, "output_desc": [desc(FLOAT, A.shape)]})
    assert np.array_equal(execute(acl, "Sub", [A, B], A * 0), A - B)
    assert execute(acl, "Sub", [A[:1].copy(), B[:1].copy()], A[:1] * 0) == NOT_FOUND
    attr = acl.op.create_attr()
    assert acl.op.set_attr_int(attr, "more", 1) == 0
    assert execute(acl, "Sub", [A, B], A * 0, attr) == NOT_FOUND and "more=i:1" in acl.get_recent_err_msg()


def test_attributes_choose_the_model(acl, folder):
    """An operator that ONNX has not in this form: libopapi runs it."""
    attrs = [{"name": "transpose_x1", "type": "bool", "value": True}, {"name": "transpose_x2", "type": "bool", "value": False}]
    folder({"op": "MatMulV2", "input_desc": [desc(FLOAT, A.shape)] * 2, "output_desc": [desc(FLOAT, (3, 3))], "attr": attrs})
    attr = acl.op.create_attr()
    assert acl.op.set_attr_bool(attr, "transpose_x1", True) == 0 and acl.op.set_attr_bool(attr, "transpose_x2", False) == 0
    assert np.array_equal(execute(acl, "MatMulV2", [A, B], np.zeros((3, 3), np.float32), attr), A.T @ B)
    assert execute(acl, "MatMulV2", [A, B], np.zeros((3, 3), np.float32)) == NOT_FOUND


def test_a_program_runs_what_libopapi_has_not(acl, folder):
    shape = (2, 4)
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(shape)
    folder({"op": "HardSwish", "input_desc": [desc(FLOAT, shape)], "output_desc": [desc(FLOAT, shape)]},
           {"op": "Shrink", "input_desc": [desc(FLOAT, (-1, 4))], "output_desc": [desc(FLOAT, (-1, 4))],
            "attr": [{"name": "lambd", "type": "float", "value": 0.3}, {"name": "bias", "type": "float", "value": 0.1}]})
    assert np.allclose(execute(acl, "HardSwish", [x], x * 0), x * np.clip(x / 6 + 0.5, 0, 1), rtol=1e-6)
    attr = acl.op.create_attr()
    assert acl.op.set_attr_float(attr, "lambd", 0.3) == 0 and acl.op.set_attr_float(attr, "bias", 0.1) == 0
    wanted = np.where(x < -0.3, x + 0.1, np.where(x > 0.3, x - 0.1, 0))
    assert np.allclose(execute(acl, "Shrink", [x], x * 0, attr), wanted, rtol=1e-6)


def test_casts_and_handles(acl, folder):
    x = np.array([1.5, -2.5, 3], np.float32)
    folder({"op": "Cast", "input_desc": [desc(FLOAT, [3])], "output_desc": [desc(INT32, [3])],
            "attr": [{"name": "truncate", "type": "bool", "value": False}, {"name": "dst_type", "type": "int", "value": INT32}]},
           {"op": "Mul", "input_desc": [desc(FLOAT, [3])] * 2, "output_desc": [desc(FLOAT, [3])]})
    stream = acl.rt.create_stream()[0]
    (x_desc, x_buffer), (y_desc, y_buffer) = described(acl, x, FLOAT), described(acl, np.zeros(3, np.int32), INT32)
    assert acl.op.cast(x_desc, x_buffer, y_desc, y_buffer, 0, stream) == 0, acl.get_recent_err_msg()
    assert acl.rt.synchronize_stream(stream) == 0 and numbers(acl, y_buffer, np.zeros(3, np.int32)).tolist() == [1, -2, 3]
    assert acl.op.cast(x_desc, x_buffer, y_desc, y_buffer, 1, stream) == NOT_FOUND
    z_desc, z_buffer = described(acl, x * 0, FLOAT)
    handle, ret = acl.op.create_handle("Mul", [x_desc, x_desc], [z_desc], 0)
    assert ret == 0, acl.get_recent_err_msg()
    assert acl.op.execute_with_handle(handle, [x_buffer, x_buffer], [z_buffer], stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0 and np.array_equal(numbers(acl, z_buffer, x), x * x)
    assert acl.op.execute_with_handle(handle, [x_buffer], [z_buffer], stream) == 100021   # ACL_ERROR_OP_INPUT_NOT_MATCH
    acl.op.destroy_handle(handle)
    assert acl.op.create_handle("Mul", [x_desc], [z_desc], 0)[1] == NOT_FOUND


def test_products_of_matrices(acl, folder):
    shapes = [(4, 3), (3, 2), (4, 2), (), ()]
    attrs = [{"name": name, "type": "bool", "value": False} for name in ("transpose_a", "transpose_b")]
    folder({"op": "GEMM", "input_desc": [desc(HALF, one) for one in shapes], "output_desc": [desc(HALF, (4, 2))], "attr": attrs})
    a, b, c = (np.arange(np.prod(one), dtype=np.float16).reshape(one) for one in shapes[:3])
    alpha, beta = np.float16(0.5), np.float16(2)
    places = [acl.get_data_buffer_addr(described(acl, np.atleast_1d(one), HALF)[1]) for one in (a, b, c, alpha, beta)]
    stream = acl.rt.create_stream()[0]

    def product(n):
        return acl.blas.gemm_ex(0, 0, 0, 4, n, 3, places[3], places[0], -1, HALF, places[1], -1, HALF, places[4], places[2], -1, HALF, 0, stream)
    assert product(2) == 0, acl.get_recent_err_msg()
    assert acl.rt.synchronize_stream(stream) == 0
    found = np.empty_like(c)
    assert acl.rt.memcpy(acl.util.numpy_to_ptr(found), c.nbytes, places[2], c.nbytes, 2) == 0
    assert np.array_equal(found, (0.5 * (a.astype(np.float32) @ b) + 2 * c).astype(np.float16))
    assert product(1) == NOT_FOUND and product(0) == 100000


def test_what_is_no_model_of_an_operator(acl, folder, fixed_model, tmp_path):
    made = folder({"op": "Neg", "input_desc": [desc(FLOAT, [3])], "output_desc": [desc(FLOAT, [3])]})
    data = next(made.glob("*.om")).read_bytes()
    assert acl.op.load(acl.util.bytes_to_ptr(data), len(data)) == 0
    assert acl.op.load(acl.util.bytes_to_ptr(data), len(data) - 9) != 0
    with open(fixed_model, "rb") as file:
        whole = file.read()
    assert acl.op.load(acl.util.bytes_to_ptr(whole), len(whole)) != 0 and "aclmdlLoadFromFile" in acl.get_recent_err_msg()
    assert acl.op.set_model_dir(str(tmp_path / "none")) == 100003   # ACL_ERROR_INVALID_FILE


def test_versions_and_descriptions(acl):
    assert acl.get_version() == (1, 17, 0, 0)
    one = acl.create_tensor_desc(FLOAT, [2, 3, 4, -1], 0)
    assert [acl.get_tensor_desc_dim(one, index) for index in (0, 3, 4)] == [2, -1, -1]
    assert ND == 2 and acl.destroy_tensor_desc(one) == 0
