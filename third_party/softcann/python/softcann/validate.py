"""python -m softcann validate: an .om against the ONNX model it came from.

Both are run with the same inputs. For each output it prints the cosine of the angle between the two and their largest difference;
if one diverges, the first operator whose result does. The reference is ONNX Runtime where it is installed, otherwise onnx's own
evaluator, and computes in the model's types.
"""

import argparse
import ctypes
import importlib.util
import os
import sys

import softcann

from ._arguments import positive


def reference(model, inputs, names):
    """{name: array} of the tensors of an ONNX model."""
    import onnx

    types = onnx.shape_inference.infer_shapes(model)
    kinds = {info.name: info for info in [*types.graph.value_info, *types.graph.output]}
    have = {info.name for info in model.graph.output}
    model.graph.output.extend(kinds[name] for name in names if name not in have and name in kinds)
    wanted = [info.name for info in model.graph.output]
    if importlib.util.find_spec("onnxruntime") is not None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        run = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run
    else:
        from onnx.reference import ReferenceEvaluator

        run = ReferenceEvaluator(model).run
    return dict(zip(wanted, run(wanted, inputs)))


def given_files(program, given):
    """The files by the inputs that they are for."""
    names, files = [port.name for port in program.graphs[0].inputs], {}
    for item in given:
        name, equals, path = item.partition("=")
        if not equals or name not in names:
            sys.exit(f"--input {item}: expected NAME=FILE.npy with one of the inputs {', '.join(names)}")
        files[name] = path
    return files


def made_inputs(program, given, batch, seed):
    """Arrays by name: those given as name=file.npy, others random; free sizes become the first gear's, or the batch."""
    import numpy

    from softcann.atc.program import DTYPE_NAMES

    chance, files = numpy.random.default_rng(seed), given_files(program, given)
    arrays, attrs = {}, program.graphs[0].attrs
    gears = attrs.get("dynamic_dims") or attrs.get("dynamic_image") or []
    free = [int(one) for one in gears[0].split(",")] if gears else []
    if "dynamic_batch" in attrs and batch not in attrs["dynamic_batch"]:
        sys.exit(f"--batch {batch}: the .om is made for {attrs['dynamic_batch']}")
    for port in program.graphs[0].inputs:
        if port.name in files:
            arrays[port.name] = numpy.load(files[port.name])
            continue
        shape, kind = [(free.pop(0) if free else batch) if dim == -1 else dim for dim in port.dims], DTYPE_NAMES[port.dtype]
        arrays[port.name] = (
            chance.standard_normal(shape).astype(kind) if "float" in kind else chance.integers(0, 2, shape).astype(kind)
        )
    return arrays


def on_runtime(path, arrays, expected):
    """The outputs of the inputs by name, from softcann's model runtime; `expected`: arrays as large, for sizes that are open."""
    # Whatever CANN the environment points to, acl takes the one that is loaded.
    ctypes.CDLL(os.path.join(softcann.library_path(), "libascendcl.so"), mode=ctypes.RTLD_GLOBAL)
    import aclruntime
    import numpy

    session = aclruntime.InferenceSession(path)
    descs = session.get_inputs()
    kind, _ = session.gears()
    if kind:
        chosen = [dim for one in descs for dim, open_ in zip(arrays[one.name].shape, one.shape) if open_ == -1]
        if kind == "batch":
            session.set_dynamic_batchsize(chosen[0])
        elif kind == "size":
            session.set_dynamic_hw(chosen[1], chosen[0])
        else:
            session.set_dynamic_dims(sizes_text(arrays))
    elif any(-1 in one.shape for one in descs):
        session.set_dynamic_shape(sizes_text(arrays))
    if not all(one.size for one in session.get_outputs()):
        session.set_custom_outsize([max(8 * one.size, 8) for one in expected])
    tensors = session.run([], [aclruntime.Tensor(arrays[one.name]) for one in descs])
    for tensor in tensors:
        tensor.to_host()
    found = [numpy.array(tensor) for tensor in tensors]
    session.finalize()
    return found


def sizes_text(arrays):
    return ";".join(f"{name}:{','.join(map(str, array.shape))}" for name, array in arrays.items())


def interpreted(program, arrays):
    """(outputs, {ONNX name: array} of everything between) from the interpreter of the compiler."""
    from softcann.atc.interpret import Interpreter
    from softcann.atc.tensors import from_numpy

    between = {}

    def watch(op, results):
        for value, result in zip(op.outputs, results):
            if value.source != value.name and not value.is_list:
                between.setdefault(value.source, (op, result.float().numpy() if result.is_floating_point() else result.numpy()))

    outputs = Interpreter(program, watch).run([from_numpy(array) for array in arrays.values()])
    return [output.float().numpy() if output.is_floating_point() else output.numpy() for output in outputs], between


def compare(got, want):
    """(cosine, largest difference) in float64; (nan, inf) where sizes or what is finite differ."""
    import numpy

    got, want = (numpy.asarray(each).astype(numpy.float64).ravel() for each in (got, want))
    if got.shape != want.shape or not (numpy.isfinite(got) == numpy.isfinite(want)).all():
        return float("nan"), float("inf")
    finite = numpy.isfinite(want)
    got, want = got[finite], want[finite]
    if not got.size:
        return 1.0, 0.0
    lengths = numpy.linalg.norm(got) * numpy.linalg.norm(want)
    return (float(got @ want / lengths) if lengths else float(numpy.array_equal(got, want))), float(numpy.abs(got - want).max())


def validate(options):
    """True if every output is close enough."""
    import numpy

    from softcann.atc import container, onnx_file

    program = container.read(options.om)
    if "aipp" in program.graphs[0].attrs:
        sys.exit("the .om takes raw pictures (AIPP): validate one that was converted without --insert_op_conf")
    arrays = made_inputs(program, options.input, options.batch, options.seed)
    model = onnx_file.read_whole(options.onnx)
    outputs, between = interpreted(program, arrays)
    engine = "the interpreter of the compiler"
    if options.engine == "runtime":
        outputs = on_runtime(options.om, arrays, outputs)
        engine = "softcann's model runtime"
    fed = {name: numpy.asarray(array) for name, array in arrays.items()}
    wanted = reference(model, fed, list(between))
    print(f"{options.om} on {engine}, against {options.onnx}")
    good = True
    for port, output in zip(program.graphs[0].outputs, outputs):
        cosine, error = compare(output, wanted[port.name])
        fine = cosine >= options.cosine
        good &= fine
        print(f"  {port.name}: cosine {cosine:.7f}, max error {error:.3e}{'' if fine else '  DIVERGES'}")
    if not good or options.all:
        bisect(between, wanted, options)
    return good


def bisect(between, wanted, options):
    """Prints the first operator, in the order they run, whose result diverges; with --all every one."""
    for name, (op, result) in between.items():
        if name not in wanted:
            continue
        cosine, error = compare(result, wanted[name])
        if options.all or not cosine >= options.cosine:
            print(f"  {op.name} ({op.type}, {op.kernel}) -> {name}: cosine {cosine:.7f}, max error {error:.3e}")
        if not cosine >= options.cosine:
            print(f"first to diverge: {op.name} of type {op.type}")
            return
    print("no operator diverges by itself whose result the ONNX model has under a name")


def main(words=None):
    parser = argparse.ArgumentParser(prog="python -m softcann validate", description=__doc__.splitlines()[0])
    parser.add_argument("--om", required=True, help="the converted model")
    parser.add_argument("--onnx", required=True, help="the model it came from")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=FILE.npy", help="an input; others are random")
    parser.add_argument("--batch", type=positive, default=1, help="for sizes that are free (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs (default 0)")
    parser.add_argument("--cosine", type=float, default=0.99, help="what is close enough (default 0.99)")
    parser.add_argument(
        "--engine", choices=("interpreter", "runtime"), default=default_engine(), help="what runs the .om (default: %(default)s)"
    )
    parser.add_argument("--all", action="store_true", help="print every operator's result")
    options = parser.parse_args(words)
    from softcann.atc.errors import AtcError

    try:
        return 0 if validate(options) else 1
    except AtcError as error:
        print(error.block(), file=sys.stderr)
        return 2
    except OSError as error:
        print(f"validate: {error}", file=sys.stderr)
        return 2


def default_engine():
    """The runtime, where its libraries are there."""
    try:
        softcann.library_path()
    except FileNotFoundError:
        return "interpreter"
    return "runtime"


if __name__ == "__main__":
    sys.exit(main())
