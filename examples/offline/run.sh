#!/usr/bin/env bash
# One example of this folder from a fresh clone on: sets up .venv and builds what is missing, points the shell to CANN, runs it.
#   bash examples/offline/run.sh infer | dynamic_batch | clip | classify [photo.jpg] | detect [photo.jpg] | deploy [model.onnx] | cpp
# Further arguments go to the program. `all`, which takes none, runs each of them; without a photo one is drawn.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
caller=$PWD
source "$here/../../ci/lib.sh"
usage() { sed -n '2,4s/^# \?//p' "$here/run.sh"; exit "${1:-0}"; }
(($#)) || usage 2
name=$1; shift
case $name in -h | --help) usage ;; infer | dynamic_batch | clip | classify | detect | deploy | cpp | all) ;; *) usage 2 ;; esac

[[ -e torch_npu/softcann/lib/libge_executor.so && -x .venv/bin/python ]] || setup_venv demo ci/requirements-demo.txt
once .venv offline "$(cat examples/offline/requirements.txt)" pip_install .venv -r examples/offline/requirements.txt
python=$PWD/.venv/bin/python
export PATH=$PWD/bin:$PWD/.venv/bin:$PATH
source ./env.sh >&2
torch=$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')
export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$torch/lib PYTHONPATH=$PWD/third_party/softcann/python${PYTHONPATH:+:$PYTHONPATH}
cd "$caller"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# photo [FILE]: the file, or one that is drawn.
photo() {
  if [[ -n ${1:-} ]]; then echo "$1"; return; fi
  "$python" -c 'import sys; sys.path.insert(0, sys.argv[1]); import detect; detect.save_example(sys.argv[2], 28)' "$here" "$work/photo.jpg"
  echo "$work/photo.jpg"
}

# In C++: a model of infer.py, one run and several at once.
cpp() {
  local include=$here/../../third_party/cann/include
  "$python" "$here/infer.py" --keep "$work"
  g++ -std=c++17 -I "$include" "$here/infer.cpp" -L "${LD_LIBRARY_PATH%%:*}" -Wl,--allow-shlib-undefined -lascendcl -o "$work/infer"
  "$work/infer" "$work/net.om" sync 10
  "$work/infer" "$work/net.om" async 10
}

run() {
  local name=$1; shift
  case $name in
    cpp) cpp ;;
    deploy) PYTHON=$python bash "$here/deploy.sh" "$@" ;;
    classify | detect) "$python" "$here/$name.py" "$(photo "${1:-}")" "${@:2}" ;;
    *) "$python" "$here/$name.py" "$@" ;;
  esac
}

if [[ $name == all ]]; then
  (($#)) && usage 2   # the programs' arguments differ
  for one in infer dynamic_batch clip classify detect deploy cpp; do say "$one"; run "$one"; done
else
  run "$name" "$@"
fi
