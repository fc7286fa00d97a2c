"""Switches that find out what goes wrong: operators sent to the CPU, the ledger, checks of numbers."""
import json

import pytest


def output(process):
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def test_named_operators_run_on_the_cpu(python):
    code = """if True:
        import json, torch, torch_npu
        a = torch.ones(2, 3, device="npu", requires_grad=True)
        (a @ a.t()).sum().backward()
        print(json.dumps([a.grad.tolist(), torch_npu.fallbacks()]))"""
    grad, ledger = output(python(code, TORCH_NPU_FALLBACK_OPS="aten::mm, sum.IntList_out"))
    assert grad == [[4.0] * 3] * 2
    assert set(ledger) == {"aten::mm"}
    assert ledger["aten::mm"]["calls"] == 3 and ledger["aten::mm"]["seconds"] > 0
    assert ledger["aten::mm"]["bytes"] == 4 * ((6 + 6 + 4) + 2 * (4 + 6 + 6))


@pytest.mark.parametrize("name, message", [("aten::no_such_op", "there is no operator aten::no_such_op"),
                                           ("aten::view", "makes a view"), ("matmul", "made of others")])
def test_a_name_that_cannot_be_sent_is_an_error(python, name, message):
    process = python("import torch_npu", TORCH_NPU_FALLBACK_OPS=name)
    assert process.returncode != 0 and message in process.stderr


def test_forbidden_fallback_names_the_operator(python):
    code = """if True:
        import json, torch, torch_npu
        try:
            torch.linalg.eigvals(torch.eye(2, device="npu"))
        except NotImplementedError as error:
            print(json.dumps(str(error)))"""
    assert "eig" in output(python(code, TORCH_NPU_FALLBACK_CPU_DISABLE="1"))


def test_check_of_numbers_names_the_operator_and_the_place(python):
    code = """if True:
        import json, torch, torch_npu, traceback
        x = torch.tensor([[1.0, 2.0], [3.0, 0.0]], device="npu")
        messages = []
        for call in (lambda: x.log(), lambda: x.clone().div_(0), lambda: torch._foreach_log([x + 1, x])):
            try:
                call()
            except RuntimeError as error:
                frames = traceback.extract_tb(error.__traceback__)
                messages.append(str(error).splitlines()[0])
        mask = torch.full((2, 2), float("-inf"), device="npu").triu(1)
        attention = (x + mask).softmax(-1)
        print(json.dumps([messages, attention.cpu().isfinite().all().item()]))"""
    messages, finite = output(python(code, TORCH_NPU_CHECK_NAN_INF="1"))
    assert finite
    assert "aclnnLog made -inf" in messages[0] and "argument 'out'" in messages[0] and "index [1, 1] of shape [2, 2]" in messages[0]
    assert "made inf" in messages[1] and "index [0, 0]" in messages[1]
    assert "(tensor 1 of the list)" in messages[2]


@pytest.mark.parametrize("variable, value, kind", [("INF_NAN_MODE_ENABLE", "2", "bool (1 or 0)"),
                                                   ("TORCH_NPU_SYNC_DEBUG_MODE", "long", "int64_t")])
def test_a_wrong_value_in_the_environment_is_an_error_to_catch(python, variable, value, kind):
    """The library is loaded all the same: `import torch`, which loads torch_npu by itself, goes on."""
    process = python("""if True:
        import torch
        try:
            import torch_npu
        except ValueError as error:
            print(error)""", **{variable: value})
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == f"{variable}={value}: expected a value of type {kind}"
