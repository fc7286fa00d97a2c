#!/usr/bin/env bash
# From a fresh clone on a bare machine (Linux, Python, g++): set up, build, train LeNet on npu:0, test it.
#   bash ci/demo.sh [--device npu|cpu] [--epochs N] [--plot FILE] [--nproc N] [--amp O0|O1|O2|fp16|bf16] [--log-every N]
# --nproc N trains with N processes, each on an NPU of its own, by DistributedDataParallel.
# PYTHON=<executable> chooses the interpreter .venv is made with.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
nproc=1
arguments=()
while (($#)); do
  case $1 in
    -h | --help) sed -n '2,5s/^# \?//p' ci/demo.sh; exit ;;
    --nproc) nproc=${2:-}; shift ;;
    --nproc=*) nproc=${1#*=} ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
[[ $nproc =~ ^[1-9][0-9]*$ ]] || die "--nproc needs a number of processes, got '$nproc'"
setup_venv demo ci/requirements-demo.txt
if ((nproc > 1)); then
  exec .venv/bin/python -m torch.distributed.run --standalone --nproc_per_node="$nproc" examples/lenet_digits.py "${arguments[@]}"
fi
exec .venv/bin/python examples/lenet_digits.py "${arguments[@]}"
