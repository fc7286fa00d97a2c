"""Fourier transforms."""
import torch
from opinfo_case import OpCase, main


class TestFft(OpCase):
    ops = ("fft.fft", "fft.ifft", "fft.rfft", "fft.irfft", "fft.hfft", "fft.fft2", "fft.rfftn", "fft.irfftn", "stft")
    dtypes = (torch.float32, torch.complex64)


if __name__ == "__main__":
    main()
