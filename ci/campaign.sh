#!/usr/bin/env bash
# The whole fault campaign (ci/campaign.py): every call of CANN of four workloads fails once. Arguments go to it.
#   bash ci/campaign.sh [--seconds N] [--workload train] [--entry aclrtMalloc] [--state FILE] [--report docs/fault_campaign.md]
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
setup_venv test ci/requirements-test.txt
exec .venv/bin/python ci/campaign.py "$@"
