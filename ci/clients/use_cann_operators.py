"""Example programs of CANN's operators, one or more for each, built with the headers of `python -m softcann sdk` and run as they are.

They stand in $EXAMPLES/ops-math, ops-nn, ops-cv and ops-transformer (of hicann on GitHub, which ci/clients.sh clones). A program
tells by its exit code whether each call of CANN succeeded. What calls operators that softcann does not have is counted apart.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List

from harness import case, installation, main

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = Path(os.environ.get("EXAMPLES", ROOT / "build/clients"))
WORK = Path(tempfile.mkdtemp())
# Why a program fails here; each by its path, or the end of it.
KNOWN: Dict[str, str] = {
    # What softcann does not do.
    "floor_mod/examples/test_aclnn_remainder_tensor_tensor.cpp": "divides whole numbers by 0, an error of the CPU's kernels",
    "floor_mod/examples/test_aclnn_inplace_remainder_tensor_tensor.cpp": "the same",
    "floor_mod/examples/test_aclnn_remainder_scalar_tensor.cpp": "the same",
    "arch35/test_aclnn_quant_batch_matmul_inplace_add_TT.cpp": "hifloat8, which softcann does not have",
    "arch35/test_aclnn_quant_matmul_v5_hif8hif8.cpp": "the same",
    "arch35/test_aclnn_quant_matmul_weight_nz_mxfp4.cpp": "casts a tensor in FRACTAL_NZ, which softcann's aclnnCast does not take",
    "arch20/test_aclnn_matmul_compress_dequant.cpp": "weights compressed by a tool whose format is not public",
    "examples/test_aclnn_grouped_matmul_finalize_routing.cpp": "bias and offset of int4 weights, which softcann refuses",
    # What the operator's page does not allow, either.
    "gelu_grad/examples/test_aclnn_gelu_backward.cpp": "a gradient of int32, which the operator's page does not allow",
    "foreach_round_off_number/examples/test_aclnn_foreach_round_off_number.cpp": "a mode of int8 from the first byte of a float32: 0",
    "tf_scatter_add/examples/test_aclnn_tf_scatter_add.cpp": "gives two numbers for indices of 2 x 3",
    "chamfer_distance_grad/examples/test_aclnn_chamfer_distance_grad.cpp": "an index beyond the points",
    "nll_loss/examples/test_aclnn_nll_loss_2d.cpp": "a target beyond the classes",
    "advance_step/examples/test_aclnn_advance_step.cpp": "positions beyond the one page of each sequence",
    "fused_adamw/examples/test_aclnn_fused_adamw.cpp": "counts of steps with eight elements each",
    "moe_init_routing_v3/examples/test_aclnn_moe_init_routing_v3.cpp": "an offset for scales that are found by row",
    "moe_token_permute_with_routing_map/examples/test_aclnn_moe_token_permute_with_routing_map.cpp": "bools out of numbers of four bytes",
    "swi_glu_quant/examples/test_aclnn_swi_glu_quant.cpp": "ends of groups in int32 out of float32's bits",
    "swi_glu_quant/examples/test_aclnn_swi_glu_quant_v2.cpp": "the same",
    "examples/test_aclnn_multi_scale_deformable_attention_grad.cpp": "sizes in int32 out of float32's bits",
    "examples/test_aclnn_multi_scale_deformable_attn_function.cpp": "the same",
    # Memory that is too small for what it is said to hold, or that is copied as what it is not.
    "arch20/test_aclnn_quant_matmul_dequant.cpp": "scales of float32 in memory for 16 bits each",
    "dequant_bias/examples/test_aclnn_dequant_bias.cpp": "int32 in memory for int16",
    "examples/test_aclnn_quant_matmul_v3_at2_at3_int4.cpp": "int32 in memory for int8",
    "examples/test_aclnn_quant_matmul_v4_at2_at3_int4.cpp": "the same",
    "examples/test_aclnn_grouped_matmul_finalize_routing_weight_nz.cpp": "int64 in memory for two thirds of it",
    "examples/test_aclnn_fused_linear_cross_entropy_loss_grad.cpp": "copies float32 out of results of bfloat16",
    "mla_prolog/examples/test_aclnn_mla_prolog.cpp": "copies memory of the device as if it were the host's",
    "mla_prolog_v2/examples/test_aclnn_mla_prolog_v2.cpp": "the same",
    # What does not compile with CANN's headers, either.
    "arch35/test_aclnn_stateless_random_uniform_v3.cpp": "includes a header that an installation of CANN does not have",
    "attention/nsa_selected_attention_infer/examples/test_aclnn_nsa_selected_attention_infer.cpp": "the same",
    "arch35/test_aclnn_sleep.cpp": "gives a tensor where the operator's page and definition say a list",
    "mla_prolog_v3/examples/test_aclnn_mla_prolog_v3.cpp": "calls the operator as it was before",
    "group_norm_grad/examples/test_aclnn_group_norm_grad.cpp": "a variable that is not declared",
    "group_norm_silu_quant/examples/test_aclnn_group_norm_silu_quant.cpp": "a type of Arm compilers, __fp16",
}


def served() -> List[str]:
    import softcann

    listed = subprocess.run(["nm", "-D", "--defined-only", Path(softcann.library_path()) / "libopapi.so"], stdout=subprocess.PIPE,
                            text=True, check=True).stdout
    return re.findall(r" T (acl\w+)GetWorkspaceSize\n", listed)


def outcome(program: Path, environment: Dict[str, str]) -> str:
    """Empty where the program was built, ran and ended with 0."""
    built = WORK / ("_".join(program.parts[-4:]) + ".out")
    folder = WORK / "cann"
    command = ["g++", "-std=c++17", "-w", f"-I{folder}/include", f"-I{folder}/include/aclnnop", str(program), "-o", str(built),
               f"-L{folder}/lib64", "-lascendcl", "-lopapi", "-lnnopbase", "-lhccl", "-lpthread"]
    compiled = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if compiled.returncode:
        return compiled.stdout[-300:]
    try:
        done = subprocess.run([built], env=environment, cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    except subprocess.TimeoutExpired:
        return "does not end"
    finally:
        built.unlink()
    return done.stdout[-300:].decode(errors="replace") if done.returncode else ""


def run_all(repository: str) -> None:
    environment = {**installation(WORK / "cann"), "SOFTCANN_DEVICE_COUNT": "16", "SOFTCANN_MEMORY": "1G"}
    operators = set(served())
    programs = [path for path in sorted((EXAMPLES / repository).rglob("test_aclnn*.cpp"))
                if "examples" in path.parts and not {"experimental", "tests", "template"} & set(path.parts)]
    called = {path: set(re.findall(r"\b(acl\w+)GetWorkspaceSize\s*\(", path.read_text(errors="replace"))) for path in programs}
    runnable = [path for path in programs if called[path] and called[path] <= operators]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = dict(zip(runnable, pool.map(lambda path: outcome(path, environment), runnable)))
    failed = {str(path.relative_to(EXAMPLES)): text for path, text in outcomes.items() if text}
    unknown = {path: text for path, text in failed.items() if not any(path.endswith(known) for known in KNOWN)}
    print(f"{repository}: {len(runnable) - len(failed)} of {len(programs)} programs ran, {len(failed)} failed, "
          f"{len(programs) - len(runnable)} call what softcann does not have")
    for path, text in unknown.items():
        print(f"  {path}: {text}")
    assert len(runnable) > 0.7 * len(programs), "most operators are missing"
    assert not unknown, f"{len(unknown)} of {len(runnable)} programs failed: {sorted(unknown)}"


@case("hicann/ops-math: the examples of its operators")
def ops_math() -> None:
    run_all("ops-math")


@case("hicann/ops-nn: the examples of its operators")
def ops_nn() -> None:
    run_all("ops-nn")


@case("hicann/ops-cv: the examples of its operators")
def ops_cv() -> None:
    run_all("ops-cv")


@case("hicann/ops-transformer: the examples of its operators")
def ops_transformer() -> None:
    run_all("ops-transformer")


main()
