"""``python -m torch_npu.distributed.run``: torchrun, which takes ``--rdzv-backend=parallel`` too.

That names the published torch_npu's store for many ranks; PyTorch's own serves them, so it means ``static``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.distributed.run import get_args_parser, parse_args, run

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["get_args_parser", "main", "parse_args", "run"]


def main(args: Sequence[str] | None = None) -> None:
    """Runs torchrun's command line; ``args`` instead of the process's own, if given."""
    options = parse_args(args)
    if options.rdzv_backend == "parallel":
        options.rdzv_backend = "static"
    run(options)


if __name__ == "__main__":
    main()
