"""Orthogonal polynomials."""
import torch
from opinfo_case import OpCase, main


class TestPolynomial(OpCase):
    ops = ("special.chebyshev_polynomial_t", "special.chebyshev_polynomial_u", "special.hermite_polynomial_h",
           "special.hermite_polynomial_he", "special.laguerre_polynomial_l", "special.legendre_polynomial_p")
    dtypes = (torch.float32,)


if __name__ == "__main__":
    main()
