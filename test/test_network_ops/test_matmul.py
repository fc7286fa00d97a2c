"""Matrix products."""
import torch
from opinfo_case import OpCase, main


class TestMatmul(OpCase):
    ops = ("mm", "bmm", "matmul", "addmm", "addmv", "addbmm", "baddbmm", "addr", "mv", "linalg.multi_dot", "einsum",
           "nn.functional.linear")
    dtypes = (torch.float32, torch.float16, torch.complex64)


if __name__ == "__main__":
    main()
