"""Indices that an operator chose among equal numbers. torch promises no order of them, except sort's with stable=True."""
CHOSEN = {"mode": 1, "sort": 1, "argsort": 0, "topk": 1, "msort": None}  # OpInfo's name: which output holds the indices


def promised(sample):
    return sample.kwargs.get("stable", False)


def dim_of(name, sample):
    if name == "msort":
        return 0
    positional = sample.args[1:] if name == "topk" else sample.args
    return sample.kwargs.get("dim", positional[0] if positional else -1)


def picked(name, sample, indices):
    """The numbers of the input at `indices`, which have to be different ones."""
    x, indices = sample.input.detach(), indices.detach().to(sample.input.device)
    if x.dim() == 0:
        return x.flatten()[indices]
    dim = dim_of(name, sample)
    if indices.dim() < x.dim():
        indices = indices.unsqueeze(dim)
    assert indices.sort(dim).values.diff(dim=dim).ne(0).all(), f"{name} chose an index twice"
    return x.gather(dim, indices)


def has_ties(name, sample):
    """Whether the choice, and with it the place a gradient goes to, is open."""
    x = sample.input.detach()
    return x.dim() > 0 and bool(x.sort(dim_of(name, sample)).values.diff(dim=dim_of(name, sample)).eq(0).any())
