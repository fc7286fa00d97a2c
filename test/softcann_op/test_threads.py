"""Loops of softcann's own take part of their work to other threads: those of torch's OpenMP library, which is there only once."""

import pytest
import torch

SOFTMAX = """
import os, torch, torch_npu
torch.set_num_threads(3)
x = torch.rand(2048, 512).npu()
x[0] + 1   # starts the stream's worker
torch.npu.synchronize()
before = len(os.listdir("/proc/self/task"))
y = torch.softmax(x, 1)
torch.npu.synchronize()
print(len(os.listdir("/proc/self/task")) - before)
torch.testing.assert_close(y.cpu(), torch.softmax(x.cpu(), 1))
print(len({line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line or "libomp" in line}))
"""


@pytest.mark.skipif("OpenMP" not in torch.__config__.parallel_info(), reason="torch's threads are not OpenMP's")
def test_softmax_uses_as_many_threads_as_torch_would(python):
    done = python(SOFTMAX, OMP_NUM_THREADS=1, SOFTCANN_INLINE_NS=0)
    assert done.returncode == 0, done.stderr
    more, libraries = map(int, done.stdout.split())
    assert more == 2, f"{more} threads more for a softmax by 3"
    assert libraries == 1, "two OpenMP libraries in one process"
