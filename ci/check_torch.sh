#!/usr/bin/env bash
# Compiles everything against the headers of each torch minor, reports, and removes what it fetched.
#   bash ci/check_torch.sh [2.9 2.14 ...] [--python=3.11] [--only=csrc|third_party] [--jobs=N] [--keep]
# Without versions: all that ci/versions.txt has for this Python. The compiler checks (-fsyntax-only) and makes no objects,
# half the cost of a build; ci/build.sh --torch=X.Y builds and links. Results go to ci/checked.txt, from which
# docs/gen_compatibility.py makes the table in docs/compatibility.md.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

minors=() want_python=3.11 only='' keep=0 jobs=()
for argument in "$@"; do
  case $argument in
    --python=*) want_python=${argument#*=} ;;
    --only=*) only=${argument#*=} ;;
    --jobs=*) jobs=(-j "${argument#*=}") ;;
    --keep) keep=1 ;;
    -h | --help) sed -n '2,6s/^# \?//p' "${BASH_SOURCE[0]}"; exit ;;
    2.*) minors+=("$argument") ;;
    *) die "unknown argument '$argument'; see bash ci/check_torch.sh --help" ;;
  esac
done
python=$(find_python "$want_python")
minor=$(python_minor "$python")
supported=$(versions | awk -v p="$minor" '$1 == p {$1 = $2 = ""; print}')
if ((${#minors[@]} == 0)); then read -ra minors <<< "$supported"; fi
for torch in "${minors[@]}"; do
  grep -qwF -- "$torch" <<< "$supported" || die "Python $minor with torch $torch is not supported:
$(cat ci/versions.txt)"
done
need_compiler "$python"
venv=build/venv-py$minor
make_venv "$venv" "$python"
once "$venv" build "$(cat requirements.txt)" pip_install "$venv" -r requirements.txt

# objects FOLDER: the object files of a configured build that are to be checked.
objects() {
  "$venv/bin/python" - "$1" "$only" << 'END'
import json, os, sys
folder, only = sys.argv[1:]
for unit in json.load(open(os.path.join(folder, "compile_commands.json"))):
    path = os.path.relpath(os.path.join(unit["directory"], unit["output"]), folder)
    if path.startswith(only) and "cmake_pch" not in path:
        print(path)
END
}

# check MINOR: compiles against one torch; the log stays in build/.
check() {
  local torch=$1 had=1 folder=build/check-torch$1 log=build/check-torch$1.log failed version
  [[ -e build/torch$torch/.version ]] || had=0
  fetch_torch "$venv" "$torch.*" "build/torch$torch"
  version=$(<"build/torch$torch/.version")
  say "checking against torch $version"
  rm -rf "$folder"
  "$venv/bin/cmake" -S . -B "$folder" -G Ninja -DCMAKE_MAKE_PROGRAM="$PWD/$venv/bin/ninja" -DPython_EXECUTABLE="$PWD/$venv/bin/python" \
    -DTORCH_DIR="$PWD/build/torch$torch/torch" -DTORCH_NPU_OUTPUT_DIR="$PWD/$folder/package" -DCMAKE_CXX_FLAGS=-fsyntax-only \
    -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_CXX_COMPILER_LAUNCHER=env > "$log" 2>&1 || { cat "$log" >&2; die "cmake failed"; }
  mapfile -t units < <(objects "$folder")
  failed=0
  "$venv/bin/ninja" -C "$folder" -k 0 "${jobs[@]}" "${units[@]}" >> "$log" 2>&1 || failed=1
  local broken
  broken=$(grep -c '^FAILED:' "$log" || true)
  if ((failed && broken == 0)); then tail -20 "$log" >&2; die "ninja failed; see $log"; fi
  report+="$(printf '%-8s %-9s %5d %7d  %s' "$minor" "$version" "${#units[@]}" "$broken" "$([[ $broken == 0 ]] || echo "$log")")"$'\n'
  if ((broken == 0)) && [[ -z $only ]]; then record "$version"; fi
  rm -rf "$folder"
  if ((!had && !keep)); then rm -rf "build/torch$torch"; fi
}

# record VERSION: what ci/checked.txt says of this pair, unless it says something stronger already.
record() {
  grep -qE "^$minor +${1%.*}\.[0-9]+ +(links|runs) " ci/checked.txt && return
  sed -i "/^$minor *${1%.*}\.[0-9]* *compiles /d" ci/checked.txt
  printf '%-6s %-8s compiles  %s\n' "$minor" "$1" "$(git rev-parse --short=7 HEAD)" >> ci/checked.txt
}

report="Python   torch     units  broken"$'\n'
for torch in "${minors[@]}"; do check "$torch"; done
printf '%s' "$report"
! grep -qE 'check-torch.*log$' <<< "$report"
