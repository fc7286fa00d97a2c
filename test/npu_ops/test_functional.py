"""Operators that write to their arguments, in compiled programs: what they write and return is what it is without a compiler."""
import pytest
import torch
from cases import CASES
from torch.utils._pytree import tree_flatten, tree_map_only

import torch_npu


def writes(name):
    packet = getattr(torch.ops.npu, name)
    return any(argument.alias_info is not None and argument.alias_info.is_write
               for argument in getattr(packet, packet.overloads()[0])._schema.arguments)


# Formats are facts about memory, which a compiled program does not see; memory is the argument of the other.
NAMES = sorted(name for name in CASES if writes(name) and not name.startswith(("npu_format_cast", "npu_change_data_ptr")))


def call(name, index=0):
    torch.manual_seed(index)
    args, kwargs = CASES[name][index](torch.float32)
    return tree_map_only(torch.Tensor, lambda t: t.npu(), (args, kwargs))


def tensors(*values):
    found = [leaf.cpu() for leaf in tree_flatten(values)[0] if isinstance(leaf, torch.Tensor)]
    return [each.float() if each.is_floating_point() else each for each in found]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("of", ["inputs", "made"])
def test_compiled(name, of):
    operator = getattr(torch_npu, name)

    def program(args, kwargs):
        if of == "made":   # what is written to is made in the program, and read after
            args, kwargs = tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
        result = operator(*args, **kwargs)
        return result, tree_map_only(torch.Tensor, torch.clone, (args, kwargs))

    torch._dynamo.reset()   # one program's code for all operators: it would count as compiled too often
    found = []
    for function in (program, torch.compile(program, backend="aot_eager", fullgraph=True)):
        args, kwargs = call(name)
        torch.manual_seed(7)
        with torch.no_grad():
            found.append(tensors(function(args, kwargs), args, kwargs))
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0, equal_nan=True)


def test_a_part_of_a_tensor_is_written():
    def program(x, index, updates):
        y = x * 2
        torch_npu.npu_scatter_nd_update_(y[1:], index, updates)
        return y.sum(), y

    given = torch.ones(4, 3).npu(), torch.tensor([[0], [2]]).npu(), torch.full((2, 3), 9.0).npu()
    _, y = torch.compile(program, backend="aot_eager", fullgraph=True)(*given)
    assert y.cpu().equal(program(*given)[1].cpu())
    assert y.tolist() == [[2.0] * 3, [9.0] * 3, [2.0] * 3, [9.0] * 3]


def test_out_is_written():
    def program(x, out):
        return torch.ops.npu.npu_slice.out(x, [0, 1], [2, 2], out=out) + 1

    x, out = torch.arange(12.0).reshape(3, 4).npu(), torch.zeros(2, 2).npu()
    result = torch.compile(program, backend="aot_eager", fullgraph=True)(x, out)
    assert out.cpu().equal(x.cpu()[:2, 1:3]) and result.cpu().equal(out.cpu() + 1)


def test_what_has_no_results_is_no_dead_code(tmp_path, capfd):
    path = str(tmp_path / "y.pt")

    def program(x):
        y = x + x
        torch_npu.save_npugraph_tensor(y, save_path=path)
        torch_npu.print_npugraph_tensor(y, tensor_name="y")
        return y + 2

    compiled = torch.compile(program, backend="aot_eager", fullgraph=True)
    for value in (1.0, 5.0):
        compiled(torch.full((2,), value).npu())
    assert [torch.load(path).tolist() for path in sorted(tmp_path.glob("*.pt"))] == [[2.0, 2.0], [10.0, 10.0]]
    assert capfd.readouterr().out.count("y=tensor") == 2


def test_what_a_compiler_cannot_know_runs_without_it():
    args, kwargs = call("npu_nms_rotated")
    program = torch.compile(lambda args, kwargs: torch_npu.npu_nms_rotated(*args, **kwargs)[1] + 1, backend="aot_eager")
    assert program(args, kwargs).cpu().equal(torch_npu.npu_nms_rotated(*args, **kwargs)[1].cpu() + 1)


@pytest.mark.parametrize("name", ["npu_batch_nms", "npu_nms_v4", "npu_roi_align", "npu_cross_entropy_loss"])
def test_what_looks_at_values_is_one_call(name):
    args, kwargs = call(name)
    program = torch.compile(lambda args, kwargs: getattr(torch_npu, name)(*args, **kwargs), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(program(args, kwargs), getattr(torch_npu, name)(*args, **kwargs))
