#!/usr/bin/env bash
# Makes a machine ready: Debian packages, torch, a configured tree and the program. Sourced by quickstart.sh and test.sh;
# run by itself it stops after the build. Everything that is already there is left alone.
#
#   TRIREME_TORCH     folder of a libtorch >= 2.11 to use (else an importable torch, else .venv with torch 2.13.0)
#   TRIREME_PRESET    CMake preset (release)
#   TRIREME_JOBS      parallel compile jobs (the number of cores)
#   TRIREME_PIP_ARGS  more arguments for pip: where to find a CPU build of torch, if pip by itself would bring another
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TRIREME_PRESET=${TRIREME_PRESET:-release}
TRIREME_JOBS=${TRIREME_JOBS:-$(nproc)}
build=build/$TRIREME_PRESET
log=build/setup.log
mkdir -p build

die() { echo "trireme: $*" >&2; exit 1; }

# step NAME COMMAND...: runs it, its output to the log, and prints the time; on failure the end of the log.
step() {
  local name=$1 start end; shift
  start=$(date +%s.%N)
  printf '%-34s' "$name"
  if ! "$@" >"$log" 2>&1; then
    echo "failed"
    tail -n 25 "$log" >&2
    die "step '$name' failed (whole output: $log)"
  fi
  end=$(date +%s.%N)
  awk -v a="$start" -v b="$end" 'BEGIN { printf "%7.1f s\n", b - a }'
}

packages=(g++ cmake ninja-build ccache mold make git ca-certificates python3 python3-venv
  libgloo-dev libtomlplusplus-dev nlohmann-json3-dev libcli11-dev libfmt-dev libspdlog-dev
  libgtest-dev libgmock-dev libsentencepiece-dev libxxhash-dev dict-gcide
  libre2-dev zlib1g-dev libzstd-dev libbz2-dev liblzma-dev)

install_packages() {
  local missing=()
  for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "missing: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null && sudo -n true 2>/dev/null ||
      { echo "packages are missing and there is no root: run 'apt-get install ${missing[*]}' as root"; return 1; }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq || { echo "apt-get update failed: is there a network?"; return 1; }
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

check_compiler() {
  local version
  version=$(g++ -dumpfullversion) || { echo "no g++"; return 1; }
  [ "${version%%.*}" -ge 12 ] || { echo "g++ $version is too old: 12 or newer is needed"; return 1; }
}

# Prints the folder of a torch that `$1` can import and that is new enough.
torch_of() {
  "$1" - 2>/dev/null <<'PY'
import importlib.util, re, sys
spec = importlib.util.find_spec("torch")
if spec is None:
    sys.exit(1)
folder = spec.submodule_search_locations[0]
version = re.search(r"__version__ = '(\d+)\.(\d+)", open(folder + "/version.py").read())
if version is None or tuple(map(int, version.groups())) < (2, 11):
    sys.exit(1)
print(folder)
PY
}

# Which build of torch pip would bring: a CUDA build works on a CPU too, but is a download of several GB.
say_what_pip_brings() {
  # shellcheck disable=SC2086
  .venv/bin/pip install --disable-pip-version-check --quiet --dry-run --no-deps --report build/torch.json \
    ${TRIREME_PIP_ARGS:-} torch==2.13.0 || { echo "pip could not find torch 2.13.0: is there a network?"; return 1; }
  .venv/bin/python - build/torch.json <<'PY'
import json, sys
torch = json.load(open(sys.argv[1]))["install"][0]["metadata"]
cuda = any(r.split(";")[0].strip().lower().startswith(("nvidia-", "cuda-")) and "extra ==" not in r
           for r in torch.get("requires_dist", []))
print(torch["version"] + (" (a CUDA build, several GB; TRIREME_PIP_ARGS can name an index of CPU builds)" if cuda else ""))
PY
}

find_torch() {
  if [ -n "${TRIREME_TORCH:-}" ]; then
    [ -e "$TRIREME_TORCH/lib/libtorch.so" ] || { echo "TRIREME_TORCH=$TRIREME_TORCH holds no lib/libtorch.so"; return 1; }
    return 0
  fi
  torch_of .venv/bin/python >build/torch.path && return 0
  torch_of python3 >build/torch.path && return 0
  python3 -m venv .venv
  say_what_pip_brings || return 1
  # shellcheck disable=SC2086
  .venv/bin/pip install --disable-pip-version-check ${TRIREME_PIP_ARGS:-} torch==2.13.0 ||
    { echo "pip could not install torch 2.13.0: is there a network?"; return 1; }
  torch_of .venv/bin/python >build/torch.path || { echo "torch was installed and can't be found"; return 1; }
}

# set_up [TARGET]: builds the program, or another target: `all` has the tests and the benchmarks too.
set_up() {
  local target=${1:-trireme}
  command -v apt-get >/dev/null || die "this script knows Debian only; see CONTRIBUTING.md for the packages needed"
  step "Debian packages" install_packages
  step "compiler" check_compiler
  step "torch" find_torch
  [ -n "${TRIREME_TORCH:-}" ] || TRIREME_TORCH=$(cat build/torch.path)
  export TRIREME_TORCH
  step "configure ($TRIREME_PRESET)" cmake --preset "$TRIREME_PRESET" -DTRIREME_TORCH="$TRIREME_TORCH"
  step "build ($target)" cmake --build "$build" --target "$target" -j "$TRIREME_JOBS"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set_up
fi
