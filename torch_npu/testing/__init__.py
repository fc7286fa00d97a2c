"""What test suites for NPU code import: :mod:`testcase`, :mod:`common_utils`, :mod:`decorator` and
:mod:`common_distributed`. Names and signatures are those of the published torch_npu."""
