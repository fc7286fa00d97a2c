"""Programs that run models: the example in C++, and python -m softcann bench."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch
from model_client import ROOT
from om_writer import om, operator

LIBRARIES = ROOT / "torch_npu" / "softcann" / "lib"
TORCH = pathlib.Path(torch.__file__).parent / "lib"


@pytest.fixture
def environment(acl):
    return {**os.environ, "LD_LIBRARY_PATH": f"{LIBRARIES}:{TORCH}"}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "add.om"
    path.write_bytes(om([dict(inputs=["v0 x float32 ND -1,3"], outputs=["v1 y float32 ND -1,3"], dynamic_batch=[2, 8],
                              gear_outputs=["2,3", "8,3"], ops=[operator("aten::add.Scalar", ["t:v0", "i:1"], ["v1"])])]))
    return path


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_the_example_in_cpp(environment, tmp_path):
    model = tmp_path / "fixed.om"
    model.write_bytes(om([dict(inputs=["v0 x float32 ND 2,3"], outputs=["v1 y float32 ND 2,3"],
                               ops=[operator("aten::sub.Tensor", ["t:v0", "t:v0"], ["v1"])])]))
    built = tmp_path / "infer"
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Werror", "-I", str(ROOT / "third_party/cann/include"), str(ROOT / "examples/offline/infer.cpp"),
                    "-L", str(LIBRARIES), "-lascendcl", "-o", str(built)], check=True)
    for mode in ("sync", "async"):
        result = subprocess.run([built, model, mode, "3"], env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        assert result.stdout.startswith("output y [2,3] 0 0 0 0 0\n3 runs, ")
    failed = subprocess.run([built, tmp_path / "none.om"], env=environment, capture_output=True, text=True)
    assert failed.returncode == 1 and "145002" in failed.stderr


@pytest.fixture
def package(tmp_path):
    """The packages as they are when they are installed: with the libraries and the headers in softcann."""
    installed = tmp_path / "site" / "softcann"
    for name in ("acl", "softcann"):
        shutil.copytree(ROOT / "third_party/softcann/python" / name, installed.parent / name,
                        ignore=shutil.ignore_patterns("__pycache__"))
    (installed / "lib").symlink_to(LIBRARIES)
    (installed / "cann").symlink_to(ROOT / "third_party/cann")
    return installed.parent


def bench(package, environment, *arguments):
    return subprocess.run([sys.executable, "-m", "softcann", "bench", *map(str, arguments)],
                          env={**environment, "PYTHONPATH": str(package)}, capture_output=True, text=True)


def test_the_benchmark_prints_what_scripts_parse(package, environment, file):
    result = bench(package, environment, "--model", file, "--batch", "2,8", "--loop", 3, "--pure_data_type", "random")
    assert result.returncode == 0, result.stdout + result.stderr
    number = r"[\d.e+-]+"
    line = rf"min = {number}, max = {number}, mean = {number}, median = {number}, percentile\(99%\) = {number}"
    assert len(re.findall(rf"^\[INFO\] NPU_compute_time \(ms\): {line}$", result.stdout, re.M)) == 2
    assert len(re.findall(rf"^\[INFO\] [HD]2[HD]_latency \(ms\): {line}$", result.stdout, re.M)) == 4
    found = re.findall(rf"throughput 1000\*batchsize\.mean\((\d+)\)/NPU_compute_time\.mean\(({number})\): ({number})$", result.stdout, re.M)
    assert [batch for batch, _, _ in found] == ["2", "8"]
    assert all(abs(float(rate) * float(mean) / 1000 - int(batch)) < 0.01 * int(batch) for batch, mean, rate in found)


@pytest.mark.parametrize("dims, gears, batch, told", [
    ("-1,3", {"dynamic_batch": [2, 8]}, 2, "try get model batchsize:2"),
    ("3,2,-1,-1", {"dynamic_image": ["4,6", "8,8"]}, 3, "height and width 8,8"),
    ("-1,3,-1", {"dynamic_dims": ["1,4", "5,6"]}, 5, "dims of all inputs 5,3,6"),
])
def test_the_benchmark_chooses_among_several_sizes(package, environment, tmp_path, dims, gears, batch, told):
    path = tmp_path / "add.om"
    path.write_bytes(om([dict(inputs=[f"v0 x float32 ND {dims}"], outputs=[f"v1 y float32 ND {dims}"],
                              ops=[operator("aten::add.Scalar", ["t:v0", "i:1"], ["v1"])], **gears)]))
    result = bench(package, environment, "--model", path, "--loop", 2)
    assert result.returncode == 0 and f"[INFO] {told}" in result.stdout, result.stdout + result.stderr
    assert f"throughput 1000*batchsize.mean({batch})/" in result.stdout


def test_the_benchmark_says_what_is_wrong(package, environment, file):
    result = bench(package, environment, "--model", file, "--batch", 3)
    assert result.returncode == 1 and "[ERROR]" in result.stdout and "was not made for 3" in result.stdout


CLIENT = r"""
#include "acl/acl_base.h"
#include "acl/acl.h"
#include "acl/ops/acl_cblas.h"
#include "acl/ops/acl_dvpp.h"
#include "hi_dvpp.h"
#include <cstdio>
int main() {
  int32_t version[3];
  uint32_t devices = 0;
  aclmdlDestroyDesc(aclmdlCreateDesc());
  if (aclrtGetVersion(&version[0], &version[1], &version[2]) != ACL_SUCCESS || aclrtGetDeviceCount(&devices) != ACL_SUCCESS) return 1;
  std::printf("%d %u %d\n", version[0], devices, aclblasGemmEx(ACL_TRANS_N, ACL_TRANS_N, ACL_TRANS_N, 0, 1, 1, nullptr, nullptr, -1, ACL_FLOAT,
      nullptr, -1, ACL_FLOAT, nullptr, nullptr, -1, ACL_FLOAT, ACL_COMPUTE_HIGH_PRECISION, nullptr));
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_a_build_that_expects_an_installation_of_cann(environment, tmp_path):
    """python -m softcann sdk: Ascend's samples are built so, with DDK_PATH and NPU_HOST_LIB."""
    python = {**os.environ, "PYTHONPATH": str(ROOT / "third_party/softcann/python")}
    for _ in range(2):   # again into the same folder
        subprocess.run([sys.executable, "-m", "softcann", "sdk", tmp_path / "cann"], env=python, check=True, capture_output=True)
    (tmp_path / "client.cpp").write_text(CLIENT)
    command = ("source cann/set_env.sh && g++ -std=c++11 -Wall -Werror -I$DDK_PATH/runtime/include -I$DDK_PATH/runtime/include/acl/dvpp client.cpp "
               "-L$NPU_HOST_LIB -lascendcl -lacl_cblas -o client && ./client")
    done = subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"1 {os.environ.get('SOFTCANN_DEVICE_COUNT', '1')} 100000\n"
    # The published client's profiler calls msprof by its place, and looks for the script that theirs runs.
    command = "source cann/set_env.sh && command -v msprof && msprof --help"
    done = subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith(f"{tmp_path}/cann/tools/profiler/bin/msprof\n") and "--export" in done.stdout
    assert (tmp_path / "cann/tools/profiler/profiler_tool/analysis/msprof/msprof.py").is_file()
    # Frameworks on torch_npu import pyACL from CANN's environment, and build with the transformer library as MindSpeed does.
    command = 'source cann/set_env.sh && cd / && python3 -c "import acl; print(acl.__file__)" && printenv PYTHONPATH'
    done = subprocess.run(["bash", "-ec", command], cwd=tmp_path, env={**environment, "PYTHONPATH": "/mine"}, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == f"{tmp_path}/cann/python/site-packages/acl/__init__.py\n{tmp_path}/cann/python/site-packages:/mine\n"
    (tmp_path / "boost.cpp").write_text('#include "atb/operation.h"\n#include "atb/infer_op_params.h"\n#include "atb/train_op_params.h"\n'
                                        'int main() { return atb::DestroyOperation(nullptr) == 0; }\n')
    command = ("source cann/set_env.sh && g++ -I$ATB_HOME_PATH/include boost.cpp -L$ATB_HOME_PATH/lib -lasdops -llcal -latb -lascendcl "
               "-Wl,--allow-shlib-undefined -o boost && ./boost")
    assert subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=environment).returncode == 0
    (tmp_path / "short.cpp").write_text('#include "acl.h"\n#include "hi_dvpp.h"\nint main() { return aclmdlUnload(9) == 0; }\n')
    command = "source cann/set_env.sh && g++ -I$DDK_PATH/include/acl -I$DDK_PATH/include/acl/dvpp short.cpp -L$NPU_HOST_LIB -lascendcl -o short && ./short"
    assert subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=environment).returncode == 0
    (tmp_path / "mine" / "lib64").mkdir(parents=True)
    (tmp_path / "mine" / "lib64" / "libascendcl.so").write_text("")
    refused = subprocess.run([sys.executable, "-m", "softcann", "sdk", tmp_path / "mine"], env=python, capture_output=True, text=True)
    assert refused.returncode == 1 and "is there already" in refused.stderr
