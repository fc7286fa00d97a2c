"""New tensors."""
from opinfo_case import OpCase, main


class TestCreation(OpCase):
    ops = ("arange", "linspace", "logspace", "full", "zeros_like", "ones_like", "eye", "full_like", "tril_indices",
           "triu_indices", "complex", "polar")


if __name__ == "__main__":
    main()
