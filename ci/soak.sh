#!/usr/bin/env bash
# Runs a mix of everything for a long time and looks at memory, speed and values (ci/soak.py). Arguments go to it.
#   bash ci/soak.sh --minutes 60 [--report FILE]
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
setup_venv test ci/requirements-test.txt
exec .venv/bin/python ci/soak.py "$@"
