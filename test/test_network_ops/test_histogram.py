"""Histograms and counts."""
import torch
from opinfo_case import OpCase, main


class TestHistogram(OpCase):
    ops = ("histc", "histogram", "histogramdd", "bincount")
    dtypes = (torch.float32, torch.int64)

    def test_whole_numbers(self):
        """As a GPU counts them, in their own type; how models count the tokens of each expert."""
        experts = torch.randint(0, 13, (257,))
        for dtype in (torch.int32, torch.int64, torch.uint8, torch.int16):
            counted = torch.histc(experts.to(dtype).npu(), bins=13, min=0, max=12)
            self.assertEqual(counted.dtype, dtype)
            self.assertEqual(counted.long().cpu().tolist(), torch.bincount(experts, minlength=13).tolist())
        limits = torch.histc(torch.tensor([-3, 0, 1, 5, 6, 9], dtype=torch.int32, device="npu"), bins=3, min=0, max=6)
        self.assertEqual(limits.cpu().tolist(), [2, 0, 2])


if __name__ == "__main__":
    main()
