#!/usr/bin/env bash
# From a fresh clone on a bare machine (Linux, Python, g++): set up, build, train LeNet on npu:0, test it.
#   bash ci/demo.sh [--device npu|cpu] [--epochs N] [--plot FILE] [--amp O0|O1|O2|fp16|bf16] [--log-every N]
# PYTHON=<executable> chooses the interpreter .venv is made with.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
for argument in "$@"; do
  case $argument in -h | --help) sed -n '2,4s/^# \?//p' ci/demo.sh; exit ;; esac
done
setup_venv demo ci/requirements-demo.txt
exec .venv/bin/python examples/lenet_digits.py "$@"
