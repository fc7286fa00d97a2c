"""npu_fusion_attention, which transformers and others import by name, in PyTorch operators.

It runs on any device and has gradients by autograd. It is a reference: the scores are materialised, so memory grows
with the product of the sequence lengths.
"""

import torch

_UNLIMITED = 2147483647
_LAST = 8  # the statistics of the softmax are repeated along a last dimension of this size
_LAYOUTS = {"BSH", "SBH", "BSND", "BNSD"}


def _split_heads(tensor, layout, heads):
    """To [batch, heads, length, width]."""
    if layout == "BNSD":
        return tensor
    if layout == "BSND":
        return tensor.transpose(1, 2)
    if layout == "SBH":
        tensor = tensor.transpose(0, 1)
    batch, length, hidden = tensor.shape
    return tensor.reshape(batch, length, heads, hidden // heads).transpose(1, 2)


def _merge_heads(tensor, layout):
    if layout == "BNSD":
        return tensor
    tensor = tensor.transpose(1, 2)
    if layout == "BSND":
        return tensor.contiguous()
    tensor = tensor.flatten(2)
    return tensor.transpose(0, 1).contiguous() if layout == "SBH" else tensor


def _hidden(rows, columns, atten_mask, sparse_mode, pre_tockens, next_tockens, device):
    """Bool mask of scores that do not count, or None. sparse_mode: 0 the mask and the band, 1 the mask alone,
    2 causal from the upper left corner, 3 causal from the lower right one, 4 the band from the lower right."""
    if sparse_mode == 1 or (sparse_mode == 0 and pre_tockens >= columns and next_tockens >= columns):
        return None if atten_mask is None else atten_mask.bool()
    row = torch.arange(rows, device=device).unsqueeze(1)
    distance = torch.arange(columns, device=device) - row  # how far a column lies ahead of its row
    if sparse_mode in (3, 4):
        distance = distance - (columns - rows)
    if sparse_mode in (2, 3):
        return distance > 0
    band = (distance > next_tockens) | (distance < -pre_tockens)
    return band if sparse_mode == 4 or atten_mask is None else band | atten_mask.bool()


def npu_fusion_attention(query, key, value, head_num, input_layout, pse=None, padding_mask=None, atten_mask=None,
                         scale=1.0, keep_prob=1.0, pre_tockens=_UNLIMITED, next_tockens=_UNLIMITED, inner_precise=0,
                         prefix=None, actual_seq_qlen=None, actual_seq_kvlen=None, sparse_mode=0,
                         gen_mask_parallel=True, sync=False):
    """softmax(query key^T * scale + pse, masked) value.

    ``input_layout``: "BSH", "SBH", "BSND" or "BNSD". ``key`` and ``value`` may have fewer heads, a divisor of
    ``head_num``. ``atten_mask`` is true where a score does not count. ``keep_prob`` is 1 minus the dropout probability.
    ``inner_precise``, ``gen_mask_parallel`` and ``sync`` tune hardware and mean nothing here.

    Returns (attention in ``input_layout``, maximum and sum of the softmax as float32 [B, N, S, 8], an empty tensor,
    and the dropout's seed, offset and size, which are 0: autograd keeps the mask). Raises NotImplementedError for
    variable-length input (layout "TND", ``actual_seq_*``), ``prefix``, ``padding_mask`` and sparse modes above 4.
    """
    for name, given in (("padding_mask", padding_mask), ("prefix", prefix), ("actual_seq_qlen", actual_seq_qlen),
                        ("actual_seq_kvlen", actual_seq_kvlen)):
        if given is not None:
            raise NotImplementedError(f"npu_fusion_attention: {name} is not supported")
    if input_layout not in _LAYOUTS or not 0 <= sparse_mode <= 4:
        raise NotImplementedError(f"npu_fusion_attention: input_layout={input_layout!r} with sparse_mode={sparse_mode} "
                                  f"is not supported; layouts are {', '.join(sorted(_LAYOUTS))}, modes 0 to 4")
    q = _split_heads(query, input_layout, head_num)
    heads = key.shape[-1] // q.shape[-1] if input_layout in ("BSH", "SBH") else None
    k, v = (_split_heads(t, input_layout, heads) for t in (key, value))
    if k.shape[1] != head_num:
        k, v = (t.repeat_interleave(head_num // t.shape[1], dim=1) for t in (k, v))

    scores = torch.matmul(q.float(), k.float().transpose(2, 3)) * scale
    if pse is not None:
        scores = scores + pse
    hidden = _hidden(q.shape[2], k.shape[2], atten_mask, sparse_mode, pre_tockens, next_tockens, q.device)
    if hidden is not None:
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    top = scores.detach().amax(dim=-1, keepdim=True)
    weights = torch.exp(scores - top)
    total = weights.sum(dim=-1, keepdim=True)
    weights = weights / total
    if keep_prob < 1:
        weights = torch.nn.functional.dropout(weights, 1 - keep_prob)
    out = _merge_heads(torch.matmul(weights.to(query.dtype), v), input_layout)
    statistics = [t.detach().expand(*t.shape[:3], _LAST).contiguous() for t in (top, total)]
    return (out, *statistics, query.new_empty(0), 0, 0, 0)
