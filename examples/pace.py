"""Where the time of a training loop goes: waiting for data, computing, and how much is left."""
import time
from datetime import timedelta


class Pace:
    """Prints a line every `every` iterations (0: never) with means since the line before."""

    def __init__(self, every: int, iterations: int):
        self.every, self.left = every, iterations
        self.reader = self.batch = self.images = self.count = 0
        self.mark = self.begin = time.perf_counter()

    def read(self) -> None:
        """The batch is there."""
        self.begin = time.perf_counter()
        self.reader += self.begin - self.mark

    def resume(self) -> None:
        """What came between the iterations is not counted."""
        self.mark = time.perf_counter()

    def done(self, images: int, text: str) -> None:
        """The iteration has ended, the device included."""
        self.mark = time.perf_counter()
        self.batch += self.mark - self.begin
        self.images += images
        self.count += 1
        self.left -= 1
        if not self.every or self.count < self.every:
            return
        total = self.reader + self.batch
        eta = timedelta(seconds=round(self.left * total / self.count))
        print(f"{text}  reader cost {self.reader / self.count:.5f} s  batch cost {self.batch / self.count:.5f} s  "
              f"{self.images / total:.1f} images/s  ETA {eta}", flush=True)
        self.reader = self.batch = self.images = self.count = 0
