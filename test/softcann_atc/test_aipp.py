"""Static AIPP: pictures through the head of the program, against the formulas written with numpy."""
import sys

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from softcann.__main__ import main as softcann_command
from softcann.atc import container
from softcann.atc.cli import main
from softcann.atc.interpret import Interpreter

FULL = "aipp_mode : static\n"
TO_RGB = numpy.array([[256, 0, 359], [256, -88, -183], [256, 454, 0]])
TO_YUV = numpy.array([[77, 150, 29], [-43, -85, 128], [128, -107, -21]])


@pytest.fixture
def identity(tmp_path):
    """Makes a model that gives its input back, of these sizes and type; the command that converts it with a config."""
    def make(config, dims=(1, 3, 4, 6), dtype=TensorProto.FLOAT, *words):
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", [helper.make_tensor_value_info("x", dtype, list(dims))],
                                  [helper.make_tensor_value_info("y", dtype, list(dims))])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
        (tmp_path / "aipp.cfg").write_text(config)
        return main([f"--model={tmp_path}/m.onnx", "--framework=5", f"--output={tmp_path}/m", "--soc_version=Ascend310P3",
                     f"--insert_op_conf={tmp_path}/aipp.cfg", "--precision_mode_v2=origin", *words])

    make.program = lambda: container.read(str(tmp_path / "m.om"))
    return make


def block(text):
    return "aipp_op {\n" + FULL + text + "\n}"


def matrix(rows):
    return "\n".join(f"matrix_r{row}c{column} : {value}" for row, line in enumerate(rows) for column, value in enumerate(line))


def picture(*shape):
    return torch.from_numpy(numpy.random.default_rng(0).integers(0, 256, shape, dtype=numpy.uint8))


def through(identity, config, raw, *more):
    assert identity(config, *more) == 0
    program = identity.program()
    port = program.graphs[0].inputs[0]
    assert (port.dtype, port.dims, port.format) == (torch.uint8, list(raw.shape), "NHWC")
    return Interpreter(program).run([raw])[0].numpy()


def test_rgb_with_mean_and_variance(identity):
    raw = picture(1, 4, 6, 3)
    got = through(identity, block("input_format : RGB888_U8\nmean_chn_0 : 100\nmin_chn_1 : 3.5\nvar_reci_chn_2 : 0.25\nrbuv_swap_switch : true"), raw)
    want = raw.numpy()[..., ::-1].transpose(0, 3, 1, 2).astype(numpy.float32)
    want[:, 0] -= 100
    want[:, 1] -= 3.5
    want[:, 2] *= 0.25
    numpy.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("ax, order", [("true", [1, 2, 3]), ("false", [0, 1, 2])])
def test_the_fourth_byte_goes(identity, ax, order):
    raw = picture(1, 4, 6, 4)
    got = through(identity, block(f"input_format : XRGB8888_U8\nax_swap_switch : {ax}"), raw)
    numpy.testing.assert_array_equal(got, raw.numpy()[..., order].transpose(0, 3, 1, 2))


@pytest.mark.parametrize("swap", [False, True])
def test_yuv_to_rgb_by_integers(identity, swap):
    raw = picture(1, 6, 6, 1)
    config = f"input_format : YUV420SP_U8\ncsc_switch : true\nrbuv_swap_switch : {str(swap).lower()}\ninput_bias_0 : 0\n" + matrix(TO_RGB)
    got = through(identity, block(config), raw)
    rows = raw.numpy()[0, :, :, 0].astype(int)
    pairs = rows[4:].reshape(2, 3, 2).repeat(2, 0).repeat(2, 1)
    yuv = numpy.stack([rows[:4], pairs[..., 1 if swap else 0], pairs[..., 0 if swap else 1]])
    want = (numpy.einsum("ij,jhw->ihw", TO_RGB, yuv - numpy.array([0, 128, 128]).reshape(3, 1, 1)) >> 8).clip(0, 255)
    assert (want == 0).any() and (want == 255).any()
    numpy.testing.assert_array_equal(got[0], want)


def test_rgb_to_yuv_and_to_grey(identity):
    raw = picture(1, 4, 6, 3)
    channels = raw.numpy()[0].transpose(2, 0, 1).astype(int)
    got = through(identity, block("input_format : RGB888_U8\ncsc_switch : true\noutput_bias_0 : 0\n" + matrix(TO_YUV)), raw)
    want = ((numpy.einsum("ij,jhw->ihw", TO_YUV, channels) >> 8) + numpy.array([0, 128, 128]).reshape(3, 1, 1)).clip(0, 255)
    numpy.testing.assert_array_equal(got[0], want)
    grey = "\n".join(f"output_bias_{index} : 0" for index in range(3)) + "\n" + matrix([[76, 150, 30], [0, 0, 0], [0, 0, 0]])
    got = through(identity, block("input_format : RGB888_U8\ncsc_switch : true\n" + grey), raw, (1, 1, 4, 6))
    numpy.testing.assert_array_equal(got[0, 0], numpy.tensordot([76, 150, 30], channels, 1) >> 8)


# Of each standard, as CANN's documents have them: to RGB, what is taken off before; to YUV, what is added after.
STANDARDS = {
    "BT-601 narrow": ([[298, 0, 409], [298, -100, -208], [298, 516, 0]], [16, 128, 128],
                      [[66, 129, 25], [-38, -74, 112], [112, -94, -18]], [16, 128, 128]),
    "BT-601 wide": ([[256, 0, 359], [256, -88, -183], [256, 454, 0]], [0, 128, 128],
                    [[77, 150, 29], [-43, -85, 128], [128, -107, -21]], [0, 128, 128]),
    "BT-709 narrow": ([[298, 0, 459], [298, -55, -136], [298, 541, 0]], [16, 128, 128],
                      [[47, 157, 16], [-26, -87, 112], [112, -102, -10]], [16, 128, 128]),
    "BT-709 wide": ([[256, 0, 403], [256, -48, -120], [256, 475, 0]], [0, 128, 128],
                    [[55, 183, 19], [-29, -99, 128], [128, -116, -12]], [0, 128, 128]),
}


def biases(which, values):
    return "\n".join(f"{which}_bias_{index} : {value}" for index, value in enumerate(values)) + "\n"


@pytest.mark.parametrize("standard", STANDARDS)
def test_every_standard_of_colours(identity, standard):
    to_rgb, before, to_yuv, after = (numpy.array(one) for one in STANDARDS[standard])
    raw = picture(1, 6, 6, 1)
    rows = raw.numpy()[0, :, :, 0].astype(int)
    pairs = rows[4:].reshape(2, 3, 2).repeat(2, 0).repeat(2, 1)
    yuv = numpy.stack([rows[:4], pairs[..., 0], pairs[..., 1]]) - before.reshape(3, 1, 1)
    for order in ([0, 1, 2], [2, 1, 0]):   # RGB, BGR: the same rows in another order
        config = "input_format : YUV420SP_U8\ncsc_switch : true\n" + matrix(to_rgb[order]) + "\n" + biases("input", before)
        got = through(identity, block(config), raw)
        numpy.testing.assert_array_equal(got[0], (numpy.einsum("ij,jhw->ihw", to_rgb[order], yuv) >> 8).clip(0, 255))
    for fourth, switch in ((False, ""), (True, "ax_swap_switch : true\n")):
        raw = picture(1, 4, 6, 4 if fourth else 3)
        channels = raw.numpy()[0].transpose(2, 0, 1).astype(int)[1 if fourth else 0:]
        config = f"input_format : {'XRGB8888_U8' if fourth else 'RGB888_U8'}\ncsc_switch : true\n{switch}" + biases("output", after)
        got = through(identity, block(config + matrix(to_yuv)), raw)
        want = ((numpy.einsum("ij,jhw->ihw", to_yuv, channels) >> 8) + after.reshape(3, 1, 1)).clip(0, 255)
        numpy.testing.assert_array_equal(got[0], want)


def test_the_default_matrix_is_bt601_narrow_to_bgr(identity):
    raw = picture(1, 6, 6, 1)
    rows = raw.numpy()[0, :, :, 0].astype(int)
    pairs = rows[4:].reshape(2, 3, 2).repeat(2, 0).repeat(2, 1)
    yuv = numpy.stack([rows[:4] - 16, pairs[..., 0] - 128, pairs[..., 1] - 128])
    want = (numpy.einsum("ij,jhw->ihw", [[298, 516, 0], [298, -100, -208], [298, 0, 409]], yuv) >> 8).clip(0, 255)
    numpy.testing.assert_array_equal(through(identity, block("input_format : YUV420SP_U8\ncsc_switch : true"), raw)[0], want)


def test_four_channels_each_have_mean_and_variance(identity):
    raw = picture(1, 4, 6, 4)
    fields = "\n".join(f"mean_chn_{i} : {10 * i}\nmin_chn_{i} : {i}.5\nvar_reci_chn_{i} : 0.{i + 1}25" for i in range(4))
    got = through(identity, block("input_format : XRGB8888_U8\n" + fields), raw, (1, 4, 4, 6))
    each = numpy.arange(4).reshape(4, 1, 1)
    want = (raw.numpy()[0].transpose(2, 0, 1) - 10 * each - each - 0.5) * (0.1 * (each + 1) + 0.025)
    numpy.testing.assert_allclose(got[0], want, rtol=1e-6)   # float32


def test_a_block_finds_its_input_by_name(identity):
    assert identity(block("input_format : RGB888_U8\nrelated_input_name : \"x\"\nrelated_input_rank : 7\ninput_edge_idx : 0")) == 0
    assert identity.program().graphs[0].attrs["aipp"] == ["0 static input_format=RGB888_U8 related_input_rank=7"]


def test_crop_then_padding(identity):
    raw = picture(1, 8, 10, 3)
    config = ("input_format : RGB888_U8\nsrc_image_size_h : 8\nsrc_image_size_w : 10\ncrop : true\nload_start_pos_h : 2\nload_start_pos_w : 1\n"
              "crop_size_h : 3\ncrop_size_w : 4\npadding : true\nleft_padding_size : 2\ntop_padding_size : 1\npadding_value : 7\nmean_chn_0 : 1")
    got = through(identity, block(config), raw)
    want = raw.numpy()[:, 2:5, 1:5].transpose(0, 3, 1, 2).astype(numpy.float32)
    want[:, 0] -= 1
    numpy.testing.assert_array_equal(got, numpy.pad(want, ((0, 0), (0, 0), (1, 0), (2, 0)), constant_values=7))


def test_a_model_of_bytes_has_no_mean_taken_off(identity):
    raw = picture(1, 4, 6, 3)
    got = through(identity, block("input_format : RGB888_U8\nmean_chn_0 : 100"), raw, (1, 3, 4, 6), TensorProto.UINT8)
    numpy.testing.assert_array_equal(got, raw.numpy().transpose(0, 3, 1, 2))


def test_with_a_choice_of_batches(identity):
    config = block("input_format : RGB888_U8")
    assert identity(config, ("n", 3, 4, 6), TensorProto.FLOAT, "--input_shape=x:-1,3,4,6", "--dynamic_batch_size=1,4") == 0
    program = identity.program()
    assert program.graphs[0].inputs[0].dims == [-1, 4, 6, 3]
    assert program.graphs[0].attrs["aipp"] == ["0 static input_format=RGB888_U8"]
    assert Interpreter(program).run([picture(4, 4, 6, 3)])[0].shape == (4, 3, 4, 6)


@pytest.mark.parametrize("config, code", [
    ("aipp_op {", "E10032"), ("", "E10001"), ("aipp_op { aipp_mode : dynamic }", "E10001"),
    ("aipp_op { aipp_mode : dynamic max_src_image_size : 100 csc_switch : true }", "E10001"),
    ("aipp_op { aipp_mode : dynamic max_src_image_size : 100 support_rotation : true }", "E10055"),
    (block("input_format : RGB888_U8\nmean_chn_0 : 256"), "E10001"), (block(""), "E10001"),
    (block("input_format : YUV420SP_U8\nsrc_image_size_h : 5\nsrc_image_size_w : 6"), "E10001"),
    (block("input_format : RGB888_U8\nsrc_image_size_h : 8\nsrc_image_size_w : 8"), "E10001"),
    (block("input_format : RGB888_U8\nresize : true"), "E10055"), (block("related_input_rank : 3\ninput_format : RGB888_U8"), "E10001"),
    (block("input_format : YUV400_U8"), "E10001"), (block("input_format : AYUV444_U8"), "E10001"),
    (block("input_format : RGB888_U8\nrelated_input_name : \"z\""), "E10001"),
    (block("input_format : RGB888_U8\ninput_edge_idx : 1"), "E10055"), (block("input_format : RGB888_U8\ncpadding_value : 1"), "E10055"),
    (block("input_format : RGB888_U8\nresize_output_w : 16"), "E10055"), (block("input_format : RGB888_U8\nsrc_image_size_w : 1"), "E10001"),
    (block("input_format : RGB888_U8\nmatrix_r0c0 : 40000\ncsc_switch : true"), "E10001"),
])
def test_a_wrong_config_has_its_code(identity, capsys, config, code):
    assert identity(config) == 1
    assert capsys.readouterr().out.splitlines()[3].startswith(f"{code}: [PID: ")


def test_what_is_padded_with_is_a_value_of_the_input(identity, capsys):
    sizes = "input_format : RGB888_U8\nsrc_image_size_h : 3\nsrc_image_size_w : 6\npadding : true\ntop_padding_size : 1\n"
    raw = picture(1, 3, 6, 3)
    got = through(identity, block(sizes + "padding_value : 255"), raw, (1, 3, 4, 6), TensorProto.UINT8)
    assert (got[0, :, 0] == 255).all() and (got[0, :, 1:] == raw.numpy()[0].transpose(2, 0, 1)).all()
    for wrong in ("-1", "256", "0.5"):
        assert identity(block(sizes + f"padding_value : {wrong}"), (1, 3, 4, 6), TensorProto.UINT8) == 1
        assert "whole numbers from 0 to 255" in capsys.readouterr().out


def test_four_channels_are_not_converted(identity, capsys):
    assert identity(block("input_format : XRGB8888_U8\ncsc_switch : true"), (1, 4, 4, 6)) == 1
    assert "it makes 3 channels" in capsys.readouterr().out


def test_a_dynamic_block_leaves_the_program_as_it_is(identity):
    assert identity("aipp_op { aipp_mode : dynamic max_src_image_size : 72 }") == 0
    graph = identity.program().graphs[0]
    assert graph.inputs[0].dims == [1, 3, 4, 6] and graph.attrs["aipp"] == ["0 dynamic max_src_image_size=72"]
    assert identity("aipp_op { aipp_mode : dynamic max_src_image_size : 72 }", ("n", 3, 4, 6), TensorProto.FLOAT,
                    "--input_shape=x:-1,3,4,6", "--dynamic_batch_size=1,4") == 1


def test_the_config_for_mean_and_deviation(identity, capsys, monkeypatch):
    words = "softcann aipp --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --size 4,6"
    monkeypatch.setattr(sys, "argv", words.split())
    assert not softcann_command()
    raw = picture(1, 4, 6, 3)
    got = through(identity, capsys.readouterr().out, raw)
    mean, std = (numpy.array(values).reshape(3, 1, 1) for values in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    want = (raw.numpy()[0].transpose(2, 0, 1) / 255 - mean) / std
    numpy.testing.assert_allclose(got[0], want, atol=1e-4)
