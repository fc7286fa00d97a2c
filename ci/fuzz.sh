#!/usr/bin/env bash
# Fuzzes what reads text and bytes of others: libFuzzer's targets of test/fuzz, with address and undefined-behaviour sanitizers.
#   bash ci/fuzz.sh [--seconds N] [--seed N] [--jobs N] [TARGET...]     # 60 s for each of all targets, one at a time; needs clang++
# Inputs that make a target fail are written to build/fuzz/<target>-*. Mended, they belong into test/fuzz/corpus/<target>.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

seconds=60 seed=0 jobs=1 targets=()
while (($#)); do
  case $1 in
    --seconds) seconds=${2:?--seconds needs a number}; shift 2 ;;
    --seed) seed=${2:?--seed needs a number}; shift 2 ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift 2 ;;
    -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit ;;
    -*) die "unknown option $1; see --help" ;;
    *) targets+=("$1"); shift ;;
  esac
done
((${#targets[@]})) || for source in test/fuzz/*.cpp; do targets+=("$(basename "$source" .cpp)"); done
command -v clang++ >/dev/null || die "clang++ is missing: apt-get install clang"
torch=$(.venv/bin/python -c 'import os, torch; print(os.path.dirname(torch.__file__))') || die "no .venv: bash ci/demo.sh makes one"

folder=build/fuzz
softcann=third_party/softcann/src
flags=(-std=c++20 -g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
  -fvisibility=hidden -Wno-format-security -I"$softcann" -Ithird_party/cann/include -Icsrc -isystem "$torch/include")
export folder
mkdir -p "$folder/objects"

# What needs no torch, and the allocator's settings: an archive, out of which each target takes what it does not have itself.
sources=("$softcann"/{fault,rt,rt/*,comm}/*.cpp "$softcann"/model/{container,wire,definition}.cpp
  "$softcann"/media/{color,jpeg,picture,pixel_format,png}.cpp csrc/memory/allocator_config.cpp)
say "compiling ${#sources[@]} files"
compile() {
  local object=$folder/objects/${1//\//_}.o
  if [[ $object -nt $1 ]]; then
    local newer; newer=$(find third_party/softcann/src third_party/cann/include csrc/memory -name '*.h' -newer "$object" -print -quit)
    [[ -n $newer ]] || return 0
  fi
  clang++ "${@:2}" -fsanitize=fuzzer-no-link -c "$1" -o "$object"
}
export -f compile
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I {} bash -c 'compile "$@"' _ {} "${flags[@]}"
rm -f "$folder/all.a"
ar qc "$folder/all.a" "$folder"/objects/*.o

link() {
  clang++ "${@:2}" -fsanitize=fuzzer "test/fuzz/$1.cpp" "$folder/all.a" -o "$folder/$1" -L"$torch/lib" -lc10 -Wl,-rpath,"$torch/lib" -ldl -pthread
}
fuzz() {
  local target=$1
  say "$target: $seconds s"
  mkdir -p "$folder/found/$target"
  "$folder/$target" -max_total_time="$seconds" -seed="$seed" -timeout=10 -rss_limit_mb=4096 -max_len=4096 -print_final_stats=1 \
    -verbosity=1 -artifact_prefix="$folder/$target-" "$folder/found/$target" "test/fuzz/corpus/$target" >"$folder/$target.log" 2>&1 ||
    { tail -40 "$folder/$target.log" >&2; die "$target failed; the whole log is $folder/$target.log"; }
  say "$target: $(grep -oE '(number_of_executed_units|new_units_added): *[0-9]+' "$folder/$target.log" | tr -s ' ' | paste -sd ' ')"
}
export torch seconds seed
export -f link fuzz say die
for target in "${targets[@]}"; do
  [[ -f test/fuzz/$target.cpp ]] || die "there is no test/fuzz/$target.cpp"
done
say "linking ${targets[*]}"
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I {} bash -c 'link "$@"' _ {} "${flags[@]}"
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I {} bash -c 'set -e; fuzz "$1"' _ {}
