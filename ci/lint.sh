#!/usr/bin/env bash
# Every check that runs no test: sizes of functions and files, ruff, clang-format, mypy, clang-tidy with clang's analysis of locks. False if one found something.
#   bash ci/lint.sh [--changed | --all | --no-tidy] [--fix]
#     clang-tidy reads the layers whose locks are annotated (csrc/memory, csrc/core, csrc/distributed); with --changed the sources
#     that differ from origin/main as well, with --all every source
#     --no-tidy   leaves clang-tidy out, which reads torch's headers for each source: minutes of every core
#     --fix   lets ruff and clang-format mend what they can
# The tools are pinned in ci/requirements-lint.txt and live in build/venv-lint. mypy reads torch's types from .venv, and clang-tidy
# the commands of the build (compile_commands.json): run ci/demo.sh or ci/test.sh once before.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

which=annotated fix=0
for argument in "$@"; do
  case $argument in
    --changed | --all | --no-tidy) which=${argument#--} ;;
    --fix) fix=1 ;;
    -h | --help) sed -n '2,9s/^# \?//p' ci/lint.sh; exit ;;
    *) die "unknown argument '$argument'; see bash ci/lint.sh --help" ;;
  esac
done
[[ -x .venv/bin/python && -e compile_commands.json ]] || die "nothing is built here yet; run bash ci/demo.sh first"
venv=build/venv-lint
make_venv "$venv" "$(find_python)"
once "$venv" lint "$(cat ci/requirements-lint.txt)" pip_install "$venv" -r ci/requirements-lint.txt
tools=$PWD/$venv/bin
mapfile -t cpp < <(git ls-files '*.cpp' '*.h')

failed=()
# check NAME COMMAND...: runs it, notes a failure, says how long it took.
check() {
  local name=$1 start=$SECONDS; shift
  "$@" || failed+=("$name")
  say "$name: $((SECONDS - start)) s"
}

# sources: what clang-tidy is to read.
sources() {
  if [[ $which == all ]]; then git ls-files 'csrc/*.cpp' 'third_party/softcann/*.cpp'; return; fi
  git ls-files 'csrc/memory/*.cpp' 'csrc/core/*.cpp' 'csrc/distributed/*.cpp'
  if [[ $which == changed ]]; then git diff --name-only --diff-filter=d "$(git merge-base HEAD origin/main)" -- '*.cpp'; fi
}

# tidy: on all cores; of what it writes, not how many warnings of torch's headers it kept to itself.
tidy() {
  sources | sort -u | xargs "$tools/python" ci/compile_commands.py |
    xargs -r -P "$(nproc)" -n 3 "$tools/clang-tidy" -p . --quiet 2> >(grep -v 'warnings\? generated' >&2)
}

check sizes "$tools/python" ci/sizes.py
if ((fix)); then
  check ruff "$tools/ruff" check --quiet --fix .
  check clang-format "$tools/clang-format" -i "${cpp[@]}"
else
  check ruff "$tools/ruff" check --quiet --output-format concise .
  check clang-format "$tools/clang-format" --dry-run -Werror "${cpp[@]}"
fi
check mypy "$tools/mypy" --python-executable .venv/bin/python --cache-dir build/mypy-cache
[[ $which == no-tidy ]] || check clang-tidy tidy
if ((${#failed[@]})); then die "lint found something: ${failed[*]}"; fi
say "lint found nothing"
