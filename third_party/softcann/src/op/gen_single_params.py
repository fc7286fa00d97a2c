#!/usr/bin/env python3
"""Which parameters of operators are of C's type float, which an executor keeps as double like the others.

    gen_single_params.py aclnn_ops.txt OUTFILE

writes a line {"<op>", mask}, for each operator that has such, a bit a parameter.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "cann"))
import gen_aclnn


def main(contract: str, output: str) -> None:
    lines = []
    for op in gen_aclnn.parse(pathlib.Path(contract)):
        mask = sum(1 << i for i, param in enumerate(op.params) if param.kind == "float")
        if mask:
            lines.append(f'{{"{op.name}", {mask:#x}}},\n')
    pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(output).write_text("".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
