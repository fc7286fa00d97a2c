"""Random numbers: shapes and dtypes here, distributions in test/npu/test_generator.py."""
import torch
from opinfo_case import OpCase, main


class TestRandom(OpCase):
    ops = ("bernoulli", "multinomial", "normal", "nn.functional.dropout", "nn.functional.rrelu")
    dtypes = (torch.float32,)
    random = ops


if __name__ == "__main__":
    main()
