# Points a shell to CANN: the real one where it is installed, else the software one of this tree or of an installed
# torch_npu. torch_npu needs this only for the real CANN and finds the software one by itself; other clients of CANN
# need it for both, and `import acl` from this tree. The rule is that of torch_npu itself (torch_npu/_cann.py).
#   . ./env.sh            bash, zsh, or another shell in this folder; may be sourced again; fine under set -eu
#   TORCH_NPU_RUNTIME=softcann . ./env.sh      the software one even where there is a real one

_torch_npu_env() {
  _npu_rule=$1/torch_npu/_cann.py
  # A tree that was not built has nothing to offer but the rule: then the one that is installed.
  if [ ! -e "$1/torch_npu/softcann/lib/libascendcl.so" ]; then
    _npu_package=$(_npu_installed_package)
    if [ -e "$_npu_package/_cann.py" ]; then _npu_rule=$_npu_package/_cann.py; fi
  fi
  if [ ! -e "$_npu_rule" ]; then
    echo "env.sh: there is neither a source tree of torch_npu beside it nor an installed torch_npu" >&2
    return 1
  fi
  _npu_answer=$(python3 "$_npu_rule") || return 1
  _npu_runtime=$(echo "$_npu_answer" | sed -n 1p)
  _npu_home=$(echo "$_npu_answer" | sed -n 2p)
  _npu_folders=$(echo "$_npu_answer" | sed -n 3p)
  if [ -n "$_npu_home" ]; then
    for _npu_script in "$_npu_home/set_env.sh" "$_npu_home/../set_env.sh"; do
      if [ -e "$_npu_script" ]; then
        # CANN's own script reads variables that may be unset, and its last command may fail.
        case $- in *u*) _npu_strict=1; set +u ;; *) _npu_strict=0 ;; esac
        . "$_npu_script" || true
        if [ "$_npu_strict" = 1 ]; then set -u; fi
        break
      fi
    done
    export ASCEND_HOME_PATH="$_npu_home"
  fi
  _npu_add LD_LIBRARY_PATH "${_npu_folders%%:*}"
  case $_npu_runtime in
    softcann)
      # Its Python packages, acl among them: a wheel's are installed, a tree's are not.
      if [ "${_npu_folders%%:*}" -ef "$1/torch_npu/softcann/lib" ]; then _npu_add PYTHONPATH "$1/third_party/softcann/python"; fi
      echo "CANN: softcann in ${_npu_folders%%:*}"
      ;;
    *) echo "CANN: ${_npu_home:-${_npu_folders%%:*}}" ;;
  esac
}

# The folder of torch_npu in the current Python, found without importing it. Not the tree we may stand in.
_npu_installed_package() {
  (cd / && python3 -c 'import importlib.util as u; print(u.find_spec("torch_npu").submodule_search_locations[0])' 2>/dev/null) || true
}

# _npu_add VARIABLE FOLDER: puts the folder first in a list of folders, once.
_npu_add() {
  eval "_npu_list=\${$1:-}"
  case ":$_npu_list:" in
    *":$2:"*) ;;
    *) export "$1=$2${_npu_list:+:$_npu_list}" ;;
  esac
}

if [ -n "${BASH_VERSION:-}" ]; then
  _npu_this=${BASH_SOURCE[0]}
elif [ -n "${ZSH_VERSION:-}" ]; then
  eval '_npu_this=${(%):-%x}'  # other shells cannot read this
else
  _npu_this=./env.sh  # they do not say which file they source
fi
if [ -e "$_npu_this" ]; then
  _torch_npu_env "$(CDPATH= cd "$(dirname "$_npu_this")" && pwd)"
else
  echo "env.sh: this shell does not tell where env.sh is: source it as . ./env.sh in its folder, or from bash or zsh" >&2
  false
fi
