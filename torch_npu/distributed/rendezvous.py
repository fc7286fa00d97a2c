"""``init_process_group("hccl", init_method="parallel://host:port")``, as programs for the published torch_npu say.

There it names a store that serves many ranks at once; PyTorch's own does so since it stands on libuv, so this is ``tcp://``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.distributed.rendezvous import register_rendezvous_handler, rendezvous

__all__ = ["SCHEME", "meet", "register"]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.distributed import Store

SCHEME = "parallel"


def meet(url: str, **options: Any) -> Iterator[tuple[Store, int, int]]:
    """(store, rank, number of ranks) of ``parallel://host:port?rank=R&world_size=N``.

    Raises ValueError where the port, the rank or the number of ranks is missing.
    """
    yield from rendezvous("tcp" + url[len(SCHEME):], **options)


def register() -> None:
    """Makes the scheme known to torch.distributed."""
    register_rendezvous_handler(SCHEME, meet)
