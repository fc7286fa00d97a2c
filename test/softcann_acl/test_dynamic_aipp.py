"""Dynamic AIPP: parameters that come with the run give what the same parameters give in a static configuration."""
import ctypes
import re

import numpy as np
import pytest
from acl_tools import LIBRARIES, ROOT

H2D, D2H = 1, 2
FORMATS = {"YUV420SP_U8": 1, "XRGB8888_U8": 2, "RGB888_U8": 3, "YUV400_U8": 4}
PICTURE_BYTES = {"YUV420SP_U8": 1.5, "XRGB8888_U8": 4, "RGB888_U8": 3, "YUV400_U8": 1}
MATRIX = (298, 516, -30, 298, -100, -208, 298, 11, 409)


class Model:
    """y = x of a network of these dims, with an AIPP configuration."""

    def __init__(self, acl, folder, config, dims, dtype="FLOAT", layout="NCHW"):
        onnx = pytest.importorskip("onnx", reason="softcann[atc] is not installed")
        from softcann import atc

        kind = getattr(onnx.TensorProto, dtype)
        ports = [onnx.helper.make_tensor_value_info(name, kind, list(dims)) for name in "xy"]
        graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "g", ports[:1], ports[1:])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
        (folder / "aipp.cfg").write_text("aipp_op {\n" + config + "\n}")
        file = atc.convert(folder / "m.onnx", folder / "m", precision_mode_v2="origin", insert_op_conf=str(folder / "aipp.cfg"),
                           input_format=layout)
        self.acl, self.desc = acl, acl.mdl.create_desc()
        self.id, ret = acl.mdl.load_from_file(str(file))
        assert ret == 0 and acl.mdl.get_desc(self.desc, self.id) == 0, acl.get_recent_err_msg()
        self.y = np.empty(dims, {"FLOAT": np.float32, "FLOAT16": np.float16, "UINT8": np.uint8}[dtype])
        self.inputs, self.outputs = (self.dataset(count, size) for count, size in
                                     ((acl.mdl.get_num_inputs(self.desc), acl.mdl.get_input_size_by_index),
                                      (acl.mdl.get_num_outputs(self.desc), acl.mdl.get_output_size_by_index)))

    def dataset(self, count, size_of):
        made = self.acl.mdl.create_dataset()
        for index in range(count):
            size = size_of(self.desc, index)
            address, ret = self.acl.rt.malloc(size, 0)
            assert ret == 0 and self.acl.rt.memset(address, size, 0, size) == 0
            assert self.acl.mdl.add_dataset_buffer(made, self.acl.create_data_buffer(address, size)) == (made, 0)
        return made

    def address(self, dataset, index):
        return self.acl.get_data_buffer_addr(self.acl.mdl.get_dataset_buffer(dataset, index))

    def run(self, raw):
        acl = self.acl
        assert acl.rt.memcpy(self.address(self.inputs, 0), raw.nbytes, raw.ctypes.data, raw.nbytes, H2D) == 0
        ret = acl.mdl.execute(self.id, self.inputs, self.outputs)
        if ret == 0:
            assert acl.rt.memcpy(self.y.ctypes.data, self.y.nbytes, self.address(self.outputs, 0), self.y.nbytes, D2H) == 0
        return ret

    def set(self, index=None, **given):
        """Sets the parameters of all pictures alike; the code."""
        mdl, batch = self.acl.mdl, self.y.shape[0]
        made = mdl.create_aipp(batch)
        codes = [mdl.set_aipp_input_format(made, FORMATS[given["input_format"]]), mdl.set_aipp_src_image_size(made, *given["size"])]
        if "swap" in given:
            codes += [mdl.set_aipp_rbuv_swap_switch(made, 1)]
        if "ax" in given:
            codes += [mdl.set_aipp_ax_swap_switch(made, 1)]
        if "convert" in given:
            codes += [mdl.set_aipp_csc_params(made, 1, *MATRIX, 16, 120, 130, 10, 120, 128)]
        for picture in range(batch):
            if "crop" in given:
                codes += [mdl.set_aipp_crop_params(made, 1, *given["crop"], picture)]
            if "pads" in given:
                codes += [mdl.set_aipp_padding_params(made, 1, *given["pads"], picture)]
            if "mean" in given:
                codes += [mdl.set_aipp_dtc_pixel_mean(made, *given["mean"], picture), mdl.set_aipp_dtc_pixel_min(made, *given["min"], picture),
                          mdl.set_aipp_pixel_var_reci(made, *given["scale"], picture)]
        assert not any(codes), self.acl.get_recent_err_msg()
        if index is None:
            ret = mdl.set_aipp_by_input_index(self.id, self.inputs, 0, made)
        else:
            ret = mdl.set_input_aipp(self.id, self.inputs, index, made)
        assert mdl.destroy_aipp(made) == 0
        return ret


def static_config(given):
    """The same parameters as text."""
    lines = ["aipp_mode : static", f"input_format : {given['input_format']}", "src_image_size_w : %d\nsrc_image_size_h : %d" % given["size"]]
    if "swap" in given:
        lines += ["rbuv_swap_switch : true"]
    if "ax" in given:
        lines += ["ax_swap_switch : true"]
    if "convert" in given:
        lines += ["csc_switch : true"]
        lines += [f"matrix_r{i // 3}c{i % 3} : {value}" for i, value in enumerate(MATRIX)]
        lines += [f"{kind}_bias_{i} : {value}" for kind, values in (("output", (16, 120, 130)), ("input", (10, 120, 128)))
                  for i, value in enumerate(values)]
    if "crop" in given:
        lines += ["crop : true\nload_start_pos_w : %d\nload_start_pos_h : %d\ncrop_size_w : %d\ncrop_size_h : %d" % given["crop"]]
    if "pads" in given:
        lines += ["padding : true\ntop_padding_size : %d\nbottom_padding_size : %d\nleft_padding_size : %d\nright_padding_size : %d"
                  % given["pads"]]
    if "mean" in given:
        lines += [f"{name}_chn_{i} : {value}" for name, key in (("mean", "mean"), ("min", "min"), ("var_reci", "scale"))
                  for i, value in enumerate(given[key])]
    return "\n".join(lines)


NORMAL = {"mean": (10, 20, 30, 40), "min": (0.5, 1.25, 2.0, 0.0), "scale": (0.5, 0.25, 0.125, 2.0)}
CASES = [
    ((1, 3, 6, 8), {"input_format": "RGB888_U8", "size": (8, 6)}),
    ((2, 3, 6, 8), {"input_format": "RGB888_U8", "size": (8, 6), "swap": 1, **NORMAL}),
    ((1, 3, 6, 8), {"input_format": "RGB888_U8", "size": (20, 18), "crop": (3, 5, 8, 6), "convert": 1}),
    ((1, 3, 10, 12), {"input_format": "RGB888_U8", "size": (20, 18), "crop": (3, 5, 8, 6), "pads": (1, 3, 2, 2), **NORMAL}),
    ((1, 3, 6, 8), {"input_format": "YUV420SP_U8", "size": (8, 6), "convert": 1}),
    ((2, 3, 6, 8), {"input_format": "YUV420SP_U8", "size": (16, 12), "crop": (4, 2, 8, 6), "swap": 1, "convert": 1, **NORMAL}),
    ((1, 3, 6, 8), {"input_format": "XRGB8888_U8", "size": (8, 6), "ax": 1, "swap": 1, "convert": 1}),
    ((1, 4, 6, 8), {"input_format": "XRGB8888_U8", "size": (8, 6), "ax": 1, **NORMAL}),
    ((1, 1, 6, 8), {"input_format": "YUV400_U8", "size": (8, 6), **NORMAL}),
    ((1, 1, 6, 8), {"input_format": "YUV420SP_U8", "size": (8, 6), "convert": 1}),
]


@pytest.mark.parametrize("dtype", ["FLOAT", "FLOAT16", "UINT8"])
@pytest.mark.parametrize("dims, given", CASES)
def test_dynamic_equals_static(acl, tmp_path, dims, given, dtype):
    raw = np.random.default_rng(1).integers(0, 256, int(dims[0] * given["size"][0] * given["size"][1] * PICTURE_BYTES[given["input_format"]]),
                                            np.uint8)
    for name in ("static", "dynamic"):
        (tmp_path / name).mkdir()
    static = Model(acl, tmp_path / "static", static_config(given), dims, dtype)
    dynamic = Model(acl, tmp_path / "dynamic", f"aipp_mode : dynamic\nmax_src_image_size : {raw.nbytes}", dims, dtype)
    assert dynamic.set(**given) == 0, acl.get_recent_err_msg()
    assert static.run(raw) == 0 and dynamic.run(raw) == 0, acl.get_recent_err_msg()
    np.testing.assert_array_equal(static.y, dynamic.y)
    assert np.unique(dynamic.y).size > 20


def test_one_model_takes_pictures_of_many_sizes(acl, tmp_path):
    model = Model(acl, tmp_path, "aipp_mode : dynamic\nmax_src_image_size : 30000", (1, 4, 3, 3), layout="NHWC")
    for width, height in ((3, 4), (50, 40), (100, 100)):
        raw = np.random.default_rng(width).integers(0, 256, (height, width, 3), np.uint8)
        assert model.set(input_format="RGB888_U8", size=(width, height), crop=(width - 3, height - 4, 3, 4)) == 0
        assert model.run(raw) == 0
        np.testing.assert_array_equal(model.y[0], raw[height - 4:, width - 3:])


def test_what_a_program_can_ask(acl, tmp_path):
    model, mdl = Model(acl, tmp_path, "aipp_mode : dynamic\nmax_src_image_size : 1000", (2, 3, 6, 8)), acl.mdl
    assert mdl.get_num_inputs(model.desc) == 2 and mdl.get_input_size_by_index(model.desc, 0) == 1000
    index, ret = mdl.get_input_index_by_name(model.desc, "ascend_dynamic_aipp_data")
    assert (index, ret) == (1, 0)
    assert mdl.get_aipp_data_size(2) == (mdl.get_input_size_by_index(model.desc, 1), 0)
    assert mdl.get_aipp_type(model.id, 0) == (2, 1, 0) and mdl.get_aipp_type(model.id, 1)[0::2] == (3, 0)
    good = {"input_format": "RGB888_U8", "size": (8, 6)}
    assert model.set(index=1, **good) == 0 and model.set(index=0, **good) == 100000


def test_refusals_say_what_is_wrong(acl, tmp_path):
    model, mdl = Model(acl, tmp_path, "aipp_mode : dynamic\nmax_src_image_size : 200", (1, 3, 6, 8)), acl.mdl
    assert model.run(np.zeros(144, np.uint8)) != 0 and "aclmdlSetInputAIPP" in acl.get_recent_err_msg()
    for text, given in (("6 x 9", {"size": (9, 6)}), ("max_src_image_size", {"size": (20, 6), "crop": (0, 0, 8, 6)}),
                        ("leaves the picture", {"size": (8, 7), "crop": (1, 1, 8, 6)}),
                        ("channels", {"size": (8, 6), "input_format": "YUV400_U8"}),
                        ("even", {"size": (9, 6), "input_format": "YUV420SP_U8"})):
        assert model.set(**{"input_format": "RGB888_U8", **given}) == 100000 and text in acl.get_recent_err_msg(), acl.get_recent_err_msg()
    made = mdl.create_aipp(1)
    assert mdl.set_aipp_input_format(made, 7) == 200006 and mdl.set_aipp_scf_params(made, 1, 1, 1, 2, 2, 0) == 200006
    assert mdl.set_aipp_crop_params(made, 1, 0, 0, 2, 2, 1) == 100000 and mdl.set_aipp_rbuv_swap_switch(made, 2) == 100000
    assert mdl.create_aipp(0) == 0


def told_of(model):
    """aclAippInfo of the first input, by the names of its fields up to what it has for each channel; or the code."""
    text = (ROOT / "third_party/cann/include/acl/acl_mdl.h").read_text().partition("typedef struct aclAippInfo {")[2]
    kinds = {"aclAippInputFormat": ctypes.c_int32, "int32_t": ctypes.c_int32, "int8_t": ctypes.c_int8, "float": ctypes.c_float}
    fields = [(name, kinds[kind]) for kind, name in re.findall(r"^  (\w+) (\w+);", text.partition("aclFormat")[0], re.M)]

    class Info(ctypes.Structure):
        _fields_ = [*fields, ("others", ctypes.c_char * 1_000_000)]

    info = Info()
    ret = ctypes.CDLL(str(LIBRARIES / "libascendcl.so")).aclmdlGetFirstAippInfo(model.id, ctypes.c_size_t(0), ctypes.byref(info))
    return ret or {name: getattr(info, name) for name, _ in fields if getattr(info, name)}


def test_a_static_configuration_is_told(acl, tmp_path):
    config = ("aipp_mode : static\ninput_format : RGB888_U8\nsrc_image_size_w : 6\nsrc_image_size_h : 4\nrbuv_swap_switch : true\n"
              "mean_chn_1 : 100\nmin_chn_0 : 3.5\nvar_reci_chn_2 : 0.25")
    assert told_of(Model(acl, tmp_path, config, (1, 3, 4, 6))) == {
        "inputFormat": FORMATS["RGB888_U8"], "srcImageSizeW": 6, "srcImageSizeH": 4, "rbuvSwapSwitch": 1, "meanChn1": 100,
        "minChn0": 3.5, "varReciChn2": 0.25}


def test_a_model_without_a_static_configuration_is_told(acl, tmp_path):
    not_static = 100038
    assert told_of(Model(acl, tmp_path, "aipp_mode : dynamic\nmax_src_image_size : 1000", (1, 3, 4, 6))) == not_static
