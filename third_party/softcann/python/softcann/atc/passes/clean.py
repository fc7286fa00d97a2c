"""Removes what nobody uses."""


def remove_dead(program):
    """Operators none of whose outputs is used, from the last to the first, and graphs that nobody calls."""
    used = {id(port.value) for graph in program.graphs for port in graph.outputs}
    for graph in program.graphs[::-1]:
        inner = {id(value) for op in graph.ops for value in program.needs(op) if op.bodies}
        kept, live = [], used | inner
        for op in reversed(graph.ops):
            if any(id(value) in live for value in op.outputs):
                kept.append(op)
                live.update(id(value) for value in program.needs(op))
        graph.ops = kept[::-1]
        used |= live
    drop_graphs(program)


def drop_graphs(program):
    """Numbers the graphs that are called anew."""
    order, seen = [program.graphs[0]], {id(program.graphs[0])}
    for graph in order:
        for op in graph.ops:
            for body in program.bodies(op):
                if id(body) not in seen:
                    seen.add(id(body))
                    order.append(body)
    numbers = {id(graph): index for index, graph in enumerate(order)}
    for graph in order:
        for op in graph.ops:
            for index in op.bodies:
                op.args[index] = numbers[id(program.graphs[op.args[index]])]
    program.graphs = order
