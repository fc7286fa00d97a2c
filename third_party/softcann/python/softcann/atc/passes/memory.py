"""The memory plan: how many bytes the activations take at most, with places used again once their values are freed."""

ALIGN = 512
# They give a view of their input: no memory of their own.
VIEWS = {
    "aten::view_as",
    "aten::permute",
    "aten::transpose.int",
    "aten::t",
    "aten::unsqueeze",
    "aten::squeeze",
    "aten::squeeze.dims",
    "aten::squeeze.dim",
    "aten::select.int",
    "aten::slice.Tensor",
    "aten::split_with_sizes",
    "aten::expand",
    "aten::expand_as",
    "aten::reshape",
    "aten::flatten.using_ints",
    "aten::unfold",
    "aten::view_as_real",
    "aten::view_as_complex",
    "aten::view.dtype",
}


class Lifetime:
    """From the operator that makes a value to the last one that reads it or a view of it."""

    def __init__(self, size, first):
        self.size, self.first, self.last = size, first, first


def lifetimes(program, graph, sample):
    """Lifetimes of the values of a graph for one set of sizes; what a body needs counts where it runs."""
    found, owner = {}, {}
    for index, op in enumerate(graph.ops):
        sources = [owner[id(value)] for value in program.needs(op) if id(value) in owner]
        for one in sources:
            found[one].last = index
        for value in op.outputs:
            if op.kernel in VIEWS and sources:
                owner[id(value)] = sources[0]
                continue
            tensor = value.samples[min(sample, len(value.samples) - 1)] if value.known else None
            size = 0 if tensor is None else -(-tensor.numel() * tensor.element_size() // ALIGN) * ALIGN
            owner[id(value)] = id(value)
            found[id(value)] = Lifetime(size, index)
    for port in graph.outputs:
        if id(port.value) in owner:
            found[owner[id(port.value)]].last = len(graph.ops)
    inner = {
        index: max(peak(program, body, sample, True) for body in program.bodies(op))
        for index, op in enumerate(graph.ops)
        if op.bodies
    }
    return list(found.values()) + [Lifetime(size, index) for index, size in inner.items()]


def peak(program, graph, sample, reuse):
    """Bytes at the fullest moment: values are given the lowest place that is free while they live, the largest first."""
    lives = lifetimes(program, graph, sample)
    if not reuse:
        return sum(life.size for life in lives)
    placed, top = [], 0
    for life in sorted(lives, key=lambda one: -one.size):
        if not life.size:
            continue
        start = 0
        for low, high, first, last in sorted(placed):
            if first <= life.last and life.first <= last:
                if low - start >= life.size:
                    break
                start = max(start, high)
        placed.append((start, start + life.size, life.first, life.last))
        top = max(top, start + life.size)
    return top


def plan(program, reuse=True):
    """Writes `workspace_bytes` into the program's first graph."""
    graph = program.graphs[0]
    samples = max((len(value.samples) for op in graph.ops for value in op.outputs), default=1)
    size = max((peak(program, graph, sample, reuse) for sample in range(samples)), default=0)
    graph.attrs["workspace_bytes"] = size
    return size
