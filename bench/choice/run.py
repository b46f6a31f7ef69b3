#!/usr/bin/env python3
"""Is the planner's choice right? Trains every layout that `trireme train` executes, of small models on 1, 2 and 4 ranks of
this machine, and lays the measured step times beside the predicted ones: JSON lines, then what the choice costs.

  bench/choice/run.py --trireme build/release/bin/trireme --out docs/choice/host.jsonl --docs docs/search.md
  bench/choice/run.py --netcluster --out docs/choice/netcluster.jsonl        as root: 4 nodes of 2 ranks at 100 Mbit/s
  bench/choice/run.py --out docs/choice/host.jsonl --saved --docs docs/search.md      remakes the page from the lines

Passes are interleaved: each goes through all layouts in an order of its own before the next begins. What --out has already
is not measured again (--again: it is). Let nothing else run meanwhile: each line says how many cores others kept busy, and a run that
was disturbed is measured again, twice at most.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import page
from layouts import found, layouts, name, settings
from scores import median

SOURCE = pathlib.Path(__file__).resolve().parents[2]
NETCLUSTER = SOURCE / "scripts" / "netcluster"
MODELS = {
    "quickstart": {"file": SOURCE / "configs/models/quickstart.toml", "num_layers": 4, "num_experts": 16, "sequence_length": 256,
                   "global_batch": 16},
    "wide": {"file": SOURCE / "bench/choice/wide.toml", "num_layers": 6, "num_experts": 8, "sequence_length": 128,
             "global_batch": 16},
}
WARM_UP = 3  # steps that make buffers and meet peers
DISTURBED = 0.1  # cores that others keep busy
CLUSTER = {"nodes": 4, "ranks_per_node": 2, "rate": "100mbit"}
RUN = """name = "choice-{model}"
folder = "{folder}"

[model]
file = "{file}"

[batch]
sequence_length = {sequence_length}
micro_batch = 2
global_batch = {global_batch}

[train]
steps = {steps}
log_every = 1

[data]
train = "random"

[checkpoint]
at_end = false
"""


def say(text):
    print(text, file=sys.stderr, flush=True)


def busy_s():
    """Processor seconds of the machine, and of this script's children, so far."""
    words = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    idle = int(words[3]) + int(words[4])
    ours = os.times()
    return (sum(map(int, words[:8])) - idle) / os.sysconf("SC_CLK_TCK"), ours.children_user + ours.children_system


class Failed(Exception):
    pass


class Bench:
    def __init__(self, options, work):
        self.o = options
        self.work = pathlib.Path(work)
        self.lines = page.read_lines(options.out)
        self.platforms = {}
        self.begin = time.monotonic()

    def call(self, *command, inside=False):
        command = [str(c) for c in command]
        if inside:
            command = [str(NETCLUSTER), "--inside", "--", *command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
        return done.stdout

    def write(self, line):
        self.lines.append(line)
        with open(self.o.out, "a") as out:
            out.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)

    def run_file(self, model):
        path = self.work / f"{model}.toml"
        path.write_text(RUN.format(model=model, folder=self.work / "run", steps=self.o.steps, **MODELS[model]))
        return path

    def probe(self, model):
        """Measured now, unless it is there: one platform for each model, whose own segments are in it."""
        path = self.platforms[model] = pathlib.Path(f"{self.o.out}.{model}.toml").resolve()
        if path.exists() and not self.o.again:
            return
        ranks = CLUSTER["nodes"] * CLUSTER["ranks_per_node"] if self.o.netcluster else max(self.o.ranks)
        quick = ["--quick"] if self.o.quick else []
        start = time.monotonic()
        self.call(self.o.trireme, "probe", "--ranks", ranks, "--run", self.run_file(model), "--out", path, *quick)
        say(f"{model}: probed in {time.monotonic() - start:.0f} s")
        if self.o.netcluster:
            self.call(self.o.trireme, "probe", "--links", *quick, "--out", path, inside=True)
            # What a probe of links cannot see: the nodes are parts of this machine and share its cores.
            hosts = f'ranks = {CLUSTER["ranks_per_node"]}\nper_machine = {CLUSTER["nodes"]}\n'
            path.write_text(re.sub(r"(?m)(^\[host\]\n(?:.+\n)*?)ranks = \d+\n", lambda m: m[1] + hosts, path.read_text(), count=1))

    def layouts(self, model, ranks):
        if self.o.netcluster:  # messages decide there: one schedule, small micro-batches
            return layouts(MODELS[model], ranks, CLUSTER["ranks_per_node"], most_micro_batch=2, schedules=("1f1b",))
        listed = layouts(MODELS[model], ranks)
        return listed[:: max(1, len(listed) // 5)] if self.o.quick else listed

    def measure(self, model, ranks, layout, of_pass):
        shutil.rmtree(self.work / "run", ignore_errors=True)  # of a run with more ranks measurements would be left
        load = os.getloadavg()[0]
        start, before = time.monotonic(), busy_s()
        out = self.call(self.o.trireme, "train", self.run_file(model), "--json", "--platform", self.platforms[model],
                        *([] if self.o.netcluster else ["--ranks", ranks]), *settings(layout), inside=self.o.netcluster)
        seconds, after = time.monotonic() - start, busy_s()
        steps_s = [line["measured_step_s"] for line in map(json.loads, out.splitlines()) if "measured_step_s" in line][WARM_UP:]
        line = {"measured": model, "ranks": ranks, "layout": layout, "pass": of_pass, "median_s": median(steps_s), "steps_s": steps_s,
                "cores": os.cpu_count(), "load": load,
                "load_after": os.getloadavg()[0], "seconds": seconds,
                "others_cores": ((after[0] - before[0]) - (after[1] - before[1])) / seconds}
        report = json.loads(self.call(self.o.trireme, "report", self.work / "run", "--json"))
        line["kinds_s"] = {row["kind"]: row["seconds"]["measured"] for row in report["kinds"] + report["segments"]}
        line["predicted_kinds_s"] = {row["kind"]: row["seconds"]["predicted"] for row in report["kinds"] + report["segments"]}
        return line

    def measure_undisturbed(self, *run):
        for left in (2, 1, 0):
            line = self.measure(*run)
            if line["others_cores"] <= DISTURBED or left == 0:
                return self.write(line)
            say(f"others kept {line['others_cores']:.2f} cores busy: once more")
            time.sleep(5)

    def predict(self, model, ranks, layout):
        plan = json.loads(self.call(self.o.trireme, "plan", self.run_file(model), "--json", "--ranks", ranks, "--platform",
                                    self.platforms[model], *settings(layout)))
        self.write({"predicted": model, "ranks": ranks, "layout": layout, "step_s": plan["step_s"], "threads": plan["threads"],
                    "feasible": plan["feasible"]})

    def choose(self, model, ranks):
        """What the planner finds for the run, which may have an all-to-all or layers of stages that the list has not."""
        plan = json.loads(self.call(self.o.trireme, "plan", self.run_file(model), "--search", "--runnable", "--json", "--ranks", ranks,
                                    "--platform", self.platforms[model]))
        self.write({"planned": model, "ranks": ranks, "layout": found(plan["layout"]), "step_s": plan["step_s"],
                    "search_s": plan["search"]["seconds"], "simulated": plan["search"]["simulated"]})

    def wanted(self):
        out = []
        for model in self.o.models:
            for ranks in self.o.ranks:
                listed = self.layouts(model, ranks)
                planned = [line["layout"] for line in self.lines if line.get("planned") == model and line["ranks"] == ranks]
                out += [(model, ranks, layout) for layout in listed + [l for l in planned[-1:] if l not in listed]]
        return out

    def measure_all(self):
        there = {page.key(line, "measured") + (line["pass"],) for line in self.lines if "measured" in line}
        for of_pass in range(1, self.o.passes + 1):
            runs = self.wanted()
            if not self.o.again:
                runs = [r for r in runs if page.key_of(*r) + (of_pass,) not in there]
            random.Random(of_pass).shuffle(runs)
            for i, (model, ranks, layout) in enumerate(runs):
                try:
                    self.measure_undisturbed(model, ranks, layout, of_pass)
                except (Failed, subprocess.TimeoutExpired) as failure:
                    say(f"{model}, {ranks} ranks, {name(layout)}: left out: {failure}")
                    continue
                say(f"pass {of_pass}, {i + 1} of {len(runs)}, {time.monotonic() - self.begin:.0f} s: {model}, {ranks} ranks, "
                    f"{name(layout)}: {1e3 * self.lines[-1]['median_s']:.1f} ms (load {self.lines[-1]['load']:.1f})")

    def run(self):
        for model in self.o.models:
            self.probe(model)
            for ranks in self.o.ranks:
                self.choose(model, ranks)
        self.measure_all()
        for run in self.wanted():
            self.predict(*run)


def in_cluster(options):
    """This script once more, as the driver of a cluster of network namespaces."""
    ours = [a for a in sys.argv[1:]]
    command = [str(NETCLUSTER), "--nodes", str(CLUSTER["nodes"]), "--ranks-per-node", str(CLUSTER["ranks_per_node"]), "--rate",
               CLUSTER["rate"], "--driver", "--", sys.executable, str(pathlib.Path(__file__).resolve()), *ours]
    return subprocess.run(command).returncode


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--trireme", default=str(SOURCE / "build/release/bin/trireme"))
    p.add_argument("--out", required=True, help="JSON lines: read, and added to; platform files lie beside them")
    p.add_argument("--models", default=",".join(MODELS))
    p.add_argument("--ranks", help="numbers of ranks (default 1,2,4; all of the cluster's with --netcluster)")
    p.add_argument("--passes", type=int, default=2)
    p.add_argument("--steps", type=int, default=13, help=f"of a run; the first {WARM_UP} are not counted")
    p.add_argument("--quick", action="store_true", help="a handful of layouts, a quick probe: to try the script itself")
    p.add_argument("--again", action="store_true", help="measure also what --out has already")
    p.add_argument("--saved", action="store_true", help="run nothing: only what --out has")
    p.add_argument("--netcluster", action="store_true", help=f"on {CLUSTER['nodes']} nodes of {CLUSTER['ranks_per_node']} ranks at "
                   f"{CLUSTER['rate']} (scripts/netcluster; root)")
    p.add_argument("--docs", help="a Markdown file: its section \"Is the choice right?\" (of nodes: \"... across nodes?\") is replaced, with the picture beside --out")
    p.add_argument("--plot", help="only the picture (SVG)")
    o = p.parse_args()
    o.models = o.models.split(",")
    for model in o.models:
        if model not in MODELS:
            p.error(f"--models {model}: must be of {', '.join(MODELS)}")
    o.ranks = [int(r) for r in o.ranks.split(",")] if o.ranks else \
        [CLUSTER["nodes"] * CLUSTER["ranks_per_node"]] if o.netcluster else [1, 2, 4]
    o.trireme = str(pathlib.Path(o.trireme).resolve())
    if o.steps < WARM_UP + 5:
        p.error(f"--steps {o.steps}: at least {WARM_UP + 5}, five of them counted")
    if not o.saved:
        if o.netcluster and "NETCLUSTER" not in os.environ:
            return in_cluster(o)
        pathlib.Path(o.out).parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as work:
            Bench(o, work).run()
    results = page.results(page.read_lines(o.out))
    for line in page.judgements(results):
        print(json.dumps(line))
    if o.plot:
        pathlib.Path(o.plot).write_text(page.plot(results))
    if o.docs:
        picture = pathlib.Path(o.out).with_suffix(".svg")
        picture.write_text(page.plot(results))
        page.put_section(pathlib.Path(o.docs), results, picture, o.netcluster)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(str(failure))
