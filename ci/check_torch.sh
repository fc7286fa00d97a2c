#!/usr/bin/env bash
# Compiles and links everything against each torch minor, reports, and removes what it fetched.
#   bash ci/check_torch.sh [2.9 2.14 ...] [--python=3.11] [--jobs=N] [--keep]
# Without versions: all that ci/versions.txt has for this Python. To save time nothing is optimized, and sources are compiled
# in large batches; should one fail, they are compiled as ci/build.sh does, which decides (and makes a wheel: --torch=X.Y). With
# --keep, torch and the objects stay in build/. Results go to ci/checked.txt, from which docs/gen_compatibility.py makes
# the table in docs/compatibility.md.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

minors=() want_python=3.11 keep=0 jobs=()
for argument in "$@"; do
  case $argument in
    --python=*) want_python=${argument#*=} ;;
    --jobs=*) jobs=(-j "${argument#*=}") ;;
    --keep) keep=1 ;;
    -h | --help) sed -n '2,7s/^# \?//p' "${BASH_SOURCE[0]}"; exit ;;
    [0-9]*) minors+=("$argument") ;;
    *) die "unknown argument '$argument'; see bash ci/check_torch.sh --help" ;;
  esac
done
python=$(find_python "$want_python")
minor=$(python_minor "$python")
if ((${#minors[@]} == 0)); then read -ra minors <<< "$(versions | awk -v p="$minor" '$1 == p {$1 = $2 = ""; print}')"; fi
for torch in "${minors[@]}"; do
  supported_pair "$minor" "$torch" || die "Python $minor with torch $torch is not supported:
$(cat ci/versions.txt)"
done
need_compiler "$python"
venv=build/venv-py$minor
make_venv "$venv" "$python"
once "$venv" build "$(cat requirements.txt)" pip_install "$venv" -r requirements.txt

# compile TORCH FOLDER LOG [CMAKE-ARGUMENT...]: false where a source or a link fails. A build type without any flags.
compile() {
  local torch=$1 folder=$2 log=$3; shift 3
  "$venv/bin/cmake" -S . -B "$folder" -G Ninja -DCMAKE_MAKE_PROGRAM="$PWD/$venv/bin/ninja" -DPython_EXECUTABLE="$PWD/$venv/bin/python" \
    -DTORCH_DIR="$PWD/build/torch$torch/torch" -DTORCH_NPU_OUTPUT_DIR="$PWD/$folder/package" -DCMAKE_BUILD_TYPE=Check "$@" > "$log" 2>&1 ||
    { cat "$log" >&2; die "cmake failed"; }
  "$venv/bin/ninja" -C "$folder" -k 0 "${jobs[@]}" >> "$log" 2>&1
}

# check MINOR: compiles and links against one torch; the log stays in build/.
check() {
  # One folder for all, so that ccache knows the sources that see no torch.
  local torch=$1 had=1 folder=build/check log=build/check-torch$1.log failed=0 version units broken
  [[ -e build/torch$torch/.version ]] || had=0
  fetch_torch "$venv" "$torch.*" "build/torch$torch"
  version=$(<"build/torch$torch/.version")
  say "checking against torch $version"
  if ((keep)); then folder+=-torch$torch; else rm -rf "$folder"; fi
  compile "$torch" "$folder" "$log" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=12 || failed=1
  if ((failed)); then
    say "a batch failed; compiling as an ordinary build does"
    failed=0
    compile "$torch" "$folder" "$log" -DCMAKE_UNITY_BUILD=OFF || failed=1
  fi
  units=$(grep -c '"file":' "$folder/compile_commands.json")
  broken=$(grep -c '^FAILED:' "$log" || true)
  if ((failed && broken == 0)); then tail -20 "$log" >&2; die "ninja failed; see $log"; fi
  report+=$(printf '%-8s %-9s %5d %7d  %s' "$minor" "$version" "$units" "$broken" "$([[ $broken == 0 ]] || echo "$log")")$'\n'
  if ((broken == 0)); then record_check "$minor" "$version" links; fi
  if ((!keep)); then rm -rf "$folder"; fi
  if ((!had && !keep)); then rm -rf "build/torch$torch"; fi
}

report="Python   torch     units  broken"$'\n'
for torch in "${minors[@]}"; do check "$torch"; done
printf '%s' "$report"
! grep -q 'check-torch.*log$' <<< "$report"
