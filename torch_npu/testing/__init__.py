"""What test suites for NPU code import: :mod:`testcase`, :mod:`common_utils`, :mod:`decorator` and
:mod:`common_distributed`. Names and signatures are those of the published torch_npu.

Importing any of them lets PyTorch's own suites run for the NPU, see :mod:`torch_npu.testing._suites`.
"""

from torch_npu.testing import _suites

_suites.prepare()
