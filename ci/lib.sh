# Sourced by the scripts beside it. Bash; works in the repo root; needs nothing but coreutils, Python and g++.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() { if [[ -t 2 ]]; then printf '\033[1m== %s\033[0m\n' "$*" >&2; else printf '== %s\n' "$*" >&2; fi; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Table of ci/versions.txt without comments: python, default torch, supported minors.
versions() { grep -v '^#' ci/versions.txt; }
supported_python() { versions | awk '{print $1}' | grep -qxF "$1"; }
# supported_pair 3.11 2.13
supported_pair() { versions | awk -v p="$1" -v t="$2" '$1 == p {for (i = 3; i <= NF; i++) if ($i == t) found = 1} END {exit !found}'; }
default_torch() { versions | awk -v p="$1" '$1 == p {print $2}'; }

# python_minor EXECUTABLE: prints 3.11; fails where it does not run (a pyenv shim of an inactive version).
python_minor() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# find_python [3.x]: an executable of that version (any supported one without it), on PATH, in pyenv or in conda.
find_python() {
  local want=${1:-} minor candidate
  local candidates=()
  if [[ -n ${PYTHON:-} ]]; then
    candidates=("$PYTHON")
  elif [[ -n $want ]]; then
    candidates=("python$want" python3 "${PYENV_ROOT:-$HOME/.pyenv}/versions/$want".*/bin/python)
    if command -v conda >/dev/null; then candidates+=("$(conda info --base)/bin/python" "$(conda info --base)"/envs/*/bin/python); fi
  else
    candidates=(python3 python python3.13 python3.12 python3.11 python3.10 python3.9)
  fi
  for candidate in "${candidates[@]}"; do
    minor=$(python_minor "$candidate") || continue
    if [[ -n $want && $minor != "$want" ]]; then continue; fi
    if supported_python "$minor"; then command -v "$candidate"; return; fi
  done
  if [[ -n $want ]]; then
    die "no Python $want on PATH, in pyenv or in conda. Get it with one of:
  apt-get install python$want python$want-venv python$want-dev      pyenv install $want      conda create -n py$want python=$want
or name it: PYTHON=/path/to/python$want"
  fi
  die "no supported Python found (${PYTHON:-python3} on PATH is $(python_minor "${PYTHON:-python3}" || echo missing)); supported: $(versions | awk '{printf "%s ", $1}')
Install one (Debian, Ubuntu: apt-get install python3 python3-venv python3-dev) or name it: PYTHON=/path/to/python3"
}

# need_compiler PYTHON: stops with what to install where g++ or Python.h are missing.
need_compiler() {
  local cxx=${CXX:-c++} include
  command -v "$cxx" >/dev/null || die "no C++ compiler ($cxx). Debian, Ubuntu: apt-get install g++"
  echo 'template <class T> concept C = true; int main() {}' | "$cxx" -std=c++20 -x c++ -fsyntax-only - 2>/dev/null ||
    die "$cxx ($("$cxx" -dumpfullversion 2>/dev/null || echo unknown)) does not know C++20. Install g++ 12 or newer, or name it: CXX=g++-12"
  include=$("$1" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [[ -e $include/Python.h ]] || die "no $include/Python.h. Debian, Ubuntu: apt-get install python$(python_minor "$1")-dev (or python3-dev)"
}

# make_venv FOLDER PYTHON: a virtual environment, unless there is one.
make_venv() {
  [[ -x $1/bin/python ]] && python_minor "$1/bin/python" >/dev/null && return
  say "making $1 with Python $(python_minor "$2")"
  rm -rf "$1"
  "$2" -m venv "$1" >/dev/null 2>&1 && [[ -x $1/bin/pip ]] && return
  rm -rf "$1"
  die "$2 cannot make virtual environments. Debian, Ubuntu: apt-get install python$(python_minor "$2")-venv (or python3-venv)"
}

# pip_install VENV ARGUMENTS...: silent in logs, with pip's own progress on a terminal.
pip_install() {
  local python=$1/bin/python quiet=-qq; shift
  if [[ -t 1 ]]; then quiet=; fi
  "$python" -m pip install $quiet "$@"
}

# once VENV NAME KEY COMMAND...: runs the command unless it succeeded before with the same key.
once() {
  local stamp=$1/.stamp-$2 key=$3; shift 3
  [[ -e $stamp && $(<"$stamp") == "$key" ]] && return
  "$@"
  printf '%s\n' "$key" > "$stamp"
}

torch_installed() { "$1/bin/python" -c 'from importlib.metadata import version; print(version("torch").split("+")[0])' 2>/dev/null; }

# install_torch VENV [VERSION]: torch by the table, unless a supported one is there.
install_torch() {
  local minor torch have
  minor=$(python_minor "$1/bin/python")
  torch=${2:-$(default_torch "$minor")}
  have=$(torch_installed "$1") || have=none
  if [[ -z ${2:-} ]] && supported_pair "$minor" "${have%.*}"; then return; fi
  [[ $have == "$torch" ]] && return
  say "installing torch $torch"
  pip_install "$1" ${TORCH_NO_DEPS:+--no-deps} "torch==$torch"
}

# fetch_torch VENV VERSION FOLDER: the torch package alone, without dependencies, to compile against. 2.9.* takes any 2.9.
fetch_torch() {
  local have=
  if [[ -e $3/.version ]]; then have=$(<"$3/.version"); fi
  if [[ -n $have && ($have == "$2" || $2 == *.\*) ]]; then return; fi
  say "fetching torch $2 (headers and libraries)"
  rm -rf "$3"
  pip_install "$1" --no-deps --target "$3" "torch==$2"
  sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" "$3/torch/version.py" > "$3/.version"
}

# build_wheel PYTHON FOLDER STAGE DIST [ARGUMENT...]: the package of that folder, from an empty staging area, so that nothing stale
# gets in. Paths are absolute, but for the folder.
build_wheel() {
  local python=$1 folder=$2 stage=$3 dist=$4; shift 4
  rm -rf "$stage"
  mkdir -p "$stage"
  # setuptools warns that setup.py is not a tool for users; here it is one for these scripts.
  (cd "$folder" && PYTHONWARNINGS=ignore "$python" setup.py -q build --build-base "$stage" egg_info --egg-base "$stage" \
    bdist_wheel --bdist-dir "$stage/bdist" --dist-dir "$dist" "$@")
}

# record_check PYTHON VERSION links|runs: in ci/checked.txt, unless that says more of this pair already; its head says what they mean.
record_check() {
  local more='(runs|tested)'
  if [[ $3 == runs ]]; then more=tested; fi
  if grep -qE "^$1 +${2%.*}\.[0-9]+ +$more " ci/checked.txt; then return; fi
  sed -i -E "/^$1 +${2%.*}\.[0-9]+ /d" ci/checked.txt
  printf '%-6s %-8s %-6s %s\n' "$1" "$2" "$3" "$(git rev-parse --short=7 HEAD)" >> ci/checked.txt
}

# setup_venv NAME FILE...: .venv with torch, the requirements of the files, and torch_npu built and installed in place.
setup_venv() {
  local name=$1; shift
  local files=(requirements.txt "$@") arguments=() file python
  if [[ -x .venv/bin/python ]]; then python=.venv/bin/python; else python=$(find_python); fi
  need_compiler "$python"
  make_venv .venv "$python"
  install_torch .venv
  for file in "${files[@]}"; do arguments+=(-r "$file"); done
  once .venv "$name" "$(cat "${files[@]}")" eval "say 'installing what the $name needs'; pip_install .venv ${arguments[*]}"
  build_in_place
}

# build_in_place: compiles what changed; the first time it also registers the package with pip.
build_in_place() {
  say "building (the first time takes some minutes)"
  .venv/bin/python setup.py -q build_ext --inplace
  once .venv install "$(pwd) $(cat pyproject.toml setup.py)" pip_install .venv --no-build-isolation --no-deps -e .
}
