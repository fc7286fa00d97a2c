"""Linear algebra."""
import torch
from opinfo_case import OpCase, main


class TestLinalg(OpCase):
    ops = (*(("cholesky",) if torch.__version__ < (2, 14) else ()),   # torch.cholesky ends there
           "linalg.cholesky", "linalg.cholesky_ex", "cholesky_inverse", "cholesky_solve", "linalg.inv",
           "linalg.solve_triangular", "triangular_solve", "linalg.svdvals", "linalg.qr", "linalg.cross",
           "linalg.matrix_power", "matrix_exp", "linalg.matrix_norm", "cdist", "nn.functional.pdist", "trace")
    dtypes = (torch.float32, torch.complex64)


if __name__ == "__main__":
    main()
