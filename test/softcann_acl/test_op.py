"""acl.op and the gears of models that are neither batch nor picture sizes."""
import numpy as np
import pytest
from acl_tools import converted

FLOAT, INT32, ND, ENGINE_SYS, COMPILE_SYS = 0, 3, 2, 0, 0


def described(acl, array, number):
    """A description and a buffer of device memory with the array's numbers."""
    address, ret = acl.rt.malloc(array.nbytes, 0)
    assert ret == 0 and acl.rt.memcpy(address, array.nbytes, acl.util.numpy_to_ptr(array), array.nbytes, 1) == 0
    return acl.create_tensor_desc(number, array.shape, ND), acl.create_data_buffer(address, array.nbytes)


def test_an_operator_is_compiled_and_run(acl):
    x, y = np.array([1.5, -2.5, 3], np.float32), np.zeros(3, np.int32)
    attr, stream = acl.op.create_attr(), acl.rt.create_stream()[0]
    assert acl.op.set_attr_int(attr, "dst_type", INT32) == 0
    (x_desc, x_buffer), (y_desc, y_buffer) = described(acl, x, FLOAT), described(acl, y, INT32)
    ret = acl.op.compile_and_execute("Cast", [x_desc], [x_buffer], [y_desc], [y_buffer], attr, ENGINE_SYS, COMPILE_SYS, "", stream)
    assert ret == 0, acl.get_recent_err_msg()
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.rt.memcpy(acl.util.numpy_to_ptr(y), y.nbytes, acl.get_data_buffer_addr(y_buffer), y.nbytes, 2) == 0
    assert y.tolist() == [1, -2, 3]
    ret = acl.op.compile_and_execute("Nothing", [x_desc], [x_buffer], [y_desc], [y_buffer], attr, ENGINE_SYS, COMPILE_SYS, "", stream)
    assert ret != 0 and "Nothing" in acl.get_recent_err_msg()
    with pytest.raises(ValueError, match="1 descriptions and 0 buffers"):
        acl.op.compile_and_execute("Cast", [x_desc], [], [y_desc], [y_buffer], attr, ENGINE_SYS, COMPILE_SYS, "", stream)
    for desc, buffer in ((x_desc, x_buffer), (y_desc, y_buffer)):
        assert acl.rt.free(acl.get_data_buffer_addr(buffer)) == 0
        assert acl.destroy_tensor_desc(desc) == 0 and acl.destroy_data_buffer(buffer) == 0
    assert acl.op.destroy_attr(attr) == 0 and acl.rt.destroy_stream(stream) == 0


def test_attributes(acl):
    attr = acl.op.create_attr()
    assert [acl.op.set_attr_bool(attr, "a", True), acl.op.set_attr_float(attr, "b", 0.5), acl.op.set_attr_string(attr, "c", "text"),
            acl.op.set_attr_list_int(attr, "d", np.array([0, 2, 1], np.int32)), acl.op.set_attr_list_float(attr, "e", [0.5]),
            acl.op.set_attr_list_bool(attr, "f", [True, False]), acl.op.set_attr_list_list_int(attr, "g", [[1], [2, 3]])] == [0] * 7
    assert acl.op.destroy_attr(attr) == 0


def test_sets_of_sizes(acl, tmp_path):
    path, weight = converted(tmp_path, "n", input_shape="x:-1,3", input_format="ND", dynamic_dims="2;5")
    model, ret = acl.mdl.load_from_file(path)
    assert ret == 0, acl.get_recent_err_msg()
    desc = acl.mdl.create_desc()
    assert acl.mdl.get_desc(desc, model) == 0
    count, ret = acl.mdl.get_input_dynamic_gear_count(desc, -1)
    assert (count, ret) == (2, 0)
    gears, ret = acl.mdl.get_input_dynamic_dims(desc, -1, count)
    assert ret == 0 and [gear["dims"][:2] for gear in gears] == [[2, 3], [5, 3]]
    x = np.ones((5, 3), np.float32)
    inputs, outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    for dataset, sizes in ((inputs, [acl.mdl.get_input_size_by_index(desc, index) for index in range(acl.mdl.get_num_inputs(desc))]),
                           (outputs, [acl.mdl.get_output_size_by_index(desc, 0)])):
        for size in sizes:
            assert acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(acl.rt.malloc(size, 0)[0], size)) == (dataset, 0)
    address = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(inputs, 0))
    assert acl.rt.memcpy(address, x.nbytes, acl.util.numpy_to_ptr(x), x.nbytes, 1) == 0
    index, ret = acl.mdl.get_input_index_by_name(desc, "ascend_mbatch_shape_data")
    assert ret == 0 and acl.mdl.set_input_dynamic_dims(model, inputs, index, gears[1]) == 0, acl.get_recent_err_msg()
    with pytest.raises(ValueError, match="dimCount"):
        acl.mdl.set_input_dynamic_dims(model, inputs, index, {"name": "", "dimCount": 3, "dims": [5, 3]})
    assert acl.mdl.execute(model, inputs, outputs) == 0, acl.get_recent_err_msg()
    y = np.empty((5, 2), np.float32)
    found = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(outputs, 0))
    assert acl.rt.memcpy(acl.util.numpy_to_ptr(y), y.nbytes, found, y.nbytes, 2) == 0
    assert np.array_equal(y, x @ weight + 1)
    assert acl.mdl.destroy_desc(desc) == 0 and acl.mdl.unload(model) == 0
