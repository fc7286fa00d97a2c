"""Multi-head attention in the layout of fairseq's, with rows of all sequences in one matrix."""

import math
from typing import Any, Dict, Optional, Tuple

import torch
from torch import nn

from torch_npu.contrib.module.dropout import NpuCachedDropout

__all__ = ["MultiheadAttention"]


class _MHAConfig:
    """Asks the published MultiheadAttention for its fused operator; here there is one way, and nothing follows."""

    use_fussion_mha = False

    @classmethod
    def set_fussion(cls) -> None:
        cls.use_fussion_mha = True


class MultiheadAttention(nn.Module):
    """Attention of ``num_heads`` heads over ``[bsz * tgt_len, embed_dim]`` (the rows of one sequence stand together).

    ``kdim`` and ``vdim``: sizes of the keys' and values' rows. ``add_bias_kv``: one more key and value that are trained.
    ``add_zero_attn``: one more of zeros. Quantisation noise (``q_noise`` > 0) raises NotImplementedError.
    """

    def __init__(self, embed_dim: int, num_heads: int, kdim: Optional[int] = None, vdim: Optional[int] = None,
                 dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False, add_zero_attn: bool = False,
                 self_attention: bool = False, encoder_decoder_attention: bool = False, q_noise: float = 0.0,
                 qn_block_size: int = 8) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim {embed_dim} cannot be shared by {num_heads} heads")
        if q_noise > 0:
            raise NotImplementedError("MultiheadAttention without quantisation noise only: q_noise=0")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.qkv_same_dim = self.kdim == self.vdim == embed_dim
        if self_attention and not self.qkv_same_dim:
            raise ValueError("self-attention needs keys and values of embed_dim")
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scaling = 1 / math.sqrt(self.head_dim)
        self.dropout_prob = dropout
        self.self_attention = self_attention
        self.encoder_decoder_attention = encoder_decoder_attention
        self.dropout_module = NpuCachedDropout(dropout, module_name=type(self).__name__)
        self.k_proj = nn.Linear(self.kdim, embed_dim, bias)
        self.v_proj = nn.Linear(self.vdim, embed_dim, bias)
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias)
        self.bias_k = nn.Parameter(torch.empty(1, 1, embed_dim)) if add_bias_kv else None
        self.bias_v = nn.Parameter(torch.empty(1, 1, embed_dim)) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self.onnx_trace = False
        self.tpu = False
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Gives the parameters their first values (Xavier)."""
        gain = 1 / math.sqrt(2) if self.qkv_same_dim else 1.0
        for layer in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(layer.weight, gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                nn.init.xavier_normal_(extra)

    def prepare_for_onnx_export_(self) -> None:
        """Notes that a trace is for ONNX; nothing else changes."""
        self.onnx_trace = True

    def prepare_for_tpu_(self, **kwargs: Any) -> None:
        """Notes that the model is for a TPU; nothing else changes."""
        self.tpu = True

    def transpose_for_scores(self, x: torch.Tensor) -> torch.Tensor:
        """[bsz, length, embed_dim] as [bsz, heads, length, head_dim]."""
        return x.view(x.shape[0], x.shape[1], self.num_heads, self.head_dim).transpose(1, 2)

    def apply_sparse_mask(self, attn_weights: torch.Tensor, tgt_len: int, src_len: int, bsz: int) -> torch.Tensor:
        """The weights as they are: for subclasses."""
        return attn_weights

    def multi_attn(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, key_padding_mask: Optional[torch.Tensor],
                   bsz: int, tgt_len: int) -> torch.Tensor:
        """``forward`` over keys of the length of ``key``, without weights."""
        return self.forward(query, key, value, bsz, tgt_len, key.shape[0] // bsz, key_padding_mask, need_weights=False)[0]

    def forward(self, query: torch.Tensor, key: Optional[torch.Tensor], value: Optional[torch.Tensor], bsz: int, tgt_len: int,
                s_len: int, key_padding_mask: Optional[torch.Tensor] = None,
                incremental_state: Optional[Dict[str, Dict[str, Optional[torch.Tensor]]]] = None, need_weights: bool = True,
                static_kv: bool = False, attn_mask: Optional[torch.Tensor] = None, before_softmax: bool = False,
                need_head_weights: bool = False) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
        """([bsz * tgt_len, embed_dim], weights [bsz, tgt_len, s_len] or None; with ``need_head_weights`` [heads, bsz, ...]).

        key_padding_mask: [bsz, s_len], True where a key does not count, or numbers to add, [bsz, 1, tgt_len, s_len] or one for
        each score in any shape.
        attn_mask: numbers to add, [tgt_len, s_len]. before_softmax: the scores and the values instead.
        Raises NotImplementedError for ``incremental_state``: keep keys and values in the program.
        """
        if incremental_state is not None or static_kv:
            raise NotImplementedError("MultiheadAttention keeps no keys and values between calls: give all of them")
        key = query if key is None else key
        value = key if value is None else value
        k, v = self.k_proj(key).view(bsz, s_len, -1), self.v_proj(value).view(bsz, s_len, -1)
        q = self.q_proj(query).view(bsz, tgt_len, -1)
        extra = 0
        if self.bias_k is not None and self.bias_v is not None:
            k = torch.cat([k, self.bias_k.expand(bsz, 1, -1)], 1)
            v = torch.cat([v, self.bias_v.expand(bsz, 1, -1)], 1)
            extra += 1
        if self.add_zero_attn:
            k, v = (nn.functional.pad(rows, (0, 0, 0, 1)) for rows in (k, v))
            extra += 1
        q, k, v = (self.transpose_for_scores(rows) for rows in (q, k, v))
        scores = torch.matmul(q * self.scaling, k.transpose(-1, -2))
        scores = self._masked(scores, attn_mask, key_padding_mask, extra)
        scores = self.apply_sparse_mask(scores, tgt_len, s_len, bsz)
        if before_softmax:
            return scores, v
        weights = torch.softmax(scores, -1, dtype=torch.float32).to(scores.dtype)
        mixed = torch.matmul(self.dropout_module(weights), v)
        out = self.out_proj(mixed.transpose(1, 2).reshape(bsz * tgt_len, self.embed_dim)).to(query.dtype)
        if need_head_weights:
            return out, weights.transpose(0, 1)
        return out, weights.mean(1) if need_weights else None

    @staticmethod
    def _masked(scores: torch.Tensor, attn_mask: Optional[torch.Tensor], padding: Optional[torch.Tensor],
                extra: int) -> torch.Tensor:
        if attn_mask is not None:
            scores = scores + nn.functional.pad(attn_mask, (0, extra))
        if padding is None:
            return scores
        if padding.is_floating_point() and padding.numel() == scores.numel():
            return scores + padding.view(scores.shape)
        if padding.dim() == 2:
            hidden = nn.functional.pad(padding.bool(), (0, extra))[:, None, None, :]
            return scores.masked_fill(hidden, float("-inf"))
        return scores + nn.functional.pad(padding, (0, extra))

    def upgrade_state_dict_named(self, state_dict: Dict[str, torch.Tensor], name: str) -> None:
        """Splits the joint ``in_proj_weight`` and ``in_proj_bias`` of old checkpoints into those of q, k and v, in place."""
        prefix = name + "." if name else ""
        for kind in ("weight", "bias"):
            joint = state_dict.pop(f"{prefix}in_proj_{kind}", None)
            if joint is not None:
                for part, rows in zip(("q_proj", "k_proj", "v_proj"), joint.chunk(3)):
                    state_dict[f"{prefix}{part}.{kind}"] = rows
