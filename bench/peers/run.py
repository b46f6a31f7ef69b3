#!/usr/bin/env python3
"""Trains the same model in Trireme and in its peers, in turn, on this machine; prints JSON lines.

    python bench/peers/run.py --trireme build/release/bench/train --python VENV/bin/python [--passes 3] [--shapes base ...]

VENV: README.md. Every pass starts each program once for each shape, so that what changes on the machine changes for all.
The last line of a shape (`bench: ratio`) has the medians over the passes and Trireme's tokens/s over the fastest
peer's. Nothing else should run meanwhile: `load` is the load average when a program had ended.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = [("transformers_peer.py", "eager"), ("transformers_peer.py", "grouped_mm"),
         ("torchtitan_peer.py", "float32"), ("torchtitan_peer.py", "loop")]
SHAPES = ["base", "large_vocab", "fine", "fine_narrow"]


def run(command, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="false")
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    for line in done.stdout.splitlines():
        if line.startswith("{") and '"bench":"train"' in line.replace(": ", ":"):
            return json.loads(line)
    print(json.dumps({"bench": "failed", "command": [Path(c).name for c in command[:2]] + command[2:],
                      "error": done.stderr.strip().splitlines()[-1:]}), flush=True)
    return None


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--trireme", required=True, help="the program bench/train")
    p.add_argument("--python", default=sys.executable, help="a Python that has the peers")
    p.add_argument("--passes", type=int, default=3)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--shapes", nargs="+", default=SHAPES, choices=SHAPES)
    args = p.parse_args()
    common = ["--steps", str(args.steps), "--warmup", str(args.warmup), "--threads", str(args.threads)]
    for shape in args.shapes:
        speeds = {}
        for number in range(args.passes):
            commands = [[args.trireme]] + [[args.python, str(HERE / script), "--experts", how] for script, how in PEERS]
            for command in commands:
                line = run(command + common + ["--shape", shape], args.threads)
                if line is None:
                    continue
                line |= {"pass": number, "load": round(os.getloadavg()[0], 2)}
                print(json.dumps(line), flush=True)
                speeds.setdefault(line["software"], []).append(line["tokens_per_s"])
        medians = {software: statistics.median(values) for software, values in speeds.items()}
        peers = {software: speed for software, speed in medians.items() if software != "trireme"}
        if not peers or "trireme" not in medians:
            continue
        fastest = max(peers, key=peers.get)
        print(json.dumps({"bench": "ratio", "shape": shape, "threads": args.threads, "passes": args.passes,
                          "trireme_tokens_per_s": medians["trireme"], "fastest_peer": fastest,
                          "peer_tokens_per_s": peers[fastest], "ratio": medians["trireme"] / peers[fastest]}), flush=True)


if __name__ == "__main__":
    main()
