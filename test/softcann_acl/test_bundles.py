"""acl.mdl.bundle_*: several models in one file, made by `python -m softcann bundle`."""
import numpy as np
import pytest
from acl_tools import converted

H2D, D2H = 1, 2
BUNDLE_ID_INVALID, MODEL_ID_INVALID, PARAM_INVALID, NO_PARAM = 148053, 145003, 145000, 100000


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """(file, models' files, their weights): y = x @ w + 1 for 2 and for 5 rows."""
    from softcann.__main__ import MODULES
    from softcann.atc.bundle import main

    assert MODULES["bundle"][0] == "softcann.atc.bundle"
    folder = tmp_path_factory.mktemp("bundle")
    made = []
    for rows in (2, 5):
        (folder / str(rows)).mkdir()
        made.append(converted(folder / str(rows), rows))
    assert main([f"--output={folder}/all.om", *(path for path, _ in made)]) == 0
    return str(folder / "all.om"), [path for path, _ in made], [weight for _, weight in made]


def run(acl, model, rows):
    """The result of a model for x = 0, 1, 2..., by way of device memory."""
    x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
    y = np.empty((rows, 2), np.float32)
    datasets = []
    for array in (x, y):
        place, ret = acl.rt.malloc(array.nbytes, 0)
        assert ret == 0
        dataset = acl.mdl.create_dataset()
        assert acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(place, array.nbytes))[1] == 0
        datasets.append((dataset, place))
    assert acl.rt.memcpy(datasets[0][1], x.nbytes, x.ctypes.data, x.nbytes, H2D) == 0
    assert acl.mdl.execute(model, datasets[0][0], datasets[1][0]) == 0, acl.get_recent_err_msg()
    assert acl.rt.memcpy(y.ctypes.data, y.nbytes, datasets[1][1], y.nbytes, D2H) == 0
    return x, y


@pytest.mark.parametrize("memory", [False, True])
def test_a_bundle_has_all_its_models(acl, bundle, memory):
    path, _, weights = bundle
    content = open(path, "rb").read()
    number, ret = acl.mdl.bundle_load_from_mem(acl.util.bytes_to_ptr(content), len(content)) if memory else acl.mdl.bundle_load_from_file(path)
    assert ret == 0, acl.get_recent_err_msg()
    assert acl.mdl.bundle_get_model_num(number) == (2, 0)
    models = [acl.mdl.bundle_get_model_id(number, index) for index in range(2)]
    assert [ret for _, ret in models] == [0, 0]
    for (model, _), rows, weight in zip(models, (2, 5), weights):
        x, y = run(acl, model, rows)
        np.testing.assert_allclose(y, x @ weight + 1, rtol=1e-6)
    assert acl.mdl.bundle_get_model_id(number, 2)[1] == NO_PARAM
    assert acl.mdl.bundle_unload(number) == 0
    assert acl.mdl.bundle_get_model_num(number)[1] == BUNDLE_ID_INVALID
    assert acl.mdl.unload(models[0][0]) == MODEL_ID_INVALID   # gone with the bundle


def test_models_are_loaded_one_by_one(acl, bundle):
    path, _, weights = bundle
    number, ret = acl.mdl.bundle_init_from_file(path, 0, 0)
    assert ret == 0, acl.get_recent_err_msg()
    assert acl.mdl.bundle_get_model_id(number, 0)[1] == NO_PARAM   # none is loaded yet
    model, ret = acl.mdl.bundle_load_model(number, 1)
    assert ret == 0, acl.get_recent_err_msg()
    x, y = run(acl, model, 5)
    np.testing.assert_allclose(y, x @ weights[1] + 1, rtol=1e-6)
    assert acl.mdl.bundle_unload_model(number, model) == 0
    assert acl.mdl.bundle_unload_model(number, model) == MODEL_ID_INVALID
    assert acl.mdl.bundle_load_model(number, 2)[1] == BUNDLE_ID_INVALID
    work, weights_size, ret = acl.mdl.query_size(bundle[1][0])
    assert ret == 0
    for missing in (0, 1):   # of the weights' memory
        place, ret = acl.rt.malloc(weights_size, 0)
        assert ret == 0
        model, ret = acl.mdl.bundle_load_model_with_mem(number, 0, 0, 0, place, weights_size - missing)
        assert ret == (PARAM_INVALID if missing else 0)
    config = acl.mdl.create_config_handle()
    model, ret = acl.mdl.bundle_load_model_with_config(number, 0, config)
    assert ret == 0, acl.get_recent_err_msg()
    x, y = run(acl, model, 2)
    np.testing.assert_allclose(y, x @ weights[0] + 1, rtol=1e-6)
    assert acl.mdl.destroy_config_handle(config) == 0
    assert acl.mdl.bundle_unload(number) == 0


def test_a_bundle_is_asked_before_it_is_loaded(acl, bundle):
    path, models, _ = bundle
    info = acl.mdl.bundle_create_query_info()
    assert acl.mdl.bundle_query_info_from_file(path, info) == 0, acl.get_recent_err_msg()
    assert acl.mdl.bundle_get_query_model_num(info) == (2, 0)
    for index, model in enumerate(models):
        work, weights, ret = acl.mdl.query_size(model)
        assert ret == 0 and acl.mdl.bundle_get_size(info, index) == (work, weights, 0)
    assert acl.mdl.bundle_get_size(info, 2)[2] == NO_PARAM
    assert acl.mdl.bundle_get_var_weight_size(info) == (0, 0)
    assert acl.mdl.bundle_destroy_query_info(info) == 0


def test_each_kind_of_file_says_how_it_is_loaded(acl, bundle):
    path, models, _ = bundle
    assert acl.mdl.load_from_file(path)[1] == PARAM_INVALID and "aclmdlBundleLoadFromFile" in acl.get_recent_err_msg()
    assert acl.mdl.bundle_load_from_file(models[0])[1] == PARAM_INVALID and "aclmdlLoadFromFile" in acl.get_recent_err_msg()


def test_what_is_damaged_is_refused(acl, bundle, tmp_path):
    content = bytearray(open(bundle[0], "rb").read())
    content[-100] ^= 255   # in the second model
    (tmp_path / "bad.om").write_bytes(content)
    assert acl.mdl.bundle_load_from_file(str(tmp_path / "bad.om"))[1] == PARAM_INVALID and "checksum" in acl.get_recent_err_msg()
    (tmp_path / "short.om").write_bytes(content[:400])
    assert acl.mdl.bundle_load_from_file(str(tmp_path / "short.om"))[1] != 0


def test_the_command_refuses_what_is_no_model(bundle, tmp_path, capsys):
    from softcann.atc.bundle import main

    (tmp_path / "x.om").write_bytes(b"nothing" * 99)
    assert main([f"--output={tmp_path}/all.om", bundle[1][0], f"{tmp_path}/x.om"]) == 1
    assert "E13005" in capsys.readouterr().err and not (tmp_path / "all.om").exists()
