"""Bits and logic."""
import torch
from opinfo_case import OpCase, main


class TestBitwise(OpCase):
    ops = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift", "bitwise_right_shift",
           "logical_and", "logical_or", "logical_xor", "logical_not", "gcd", "lcm")
    dtypes = (torch.int64, torch.int32, torch.bool, torch.uint8)


if __name__ == "__main__":
    main()
