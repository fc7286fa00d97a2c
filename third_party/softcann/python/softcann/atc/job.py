"""One conversion: from the options of a command line to a program."""

import re

from . import aipp_config, configs, frontend, onnx_file, shapes
from .errors import AtcError
from .options import BY_NAME, EXCLUSIVE, NO_OP, REFUSED
from .passes import fuse, memory
from .precision import MODES, Precision
from .tensors import ONNX_DTYPES, TORCH_DTYPES

SOCS = re.compile(
    r"Ascend(310|310P[1-9]|310B[1-4]|910|910(A|B|C|ProA|ProB|PremiumA)?|910B[1-4](_1|-1)?|910B[24]C?|910_93\d\d|950\w*|"
    r"BS9SX1A\w*|Hi\w+)"
)
FRAMEWORKS = {"0": "Caffe", "1": "MindSpore", "3": "TensorFlow"}
OUTPUT_TYPES = {
    "FP32": "float32",
    "FP16": "float16",
    "UINT8": "uint8",
    "INT8": "int8",
    "INT16": "int16",
    "UINT16": "uint16",
    "INT32": "int32",
    "INT64": "int64",
    "BF16": "bfloat16",
    "BOOL": "bool",
    "DOUBLE": "float64",
}
MOST_SAMPLES = 8


def value(given, name):
    """An option's value: what was given, or its default."""
    return given.get(name, BY_NAME[name].default)


def check_options(given, log):
    """Refuses values that no option can have, and what is not served; tells what changes nothing."""
    for name, text in given.items():
        option = BY_NAME[name]
        if option.kind == "bool" and text.lower() not in ("1", "t", "true", "y", "yes", "", "0", "f", "false", "n", "no"):
            raise AtcError("E10005", f'"{text}" given for --{name} is neither true nor false', solution="Write true or false.")
        if text == "" and option.kind != "bool":
            raise AtcError("E10004", f"--{name} is given without a value", solution="Give a value, or leave the option out.")
        if name == "framework" and text not in option.values:
            raise AtcError(
                "E10007",
                f'"{text}" given for --framework is no framework; 5 is ONNX',
                solution="Use --framework=5 and an ONNX model.",
            )
        if (
            option.values
            and text not in option.values
            and not ("adjust_hw_layout" in name and set(text.split(",")) <= {"true", "false"})
        ):
            code = "E10006" if option.values == ("0", "1") else "E10010" if name == "log" else "E10001"
            raise AtcError(
                code, f'"{text}" given for --{name} is not one of {", ".join(option.values)}', solution="Use one of them."
            )
        if option.treatment == REFUSED and text != option.default:
            code = "E10001" if name == "auto_tune_mode" else "E10055"   # which CANN has no more either
            raise AtcError(code, f"--{name} is not served: {option.text}", solution="Leave it out, or do as it says.")
        if option.treatment == NO_OP:
            log.warning(f"--{name} changes nothing: {option.text}")
    for names in EXCLUSIVE:
        both = [name for name in names if given.get(name)]
        if len(both) > 1:
            raise AtcError("E10057", f"--{both[0]} and --{both[1]} exclude one another", solution="Leave one of them out.")


def check_build(given):
    """What a conversion cannot do without."""
    if not given.get("model"):
        raise AtcError("E10054", "--model is required", solution="Give the ONNX model: --model=x.onnx")
    framework = value(given, "framework")
    if framework == "-1":
        raise AtcError("E10007", "--framework is required; 5 is ONNX", solution="Add --framework=5.")
    if framework != "5":
        raise AtcError(
            "E10055",
            f"models of {FRAMEWORKS[framework]} are not read",
            solution="Export the model to ONNX and use --framework=5.",
        )
    soc = given.get("soc_version")
    if not soc:
        raise AtcError(
            "E10054",
            "--soc_version is required",
            solution="Give the chip's name as npu-smi info prints it, with Ascend before it.",
        )
    if not SOCS.fullmatch(soc):
        raise AtcError(
            "E10001",
            f'"{soc}" given for --soc_version is no chip that is known',
            solution="Use a name such as Ascend910B3 or Ascend310P3.",
        )


def precision_of(given):
    """The Precision that the options ask for; ATC's default is half precision."""
    mode = given.get("precision_mode") or given.get("precision_mode_v2") or "force_fp16"
    if mode not in MODES:
        raise AtcError(
            "E10055", f"precision mode {mode} needs a chip with hif8 arithmetic", solution="Use fp16, origin or a mixed mode."
        )
    white, black, gray = configs.mix_lists(given["modify_mixlist"]) if given.get("modify_mixlist") else ((), (), ())
    kept = configs.kept_operators(given["keep_dtype"]) if given.get("keep_dtype") else ()
    custom = configs.customized(given["customize_dtypes"]) if given.get("customize_dtypes") else {}
    return Precision(mode, white, black, gray, kept, value(given, "is_weight_clip") == "1", custom)


def tried_sizes(found):
    """For each input the sizes to try: of so many gears that every dimension that changes is seen to change, or of its range."""
    if found.dynamic():
        gears, picked = found.choices(), []
        flat = [[size for dims in gear.values() for size in dims] for gear in gears]
        for index in range(len(gears)):
            if not picked or any(
                sizes[0] != flat[index][place] and len({flat[one][place] for one in picked}) == 1
                for place, sizes in enumerate(zip(*[flat[one] for one in picked]))
            ):
                picked.append(index)
        largest = max(range(len(gears)), key=lambda index: sum(flat[index]))
        picked = list(dict.fromkeys([largest, *picked]))[:MOST_SAMPLES]
        return {name: [gears[index][name] for index in picked] for name in found.dims}
    result = {}
    for name, ranges in found.ranges.items():
        if any(low != high for low, high in ranges) and all(high != -1 or low == high for low, high in ranges):
            result[name] = [[high for _, high in ranges], [max(low, high - 1) if low != high else high for low, high in ranges]]
    return result


def choose_outputs(model, text):
    """Makes the named nodes' outputs, or tensors, the outputs of the model (--out_nodes)."""
    types = frontend.infer(model)
    nodes = {node.name: node for node in model.graph.node}
    names = {name for node in model.graph.node for name in node.output}
    del model.graph.output[:]
    for part in filter(None, (item.strip() for item in text.split(";"))):
        name, _, index = part.rpartition(":")
        if part in names:
            tensor = part
        elif name in nodes and index.isdigit() and int(index) < len(nodes[name].output):
            tensor = nodes[name].output[int(index)]
        else:
            raise AtcError(
                "E10016",
                f"--out_nodes names {part}, which is no node's output and no tensor of the model",
                solution="Write node:index, or the name of a tensor.",
            )
        dtype = types.get(tensor, (None, None))[0]
        model.graph.output.add(name=tensor).type.tensor_type.elem_type = ONNX_DTYPES.get(dtype, 0)


def set_output_types(program, text):
    """--output_type: one for all, or "node:0:FP16;..." by output."""
    ports = program.graphs[0].outputs
    for part in filter(None, text.split(";")):
        name, _, kind = part.rpartition(":")
        if kind not in OUTPUT_TYPES:
            raise AtcError(
                "E10001", f'"{kind}" given for --output_type is not one of {", ".join(OUTPUT_TYPES)}', solution="Use one of them."
            )
        chosen = [port for port in ports if not name or port.name == name or any(name == label for label in labels(port))]
        if not chosen:
            raise AtcError(
                "E10016", f"--output_type names {name}, which is no output of the model", solution="Write node:index:TYPE."
            )
        dtype = next(dtype for dtype in TORCH_DTYPES.values() if str(dtype) == f"torch.{OUTPUT_TYPES[kind]}")
        for port in chosen:
            port.dtype = dtype


def labels(port):
    """Names by which an output may be meant: its node and index."""
    op = port.value.op
    return [f"{op.name}:{index}" for index, made in enumerate(op.outputs) if made is port.value] if op is not None else []


class Job:
    """A conversion. `program` after `compile()`."""

    def __init__(self, given, log, progress=None):
        self.given, self.log, self.progress, self.program = given, log, progress, None

    def compile(self):
        given = self.given
        model, folder = onnx_file.load(given["model"])
        found = shapes.parse_shapes(given)
        if given.get("out_nodes"):
            choose_outputs(model, given["out_nodes"])
        halves = self.half_inputs(model)
        switches = configs.fusion_switches(given["fusion_switch_file"]) if given.get("fusion_switch_file") else {}
        names = [info.name for info in frontend.graph_inputs(model)]
        blocks = aipp_config.parse(given["insert_op_conf"], names) if given.get("insert_op_conf") else {}
        options = frontend.Options(
            shapes=found.dims,
            tried=tried_sizes(found),
            precision=precision_of(given),
            fold=value(given, "oo_constant_folding") == "true",
            passes=None if value(given, "oo_level") in ("O0", "O1") else lambda program: fuse.run(program, switches, self.log),
            progress=self.progress,
            halves=halves,
            aipp=blocks,
            layout="NHWC" if given.get("input_format") == "NHWC" else "NCHW",
            outputs=lambda program: set_output_types(program, given.get("output_type", "")),
        )
        self.program = frontend.compile_model(model, options, folder)
        self.describe(found, blocks)
        return self.program

    def half_inputs(self, model):
        names = [name for name in self.given.get("input_fp16_nodes", "").split(";") if name]
        known = {info.name for info in frontend.graph_inputs(model)}
        wrong = [name for name in names if name not in known]
        if wrong:
            raise AtcError(
                "E10016",
                f"--input_fp16_nodes names {wrong[0]}, which is no input of the model",
                solution="Use the inputs' names.",
            )
        return names

    def describe(self, found, blocks):
        """Attributes of graph and model that are not the program: gears, ranges, layouts, sizes."""
        graph = self.program.graphs[0]
        layout = self.given.get("input_format") or "NCHW"
        for port in graph.inputs:
            rank = len(port.dims)
            port.format = layout if rank == len(layout) and layout != "ND" else "ND"
        names = {port.name: port.value.name for port in graph.inputs}
        if found.batch:
            graph.attrs["dynamic_batch"] = found.batch
        if found.images:
            graph.attrs["dynamic_image"] = [",".join(map(str, gear)) for gear in found.images]
        if found.gears:
            graph.attrs["dynamic_dims"] = [",".join(map(str, gear)) for gear in found.gears]
        if found.fixed:
            graph.attrs["input_fixed"] = [names[name] for name in found.fixed]
        lines = []
        for port in graph.inputs:
            ranges = found.ranges.get(port.name) or [(1, -1) if dim == -1 else (dim, dim) for dim in port.dims]
            if -1 in port.dims and not found.dynamic():
                lines.append(f"{port.value.name} " + ",".join(f"{low}~{high}" for low, high in ranges))
        for index, block in blocks.items():
            if block.mode == "static":
                graph.inputs[index].format = "NHWC"
        if blocks:
            graph.attrs["aipp"] = [f"{index} {block.text()}" for index, block in sorted(blocks.items())]
        if lines:
            graph.attrs["shape_range"] = lines
        workspace = memory.plan(self.program, value(self.given, "disable_reuse_memory") == "0")
        weights = sum(item.const.numel() * item.const.element_size() for item in self.program.constants())
        self.program.attrs.update(
            {
                "soc_version": self.given.get("soc_version", ""),
                "framework_type": "5",
                "memory_size": workspace,
                "weight_size": weights,
                "stream_num": 1,
                "event_num": 0,
                "attr_model_out_nodes_name": [port.name for port in graph.outputs],
            }
        )
