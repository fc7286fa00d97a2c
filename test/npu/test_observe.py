"""torch_npu._debug.observe: which calls of operators are seen, with what else is going on."""
import threading

import pytest
import torch

from torch_npu._debug import observe


class Seen(observe.Observer):
    def __init__(self):
        self.calls, self.failures = [], []

    def after(self, call, results):
        self.calls.append(call)

    def failed(self, call, error):
        self.failures.append((call.operator, str(error)))

    def names(self):
        return [call.operator for call in self.calls]


@pytest.fixture
def seen():
    observer = Seen()
    observe.add(observer)
    yield observer
    observe.remove(observer)
    assert torch.utils._python_dispatch._get_current_dispatch_mode_stack() == [] and threading._profile_hook is None


def test_names_numbers_and_arguments(seen):
    observe.restart_numbers()
    x = torch.ones(2, device="npu")
    torch.add(x, x, alpha=3)
    torch.add(x, x)
    ones, first, second = seen.calls
    assert ones.is_on("npu") and list(ones.inputs()) == [] and not ones.is_on("cpu")
    assert [(call.operator, call.number, call.serial) for call in (first, second)] == [("aten.add.Tensor", 0, 1), ("aten.add.Tensor", 1, 2)]
    assert [argument.name for argument, _ in first.arguments()] == ["self", "other", "alpha"]
    assert first.line().startswith(__file__) and not first.is_view() and not first.leaves_unwritten()


def test_kinds_of_calls(seen):
    x = torch.empty(4, device="npu").fill_(1.0)
    x.view(2, 2)
    torch.split(x, 2)
    kinds = {call.operator: (call.is_view(), call.leaves_unwritten()) for call in seen.calls}
    assert kinds["aten.empty.memory_format"] == (False, True) and kinds["aten.fill_.Scalar"] == (False, False)
    assert kinds["aten.view.default"] == kinds["aten.split.Tensor"] == (True, False)
    written = {name: is_written for call in seen.calls if call.operator == "aten.fill_.Scalar" for name, _, is_written in call.inputs()}
    assert written == {"self": True}


def test_a_failing_operator_is_told_and_its_error_goes_on(seen):
    with pytest.raises(RuntimeError, match="shape|size"):
        torch.mm(torch.ones(2, 3, device="npu"), torch.ones(2, 3, device="npu"))
    assert [name for name, _ in seen.failures] == ["aten.mm.default"]


def test_an_observer_does_not_see_itself():
    class Curious(observe.Observer):
        calls = 0

        def after(self, call, results):
            self.calls += 1
            torch.ones(2, device="npu").sum().item()
    observer = Curious()
    observe.add(observer)
    try:
        torch.ones(2, device="npu")
    finally:
        observe.remove(observer)
    assert observer.calls == 1


def test_threads_keep_the_profile_function_they_had():
    told = []
    threading.setprofile(lambda *_: told.append(True))
    observer = Seen()
    try:
        observe.add(observer)
        x = torch.ones(2, device="npu")
        thread = threading.Thread(target=lambda: x.sinh())
        thread.start()
        thread.join()
        assert told and "aten.sinh.default" in observer.names()
    finally:
        observe.remove(observer)
        assert threading._profile_hook is not None
        threading.setprofile(None)


def test_fake_tensors_and_compiled_functions(seen):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert (torch.ones(2, device="npu") + 1).shape == (2,)
    assert seen.calls == []
    assert torch.compile(lambda x: x.sin() + 1, backend="npu")(torch.zeros(2, device="npu")).tolist() == [1, 1]
    assert "aten.sin.default" in seen.names()


def test_captures_are_left_alone(seen):
    graph, x = torch.npu.NPUGraph(), torch.ones(2, device="npu")
    with torch.npu.graph(graph):
        y = x * 2
    graph.replay()
    assert y.tolist() == [2, 2] and "aten.mul.Tensor" not in seen.names()


def test_subclasses_come_first_and_what_they_make_of_a_call_is_seen(python):
    process = python("""if True:
        import torch, torch_npu, torch.distributed as dist
        from torch.distributed.tensor import distribute_tensor, Shard, init_device_mesh
        from torch_npu._debug import observe
        dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
        tensor = distribute_tensor(torch.ones(4, 4), init_device_mesh("npu", (1,)), [Shard(0)])

        class Observer(observe.Observer):
            def after(self, call, results):
                print(call.operator, [type(value).__name__ for _, value, _ in call.inputs()])
        observe.add(Observer())
        (tensor + tensor).detach()
        import torch.distributed._functional_collectives as functional
        x = torch.ones(2, device="npu")
        assert (functional.all_reduce(x, "sum", dist.group.WORLD) + 1).tolist() == [2, 2]
        dist.destroy_process_group()""")
    assert process.returncode == 0, process.stderr
    assert "aten.add.Tensor ['Tensor', 'Tensor']" in process.stdout and "aten.detach.default ['Tensor']" in process.stdout
