"""``torch_npu_run``, ``python -m torch_npu.distributed.run``: torchrun, which takes ``--rdzv-backend=parallel`` and
``--enable_tiered_parallel_tcpstore`` too.

They name the published torch_npu's store for many ranks, and its proxies on each machine; PyTorch's own serves them, so the
first means ``static``, and nothing follows from the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.distributed.run import get_args_parser as _torchrun_parser, run

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

__all__ = ["get_args_parser", "main", "parse_args", "run"]


def get_args_parser() -> argparse.ArgumentParser:
    """torchrun's parser, with the published option."""
    parser = _torchrun_parser()
    parser.add_argument("--enable_tiered_parallel_tcpstore", "--enable-tiered-parallel-tcpstore", choices=("true", "false"),
                        type=str.lower, default="false", help="accepted; one store serves all ranks")
    return parser


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """What the command line says; ``args`` instead of the process's own, if given."""
    return get_args_parser().parse_args(args)


def main(args: Sequence[str] | None = None) -> None:
    """Runs torchrun's command line; ``args`` instead of the process's own, if given."""
    options = parse_args(args)
    if options.rdzv_backend == "parallel":
        options.rdzv_backend = "static"
    run(options)


if __name__ == "__main__":
    main()
