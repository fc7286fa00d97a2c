"""Which thread runs a backward: the caller's in a process that uses one NPU, else a thread for each NPU."""
import pytest

HEAD = """if True:
    import threading, torch, torch_npu

    def in_the_callers_thread(*devices):
        seen = []
        leaves = [torch.ones(3, device=device, requires_grad=True) for device in devices]
        for leaf in leaves:
            leaf.register_hook(lambda grad: seen.append(threading.get_ident() == threading.main_thread().ident))
        sum((leaf * 2).sum().to(devices[0]) for leaf in leaves).backward()
        assert all(leaf.grad.tolist() == [2.0] * 3 for leaf in leaves)
        return seen
"""


@pytest.mark.parametrize("name,body", {
    "one": """
    assert in_the_callers_thread("npu:0") == [True]
    assert in_the_callers_thread("cpu") == [True]""",
    "the one that is used": """
    assert in_the_callers_thread("npu:1") == [True]""",
    "several": """
    assert in_the_callers_thread("npu:0", "npu:1") == [False, False]
    assert in_the_callers_thread("npu:0") == [False]""",
    "a second one later": """
    assert in_the_callers_thread("npu:0") == [True]
    torch.ones(1, device="npu:1")
    assert in_the_callers_thread("npu:0") == [False]""",
    "as the user says": """
    assert in_the_callers_thread("npu:0") == [True]
    with torch.autograd.set_multithreading_enabled(True):
        assert in_the_callers_thread("npu:0") == [False]
    assert in_the_callers_thread("npu:0") == [True]""",
    "checkpoints": """
    from torch.utils.checkpoint import checkpoint
    x = torch.randn(4, 4, device="npu", requires_grad=True)
    for reentrant in (False, True):
        checkpoint(lambda t: checkpoint(torch.sin, t, use_reentrant=reentrant).exp(), x, use_reentrant=reentrant).sum().backward()
        expected = x.detach().sin().exp() * x.detach().cos()
        torch.testing.assert_close(x.grad, expected)
        x.grad = None""",
    "a stream of its own": """
    x = torch.randn(1000, device="npu", requires_grad=True)
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        y = (x * 3).sum()
        y.backward()
    torch.npu.current_stream().wait_stream(stream)
    assert (x.grad == 3).all()""",
    "threads": """
    def work():
        x = torch.randn(100, device="npu", requires_grad=True)
        for _ in range(50):
            (x * 2).sum().backward()
        assert (x.grad == 100).all()
        done.append(True)
    done, workers = [], [threading.Thread(target=work) for _ in range(4)]
    for worker in workers: worker.start()
    work()
    for worker in workers: worker.join()
    assert len(done) == 5""",
}.items())
def test_backward_runs(python, name, body):
    done = python(HEAD + body, SOFTCANN_DEVICE_COUNT=2)
    assert done.returncode == 0, f"{name}: {done.stderr}"
