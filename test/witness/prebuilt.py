"""Uses the extension of prebuilt.cpp, which argv[1] is."""
import sys

import torch

import torch_npu  # noqa: F401

x = torch.randn(3, 4).npu()
torch.ops.load_library(sys.argv[1])
extension = torch.ops.prebuilt
copy = extension.copy_of(x)
assert torch.equal(copy.cpu(), x.cpu()) and copy.data_ptr() != x.data_ptr()
assert extension.streams_agree()
assert extension.format_of(x) == 2   # ACL_FORMAT_ND
print("works")
