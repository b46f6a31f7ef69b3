#!/usr/bin/env bash
# Mutates inputs of everything that Trireme reads for some time and keeps those that are read wrongly.
#
#   fuzz.sh SECONDS [--seed N] [--format NAME] [--out FOLDER]    FOLDER is fuzz-found
#   fuzz.sh --read FORMAT FILE                                   reads one kept input again
#
# TRIREME_PRESET=asan runs it under the address and undefined-behaviour sanitizers.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up fuzz
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
status=0
"build/$TRIREME_PRESET/tests/fuzz/fuzz" "$@" || status=$?
[ "$status" -le 2 ] || echo "fuzz: ended with $status: the input of a crash is in the folder that it names" >&2
exit "$status"
