"""Command line of the generator; README.md explains the registry."""
import argparse
import pathlib
import sys

from . import contract, custom, emit, errors, kernels, layouts, registry, schemas


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m codegen", description=__doc__)
    parser.add_argument("--torch-dir", type=pathlib.Path, help="folder of the torch package; it is not imported")
    parser.add_argument("--contract", type=pathlib.Path, help="aclnn_ops.txt")
    parser.add_argument("--registry", type=pathlib.Path, help="ops.yaml")
    parser.add_argument("--custom", type=pathlib.Path, help="custom_ops.yaml")
    parser.add_argument("--fallbacks", type=pathlib.Path, help="fallbacks.yaml")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the generated files")
    parser.add_argument("--list", action="store_true", help="only print the generated files, one a line")
    options = parser.parse_args(argv)
    if options.list:
        print("\n".join(str(options.out / name) for name in emit.outputs()))
        return 0
    for name in ("torch_dir", "contract", "registry"):
        if getattr(options, name) is None:
            parser.error(f"--{name.replace('_', '-')} is required")
    try:
        entries = registry.load(options.registry)
        if options.fallbacks:
            registry.check_fallbacks(options.fallbacks, entries)
        torch_schemas, aclnn = schemas.load(options.torch_dir), contract.load(options.contract)
        units = kernels.build(entries, torch_schemas, aclnn)
        customs, functions = custom.load(options.custom) if options.custom else ([], {})
        custom_units = custom.build(customs, functions, torch_schemas, aclnn)
    except (errors.RegistryErrors, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    changed = emit.write(units, custom_units, custom.table(customs), *layouts.calls(torch_schemas), options.out)
    overloads = sum(len(u.registered) for u in units)
    print(f"codegen: {len(units)} entries, {overloads} overloads, "
          f"{sum(bool(u.declarations) for u in units)} by hand, {len(customs)} custom operators, "
          f"{len(changed)} of {len(emit.outputs())} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
