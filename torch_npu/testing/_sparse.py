"""Sparse tensors of :class:`torch_npu.testing.testcase.TestCase`."""

import unittest
from typing import Any, Dict, List, Sequence, Tuple

import torch
from torch import Tensor
from torch.types import Device


class SparseCase(unittest.TestCase):
    """Makes sparse COO tensors, and sums up their duplicates by its own count."""

    def genSparseTensor(self, size: Sequence[int], sparse_dim: int, nnz: int, is_uncoalesced: bool,
                        device: Device = "cpu") -> Tuple[Tensor, Tensor, Tensor]:
        """(tensor, indices, values) of ``nnz`` normal numbers, with each index twice if ``is_uncoalesced``.

        Raises RuntimeError for elements in a tensor whose first ``sparse_dim`` sizes have none.
        """
        if nnz and not all(size[:sparse_dim]):
            raise RuntimeError(f"{nnz} elements in a tensor of sizes {list(size)}")
        values = torch.randn(nnz, *size[sparse_dim:], device=device)
        limits = torch.tensor(size[:sparse_dim], device=device).unsqueeze(1)
        indices = (torch.rand(sparse_dim, nnz, device=device) * limits).long()
        if is_uncoalesced:
            values = torch.cat([values, torch.randn_like(values)])
            indices = torch.cat([indices, indices], 1)
        made = torch.sparse_coo_tensor(indices, values, torch.Size(size))
        made = made.detach().clone() if is_uncoalesced else made.coalesce()
        return made, made._indices().clone(), made._values().clone()

    def safeCoalesce(self, t: Tensor) -> Tensor:
        """``t.coalesce()``, compared with sums that are taken here."""
        found = t.coalesce()
        self.assertTrue(found.is_coalesced())
        self.assertEqual(found.to_dense(), t.to_dense())
        if t._nnz() == 0:
            return found
        sums: Dict[Tuple[Any, ...], Any] = {}
        for index, value in zip(t._indices().t().tolist(), t._values()):
            key = tuple(index)
            sums[key] = sums[key] + value if key in sums else value
        order: List[Tuple[Any, ...]] = sorted(sums)
        self.assertEqual(found._indices().t().tolist(), [list(key) for key in order])
        self.assertEqual(found._values(), torch.stack([sums[key] for key in order]))
        return found

    def safeToDense(self, t: Tensor) -> Tensor:
        """``t.to_dense()`` by way of :meth:`safeCoalesce`."""
        return self.safeCoalesce(t).to_dense()
