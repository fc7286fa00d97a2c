"""What operators compute does not depend on how their tensors lie in memory: see relaid_calls.py. They take the dtypes that CANN
documents: see retyped_calls.py. What is wrong does no harm: see reshaped_calls.py and wrong_calls.py."""
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
CALLS = HERE.parent / "witness" / "calls.py"   # each of PyTorch's and of Ascend's operators, and some networks


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    recorded = {**os.environ, "SOFTCANN_RECORD": str(folder / "calls.rec"), "SOFTCANN_TRACE": str(folder / "calls.trace"),
                "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(CALLS)], env=recorded, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:]
    return recorded["SOFTCANN_RECORD"]


def again(script, *arguments):
    """What the script says of the record's calls, line by line."""
    done = subprocess.run([sys.executable, str(HERE / script), *arguments], env={**os.environ, "OMP_NUM_THREADS": "1"},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.splitlines()


def test_results_in_every_layout(record):
    *wrong, counts = again("relaid_calls.py", record)
    operators, calls = int(counts.split()[0]), int(counts.split()[2])
    assert not wrong and operators > 400 and calls > 6000, [*wrong, counts]


def test_documented_dtypes_are_accepted(record):
    *refused, counts = again("retyped_calls.py", record)
    operators, dtypes = int(counts.split()[0]), int(counts.split()[2])
    assert not refused and operators > 400 and dtypes > 3000, [*refused, counts]


def test_results_of_another_shape_are_refused(record):
    *taken, counts, without_a_rule = again("reshaped_calls.py", record)
    operators, calls = int(counts.split()[0]), int(counts.split()[2])
    assert not taken and operators > 400 and calls > 3000, [*taken, counts]
    assert len(without_a_rule.split()) < 150, without_a_rule


# Those in which wrong_calls.py once found something, and some of each family of kernels.
ATTACKED = ("aclnnAdd,aclnnAdaptiveAvgPool2dBackward,aclnnAdaptiveMaxPool2dBackward,aclnnAvgPool2dBackward,aclnnBatchNorm,aclnnBatchNormBackward,"
            "aclnnBincount,aclnnConstantPadNd,aclnnConvolution,aclnnConvolutionBackward,aclnnCtcLossBackward,aclnnFusedInferAttentionScoreV3,"
            "aclnnGridSampler2DBackward,aclnnGroupedMatmulV4,aclnnIndex,aclnnInverse,aclnnLogSoftmaxBackward,aclnnMoeComputeExpertTokens,"
            "aclnnMoeInitRoutingV3,aclnnOneHot,aclnnReplicationPad2dBackward,aclnnRmsNormGrad,aclnnROIAlign,aclnnSort,aclnnSwiGluQuantV2,aclnnUnfoldGrad")


def test_wrong_arguments_do_no_harm(record, tmp_path):
    cases = str(tmp_path / "calls.cases")
    again("call_cases.py", cases, "--record", record)
    *strange, counts = again("wrong_calls.py", cases, "--samples", "1", "--operators", ATTACKED)
    operators, calls = int(counts.split()[0]), int(counts.split()[2])
    assert not strange and operators == len(ATTACKED.split(",")) and calls > 1000, [*strange, counts]
