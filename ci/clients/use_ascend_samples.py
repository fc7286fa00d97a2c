"""Programs for AscendCL that Ascend publishes, built and run as they are: msame, ais_bench, samples in C++ and Python, ModelZoo's.

They stand in $EXAMPLES/tools, samples and ModelZoo-PyTorch (of Ascend on GitHub, which ci/clients.sh clones).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
from harness import case, main

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = Path(os.environ.get("EXAMPLES", ROOT / "build/clients"))
WORK = Path(tempfile.mkdtemp())
TIME = r"\(ms\): min = "


def sh(command: str, folder: Path = WORK, *, timeout: int = 300) -> str:
    """Output of a command in the environment of an installation of softcann."""
    python = {"PYTHONPATH": f"{ROOT}/third_party/softcann/python:{EXAMPLES}/tools/ais-bench_workload/tool/ais_bench",
              "TORCH_NPU_RUNTIME": "softcann", "OMP_NUM_THREADS": "1"}
    script = f"source {WORK}/cann/set_env.sh; {command}"
    done = subprocess.run(["bash", "-ec", script], cwd=folder, env={**os.environ, **python}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError(done.stdout[-1500:])
    return done.stdout


def converted() -> None:
    """WORK/cann, an installation, and WORK/*.om: one network for fixed sizes, batches, picture sizes, sets of sizes, open ones."""
    if (WORK / "open.om").exists():
        return
    sys.path.insert(0, str(ROOT / "third_party/softcann/python"))
    from softcann import atc, sdk

    sdk.make(WORK / "cann")
    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 1000))
    network = torch.nn.Sequential(*layers).eval()
    torch.onnx.export(network, (torch.zeros(1, 3, 224, 224),), str(WORK / "n.onnx"), input_names=["x"],
                      output_names=["y"], dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, dynamo=False)
    for name, options in {"one": {"input_shape": "x:1,3,224,224"}, "four": {"input_shape": "x:4,3,224,224"},
                          "batch": {"input_shape": "x:-1,3,224,224", "dynamic_batch_size": "1,2,4,8"},
                          "size": {"input_shape": "x:1,3,-1,-1", "dynamic_image_size": "224,224;448,448"},
                          "dims": {"input_shape": "x:-1,3,-1,-1", "dynamic_dims": "1,224,224;8,448,448", "input_format": "ND"},
                          "open": {"input_shape": "x:-1,3,-1,-1"}}.items():
        atc.convert(WORK / "n.onnx", WORK / name, **options)
    (WORK / "in").mkdir()
    for index in range(6):
        numpy.random.default_rng(index).random((1, 3, 224, 224)).astype("float32").tofile(WORK / f"in/{index}.bin")
    with torch.no_grad():
        numpy.save(WORK / "y.npy", network(torch.from_numpy(picture(0))).numpy())


def picture(index: int) -> numpy.ndarray:
    return numpy.fromfile(WORK / f"in/{index}.bin", numpy.float32).reshape(1, 3, 224, 224)


def check(found: numpy.ndarray) -> None:
    """Against the network's own result for the first picture; the .om files compute in half precision."""
    numpy.testing.assert_allclose(found.reshape(1, 1000), numpy.load(WORK / "y.npy"), atol=5e-3)


def built(source: Path) -> Path:
    """A sample's program, by its own CMakeLists.txt: below a folder of its own, where it puts it."""
    folder = WORK / source.parent.name / "a" / "b" / "c"   # some put it three folders up
    folder.mkdir(parents=True)
    sh(f"cmake {source} -DCMAKE_CXX_COMPILER=g++ -DCMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined && make -j2", folder)
    names = ("main", "execute_gemm_op", "resize")
    return next(path for path in (WORK / source.parent.name).rglob("*") if path.name in names and path.is_file())


@case("ais_bench: fixed sizes, gears and open sizes; files, arrays and tensors")
def ais_bench() -> None:
    converted()
    for words in ("--model one.om --loop 3", "--model batch.om --dymBatch 4", "--model size.om --dymHW 448,448",
                  "--model dims.om --dymDims x:8,3,448,448", "--model open.om --dymShape x:3,3,64,64 --outputSize 100000",
                  *(f"--model four.om --input in --output out --run_mode {mode} --display_all_summary 1" for mode in ("array", "files", "tensor", "full"))):
        assert re.search("NPU_compute_time " + TIME, sh(f"{sys.executable} -m ais_bench {words}")), words


@case("msame, in C++: fixed sizes and gears")
def msame() -> None:
    converted()
    program = built(EXAMPLES / "tools/msame/src")
    for words in ("--model one.om --input in/1.bin --outfmt TXT --loop 3", "--model batch.om --dymBatch 4", "--model size.om --dymHW 448,448",
                  "--model dims.om --dymDims x:8,3,448,448"):
        found = sh(f"{program} {words} --output out2")
        assert re.search(r"Inference average time: \d", found) and "[ERROR]" not in found, found[-800:]


@case("samples in C++ build by their own CMakeLists.txt: classification (three ways, with DVPP too), matrices, pictures")
def samples_build() -> None:
    converted()
    folder = EXAMPLES / "samples/cplusplus/level2_simple_inference/1_classification"
    for name in ("resnet50_imagenet_classification", "resnet50_async_imagenet_classification", "vpc_resnet50_imagenet_classification",
                 "vpc_jpeg_resnet50_imagenet_classification"):
        built(folder / name / "src")


@case("samples of single operators: a product of matrices in C++, an addition in Python")
def single_operators() -> None:
    converted()
    acl = EXAMPLES / "samples/cplusplus/level1_single_api/1_acl/4_blas/gemm"
    program, run = built(acl / "src"), WORK / "gemm_run"
    sh(f"cp -r {acl}/run/out {run} && mkdir -p {run}/result_files && cd {run}/test_data/data && {sys.executable} generate_data.py")
    atc = f"{sys.executable} -m softcann atc --soc_version=Ascend910B3"
    assert "Run op success" in sh(f"{atc} --singleop=test_data/config/gemm.json --output=op_models && {program}", run)
    a, b, c, found = (numpy.fromfile(run / path, numpy.float16).astype(numpy.float32).reshape(16, 16)
                      for path in ("test_data/data/matrix_a.bin", "test_data/data/matrix_b.bin", "test_data/data/matrix_c.bin", "result_files/matrix_c.bin"))
    assert numpy.abs(found - (2 * a @ b + c)).max() < 1e-2   # alpha 2, beta 1
    add, copy = EXAMPLES / "samples/python/level1_single_api/1_acl/4_blas/acl_operator_add", WORK / "add"
    sh(f"cp -r {add} {copy} && {atc} --singleop={copy}/test_data/config/add_op.json --output={copy}/test_data/op_models")
    assert "execute success" in sh(f"{sys.executable} {copy}/src/acl_execute_add.py")


@case("a sample of DVPP's second interface: a picture of 1920 x 1080 resized")
def resize() -> None:
    converted()
    program = built(EXAMPLES / "samples/cplusplus/level1_single_api/7_dvpp/resize/src")
    (WORK / "data").mkdir()
    (WORK / "out_resize").mkdir()
    numpy.arange(1920 * 1080 * 3 // 2, dtype=numpy.uint8).tofile(WORK / "data/dvpp_vpc_1920x1080_nv12.yuv")
    sh(str(program), WORK / "out_resize")
    assert (WORK / "out_resize/resize_out.yuv").stat().st_size == 960 * 540 * 3 // 2


# Starts one class of ModelZoo's acl_net.py: argv is its file, its name and the .om; its arguments have the same names everywhere.
NETWORK = """
import importlib.util, inspect, sys, acl, numpy
where, name, om = sys.argv[1:]
module = importlib.util.module_from_spec(spec := importlib.util.spec_from_file_location("acl_net", where))
spec.loader.exec_module(module)
if "acl.init(" not in open(where).read():
    acl.init()
    acl.rt.set_device(0)
given = {"context": acl.rt.create_context(0)[0], "model_path": om, "device_id": 0}
class_ = getattr(module, name)
net = class_(**{key: value for key, value in given.items() if key in inspect.signature(class_).parameters})
x = numpy.fromfile("in/0.bin", numpy.float32).reshape(1, 3, 224, 224)
dims = {"dimCount": 4, "name": "", "dims": list(x.shape)}
more = {"dim": dims, "dims": dims, "out_size": [4000]}
rest = [more[key] for key in inspect.signature(class_.__call__).parameters if key in more]
numpy.save("found.npy", net([x], *rest)[0])
"""


def network(folder: str, om: str, name: str = "Net", file: str = "acl_net.py") -> None:
    (WORK / "network.py").write_text(NETWORK)
    (WORK / "found.npy").unlink(missing_ok=True)
    sh(f"{sys.executable} network.py {EXAMPLES}/ModelZoo-PyTorch/ACL_PyTorch/{folder}/{file} {name} {om}")
    check(numpy.load(WORK / "found.npy"))


@case("ModelZoo: the class `Net` of seven networks, on pyACL; three more for open sizes and for sets of sizes")
def modelzoo_networks() -> None:
    converted()
    for folder in ("built-in/audio/Tacotron2_for_Pytorch", "built-in/cv/3DUnet_for_PyTorch", "built-in/cv/Pelee_for_Pytorch",
                   "contrib/audio/Speech-Transformer", "contrib/cv/tracking/SiamRPN", "contrib/cv/video_understanding/I3D",
                   "contrib/cv/video_understanding/I3D_Nonlocal"):
        network(folder, "one.om")
    network("contrib/cv/face/FaceNet/models", "open.om")
    (WORK / "onnx").mkdir(exist_ok=True)   # where WeNet's looks for it
    for om in ("one.om", "dims.om"):
        (WORK / "onnx" / om).symlink_to(WORK / om)
        network("contrib/audio/WeNet", om)
    network("contrib/cv/tracking/Deepsort_for_Pytorch", "dims.om", "NetDynamic", "acl_net_dynamic.py")


@case("ModelZoo: pyacl_infer.py of three networks, sets of sizes, synchronous and asynchronous")
def modelzoo_pyacl() -> None:
    converted()
    (WORK / "info").write_text("".join(f"{index} in/{index}.bin (1,3,224,224)\n" for index in range(3)))
    for script in ("contrib/audio/tdnn/Tdnn_pyacl_infer.py", "built-in/audio/LSTM/pyacl_infer.py", "built-in/nlp/CNN_Transformer_for_Pytorch/pyacl_infer.py"):
        for synchronous in (True, False):
            out = sh(f"{sys.executable} {EXAMPLES}/ModelZoo-PyTorch/ACL_PyTorch/{script} --model_path=dims.om --device_id=0 --cpu_run=True "
                     f"--sync_infer={synchronous} --workspace=1 --input_info_file_path=info --input_dtypes=float32 --infer_res_save_path=res "
                     "--res_save_type=npy")
            assert re.search(r"total infer num: 3\n", out)
            check(numpy.load(WORK / "res/0.0.npy"))


if __name__ == "__main__":
    main("onnx")
