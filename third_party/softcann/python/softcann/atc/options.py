"""The command line of atc: every option, what it may hold, and what becomes of it here.

SERVED does what it says. NO_OP is accepted because a script may give it, and changes nothing, for the reason given. REFUSED
ends the conversion when it is given a value other than its default, with what to do instead.
"""

import dataclasses
import typing

SERVED, NO_OP, REFUSED = "served", "no-op", "refused"


@dataclasses.dataclass(frozen=True)
class Option:
    name: str
    treatment: str
    text: str  # for --help and the docs
    values: typing.Tuple[str, ...] = ()
    default: str = ""
    kind: str = "string"  # string, int32, bool


ONE_CHIP = "an optimisation of the chip"
FORMATS = ("NCHW", "ND", "NCDHW", "NHWC", "NDHWC")
PRECISION = (
    "force_fp16",
    "force_fp32",
    "cube_fp16in_fp32out",
    "allow_mix_precision",
    "allow_fp32_to_fp16",
    "must_keep_origin_dtype",
    "allow_mix_precision_fp16",
    "allow_mix_precision_bf16",
    "allow_fp32_to_bf16",
)
PRECISION_V2 = ("fp16", "origin", "cube_fp16in_fp32out", "mixed_float16", "mixed_bfloat16", "cube_hif8", "mixed_hif8")

OPTIONS = (
    Option("model", SERVED, "the model to convert, .onnx"),
    Option("output", SERVED, "path and name of the .om, without the suffix; with --singleop a folder"),
    Option("framework", SERVED, "5 is ONNX; 0 Caffe, 1 MindSpore and 3 TensorFlow must be exported to ONNX first",
           ("0", "1", "3", "5"), default="-1", kind="int32"),
    Option("soc_version", SERVED, "the chip that the model is for, as Ascend910B3: npu-smi's name with Ascend before it"),
    Option("mode", SERVED, "0 convert, 1 print a model or an .om as json, 3 check the model, 6 print what an .om holds",
           ("0", "1", "3", "5", "6", "7", "30"), default="0", kind="int32"),
    Option("om", SERVED, "the .om or model that modes 1 and 6 read"),
    Option("json", SERVED, "the file that mode 1 writes"),
    Option("help", SERVED, "print this", default="false", kind="bool"),
    Option("log", SERVED, "messages of the converter", ("debug", "info", "warning", "error", "null"), default="null"),
    Option("input_shape", SERVED, 'sizes of the inputs: "name:1,3,224,224;other:-1,16"; -1 or 1~8 is free'),
    Option("input_shape_range", SERVED, 'the older form of ranges: "name:[1~8,3,-1,-1]"'),
    Option("input_hint_shape", NO_OP, "hints for tuning, which free sizes do not need here"),
    Option("dynamic_batch_size", SERVED, 'the batch sizes to be chosen from: "1,2,4,8"'),
    Option("dynamic_image_size", SERVED, 'the image sizes to be chosen from: "416,416;832,832"'),
    Option("dynamic_dims", SERVED, 'values of all free dimensions, in order: "1,128;8,64"; needs --input_format=ND'),
    Option("input_format", SERVED, "layout of the inputs", FORMATS),
    Option("out_nodes", SERVED, 'outputs of the .om: "node:0;node:1", or names of tensors'),
    Option("output_type", SERVED, 'type of all outputs, or "node:0:FP16;other:0:FP32"'),
    Option("input_fp16_nodes", SERVED, 'inputs that are given in half precision: "a;b"'),
    Option("insert_op_conf", SERVED, "AIPP configuration, protobuf text"),
    Option("precision_mode", SERVED, "which operators compute in half precision; default force_fp16", PRECISION),
    Option("precision_mode_v2", SERVED, "the newer names of it; the hif8 modes are refused", PRECISION_V2),
    Option("modify_mixlist", SERVED, "json of operators to add to or remove from the lists of a mixed precision mode"),
    Option("keep_dtype", SERVED, "file of operators, one a line, that keep the model's precision"),
    Option("customize_dtypes", SERVED, "file of operators, one a line, with the types that they compute in"),
    Option("is_weight_clip", SERVED, "keep large weights finite in half precision", ("0", "1"), default="1"),
    Option("fusion_switch_file", SERVED, "json or lines that switch fusions on and off"),
    Option("disable_reuse_memory", SERVED, "1 plans a place of its own for each activation", ("0", "1"), default="0",
           kind="int32"),
    Option("check_report", SERVED, "the report of mode 3", default="check_result.json"),
    Option("display_model_info", SERVED, "1 prints the sizes of the .om", ("0", "1"), default="0"),
    Option("dump_mode", SERVED, "1 with mode 1: sizes inferred", ("0", "1"), default="0"),
    Option("oo_constant_folding", SERVED, "compute at compile time what is constant", ("true", "false"), default="true"),
    Option("oo_dead_code_elimination", NO_OP, "what nobody uses is always left out", default="true"),
    Option("op_select_implmode", NO_OP, "there is one implementation of an operator, the precise one",
           ("high_precision", "high_performance", "high_precision_for_all", "high_performance_for_all")),
    Option("optypelist_for_implmode", NO_OP, "goes with --op_select_implmode"),
    Option("op_precision_mode", NO_OP, "there is one implementation of an operator, the precise one"),
    Option("allow_hf32", NO_OP, "float32 is computed in float32", ("true", "false")),
    Option("buffer_optimize", NO_OP, ONE_CHIP, ("l1_optimize", "l2_optimize", "off_optimize"), default="l2_optimize"),
    Option("core_type", NO_OP, "a property of the chip", ("AiCore", "VectorCore"), default="AiCore"),
    Option("aicore_num", NO_OP, "a property of the chip"),
    Option("virtual_type", NO_OP, "a property of the chip", ("0", "1"), default="0", kind="int32"),
    Option("enable_small_channel", NO_OP, ONE_CHIP, ("0", "1"), default="0"),
    Option("enable_single_stream", NO_OP, "a model runs on one stream here", ("true", "false")),
    Option("multi_stream_parallel_mode", NO_OP, "a model runs on one stream here"),
    Option("ac_parallel_enable", NO_OP, ONE_CHIP, ("0", "1"), default="0"),
    Option("tiling_schedule_optimize", NO_OP, ONE_CHIP, ("0", "1"), default="0"),
    Option("topo_sorting_mode", NO_OP, "operators run in the model's order"),
    Option("jit_compile", NO_OP, "operators are ATen's, compiled already", ("0", "1", "2"), default="1"),
    Option("optimization_switch", NO_OP, "passes of the chip; for fusions see --fusion_switch_file"),
    Option("oo_level", SERVED, "O1 leaves fusions out", ("O0", "O1", "O2", "O3"), default="O3"),
    Option("static_model_ops_lower_limit", NO_OP, ONE_CHIP),
    Option("h2d_overlapped_with_compute", NO_OP, ONE_CHIP),
    Option("shape_generalized_build_mode", NO_OP, "deprecated", ("shape_generalized", "shape_precise"), default="shape_precise"),
    Option("atomic_clean_policy", NO_OP, ONE_CHIP, ("0", "1"), default="0"),
    Option("deterministic", NO_OP, "results are the same each time", ("0", "1"), default="0"),
    Option("deterministic_level", NO_OP, "results are the same each time", ("0", "1", "2", "3"), default="0"),
    Option("status_check", NO_OP, "sizes and types are always checked", ("0", "1"), default="0"),
    Option("op_debug_level", NO_OP, "there are no kernels to keep", ("0", "1", "2", "3", "4"), default="0", kind="int32"),
    Option("op_debug_config", NO_OP, "there are no kernels to check"),
    Option("debug_dir", NO_OP, "there are no kernels to keep"),
    Option("op_compiler_cache_dir", NO_OP, "there are no kernels to keep"),
    Option("op_compiler_cache_mode", NO_OP, "there are no kernels to keep", ("enable", "disable", "force"), default="disable"),
    Option("mdl_bank_path", NO_OP, "tuning results of the chip"),
    Option("op_bank_path", NO_OP, "tuning results of the chip"),
    Option("device_id", NO_OP, "nothing is tuned on a device", default="0"),
    Option("host_env_os", NO_OP, "an .om here runs on any host", ("linux",)),
    Option("host_env_cpu", NO_OP, "an .om here runs on any host", ("x86_64", "aarch64")),
    Option("quant_dumpable", NO_OP, "every operator can be dumped"),
    Option("export_compile_stat", NO_OP, "--log=info tells what was fused"),
    Option("enable_scope_fusion_passes", NO_OP, "TensorFlow's"),
    Option("is_output_adjust_hw_layout", NO_OP, "layouts of the chip are not used", ("true", "false")),
    Option("is_input_adjust_hw_layout", NO_OP, "layouts of the chip are not used", ("true", "false")),
    Option("save_original_model", NO_OP, "reserved"),
    Option("target", NO_OP, "reserved"),
    Option("enable_attr_compression", NO_OP, "attributes are small", ("true", "false"), default="true"),
    Option("raw_ge_options_ignore_unsupported", NO_OP, "goes with --raw_ge_options", default="false", kind="bool"),
    Option("weight", REFUSED, "weights of Caffe: export the model to ONNX"),
    Option("cal_conf", REFUSED, "quantise before the conversion: python -m softcann.quantize"),
    Option("compression_optimize_conf", REFUSED, "quantise before the conversion: python -m softcann.quantize"),
    Option("enable_compress_weight", REFUSED, "weights are mapped from the file as they are; leave it out", ("true", "false"),
           default="false"),
    Option("compress_weight_conf", REFUSED, "weights are mapped from the file as they are; leave it out"),
    Option("sparsity", REFUSED, "there are no sparse kernels; leave it out", ("0", "1"), default="0", kind="int32"),
    Option("op_name_map", REFUSED, "operators of your own are given as functions in the ONNX model"),
    Option("external_weight", REFUSED, "weights are mapped from the .om; leave it out", ("0", "1", "2"), default="0"),
    Option("cluster_config", REFUSED, "a model runs on one device; split it and run the parts with collectives"),
    Option("hccl_sub_comm_config", REFUSED, "a model runs on one device; split it and run the parts with collectives"),
    Option("auto_tune_mode", REFUSED, "deprecated; leave it out"),
    Option("raw_ge_options", REFUSED, "give the options of atc instead"),
    Option("build_config", REFUSED, "of OM2 bundles; leave it out"),
    Option("singleop", SERVED, "json of single operators: each becomes an .om in the folder --output"),
)
BY_NAME = {option.name: option for option in OPTIONS}
EXCLUSIVE = (
    ("dynamic_batch_size", "dynamic_image_size", "dynamic_dims"),
    ("precision_mode", "precision_mode_v2"),
    ("dynamic_dims", "insert_op_conf"),
)
TRUE, FALSE = ("1", "t", "true", "y", "yes", ""), ("0", "f", "false", "n", "no")


class UsageError(Exception):
    """A command line that cannot be read: its text goes to stderr."""


def parse(words):
    """Values by option name, those given only. `--name=value`, `--name value`, also with one dash; -h is --help."""
    given, words = {}, list(words)
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word == "-":
            raise UsageError(f"ERROR: Non-option parameter: {word}")
        name, equals, value = word.lstrip("-").partition("=")
        name = {"h": "help"}.get(name, name.replace("-", "_"))
        option = BY_NAME.get(name)
        if option is None:
            raise UsageError(f"ERROR: unknown command line flag '{name}'")
        if option.kind == "bool" and not equals:
            value = "true"
        elif not equals:
            if not words:
                raise UsageError(f"ERROR: flag '{name}' is missing its argument; flag description: {option.text}")
            value = words.pop(0)
        given[name] = value
    return given


def usage():
    """The text of --help."""
    lines = ["usage: atc --model=MODEL.onnx --framework=5 --output=NAME --soc_version=SOC [options]", ""]
    for option in OPTIONS:
        note = {SERVED: "", NO_OP: "accepted, changes nothing: ", REFUSED: "not served: "}[option.treatment]
        lines.append(f"  --{option.name:<28} {note}{option.text}")
        if option.values:
            lines.append(f"    {'':<28} one of {', '.join(option.values)}; default {option.default or 'none'}")
    return "\n".join(lines)
