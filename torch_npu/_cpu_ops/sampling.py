"""Choosing the next token."""

from typing import Optional, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import wide


def npu_top_k_top_p_sample(
    logits: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    q: Optional[Tensor] = None,
    eps: Optional[float] = 1e-8,
    is_need_logits: Optional[bool] = False,
    top_k_guess: Optional[int] = 32,
    min_ps: Optional[Tensor] = None,
    ks_max: Optional[int] = 1024,
    input_is_logits: Optional[bool] = True,
    post_sample: Optional[str] = "qSample",
    generator: Optional[torch.Generator] = None,
) -> Tuple[Tensor, Tensor]:
    """One token for each row of ``logits`` [batch, vocabulary], out of the likeliest.

    ``top_k`` int32 [batch]: that many stay, all where it is not in 1 .. min(vocabulary, ks_max). ``top_p`` [batch]: the
    likeliest whose probabilities add up to it stay, all from 1 on, one at 0. ``min_ps`` [batch]: probabilities below that
    share of the greatest go. ``post_sample`` "qSample": the greatest of ``p / (|q| + eps)`` with ``q`` [batch, vocabulary],
    exponentially distributed; the likeliest without q; "multiNomial": drawn by ``generator``. ``input_is_logits`` False:
    logits are probabilities. Returns (tokens int64 [batch], the logits with what went as -inf (0 for probabilities), float32,
    or zeros unless ``is_need_logits``). Raises NotImplementedError for a ``q`` of seeds and offsets.
    """
    if post_sample not in (None, "None", "qSample", "multiNomial"):
        raise ValueError(f"npu_top_k_top_p_sample: post_sample {post_sample!r} is not one of None, qSample, multiNomial")
    if post_sample == "multiNomial" and q is not None and not q.is_floating_point():
        raise NotImplementedError("npu_top_k_top_p_sample: q of seeds and offsets is not supported; give a generator")
    size, gone = logits.shape[-1], float("-inf") if input_is_logits else 0.0
    x, order = wide(logits).sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(size, device=x.device)
    k = top_k.long().unsqueeze(-1)
    limited = (k >= 1) & (k <= min(size, ks_max or size))
    x = x.masked_fill(limited & (rank >= k), gone)
    p = wide(top_p).unsqueeze(-1)
    probabilities = torch.softmax(x, -1) if input_is_logits else x
    beyond = probabilities.cumsum(-1) - probabilities >= p  # the sum before a token is enough already
    x = x.masked_fill((p < 1) & beyond & (rank > 0), gone)
    if min_ps is not None:
        probabilities = torch.softmax(x, -1) if input_is_logits else x
        x = x.masked_fill(probabilities < wide(min_ps).unsqueeze(-1) * probabilities[..., :1], gone)
    kept = torch.empty_like(x).scatter_(-1, order, x)
    probabilities = torch.softmax(kept, -1) if input_is_logits else kept
    if post_sample == "multiNomial":
        found = torch.zeros(kept.shape[:-1], dtype=torch.int64, device=x.device)
        if x.device.type != "meta":
            sorted_probabilities = torch.softmax(x, -1) if input_is_logits else x
            place = torch.multinomial(sorted_probabilities, 1, replacement=True, generator=generator)
            found = order.gather(-1, place).squeeze(-1)
    else:
        weighted = q is not None and post_sample == "qSample"
        found = (probabilities / (wide(q).abs() + (eps or 0.0)) if weighted else probabilities).argmax(-1)
    return found, kept if is_need_logits else torch.zeros_like(kept)


def npu_top_k_top_p(logits: Tensor, p: Optional[Tensor] = None, k: Optional[Tensor] = None) -> Tensor:
    """``logits`` [batch, vocabulary] with minus infinity for all but the ``k`` [batch] largest, and of these all but the
    largest whose probabilities first add up to ``p`` [batch]. At least one stays.

    ``logits`` and ``p`` are floating point, ``k`` int32.
    """
    values, order = wide(logits).sort(-1)
    hidden = torch.zeros_like(values, dtype=torch.bool)
    size = values.shape[-1]
    if k is not None:
        hidden = values < values.gather(-1, (size - k.long()).clamp(0, size - 1).unsqueeze(-1))
    if p is not None:
        weights = torch.softmax(values.masked_fill(hidden, float("-inf")), -1)
        small = weights.cumsum(-1) <= 1 - wide(p).unsqueeze(-1)
        hidden = hidden | torch.cat([small[..., :-1], torch.zeros_like(small[..., -1:])], -1)
    kept = values.masked_fill(hidden, float("-inf"))
    return torch.empty_like(kept).scatter(-1, order, kept).to(logits.dtype)


def npu_sim_exponential_(self: Tensor, lambd: float = 1, *, generator: Optional[torch.Generator] = None) -> Tensor:
    """Fills self with numbers of the exponential distribution of rate ``lambd``, as ``exponential_``.

    ``input`` has any shape and a floating point dtype.
    """
    return self.exponential_(lambd, generator=generator)
