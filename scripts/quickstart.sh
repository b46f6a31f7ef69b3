#!/usr/bin/env bash
# From a bare Debian 12 to a trained MoE language model and its report: packages, torch, build, then
# data -> probe -> plan (finds the layout) -> train on 4 ranks -> report. Run again, it does only what is missing, and
# trains on from the last checkpoint.
#
#   quickstart.sh [--set key=value]...   overrides of configs/runs/quickstart.toml, such as --set train.steps=50; a key of
#                                        the layout, such as --set layout.pp=4, is kept where the layout is found
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up

trireme=build/$TRIREME_PRESET/bin/trireme
config=configs/runs/quickstart.toml
mkdir -p data runs

say() { printf '\n== %s\n' "$*"; }

unpack_text() { gzip -dc </usr/share/dictd/gcide.dict.dz >data/gcide.txt.part && mv data/gcide.txt.part data/gcide.txt; }
[ -s data/gcide.txt ] || step "unpack the dictionary" unpack_text

say "data: text to token files"
if [ -s data/gcide_train.idx ] && [ -s data/gcide_valid.idx ]; then
  echo "data/gcide_{train,valid}.{bin,idx} are there already"
else
  "$trireme" data data/gcide.txt --out data/gcide --tokenizer byte --documents separator --separator '^\S' --skip-bad
fi

say "probe: what this machine is like"
if [ -s runs/platform.toml ]; then
  echo "runs/platform.toml is there already"
else
  "$trireme" probe --ranks 4 --run "$config" --out runs/platform.toml
fi

say "plan: the fastest layout on 4 ranks of this machine, and what the run will be like"
found=runs/quickstart.toml
if [ -s "$found" ]; then
  echo "$found has the layout that was found before"
  "$trireme" plan "$found" --ranks 4 "$@"
else
  "$trireme" plan "$config" --ranks 4 --search --runnable --out "$found" "$@"
fi

say "train: 4 ranks"
"$trireme" train "$found" --ranks 4 --resume-if-any "$@"

say "report: predicted against measured"
"$trireme" report runs/quickstart
