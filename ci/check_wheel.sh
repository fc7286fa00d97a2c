#!/usr/bin/env bash
# Builds the wheels for another Python or torch (ci/build.sh), and tests them in an environment of their own.
#   bash ci/check_wheel.sh [--python=3.9] [--torch=X.Y] [--quick] [--record] [PYTEST-ARGUMENT...]     default: some tests, below
# torch comes without the libraries for CUDA that PyPI's builds ask for, some 3 GB: ci/cuda_stand_ins.py writes what loads in their
# place. With --record, what passed goes to ci/checked.txt, from which docs/gen_compatibility.py makes docs/compatibility.md.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

want_python=3.9 want_torch='' record=0 build=() tests=()
for argument in "$@"; do
  case $argument in
    --python=*) want_python=${argument#*=} ;;
    --torch=*) want_torch=${argument#*=} ;;
    --record) record=1 ;;
    --quick) build+=(--quick) ;;
    -h | --help) sed -n '2,5s/^# \?//p' "${BASH_SOURCE[0]}"; exit ;;
    *) tests+=("$argument") ;;
  esac
done
((${#tests[@]})) || tests=(test/unit/test_docs.py test/test_network_ops
  test/npu/test_{import,runtime,models,layouts,few_elements,serialization}.py test/npu_ops/test_{storage_formats,training_operators}.py)
want_torch=${want_torch:-$(default_torch "$want_python")}
want_torch=$(cut -d. -f1,2 <<< "$want_torch")
bash ci/build.sh --python="$want_python" --torch="$want_torch" "${build[@]}"
torch=$PWD/build/torch$want_torch
version=$(<"$torch/.version")
here=build/check-wheel-py$want_python-torch$want_torch
make_venv "$here/venv" "$(find_python "$want_python")"
# That folder is of whichever Python was first to build for this torch; its headers suit all, its bindings only that one.
if ! compgen -G "$torch/torch/_C.cpython-${want_python/./}-*" > /dev/null; then
  torch=$PWD/$here/torch
  fetch_torch "$here/venv" "$version" "$torch"
fi

# What torch itself asks for besides CUDA's libraries and Triton. (importlib_metadata: torchrun of torch 2.8 takes it with Python 3.9.)
asked_for() {
  "$here/venv/bin/python" - "$torch" <<< '
import sys
from importlib.metadata import distributions
for torch in distributions(name="torch", path=sys.argv[1:]):
    print(*(wanted.split(";")[0].replace(" ", "") for wanted in torch.requires
            if "extra ==" not in wanted and not wanted.startswith(("nvidia-", "cuda-", "triton"))), "importlib_metadata")'
}
environment() {
  local wanted
  say "making an environment for torch $version without CUDA"
  wanted=$(asked_for)
  pip_install "$here/venv" $wanted -r requirements.txt -r ci/requirements-test.txt
}
stand_ins() {
  "$here/venv/bin/python" ci/cuda_stand_ins.py "$torch/torch/lib" "$torch"/torch/lib/lib{torch,c10,shm}*.so "$torch"/torch/_C.*.so
}
once "$here/venv" environment "$version $(cat requirements.txt ci/requirements-*.txt)" environment
once "$torch" stand-ins "$version" stand_ins   # a torch that is fetched anew has none
printf '%s\n' "$torch" > "$(echo "$here"/venv/lib/python3.*/site-packages)/torch.pth"

# Of this torch and commit: dist/ has wheels of others.
own=$(PYTHONPATH=ci "$here/venv/bin/python" -c 'import sys, native_build; print(native_build.own_version(sys.argv[1]))' "$want_torch.0")
wheels=(dist/torch_npu-"$own-cp${want_python/./}"-*.whl)
pip_install "$here/venv" --no-deps --force-reinstall "${wheels[-1]}"
rm -rf "$here/tree"
git clone -q . "$here/tree"
rm -rf "$here/tree/torch_npu"
ln -s "$(echo "$PWD/$here"/venv/lib/python3.*/site-packages/torch_npu)" "$here/tree/torch_npu"

say "testing it"
(cd "$here/tree" && ../venv/bin/python -c 'import torch_npu; assert torch_npu.run_check()' &&
  ../venv/bin/python -m pytest -q -p no:cacheprovider -n 2 "${tests[@]}")
((!record)) || record_check "$want_python" "$version" runs
