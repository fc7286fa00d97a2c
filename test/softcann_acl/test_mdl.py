"""acl.mdl: a model of atc's, run as programs for pyACL do."""
import gc
import threading
import weakref

import numpy as np
import pytest

H2D, D2H = 1, 2


class Loaded:
    """The model with a dataset of device memory for each side."""

    def __init__(self, acl, number):
        self.acl, self.id, self.desc = acl, number, acl.mdl.create_desc()
        assert acl.mdl.get_desc(self.desc, number) == 0
        self.inputs = self.dataset(acl.mdl.get_num_inputs(self.desc), acl.mdl.get_input_size_by_index)
        self.outputs = self.dataset(acl.mdl.get_num_outputs(self.desc), acl.mdl.get_output_size_by_index)

    def dataset(self, count, size_of):
        made = self.acl.mdl.create_dataset()
        for index in range(count):
            size = size_of(self.desc, index)
            address, ret = self.acl.rt.malloc(size, 0)
            assert ret == 0
            assert self.acl.mdl.add_dataset_buffer(made, self.acl.create_data_buffer(address, size)) == (made, 0)
        return made

    def run(self, x, stream=None):
        acl = self.acl
        index, ret = acl.mdl.get_input_index_by_name(self.desc, "ascend_mbatch_shape_data")
        assert ret == 0 and acl.mdl.set_dynamic_batch_size(self.id, self.inputs, index, len(x)) == 0
        room = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(self.inputs, 0))
        assert acl.rt.memcpy(room, x.nbytes, acl.util.bytes_to_ptr(x.tobytes()), x.nbytes, H2D) == 0
        if stream is None:
            assert acl.mdl.execute(self.id, self.inputs, self.outputs) == 0, acl.get_recent_err_msg()
        else:
            assert acl.mdl.execute_async(self.id, self.inputs, self.outputs, stream) == 0
            assert acl.rt.synchronize_stream(stream) == 0
        dims, ret = acl.mdl.get_cur_output_dims(self.desc, 0)
        assert ret == 0
        y = np.empty(dims["dims"], np.float32)
        found = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(self.outputs, 0))
        assert acl.rt.memcpy(acl.util.numpy_to_ptr(y), y.nbytes, found, y.nbytes, D2H) == 0
        return y

    def close(self):
        acl = self.acl
        for dataset in (self.inputs, self.outputs):
            for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
                buffer = acl.mdl.get_dataset_buffer(dataset, index)
                assert acl.rt.free(acl.get_data_buffer_addr(buffer)) == 0 and acl.destroy_data_buffer(buffer) == 0
            assert acl.mdl.destroy_dataset(dataset) == 0
        assert acl.mdl.destroy_desc(self.desc) == 0 and acl.mdl.unload(self.id) == 0


@pytest.fixture
def loaded(acl, model):
    number, ret = acl.mdl.load_from_file(model[0])
    assert ret == 0, acl.get_recent_err_msg()
    one = Loaded(acl, number)
    yield one
    one.close()


def test_descriptions(acl, loaded):
    desc = loaded.desc
    assert acl.mdl.get_input_dims(desc, 0) == ({"name": "x", "dimCount": 2, "dims": [-1, 3]}, 0)
    dims, ret = acl.mdl.get_output_dims(desc, 0)
    assert ret == 0 and (dims["name"], dims["dimCount"], dims["dims"][1]) == ("y", 2, 2)
    assert (acl.mdl.get_input_data_type(desc, 0), acl.mdl.get_output_data_type(desc, 0)) == (0, 0)
    assert acl.mdl.get_input_name_by_index(desc, 0) == "x"
    assert acl.mdl.get_dynamic_batch(desc) == ({"batchCount": 2, "batch": [1, 4]}, 0)
    hw, ret = acl.mdl.get_dynamic_hw(desc)
    assert (hw, ret) == ({"hwCount": 0, "hw": []}, 0) or ret != 0
    assert acl.mdl.get_input_index_by_name(desc, "nothing")[1] != 0


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_inference(acl, loaded, model, batch, asynchronous):
    x = np.random.default_rng(0).standard_normal((batch, 3)).astype(np.float32)
    stream = acl.rt.create_stream()[0] if asynchronous else None
    np.testing.assert_allclose(loaded.run(x, stream), x @ model[1] + 1, rtol=1e-5, atol=1e-5)
    if stream:
        assert acl.rt.destroy_stream(stream) == 0


def test_other_ways_to_load(acl, model):
    work, weights, ret = acl.mdl.query_size(model[0])
    assert ret == 0 and weights >= 0 and work >= 0
    with open(model[0], "rb") as file:
        content = file.read()
    config = acl.mdl.create_config_handle()
    assert acl.mdl.set_config_opt(config, 1, 1) == 0 and acl.mdl.set_config_opt(config, 2, str(model[0])) == 0
    gc.collect()
    x = np.ones((1, 3), np.float32)
    for number, ret in (acl.mdl.load_from_mem(acl.util.bytes_to_ptr(content), len(content)), acl.mdl.load_with_config(config)):
        assert ret == 0, acl.get_recent_err_msg()
        one = Loaded(acl, number)
        assert one.run(x).tolist() == (x @ model[1] + 1).tolist()
        one.close()
    assert acl.mdl.destroy_config_handle(config) == 0 and not acl.mdl._paths
    number, ret = acl.mdl.load_from_file("none.om")
    assert ret == 145002 and number == 0
    with pytest.raises(TypeError):
        acl.mdl.load_from_file(3)


def test_a_description_outlives_its_model(acl, model):
    """It answers on, and the unloaded model is not in memory any more."""
    def is_mapped():
        with open("/proc/self/maps") as maps:
            return any(str(model[0]) in line for line in maps)

    number, ret = acl.mdl.load_from_file(model[0])
    desc = acl.mdl.create_desc()
    assert ret == 0 and acl.mdl.get_desc(desc, number) == 0 and is_mapped()
    before = [acl.mdl.get_cur_output_dims(desc, 0), acl.mdl.get_output_size_by_index(desc, 0), acl.mdl.get_input_name_by_index(desc, 0)]
    assert acl.mdl.unload(number) == 0 and not is_mapped()
    assert [acl.mdl.get_cur_output_dims(desc, 0), acl.mdl.get_output_size_by_index(desc, 0), acl.mdl.get_input_name_by_index(desc, 0)] == before
    assert acl.mdl.destroy_desc(desc) == 0


def test_threads_share_a_model(acl, loaded, model):
    context, _ = acl.rt.get_context()
    results = {}

    def work(seed):
        assert acl.rt.set_context(context) == 0
        one = Loaded.__new__(Loaded)
        one.acl, one.id, one.desc = acl, loaded.id, acl.mdl.create_desc()
        acl.mdl.get_desc(one.desc, one.id)
        one.inputs = one.dataset(2, acl.mdl.get_input_size_by_index)
        one.outputs = one.dataset(1, acl.mdl.get_output_size_by_index)
        x = np.full((4, 3), seed, np.float32)
        results[seed] = all((one.run(x) == x @ model[1] + 1).all() for _ in range(10))
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(4), True)


def test_a_buffer_lives_as_long_as_its_dataset(acl):
    data = np.ones(4, np.float32)
    alive = weakref.ref(data)
    dataset, buffer = acl.mdl.create_dataset(), acl.create_data_buffer(acl.util.numpy_to_ptr(data), data.nbytes)
    acl.mdl.add_dataset_buffer(dataset, buffer)
    del data
    assert acl.destroy_data_buffer(buffer) == 0   # the dataset has it still
    gc.collect()
    assert alive() is not None and acl.destroy_data_buffer(buffer) != 0
    assert acl.get_data_buffer_size(acl.mdl.get_dataset_buffer(dataset, 0)) == 16
    assert acl.util.ptr_to_bytes(acl.get_data_buffer_addr(buffer), 4) == np.float32(1).tobytes()
    assert acl.mdl.destroy_dataset(dataset) == 0
    gc.collect()
    assert alive() is None


def test_updating_a_buffer_lets_go_of_the_old_data(acl):
    old = np.ones(4)
    alive = weakref.ref(old)
    buffer = acl.create_data_buffer(acl.util.numpy_to_ptr(old), 32)
    del old
    gc.collect()
    assert alive() is not None
    assert acl.update_data_buffer(buffer, acl.util.numpy_to_ptr(np.zeros(4)), 32) == 0
    gc.collect()
    assert alive() is None and acl.util.ptr_to_bytes(acl.get_data_buffer_addr(buffer), 32) == bytes(32)
    assert acl.destroy_data_buffer(buffer) == 0


def test_tensor_descriptions(acl):
    desc = acl.create_tensor_desc(0, np.array([2, 3]), 2)
    assert acl.get_tensor_desc_num_dims(desc) == 2 and acl.get_tensor_desc_dim_v2(desc, 1) == (3, 0)
    assert acl.set_tensor_shape(desc, [3, 2]) == 0 and acl.get_tensor_desc_element_count(desc) == 6
    assert acl.set_tensor_desc_name(desc, "x") == 0 and acl.get_tensor_desc_name(desc) == "x"
    assert acl.destroy_tensor_desc(desc) == 0
