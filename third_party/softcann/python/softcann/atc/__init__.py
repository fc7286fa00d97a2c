"""The offline converter: ONNX models to .om files that softcann's model runtime runs.

The command is `atc` (cli.py); `convert` is the same from Python. The packages that the extra `softcann[atc]` brings are
imported when they are needed.
"""

__all__ = ["convert"]


def convert(model, output, soc_version="Ascend910B3", **options):
    """Converts the ONNX file `model` to `output`.om; options are those of the command line by name. The .om's path.

    Raises softcann.atc.errors.AtcError, which has CANN's code.
    """
    from . import cli, job

    given = {
        "model": str(model),
        "framework": "5",
        "soc_version": soc_version,
        **{name: str(value) for name, value in options.items()},
    }
    job.check_options(given, cli.Log())
    job.check_build(given)
    return cli.convert(given, cli.Log(), f"convert({model!r}, {output!r})", str(output))
