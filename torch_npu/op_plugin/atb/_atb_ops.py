"""Registration of the transformer library's operators."""


def _register_atb_extensions() -> None:
    """For programs that call it: the operators are registered when torch_npu is imported."""
