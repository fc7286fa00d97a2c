# Points a shell to CANN: the real one where it is installed, else the software one of this tree or of an installed
# torch_npu. torch_npu needs this only for the real CANN and finds the software one by itself; other clients of CANN
# need it for both.
#   . ./env.sh            bash or zsh; may be sourced again; fine under set -eu
#   TORCH_NPU_RUNTIME=softcann . ./env.sh      the software one even where there is a real one

_torch_npu_env() {
  _npu_here=$1
  _npu_home=
  if [ "${TORCH_NPU_RUNTIME:-auto}" != softcann ]; then
    for _npu_home in "${ASCEND_HOME_PATH:-}" "${ASCEND_TOOLKIT_HOME:-}" /usr/local/Ascend/cann \
        "$(_npu_recorded_home)" /usr/local/Ascend/ascend-toolkit/latest /usr/local/Ascend/latest \
        /usr/local/Ascend/nnae/latest "${HOME:-}/Ascend/ascend-toolkit/latest"; do
      [ -n "$_npu_home" ] && [ -e "$_npu_home/lib64/libascendcl.so" ] && break
      _npu_home=
    done
  fi
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
    _npu_add "$_npu_home/lib64"
    echo "CANN: $_npu_home"
  elif [ "${TORCH_NPU_RUNTIME:-auto}" = cann ]; then
    echo "CANN was not found; set ASCEND_HOME_PATH to its folder and source this file again" >&2
    return 1
  else
    _npu_libraries=$_npu_here/torch_npu/softcann/lib
    if [ ! -e "$_npu_libraries/libascendcl.so" ]; then _npu_libraries=$(_npu_installed_package)/softcann/lib; fi
    if [ ! -e "$_npu_libraries/libascendcl.so" ]; then
      echo "neither CANN nor a built softcann was found; bash ci/demo.sh builds it" >&2
      return 1
    fi
    _npu_add "$_npu_libraries"
    echo "CANN: softcann in $_npu_libraries"
  fi
}

# Where CANN's installer says that it went, if it says so.
_npu_recorded_home() {
  sed -n 's/^[A-Za-z_]*Install_*Path[A-Za-z_]*=//p' /etc/Ascend/ascend_cann_install.info 2>/dev/null | head -n 1
}

# The folder of torch_npu in the current Python, found without importing it.
_npu_installed_package() {
  python3 -c 'import importlib.util as u; print(u.find_spec("torch_npu").submodule_search_locations[0])' 2>/dev/null || true
}

# Puts a folder first in LD_LIBRARY_PATH, once.
_npu_add() {
  case ":${LD_LIBRARY_PATH:-}:" in
    *":$1:"*) ;;
    *) export LD_LIBRARY_PATH="$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ;;
  esac
}

if [ -n "${BASH_VERSION:-}" ]; then
  _npu_this=${BASH_SOURCE[0]}
else
  _npu_this=${(%):-%x}
fi
_torch_npu_env "$(CDPATH= cd "$(dirname "$_npu_this")" && pwd)"
