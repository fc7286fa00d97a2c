#!/usr/bin/env bash
# Runs libraries of PyTorch's world, unpatched, on this tree, and writes docs/clients.md. Needs the network; not part of the tests.
#   bash ci/clients.sh [NAME...]        names of ci/clients/venvs.txt; without any, all of them
# Each library gets a virtual environment in build/clients, whose torch and torch_npu are those of .venv: run ci/demo.sh first.
# NPUs are taken where there are some, else softcann. A library that was not run keeps its lines in the table.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in -h | --help) sed -n '2,5s/^# \?//p' ci/clients.sh; exit ;; esac
[[ -x .venv/bin/python ]] || die "nothing is built here yet; run bash ci/demo.sh first"
packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
constraints=build/clients/constraints.txt
mkdir -p build/clients ci/clients/seen
.venv/bin/python -c 'from importlib.metadata import version; print("torch==" + version("torch"))' > "$constraints"

# Table of ci/clients/venvs.txt without comments.
clients() { grep -v '^#' ci/clients/venvs.txt; }

# prepare FOLDER NAME REQUIREMENT...: the environment, which sees the packages of .venv after its own.
prepare() {
  local folder=$1 name=$2 site; shift 2
  make_venv "$folder" .venv/bin/python
  for site in "$folder"/lib/python3.*/site-packages; do
    printf "import site; site.addsitedir('%s')\n" "$packages" > "$site/tree.pth"
  done
  once "$folder" "$name" "$*" install "$folder" "$@"
}

# install FOLDER REQUIREMENT... [--no-deps REQUIREMENT...]
install() {
  local folder=$1 word with=() without=(); shift
  for word in "$@"; do
    if [[ $word == --no-deps || ${#without[@]} != 0 ]]; then without+=("$word"); else with+=("$word"); fi
  done
  # deepspeed's installer asks an accelerator for the operators to build.
  ((${#with[@]} == 0)) || DS_ACCELERATOR=cpu pip_install "$folder" -c "$constraints" "${with[@]}"
  ((${#without[@]} == 0)) || pip_install "$folder" -c "$constraints" "${without[@]}"
}

# Programs that are run as they are: ci/clients/use_examples.py.
export EXAMPLES=${EXAMPLES:-$PWD/build/clients}
clone_examples() {
  local tree
  for tree in "$@"; do
    [[ -d $EXAMPLES/${tree#*/} ]] || git clone -q --depth 1 "https://github.com/$tree" "$EXAMPLES/${tree#*/}" || die "no $tree"
  done
}
# clone_part TREE FOLDER: one folder of a large tree.
clone_part() {
  local to=$EXAMPLES/${1#*/}
  [[ -d $to/$2 ]] || { git clone -q --depth 1 --filter=blob:none --sparse "https://github.com/$1" "$to" && git -C "$to" sparse-checkout set "$2"; } || die "no $1"
}

# cuda_libraries VENV: what to put before LD_LIBRARY_PATH so that torchvision's wheel can be loaded; nothing where torch has CUDA.
cuda_libraries() {
  local python=$PWD/$1/bin/python folder=$PWD/$1/cuda_stand_ins
  "$python" -c 'import sys, torch; sys.exit(torch.version.cuda is not None)' || return 0
  "$python" ci/cuda_stand_ins.py "$folder" "$1"/lib/python3.*/site-packages/torchvision/_C*.so
  printf '%s:' "$folder"
}

names=("$@")
((${#names[@]})) || mapfile -t names < <(clients | awk '{print $1}')
failed=()
for name in "${names[@]}"; do
  read -r _ venv requirements < <(clients | awk -v n="$name" '$1 == n') || die "no '$name' in ci/clients/venvs.txt"
  say "$name"
  read -r -a wanted <<< "$requirements"
  case $name in
    examples) clone_examples karpathy/nanoGPT pytorch/examples ;;
    torchvision) clone_examples pytorch/examples ;;
    cann_operators) clone_examples hicann/ops-math hicann/ops-nn hicann/ops-cv hicann/ops-transformer ;;
    ggml) clone_examples ggml-org/ggml ;;
    ascend_samples) clone_examples Ascend/tools Ascend/samples; clone_part Ascend/ModelZoo-PyTorch ACL_PyTorch ;;
  esac
  prepare "build/clients/$venv" "$name" "${wanted[@]}"
  libraries=''
  case $name in
    torchvision | timm) libraries=$(cuda_libraries "build/clients/$venv") ;;
    mindie_sd) [[ -n ${ASCEND_HOME_PATH:-} ]] || libraries=$PWD/torch_npu/softcann/lib: ;;   # its extension names CANN's libraries
  esac
  LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:-} HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} CLIENTS_RESULT="ci/clients/seen/$name.json" \
    "build/clients/$venv/bin/python" "ci/clients/use_$name.py" > "build/clients/$name.log" 2>&1 || failed+=("$name")
  grep -E '^(ok|theirs|FAILED) ' "build/clients/$name.log" || tail -5 "build/clients/$name.log"
done
.venv/bin/python docs/gen_clients.py
if ((${#failed[@]})); then die "not all is well: ${failed[*]} (build/clients/<name>.log)"; fi
