"""The headers of aclnnop/, which python -m softcann sdk makes: a program for CANN in C++ is built with them and run."""
import math
import os
import re
import shutil
import subprocess
import sys

import pytest
import torch
from nn_client import OPS, ROOT

sys.path.insert(0, str(ROOT / "third_party" / "cann"))
import gen_aclnn


@pytest.fixture(scope="module")
def sdk(libraries, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdk") / "cann"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "third_party" / "softcann" / "python")}
    subprocess.run([sys.executable, "-m", "softcann", "sdk", folder], env=environment, check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture(scope="module")
def said(sdk):
    """{what the client did: what it says of it}."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or pytest.fail("no C++ compiler")
    source = ROOT / "test" / "softcann_op" / "operators_client.cpp"
    build = (f"source {sdk}/set_env.sh && {compiler} -std=c++17 -Wall -Wextra -Werror -I$ASCEND_TOOLKIT_HOME/include {source} "
             f"-o {sdk}/client -L$ASCEND_TOOLKIT_HOME/lib64 -lascendcl -lopapi -lnnopbase && {sdk}/client")
    done = subprocess.run(["bash", "-ec", build], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def test_operators_are_called_by_their_headers(said):
    assert (said["sum"], said["squares"], said["joined"]) == ("11 22 33 44", "1 4 9 16", "1 2 3 4 10 20 30 40")


def test_programs_begin_and_end_without_aclinit(said):
    assert said["begun"] == "100002 100002" and said["ended"] == "100037"


def test_parameters_of_quantized_products_are_made_on_the_host(said):
    """The scale's upper 19 bits, the offset's nine from bit 37 on, and bit 46."""
    wanted = [(0x3FC00000 | ((-3 & 0x1FF) << 37) | 1 << 46), (0x40000000 | ((-3 & 0x1FF) << 37) | 1 << 46)]
    assert said["parameters"] == f"2 {wanted[0]:x} {wanted[1]:x}" and said["parameters of three offsets"] == "161002"


def test_max_pool_pads_each_side_by_itself(said):
    assert said["pooled"] == "2 3 3 5 6 6 8 9 9"


def test_views_may_leave_the_storage_but_not_the_memory(said):
    assert said["beyond the storage"] == "6 8" and said["beyond the memory"] == "161002"


def test_weights_are_brought_into_blocks(said):
    assert said["elements"] == "256 512, float32: 161002"
    assert said["product"] == "531 642"
    assert said["blocks"] == "1 2 0 3 6"
    assert said["again"].startswith("161002") and "storage format 29 already" in said["again"]
    assert said["other"] == "161002"


def test_filters_are_brought_into_blocks(said):
    """Sixteen channels of sixteen filters for each place of a filter."""
    assert said["elements of filters"] == "512, of two groups: 161002"
    assert said["convolved"] == "21 32 2100 3200" and said["filters"] == "1 0 100 10"


@pytest.mark.parametrize("operator, header", [
    ("aclnnAdd", "aclnn_add"), ("aclnnInplaceAdds", "aclnn_add"), ("aclnnInplaceLeakyRelu", "aclnn_leaky_relu"),
    ("aclnnInplaceAddRmsNorm", "aclnn_inplace_add_rms_norm"), ("aclnnUpsampleNearest2d", "aclnn_upsample_nearest_2d"),
    ("aclnnBatchMatMulWeightNz", "aclnn_batch_matmul"), ("aclnnGeluV2", "aclnn_gelu_v2"), ("aclRfft1D", "acl_rfft1d"),
    ("aclnnForeachACosInplace", "aclnn_foreach_a_cos_inplace"), ("aclnnMaxPool3D", "aclnn_max_pool3_d"),
    ("aclnnFusedInferAttentionScoreV2", "aclnn_fused_infer_attention_score_v2"), ("aclnnMoeGatingTopK", "aclnn_moe_gating_top_k"),
])
def test_an_operator_is_in_the_header_that_programs_include(sdk, operator, header):
    text = (sdk / "include" / "aclnnop" / f"{header}.h").read_text()
    assert re.search(rf"\b{operator}GetWorkspaceSize\(", text)


def test_each_operator_is_in_one_header(sdk):
    names = re.findall(r"\b(\w+)GetWorkspaceSize\(", "".join(path.read_text() for path in (sdk / "include/aclnnop").glob("*.h")))
    assert sorted(names) == sorted(OPS)


def test_numbers_and_types_that_programs_include(sdk):
    """op::fp16_t and op::Float4E2M1 on the host, in rounding and back; hccl's types and the functions of libc_sec."""
    source, program = sdk / "numbers.cpp", sdk / "numbers"
    source.write_text(r"""
        #include "aclnn/opdev/float4_e2m1.h"
        #include "aclnn/opdev/fp16_t.h"
        #include "aclnn_util.h"
        #include "hccl/hccl_types.h"
        #include "securec.h"
        #include <cstdio>
        ACLNN_API int exported() { return HCCL_SUCCESS + ACL_SUCCESS; }
        int main() {
          float number;
          while (std::fread(&number, sizeof number, 1, stdin) == 1) {
            const op::fp16_t half = number;
            const float back = half;
            const op::Float4E2M1 four(number);
            const float level = four;
            char text[64];
            if (sprintf_s(text, sizeof text, "%u %a %u %a", unsigned(half.val), back, unsigned(four.value), level) < 0) return 1;
            std::puts(text);
          }
          return exported();
        }
    """)
    compiler = os.environ.get("CXX") or shutil.which("g++") or pytest.fail("no C++ compiler")
    subprocess.run([compiler, "-std=c++14", "-Wall", "-Wextra", "-Werror", f"-I{sdk}/include", f"-I{sdk}/include/aclnnop", source, "-o",
                    program, f"-L{sdk}/lib64", "-lc_sec"], check=True, timeout=120)
    halves = torch.arange(0x7C00, dtype=torch.int32).to(torch.int16).view(torch.float16).float()
    numbers = torch.cat([halves, (halves[1:] + halves[:-1]) / 2, torch.randn(999) * 3, torch.tensor([65519.9, 65520.0, 1e9, math.inf])])
    numbers = torch.cat([numbers, -numbers])
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{sdk}/lib64"}
    done = subprocess.run([program], input=numbers.numpy().tobytes(), env=environment, stdout=subprocess.PIPE, check=True)
    found = [line.split() for line in done.stdout.decode().splitlines()]
    assert [int(row[0]) for row in found] == (numbers.half().view(torch.int16).int() & 0xFFFF).tolist()
    assert [float.fromhex(row[1]) for row in found] == numbers.half().float().tolist()
    level = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    distance = (numbers.abs().clamp(max=6.0).unsqueeze(1) - level).abs()
    nearest = distance.min(1, keepdim=True).values
    codes = [[i for i in range(8) if row[i]] for row in distance.eq(nearest).tolist()]
    wanted = [next(i for i in tied if len(tied) == 1 or i % 2 == 0) for tied in codes]
    assert [int(row[2]) & 7 for row in found] == wanted
    assert [float.fromhex(row[3]) for row in found] == [math.copysign(level[i].item(), n) for i, n in zip(wanted, numbers.tolist())]


def test_exceptions_name_operators_that_there_are():
    """A line whose operator is gone, or that says what the rule says anyway, is dead."""
    for line in (ROOT / "third_party/cann/aclnn_headers.txt").read_text().splitlines()[1:]:
        header, *operators = line.split()
        assert set(operators) <= set(OPS), line
        assert all(gen_aclnn.header_of(name) != header for name in operators), line
