#!/usr/bin/env python3
"""Holds sim's network model against SimGrid, case by case, and writes the lines and tables of docs/all_to_all/simgrid.*.

  ./bench/simgrid/run.py --compare build/plan-only/bench/simgrid_compare --ranks 64,256,1024
  ./bench/simgrid/run.py --ranks ''          # only makes the tables again from the lines

A case is a process of its own with a limit on its time of the processor, for SimGrid solves for all flows whenever one starts
or ends: what it can't do within the limit is written down as left out. Cases whose lines are there are not run again.
"""
import argparse
import itertools
import json
import pathlib
import resource
import statistics
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FABRICS = {  # platform, ranks a node, nodes a group by ranks
    "dragonfly": ("frontier", 8, {64: 4, 256: 8, 1024: 32}),
    "fat_tree": ("jupiter", 4, {64: 4, 256: 16, 1024: 32}),
}
PATTERNS = ["flat", "pairwise", "scattered", "bruck", "node_aware", "halo", "halo3", "allgather_a2a", "dedup"]
CHEAP_FIRST = ["bruck", "halo", "dedup", "node_aware", "halo3", "allgather_a2a", "pairwise", "scattered", "flat"]
COUNTS = ["balanced", "skewed"]
SIZES = [512, 4096, 32768, 262144, 4194304]


def key(line):
    return tuple(line[k] for k in ("topology", "ranks", "counts", "pattern", "bytes_per_pair"))


def load(path):
    lines = [json.loads(l) for l in path.read_text().splitlines()] if path.exists() else []
    # A case that was left out and has been run since counts as run.
    by_key = {}
    for line in lines:
        if not line.get("left_out") or key(line) not in by_key:
            by_key[key(line)] = line
    return by_key


def run_case(case, options):
    topology, ranks, counts, pattern, size = case
    platform, ranks_per_node, nodes_per_group = FABRICS[topology]
    command = [*options.prefix.split(), options.compare, "--platform", str(SOURCE / "configs" / "platforms" / f"{platform}.toml"),
               "--topology", topology, "--ranks", str(ranks), "--ranks-per-node", str(ranks_per_node), "--nodes-per-group",
               str(nodes_per_group[ranks]), "--patterns", pattern, "--counts", counts, "--bytes", str(size)]
    done = subprocess.run(command, capture_output=True, text=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit)))
    if done.returncode == 0:
        return json.loads(done.stdout)
    if done.returncode > 0 and done.returncode < 128:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return {"topology": topology, "ranks": ranks, "counts": counts, "pattern": pattern, "bytes_per_pair": float(size),
            "left_out": True, "limit_s": options.limit}


def size_text(size):
    return f"{size / 2**20:g} MiB" if size >= 2**20 else f"{size / 1024:g} KiB" if size >= 1024 else f"{size:g} B"


def error(line):
    return abs(line["ratio"] - 1)


def percent(x):
    return f"{x * 100:.1f} %"


def summary(by_key):
    out = ["| ranks | fabric | counts | cases | left out | median | 9 of 10 within | largest |", "|---|---|---|---|---|---|---|---|"]
    for ranks in sorted({k[1] for k in by_key}):
        for topology, counts in [*itertools.product(FABRICS, COUNTS), ("both", "both")]:
            lines = [l for k, l in by_key.items() if k[1] == ranks and topology in (k[0], "both") and counts in (k[2], "both")]
            ran = sorted((l for l in lines if not l.get("left_out")), key=error)
            if not ran:
                continue
            worst = ran[-1]
            every = len(PATTERNS) * len(SIZES) * (4 if topology == "both" else 1)
            out.append(f"| {ranks:,} | {topology.replace('_', ' ')} | {counts} | {len(ran)} | {every - len(ran)} | "
                       f"{percent(statistics.median(map(error, ran)))} | {percent(error(ran[(9 * len(ran) - 1) // 10]))} | "
                       f"{percent(error(worst))} ({worst['pattern']}, {size_text(worst['bytes_per_pair'])}) |")
    return out


def by_pattern(by_key):
    columns = sorted({(k[1], k[0], k[2]) for k, l in by_key.items() if not l.get("left_out")})
    out = []
    for ranks, topology, counts in columns:
        out += [f"### {ranks:,} ranks, {topology.replace('_', ' ')}, {counts}", "", "SimGrid's ms, sim's time over it:", "",
                "| pattern | " + " | ".join(size_text(s) for s in SIZES) + " |", "|---|" + "---|" * len(SIZES)]
        for pattern in PATTERNS:
            cells = []
            for size in SIZES:
                line = by_key.get((topology, ranks, counts, pattern, size))
                cells.append("left out" if line is None or line.get("left_out")
                             else f"{line['simgrid_s'] * 1e3:.4g}, {line['ratio']:.3f}")
            if any(cell != "left out" for cell in cells):
                out.append(f"| {pattern} | " + " | ".join(cells) + " |")
        out.append("")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", default="build/plan-only/bench/simgrid_compare", help="the program")
    parser.add_argument("--ranks", default="64", help="64, 256, 1024, or several")
    parser.add_argument("--bytes", default=",".join(map(str, SIZES)))
    parser.add_argument("--limit", type=int, default=60, help="seconds of the processor a case")
    parser.add_argument("--prefix", default="", help="a command that runs each case")
    parser.add_argument("--out", type=pathlib.Path, default=SOURCE / "docs" / "all_to_all")
    options = parser.parse_args()
    path = options.out / "simgrid.jsonl"
    by_key = load(path)
    ranks = [int(r) for r in options.ranks.split(",") if r]
    with path.open("a") as lines:
        for case in itertools.product(FABRICS, ranks, COUNTS, CHEAP_FIRST, [int(b) for b in options.bytes.split(",")]):
            if case in by_key and not by_key[case].get("left_out"):
                continue
            line = by_key[case] = run_case(case, options)
            print(json.dumps(line), file=lines, flush=True)
            print(*case, line.get("ratio", "left out"), file=sys.stderr, flush=True)
    text = ["# sim against SimGrid", "", "|sim / SimGrid - 1| by ranks, fabric and counts; made by bench/simgrid/run.py from simgrid.jsonl.",
            "What is compared: [all-to-all patterns](../all_to_all.md#against-simgrid). Left out: patterns and sizes not run, or not to the",
            "end of the time that they had.", "", *summary(by_key), "", *by_pattern(by_key)]
    (options.out / "simgrid.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
