#!/usr/bin/env bash
# Sets the machine up, builds, and runs all tests: those of the whole tree, and those of the planning half built without
# torch. Ends with "N passed, N failed". Arguments go to ctest (-R pattern).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
packages+=(libsimgrid-dev)  # of the planning half's comparison with it
set_up all

passed=0; failed=0; skipped=0
run_tests() {
  local folder=$1; shift
  local junit=$PWD/$folder/junit.xml start=$SECONDS
  rm -f "$junit"
  ctest --test-dir "$folder" -j "$TRIREME_JOBS" --output-on-failure --output-junit "$junit" "$@" | tee "$folder/ctest.log" | grep -vE '^ *(Start|[0-9]+/[0-9]+ .*Passed)' || true
  [ -e "$junit" ] || die "ctest in $folder wrote no results"
  local counts
  counts=$(python3 - "$junit" <<'PY'
import sys, xml.etree.ElementTree as tree
suite = tree.parse(sys.argv[1]).getroot()
total, failed = int(suite.get("tests")), int(suite.get("failures"))
skipped = int(suite.get("skipped")) + int(suite.get("disabled"))
print(total - failed - skipped, failed, skipped)
PY
)
  read -r p f s <<<"$counts"
  passed=$((passed + p)); failed=$((failed + f)); skipped=$((skipped + s))
  echo "$folder: $p passed, $f failed, $s skipped in $((SECONDS - start)) s"
}

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
run_tests "build/$TRIREME_PRESET" "$@"
if [ "$TRIREME_PRESET" = release ]; then
  step "configure (plan-only)" cmake --preset plan-only -DTRIREME_WITH_SIMGRID=ON
  step "build (plan-only)" cmake --build build/plan-only -j "$TRIREME_JOBS"
  run_tests build/plan-only "$@"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
