"""The command: closing lines, exit codes, CANN's error codes, what each option does."""
import json
import random
import struct
import subprocess
import sys

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from softcann.atc import container, convert, options
from softcann.atc.cli import DONE, FAILED, START, main
from softcann.atc.errors import AtcError
from softcann.atc.interpret import Interpreter


@pytest.fixture
def linear(tmp_path):
    """y = relu(x @ w + b) with x of n by 4; the path of the model."""
    w = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], [float(i) for i in range(12)])
    b = helper.make_tensor("b", TensorProto.FLOAT, [3], [1.0, -20.0, 0.5])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], name="product"), helper.make_node("Add", ["m", "b"], ["s"], name="sum"),
             helper.make_node("Relu", ["s"], ["y"], name="last")]
    graph = helper.make_graph(nodes, "linear", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])], [w, b])
    path = tmp_path / "linear.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


X = torch.tensor([[0.5, 1.0, -1.0, 2.0], [1.0, 0.0, 0.25, -3.0]])
Y = torch.relu(X @ torch.arange(12.0).reshape(4, 3) + torch.tensor([1.0, -20.0, 0.5]))


def atc(model, *words, output=None):
    output = output or model.parent / "out"
    return main([f"--model={model}", "--framework=5", f"--output={output}", "--soc_version=Ascend910B3", *words])


def program(model, *words):
    assert atc(model, *words) == 0
    return container.read(str(model.parent / "out.om"))


def test_lines_and_exit_codes(linear, tmp_path):
    words = ["-m", "softcann.atc", "--model", str(linear), "-framework=5", "--output", str(tmp_path / "a"), "--soc-version=Ascend310P3"]
    folder = options.__file__.rsplit("/softcann/", 1)[0]
    good = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, cwd=folder)
    assert good.returncode == 0, good.stdout + good.stderr
    assert good.stdout.splitlines() == [START, "...", DONE]
    assert (tmp_path / "a.om").exists()
    bad = subprocess.run([sys.executable, "-m", "softcann.atc"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, cwd=folder)
    assert bad.returncode != 0
    assert bad.stdout.splitlines()[:3] == [START, "...", FAILED]
    assert bad.stdout.splitlines()[3].startswith("E10007: [PID: ")
    assert bad.stdout.splitlines()[4].startswith("        Solution: ")


@pytest.mark.parametrize("words, code", [
    (["--framework=4"], "E10007"), (["--framework=3"], "E10055"), (["--model=/nowhere.onnx"], "E13001"), (["--soc_version=Ascend1"], "E10001"),
    (["--precision_mode=fast"], "E10001"), (["--precision_mode=force_fp16", "--precision_mode_v2=fp16"], "E10057"),
    (["--log=loud"], "E10010"), (["--display_model_info=2"], "E10006"), (["--output_type="], "E10004"),
    (["--input_shape=z:1,4"], "E10016"), (["--input_shape=x:1"], "E10002"), (["--input_shape=x:1,5"], "E10002"), (["--input_shape=x"], "E10002"),
    (["--input_shape=x:8~1,4"], "E10050"), (["--dynamic_batch_size=1,2"], "E10040"), (["--input_shape=x:-1,4", "--dynamic_batch_size=1"], "E10035"),
    (["--input_shape=x:-1,4", "--dynamic_batch_size=1,1"], "E10039"), (["--input_shape=x:-1,4", "--dynamic_dims=1,2;3", "--input_format=ND"], "E10037"),
    (["--input_shape=x:-1,4", "--dynamic_image_size=1,2;3,4"], "E10019"), (["--out_nodes=nobody:0"], "E10016"),
    (["--input_fp16_nodes=z"], "E10016"), (["--output_type=FP17"], "E10001"), (["--weight=a.caffemodel"], "E10055"),
    (["--precision_mode_v2=cube_hif8"], "E10055"), (["--mode=5"], "E10055"), (["--fusion_switch_file=/nowhere"], "E13001"),
])
def test_a_wrong_command_line_has_its_code(linear, capsys, words, code):
    assert atc(linear, *words) == 1
    assert capsys.readouterr().out.splitlines()[3].startswith(f"{code}: [PID: ")


@pytest.mark.parametrize("words, text", [
    (["--nothing=1"], "ERROR: unknown command line flag 'nothing'"), (["word"], "ERROR: Non-option parameter: word"),
    (["--om"], "ERROR: flag 'om' is missing its argument"),
])
def test_what_cannot_be_read_goes_to_stderr(capsys, words, text):
    assert main(words) == 1
    assert capsys.readouterr().err.startswith(text)


def test_half_precision_inside_the_models_types_outside(linear):
    found = program(linear)
    assert {port.dtype for port in found.graphs[0].inputs + found.graphs[0].outputs} == {torch.float32}
    assert all(value.const.dtype == torch.float16 for value in found.constants())
    assert torch.allclose(Interpreter(found).run([X])[0], Y, rtol=2e-3)


@pytest.mark.parametrize("mode", ["--precision_mode_v2=origin", "--precision_mode=force_fp32", "--precision_mode=allow_fp32_to_fp16"])
def test_single_precision(linear, mode):
    found = program(linear, mode)
    assert all(value.const.dtype == torch.float32 for value in found.constants())
    assert torch.allclose(Interpreter(found).run([X])[0], Y, rtol=1e-6)


def test_types_of_inputs_and_outputs(linear):
    found = program(linear, "--input_fp16_nodes=x", "--output_type=FP16", "--precision_mode=force_fp32")
    assert found.graphs[0].inputs[0].dtype == found.graphs[0].outputs[0].dtype == torch.float16
    assert torch.allclose(Interpreter(found).run([X.half()])[0].float(), Y, rtol=2e-3)


def test_a_node_in_the_middle_as_output(linear):
    found = program(linear, "--out_nodes=product:0", "--precision_mode=force_fp32")
    assert [port.name for port in found.graphs[0].outputs] == ["m"]
    assert torch.allclose(Interpreter(found).run([X])[0], X @ torch.arange(12.0).reshape(4, 3))


def test_gears_and_ranges_are_written_down(linear):
    found = program(linear, "--input_shape=x:-1,4", "--dynamic_batch_size=1,2,8").graphs[0]
    assert (found.attrs["dynamic_batch"], found.inputs[0].dims, found.outputs[0].dims) == ([1, 2, 8], [-1, 4], [-1, 3])
    found = program(linear, "--input_shape=x:1~8,4").graphs[0]
    assert found.attrs["shape_range"] == [f"{found.inputs[0].value.name} 1~8,4~4"]
    assert program(linear, "--input_shape=x:2,4").graphs[0].outputs[0].dims == [2, 3]


def test_json_has_what_tools_read(linear, tmp_path):
    program(linear)
    assert main(["--mode=1", f"--om={tmp_path}/out.om", f"--json={tmp_path}/out.json"]) == 0
    content = json.loads((tmp_path / "out.json").read_text())
    ops = content["graph"][0]["op"]
    assert (ops[0]["type"], ops[-1]["type"]) == ("Data", "NetOutput")
    assert ops[0]["output_desc"][0] == {"name": "x", "dtype": "DT_FLOAT", "layout": "ND", "shape": {"dim": [-1, 4]}}
    attributes = {entry["key"]: entry["value"] for entry in content["attr"]}
    assert attributes["soc_version"] == {"s": "Ascend910B3"} and attributes["atc_cmdline"]["s"].startswith("atc --model=")


@pytest.mark.parametrize("domain, type", [("here", "Wonder"), ("", "Wonder"), ("", "Gelu")])   # Gelu is newer than the model's opset
def test_the_report_names_what_is_not_served(domain, type, linear, tmp_path, capsys):
    model = onnx.load(linear)
    model.graph.node[2].op_type, model.graph.node[2].domain = type, domain
    model.opset_import.append(helper.make_opsetid("here", 1))
    onnx.save(model, linear)
    assert atc(linear) == 1
    assert "no parser is registered for operator last of type" in capsys.readouterr().out
    assert atc(linear, "--mode=3", f"--check_report={tmp_path}/report.json") == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["result"], report["total"], report["fail"]) == ("failed", 3, 1)
    assert [entry["name"] for entry in report["op"] if entry["result"] == "failed"] == ["last"]


def test_lists_of_operators_for_mixed_precision(linear, tmp_path):
    mixed = program(linear, "--precision_mode=allow_mix_precision")
    assert sorted(str(value.const.dtype) for value in mixed.constants()) == ["torch.float16", "torch.float32"]
    (tmp_path / "mix.json").write_text(json.dumps({"white-list": {"to-remove": ["MatMul"]}, "black-list": {"to-add": ["MatMul"]}}))
    pure = program(linear, "--precision_mode=allow_mix_precision", f"--modify_mixlist={tmp_path}/mix.json")
    assert {value.const.dtype for value in pure.constants()} == {torch.float32}
    (tmp_path / "keep.cfg").write_text("OpType::MatMul\nsum\nlast\n")
    kept = program(linear, f"--keep_dtype={tmp_path}/keep.cfg")
    assert {value.const.dtype for value in kept.constants()} == {torch.float32}


@pytest.mark.parametrize("mode, line, weight, bias", [
    ("fp16", "sum::InputDtype:float32,float32,OutputDtype:float32", "float16", "float32"),
    ("fp16", "OpType::MatMul:InputDtype:float32,float32,OutputDtype:float32", "float32", "float16"),
    ("origin", "# the product\nproduct::InputDtype:float16,float16,OutputDtype:float16\n", "float16", "float32"),
])
def test_operators_of_other_types_than_the_mode_says(mode, line, weight, bias, linear, tmp_path):
    (tmp_path / "custom.cfg").write_text(line)
    found = program(linear, f"--customize_dtypes={tmp_path}/custom.cfg", f"--precision_mode_v2={mode}", "--oo_level=O1")
    assert {value.const.dim(): str(value.const.dtype) for value in found.constants()} == {2: f"torch.{weight}", 1: f"torch.{bias}"}


@pytest.mark.parametrize("line", ["sum:float16", "sum::InputDtype:float32,OutputDtype:float16", "sum::InputDtype:hifloat8,OutputDtype:float32"])
def test_customized_types_that_cannot_be_are_refused(line, linear, tmp_path, capsys):
    (tmp_path / "custom.cfg").write_text(line)
    assert atc(linear, f"--customize_dtypes={tmp_path}/custom.cfg") == 1
    assert "E10032" in (out := capsys.readouterr().out) and line in out


@pytest.mark.parametrize("words", [("--input_shape=x:[1~8,4]",), ("--input_shape_range=x:[1~8,4]",), ("--input_shape=x:1~8,4",)])
def test_ranges_stand_in_brackets_or_not(words, linear):
    assert program(linear, *words).graphs[0].attrs["shape_range"][0].endswith(" 1~8,4~4")


def test_single_operators(tmp_path, capsys):
    desc = {"format": "ND", "shape": [2, 3], "type": "float16"}
    (tmp_path / "ops.json").write_text(json.dumps([{"op": "Add", "input_desc": [desc, desc], "output_desc": [desc]}]))
    words = [f"--singleop={tmp_path}/ops.json", f"--output={tmp_path}/ops", "--soc_version=Ascend910B3"]
    assert main(words) == 0
    found = container.read(str(tmp_path / "ops" / "0_Add_1_2_2_3_1_2_2_3_1_2_2_3.om"))
    half = torch.ones(2, 3, dtype=torch.float16)
    assert torch.equal(Interpreter(found).run([half, half])[0], half * 2)
    (tmp_path / "ops.json").write_text(json.dumps([{"op": "Wonder", "input_desc": [], "output_desc": []}]))
    capsys.readouterr()
    assert main(words) == 1 and "E10501" in capsys.readouterr().out


def test_damaged_models_have_a_code(linear, tmp_path):
    """Nothing but an AtcError comes out of a model whose bytes were changed or cut off."""
    chance, data, codes = random.Random(0), linear.read_bytes(), set()
    for _ in range(120):
        damaged = bytearray(data)
        for _ in range(chance.choice([1, 4])):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        (tmp_path / "damaged.onnx").write_bytes(damaged[: chance.randrange(len(data))] if chance.random() < 0.2 else damaged)
        try:
            convert(tmp_path / "damaged.onnx", tmp_path / "damaged")
        except AtcError as error:
            codes.add(error.code)
    assert {"E13005", "E16001"} <= codes


def test_every_option_says_what_becomes_of_it():
    assert len(options.BY_NAME) == len(options.OPTIONS)
    assert all(option.text and option.treatment in (options.SERVED, options.NO_OP, options.REFUSED) for option in options.OPTIONS)
    text = options.usage()
    assert all(f"--{option.name} " in text for option in options.OPTIONS)


# Every option of CANN's atc.
OF_CANN = """
    ac_parallel_enable aicore_num allow_hf32 atomic_clean_policy auto_tune_mode buffer_optimize build_config cal_conf
    check_report cluster_config compress_weight_conf compression_optimize_conf core_type customize_dtypes debug_dir
    deterministic deterministic_level device_id disable_reuse_memory display_model_info dump_mode dynamic_batch_size
    dynamic_dims dynamic_image_size enable_attr_compression enable_compress_weight enable_scope_fusion_passes
    enable_single_stream enable_small_channel export_compile_stat external_weight framework fusion_switch_file
    h2d_overlapped_with_compute hccl_sub_comm_config help host_env_cpu host_env_os input_format input_fp16_nodes
    input_hint_shape input_shape input_shape_range insert_op_conf is_input_adjust_hw_layout is_output_adjust_hw_layout
    is_weight_clip jit_compile json keep_dtype log mdl_bank_path mode model modify_mixlist multi_stream_parallel_mode om
    oo_constant_folding oo_dead_code_elimination oo_level op_bank_path op_compiler_cache_dir op_compiler_cache_mode
    op_debug_config op_debug_level op_name_map op_precision_mode op_select_implmode optimization_switch
    optypelist_for_implmode out_nodes output output_type precision_mode precision_mode_v2 quant_dumpable raw_ge_options
    raw_ge_options_ignore_unsupported save_original_model shape_generalized_build_mode singleop soc_version sparsity
    static_model_ops_lower_limit status_check target tiling_schedule_optimize topo_sorting_mode virtual_type weight
""".split()
# What an option may hold, where a file or a list has to be there; the others hold one of their values, or a number.
EXAMPLES = {"model": None, "output": None, "framework": None, "soc_version": None, "mode": None, "help": None, "log": "warning", "json": "x.json",
            "om": "x.om", "input_shape": "x:2,4", "input_shape_range": "x:[1~8,4]", "dynamic_batch_size": None, "dynamic_image_size": None,
            "dynamic_dims": None, "input_format": "ND", "out_nodes": "sum:0", "output_type": "FP16", "input_fp16_nodes": "x", "insert_op_conf": None,
            "precision_mode_v2": "origin", "modify_mixlist": None, "keep_dtype": None, "customize_dtypes": None, "fusion_switch_file": None, "check_report": "report.json", "singleop": None}


def test_every_option_of_cann_is_known():
    assert set(OF_CANN) == set(options.BY_NAME)
    own_tests = {name for name, example in EXAMPLES.items() if example is None}   # of this folder: files, gears, what always stands there
    assert all(options.BY_NAME[name].treatment == options.SERVED for name in own_tests)


@pytest.mark.parametrize("name", [name for name in OF_CANN if EXAMPLES.get(name, "") is not None])
def test_each_option_is_served_or_tells_that_it_is_not(linear, capsys, name):
    """A served one converts, one without effect says so and changes nothing, a refused one ends with its name and what to do."""
    option = options.BY_NAME[name]
    given = EXAMPLES.get(name) or next((value for value in reversed(option.values) if value != option.default), "1")
    code = atc(linear, f"--{name}={given}", *([] if name == "log" else ["--log=warning"]))
    out, err = capsys.readouterr()
    if option.treatment == options.REFUSED:
        wanted = "E10001" if name == "auto_tune_mode" else "E10055"   # CANN refuses it, too
        assert code == 1 and wanted in out and f"--{name}" in out and "Solution: " in out
        return
    assert code == 0, out + err
    if option.treatment == options.NO_OP:
        assert f"--{name}" in err and option.text in err
        found = [op.kernel for op in container.read(str(linear.parent / "out.om")).ops()]
        assert found == [op.kernel for op in program(linear).ops()] and found


@pytest.mark.parametrize("damage, code", [("magic", "E13005"), ("short", "E13005"), ("byte", "E13005"), ("foreign", "E10055"),
                                          ("older", "E10055"), ("encrypted", "E10055")])
def test_a_file_that_is_not_softcanns_is_refused(linear, tmp_path, capsys, damage, code):
    program(linear)
    path = tmp_path / "out.om"
    data = bytearray(path.read_bytes())
    if damage == "magic":
        data[0] ^= 1
    elif damage == "short":
        del data[-100:]
    elif damage == "byte":
        data[-70] ^= 1
    elif damage == "encrypted":
        data[80] = 1
    elif damage == "older":   # as ATC wrote them before model_length: a table of 32 bits
        model = container.messages()["ModelDef"](name="resnet50")
        fields = list(container.LAYOUT.unpack_from(data))
        fields[17] = 0
        data = container.LAYOUT.pack(*fields) + struct.pack("<4I", 1, container.MODEL_DEF, 0, model.ByteSize()) + model.SerializeToString()
    else:
        data = data.replace(b"softcann_format", b"unknown__format")
    path.write_bytes(data)
    capsys.readouterr()
    assert main(["--mode=6", f"--om={path}"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[3].startswith(code) and (code != "E10055" or "ATC of CANN made it" in out[3])


def test_without_onnx(linear):
    """The remedy is a command that works: no package index has softcann, so its extra cannot be asked for by name."""
    words = [f"--model={linear}", "--framework=5", f"--output={linear.parent / 'out'}", "--soc_version=Ascend910B3"]
    code = "import sys; sys.modules['onnx'] = None; from softcann.atc.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, universal_newlines=True,
                          cwd=options.__file__.rsplit("/softcann/", 1)[0])
    assert done.returncode == 1
    assert "the Python package onnx is not installed" in done.stdout and "pip install onnx\n" in done.stdout
