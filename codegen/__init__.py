"""Turns ops.yaml, the list of operators, into dispatcher kernels. README.md says how to add one."""
