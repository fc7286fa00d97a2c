"""Special functions."""
import torch
from opinfo_case import OpCase, main


class TestSpecial(OpCase):
    ops = ("erf", "erfc", "erfinv", "lgamma", "digamma", "i0", "special.i0e", "special.i1", "special.i1e",
           "special.entr", "special.erfcx", "special.log_ndtr", "special.ndtri", "special.zeta",
           "polygamma.polygamma_n_1", "polygamma.polygamma_n_3", "special.spherical_bessel_j0")
    dtypes = (torch.float32, torch.float64)


if __name__ == "__main__":
    main()
