"""Random numbers in graphs: each replay draws what the program would draw."""

import pytest
import torch
import torch.nn.functional as F
from graph_capture import NPU, Block, captured

import torch_npu

DRAWS = {
    "rand": lambda x: torch.rand_like(x), "randn": lambda x: torch.randn_like(x), "normal": lambda x: torch.normal(x, 2.0),
    "randint": lambda x: torch.randint(0, 100, x.shape, device=NPU), "dropout": lambda x: F.dropout(x, 0.3),
    "bernoulli": lambda x: torch.bernoulli(x * 0.3), "multinomial": lambda x: torch.multinomial(x, 20, replacement=True),
    "multinomial, each once": lambda x: torch.multinomial(x, 20), "multinomial of one": lambda x: torch.multinomial(x, 1),
    "exponential": lambda x: torch.empty_like(x).exponential_(), "npu_dropout": lambda x: torch_npu._npu_dropout(x, 0.5)[0],
    "two": lambda x: torch.rand_like(x) - torch.rand_like(x),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_replays_draw_what_the_program_would_draw_without_graphs(draw):
    x = torch.ones(1000, device=NPU)
    torch.npu.manual_seed(2**63 + 5)
    graph, result = captured(lambda: draw(x))
    for seed in (2**63 + 5, 7):
        torch.npu.manual_seed(seed)
        expected = [draw(x).cpu() for _ in range(3)]
        after = torch.rand(4, device=NPU)
        torch.npu.manual_seed(seed)
        for value in expected:
            graph.replay()
            assert torch.equal(result.cpu(), value)
        assert torch.equal(torch.rand(4, device=NPU), after)
        assert not torch.equal(expected[0], expected[1])


@pytest.mark.parametrize("draw", [lambda x: torch.randperm(1000, device=NPU), lambda x: F.rrelu(-x, training=True)],
                         ids=["randperm", "rrelu"])
def test_replays_draw_anew_and_repeat_by_seed(draw):
    x = torch.rand(1000, device=NPU)
    graph, result = captured(lambda: draw(x))
    runs = []
    for _ in range(2):
        torch.npu.manual_seed(5)
        for _ in range(2):
            graph.replay()
            runs.append(result.cpu())
    assert torch.equal(runs[0], runs[2]) and torch.equal(runs[1], runs[3]) and not torch.equal(runs[0], runs[1])
    if result.dtype == torch.int64:
        assert torch.equal(runs[0].sort().values, torch.arange(1000))
    else:
        slopes = runs[0] / -x.cpu()
        assert slopes.min() >= 1 / 8 - 1e-6 and slopes.max() <= 1 / 3 + 1e-6 and abs(slopes.mean() - 11 / 48) < 0.01


def test_generators_of_the_program_draw_in_graphs():
    generator = torch.Generator(NPU).manual_seed(9)
    graph = torch.npu.NPUGraph()
    graph.register_generator_state(generator)
    with pytest.raises(ValueError, match="NPU"):
        graph.register_generator_state(torch.Generator())
    with torch.npu.graph(graph):
        own, common = torch.rand(5, device=NPU, generator=generator), torch.rand(5, device=NPU)
    torch.npu.manual_seed(1)
    graph.replay()
    seen = own.cpu(), common.cpu()
    assert torch.equal(seen[0], torch.rand(5, device=NPU, generator=torch.Generator(NPU).manual_seed(9)).cpu())
    torch.npu.manual_seed(1)
    assert torch.equal(seen[1], torch.rand(5, device=NPU).cpu())
    state = generator.get_state()
    graph.replay()
    again = own.cpu()
    generator.set_state(state)
    graph.replay()
    assert torch.equal(own.cpu(), again) and not torch.equal(again, seen[0])


def test_deterministic_fills_do_not_reach_the_numbers_of_a_graph():
    torch.use_deterministic_algorithms(True)
    try:
        graph, result = captured(lambda: torch.rand(100, device=NPU))
    finally:
        torch.use_deterministic_algorithms(False)
    torch.npu.manual_seed(3)
    graph.replay()
    torch.npu.manual_seed(3)
    assert torch.equal(result, torch.rand(100, device=NPU))


def test_training_with_dropout_in_a_graph():
    """Forward and backward of a graph use the same masks, and each replay others, those of the program without graphs."""
    torch.manual_seed(0)
    model = Block(dropout=0.4).to(NPU)
    x = torch.randn(3, 7, 16, device=NPU)

    def step():
        model.zero_grad(set_to_none=False)
        model(x).square().sum().backward()

    side = torch.npu.Stream()
    with torch.npu.stream(side):
        step()
    side.synchronize()
    graph, _ = captured(step)
    torch.npu.manual_seed(4)
    expected = []
    for _ in range(2):
        step()
        expected.append([parameter.grad.cpu() for parameter in model.parameters()])
    torch.npu.manual_seed(4)
    for grads in expected:
        graph.replay()
        for parameter, grad in zip(model.parameters(), grads):
            torch.testing.assert_close(parameter.grad.cpu(), grad)
    assert not torch.allclose(expected[0][0], expected[1][0])
