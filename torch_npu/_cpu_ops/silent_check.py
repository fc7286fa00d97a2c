"""Checks for faults that nothing else notices: of values from step to step, and of products against sums."""

from typing import Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import wide


def _level(first: Tensor, second: Tensor) -> Tensor:
    """int32 [1]: 1 a fault of the first level, 2 one of the second, 0 none."""
    return torch.where(first, 1, torch.where(second, 2, 0)).to(torch.int32).reshape(1)


def _over(value: Tensor, jump: Tensor, limit: float, coefficient: float) -> Tensor:
    return ~torch.isfinite(value) | (value > limit) | (jump > coefficient)


def _jump(value: Tensor, before: Tensor, low: Tensor, high: Tensor, counted: Tensor) -> Tensor:
    """How far ``value`` is from the one before, in units of the range so far; 0 where it is not ``counted`` yet."""
    reach = high - low
    return torch.where(counted & (reach > 0), (value - before).abs() / torch.where(reach > 0, reach, 1.0), 0.0)


def _stop(input_grad: Tensor, fault: Tensor) -> None:
    """Sets the gradient to 0 where there is a fault, so that it does not spread."""
    input_grad.copy_(torch.where(fault.reshape(()), torch.zeros_like(input_grad), input_grad))


def _range(value: Tensor, low: Tensor, high: Tensor, first: Tensor) -> Tuple[Tensor, Tensor]:
    """The range with ``value`` in it; ``value`` alone at the first step."""
    return torch.where(first, value, torch.minimum(low, value)), torch.where(first, value, torch.maximum(high, value))


def _npu_silent_check(
    input_grad: Tensor,
    val: Tensor,
    pre_val: Tensor,
    min_val: Tensor,
    max_val: Tensor,
    val_counter: Tensor,
    c_min_steps: int,
    c_thresh_l1: float,
    c_coeff_l1: float,
    c_thresh_l2: float,
    c_coeff_l2: float,
) -> Tensor:
    """Whether ``val``, a feature of a gradient such as its norm, is suspicious after those before.

    A fault of the first level: ``val`` is not finite, above ``c_thresh_l1``, or its jump ``|val - pre_val| / (max_val -
    min_val)`` is above ``c_coeff_l1``; of the second with the other pair. Jumps count from step ``c_min_steps`` on;
    ``val_counter``: the number of steps so far. ``pre_val``, ``min_val`` and ``max_val``, one element each, are brought up to
    date unless there is a fault of the first level, which sets ``input_grad`` to 0. Returns [1] in val_counter's dtype: 0
    nothing, 1 or 2 the level.
    """
    value, counter = wide(val).reshape(()), val_counter.reshape(())
    before, low, high = (wide(t).reshape(()) for t in (pre_val, min_val, max_val))
    jump = _jump(value, before, low, high, counter >= c_min_steps)
    first, second = _over(value, jump, c_thresh_l1, c_coeff_l1), _over(value, jump, c_thresh_l2, c_coeff_l2)
    _stop(input_grad, first)
    low, high = _range(value, low, high, counter == 0)
    for tensor, new in ((pre_val, value), (min_val, low), (max_val, high)):
        tensor.copy_(torch.where(first, wide(tensor), new))
    return _level(first, second).to(val_counter.dtype)


def _npu_silent_check_v2(
    val: Tensor,
    input_grad: Tensor,
    sfda: Tensor,
    step: Tensor,
    c_min_steps: int,
    c_thresh_l1: float,
    c_coeff_l1: float,
    c_thresh_l2: float,
    c_coeff_l2: float,
    npu_asd_detect: int,
) -> Tensor:
    """:func:`_npu_silent_check` with its state in ``sfda``, float32 [3] (value before, least, greatest), and ``step``, int64 [1].

    ``npu_asd_detect``: 1 only reports a fault, and goes on with its value; otherwise one of the first level sets ``input_grad``
    to 0 and leaves the state alone. Returns int32 [1]: 0 nothing, 1 or 2 the level.
    """
    value = wide(val).reshape(())
    jump = _jump(value, sfda[0], sfda[1], sfda[2], step.reshape(()) >= c_min_steps)
    first, second = _over(value, jump, c_thresh_l1, c_coeff_l1), _over(value, jump, c_thresh_l2, c_coeff_l2)
    stop = first if npu_asd_detect != 1 else torch.zeros_like(first)
    _stop(input_grad, stop)
    new = torch.stack([value, *_range(value, sfda[1], sfda[2], step.reshape(()) == 0)])
    sfda.copy_(torch.where(stop, sfda, new))
    step.copy_(torch.where(stop, step, step + 1))
    return _level(first, second)


def _npu_silent_check_v3(
    val: Tensor,
    input_grad: Tensor,
    step: Tensor,
    max: Tensor,
    avg: Tensor,
    c_thresh_l1: float,
    c_thresh_l2: float,
    betal: float,
    npu_asd_detect: int,
) -> Tensor:
    """Whether ``val`` is suspicious against the average of those before: Markov's inequality bounds how often a value is far
    above.

    A fault of the first level: ``val`` is not finite or above ``c_thresh_l1`` times the average, ``avg / (1 - betal ** step)``,
    or ``avg`` itself while ``step`` is 0; of the second with ``c_thresh_l2``. ``avg = betal * avg + (1 - betal) * val`` and
    ``step`` (int64) are brought up to date, one element each; ``max`` stays as it is. ``npu_asd_detect``: 1 only reports a
    fault; otherwise one of the first level sets ``input_grad`` to 0 and leaves the state alone. Returns int32 [1]: 0 nothing,
    1 or 2 the level.
    """
    value, mean, count = wide(val).reshape(()), wide(avg).reshape(()), step.reshape(())
    debiased = torch.where(count > 0, mean / (1 - torch.pow(torch.full_like(mean, betal), count)).clamp(min=1e-30), mean)
    first = ~torch.isfinite(value) | (value > debiased * c_thresh_l1)
    second = value > debiased * c_thresh_l2
    stop = first if npu_asd_detect != 1 else torch.zeros_like(first)
    _stop(input_grad, stop)
    avg.copy_(torch.where(stop, wide(avg), betal * mean + (1 - betal) * value))
    step.copy_(torch.where(stop, step, step + 1))
    return _level(first, second)


_SEGMENT = 256


def _npu_matmul_abft_verify(a: Tensor, b: Tensor, c: Tensor, checksum_weight: Tensor, *, e_max: float = 0.001) -> Tensor:
    """Whether ``c`` [m, n] can be ``a @ b``, by checksums: for each row and each 256 columns ``c r`` is compared with ``a (b
    r)``.

    ``a``: [m, k], ``b``: [k, n], ``c``: float32, ``checksum_weight``: r [n]. Allowed is ``e_max`` times the sum of the absolute
    values that were added up, ``|a| (|b| |r|)``. Returns uint8 [ceil(n / 256) * ceil(m / 8)]: a bit for each row, the lowest
    first, 1 correct; bits behind the last row are 1. Source: algorithm-based fault tolerance, K.-H. Huang and J. Abraham, 1984.
    """
    a, b, c, r = (wide(t) for t in (a, b, c, checksum_weight))
    rows, bits = c.shape[0], []
    for first in range(0, c.shape[1], _SEGMENT):
        columns = slice(first, first + _SEGMENT)
        found, expected = c[:, columns] @ r[columns], a @ (b[:, columns] @ r[columns])
        size = a.abs() @ (b[:, columns].abs() @ r[columns].abs())
        good = ((found - expected).abs() <= e_max * size) & torch.isfinite(found)
        good = torch.nn.functional.pad(good.to(torch.uint8), (0, -rows % 8), value=1).view(-1, 8)
        bits.append((good << torch.arange(8, dtype=torch.uint8, device=c.device)).sum(-1).to(torch.uint8))
    return torch.cat(bits) if bits else c.new_empty(0, dtype=torch.uint8)
