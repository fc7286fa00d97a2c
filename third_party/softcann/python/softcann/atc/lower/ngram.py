"""TfIdfVectorizer: how often the n-grams of a pool occur in rows of integers."""

import torch

from . import lowers


def grams_of(node):
    """For each n the n-grams of the pool, int64 [count, n]; in all as many as there are outputs' indices."""
    pool, starts = node.attr("pool_int64s"), node.attr("ngram_counts")
    if pool is None:
        raise node.refuse("its pool is of text; pool_int64s is served")
    ends = [*starts[1:], len(pool)]
    return [torch.tensor(pool[start:end]).reshape(-1, n) for n, (start, end) in enumerate(zip(starts, ends), 1)]


def occurrences(node, x, grams, skip):
    """[rows, grams]: how often each gram occurs with `skip` items left out between two of its own. None: rows are too short."""
    n, length = grams.shape[1], x.dims[-1]
    step = skip + 1
    places = length - (n - 1) * step
    if places <= 0 or not len(grams):
        return None
    found = None
    for k in range(n):
        items = node.emit("aten::unsqueeze", node.emit("aten::slice.Tensor", x, 1, k * step, k * step + places, 1), -1)
        same = node.emit("aten::eq.Tensor", items, node.constant(grams[:, k].contiguous()))
        found = same if found is None else node.emit("aten::logical_and", found, same)
    return node.emit("aten::sum.dim_IntList", node.cast(found, torch.float32), [1], False, dtype=torch.float32)


@lowers("TfIdfVectorizer")
def tf_idf(node):
    x = node.x(0)
    rank = node.rank(x)
    if x.dims[-1] is None:
        raise node.refuse("the length of its rows must be known")
    rows = node.cast(node.emit("aten::unsqueeze", x, 0) if rank == 1 else x, torch.int64)
    least, most, skips = (node.attr(name) for name in ("min_gram_length", "max_gram_length", "max_skip_count"))
    indices, counts = node.attr("ngram_indexes"), []
    for n, grams in enumerate(grams_of(node), 1):
        taken = [None]
        if least <= n <= most:
            taken = [occurrences(node, rows, grams, skip) for skip in range(skips + 1 if n > 1 else 1)]
        total = None
        for one in filter(None, taken):
            total = one if total is None else node.emit("aten::add.Tensor", total, one)
        counts.append(total if total is not None else node.emit("aten::new_zeros", rows, [node.size(rows, 0), len(grams)],
                                                                dtype=torch.float32))
    found = node.emit("aten::cat", counts, 1)
    mode, weights = node.attr("mode"), node.attr("weights")
    if mode in ("IDF", "TFIDF"):
        if mode == "IDF":
            found = node.cast(node.emit("aten::gt.Scalar", found, 0), torch.float32)
        if weights:
            found = node.emit("aten::mul.Tensor", found, node.constant(weights, torch.float32))
    places = torch.zeros(len(indices), max(indices) + 1)
    places[torch.arange(len(indices)), indices] = 1
    out = node.emit("aten::matmul", found, node.constant(places))
    return node.emit("aten::squeeze.dim", out, 0) if rank == 1 else out
