"""Predictions that were frozen before the planner's parts were joined: a change of structure changes none of them (1e-9 relative).

Needs TRIREME (the program) and TRIREME_SOURCE_DIR in the environment. `FrozenRows` predicts whole tables of published
measurements, where TRIREME_VALIDATION names the folder that holds them, and is skipped elsewhere.

    python3 frozen_test.py --write [SUITE...]    writes tests/golden/frozen/ anew: only with a reason, which the commit names
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from suites import run_suites

TRIREME = os.environ["TRIREME"]
SOURCE = pathlib.Path(os.environ["TRIREME_SOURCE_DIR"])
GOLDEN = SOURCE / "tests" / "golden" / "frozen"
TABLES = os.environ.get("TRIREME_VALIDATION", "")
TOLERANCE = 1e-9


def trireme(*arguments):
    out = subprocess.run([TRIREME, *map(str, arguments), "--json"], capture_output=True, text=True, timeout=600,
                         env={**os.environ, "TRIREME_CONFIGS": str(SOURCE / "configs")})
    if out.returncode != 0:
        raise RuntimeError(f"{arguments}: {out.stderr}")
    return json.loads(out.stdout)


# Runs that `train` can execute: (run, ranks, overrides).
RUNS = [("quickstart", ranks, ("layout.pp=%d" % pp, "layout.ep=%d" % ep, *more))
        for ranks, pp, ep, more in (
            (4, 2, 2, ()), (4, 1, 4, ()), (4, 1, 1, ()), (4, 4, 1, ()), (2, 1, 2, ()), (2, 2, 1, ()), (1, 1, 1, ()),
            (4, 2, 2, ("layout.schedule=gpipe",)), (4, 2, 1, ("batch.micro_batch=1",)), (4, 1, 2, ("batch.micro_batch=4",)),
            (4, 4, 1, ("device.dtype=float64",)), (8, 2, 4, ("batch.global_batch=32",)), (8, 1, 8, ("layout.all_to_all=halo",)),
            (4, 2, 2, ("model.tied_embeddings=true",)), (4, 1, 4, ("layout.all_to_all=dedup",)),
            (4, 2, 2, ("layout.bucket_MiB=1",)))]
RUNS += [("tiny", ranks, overrides) for ranks, overrides in (
    (1, ("layout.pp=1", "layout.ep=1")), (2, ("layout.pp=1", "layout.ep=2")), (2, ("layout.pp=2", "layout.ep=1")), (4, ("layout.pp=2", "layout.ep=2")))]

# Layouts that are given whole: (model, platform, devices, options).
LAYOUTS = [
    ("deepseek_v3", "dgx_h100", 2048, ("pp=16", "tp=1", "cp=1", "ep=64", "etp=1", "schedule=dualpipe_v", "virtual_stages=2",
                                       "overlap.experts=true", "recompute=[\"norm\",\"mla_up_projection\"]", "sharding=optimizer")),
    ("deepseek_v3", "dgx_h100", 2048, ("pp=16", "tp=1", "cp=1", "ep=64", "etp=1", "schedule=1f1b", "virtual_stages=1",
                                       "all_to_all=halo", "recompute=[\"layer\"]", "sharding=optimizer")),
    ("deepseek_v3", "dgx_h800", 2048, ("pp=16", "tp=2", "cp=1", "ep=32", "etp=2", "schedule=interleaved_1f1b", "virtual_stages=2",
                                       "all_to_all=allgather_a2a", "sharding=gradients")),
    ("mixtral_8x22b", "dgx_a100", 128, ("pp=8", "tp=4", "cp=1", "ep=4", "etp=1", "schedule=zero_bubble_v", "virtual_stages=2")),
    ("mixtral_8x7b", "dgx_h100", 64, ("pp=2", "tp=2", "cp=2", "ep=8", "etp=1", "schedule=zero_bubble_h1", "virtual_stages=1")),
    ("qwen3_235b_a22b", "gb200_nvl72", 256, ("pp=4", "tp=1", "cp=1", "ep=64", "etp=1", "schedule=merged_1f1b", "virtual_stages=1",
                                             "overlap.experts=true", "sharding=optimizer", "swap=[\"activations\"]")),
    ("llama3_1_70b", "dgx_h100", 64, ("pp=1", "tp=8", "cp=1", "schedule=1f1b", "virtual_stages=1", "sharding=parameters",
                                      "shard_degree=4", "recompute=[\"core_attention\",\"activation\"]")),
    ("pangu_ultra_moe", "atlas_800t_a2", 6144, ("pp=16", "tp=8", "cp=1", "ep=4", "etp=1", "schedule=merged_1f1b", "virtual_stages=2",
                                                "overlap.experts=true", "recompute=[\"mla_up_projection\",\"permute\",\"activation\"]",
                                                "swap=[\"activations\"]")),
    ("europa_951b", "jupiter", 1536, ("pp=1", "tp=1", "cp=1", "ep=4", "etp=1", "schedule=1f1b", "virtual_stages=1",
                                      "sharding=parameters", "matrix_owners=true", "recompute=[\"layer\"]")),
    ("gpt3_175b", "dgx_a100", 512, ("pp=8", "tp=8", "cp=1", "schedule=gpipe", "virtual_stages=1", "sequence_parallel=false")),
    ("nemotron_3_nano_30b_a3b", "dgx_b200", 32, ("pp=2", "tp=2", "cp=1", "ep=8", "etp=1", "schedule=1f1b", "virtual_stages=1")),
    ("qwen3_next_80b_a3b", "mi300x", 64, ("pp=2", "tp=1", "cp=2", "ep=8", "etp=1", "schedule=1f1b", "virtual_stages=1",
                                          "all_to_all=dedup")),
    ("gpt_oss_120b", "dgx_h200", 64, ("pp=1", "tp=1", "cp=1", "ep=64", "etp=1", "schedule=1f1b", "virtual_stages=1",
                                      "sharding=parameters")),
    ("kimi_k2", "gb300_nvl72", 1024, ("pp=8", "tp=1", "cp=1", "ep=128", "etp=1", "schedule=dualpipe_v", "virtual_stages=2",
                                      "overlap.experts=true", "sharding=optimizer", "all_to_all=dedup", "recompute=[\"moe\"]")),
    ("deepseek_v4_flash", "gb300_nvl72", 256, ("pp=4", "tp=1", "cp=1", "ep=64", "etp=1", "schedule=1f1b", "virtual_stages=1",
                                               "sharding=optimizer", "recompute=[\"attention\"]")),
    ("llama4_maverick_17b_128e", "frontier", 512, ("pp=4", "tp=2", "cp=1", "ep=16", "etp=2", "schedule=1f1b", "virtual_stages=1",
                                                   "recompute_layers=3", "recompute=[\"layer\"]")),
]

# What these leave open is given, too.
REST = ("cp=1", "etp=1", "ep=1", "micro_batch_group=0", "stage_layers=[]", "all_to_all=flat", "sharding=none", "shard_degree=0",
        "expert_shard_degree=0", "recompute=[]", "recompute_layers=0", "swap=[]", "overlap.experts=false", "overlap.gradients=true",
        "overlap.parameters=true")

# Searches: what is best, and how good.
SEARCHES = [("deepseek_v2_lite", "dgx_h100", 16, ()), ("mixtral_8x7b", "dgx_a100", 64, ()), ("olmoe_1b_7b", "frontier", 16, ()),
            ("qwen3_30b_a3b", "mi300x", 32, ("layout.swap=[]",)), ("llama2_13b", "a100_pcie", 16, ("layout.pp=2",))]


def name_of(entry):
    return " ".join(str(e) if not isinstance(e, tuple) else " ".join(e) for e in entry)


def run_prediction(entry):
    run, ranks, overrides = entry
    return trireme("plan", SOURCE / "configs" / "runs" / f"{run}.toml", "--ranks", ranks, "--platform",
                   SOURCE / "configs" / "platforms" / "laptop.toml", *[a for o in overrides for a in ("--set", o)])


def runs():
    out = {}
    for entry in RUNS:
        p = run_prediction(entry)
        out[name_of(entry)] = {k: p[k] for k in ("step_s", "tokens_per_s", "peak_memory_bytes", "mesh", "schedule", "kinds", "memory", "all_to_all")}
    return out


def layouts():
    out = {}
    for model, platform, devices, keys in LAYOUTS:
        p = trireme("plan", "--model", model, "--platform", platform, "--devices", devices,
                    *[a for k in (*REST, *keys) for a in ("--set", "layout." + k)], "--set", "batch.micro_batch=1")
        memory = p.get("memory", [])
        out[f"{model} {platform} {devices} {' '.join(keys)}"] = {
            "step_s": p.get("step_s"), "peak_memory_bytes": p.get("peak_memory_bytes"), "feasible": p["feasible"],
            "memory": [{k: s[k] for k in ("state_bytes", "allocated_bytes", "needed_bytes", "host_bytes")} for s in memory]}
    return out


def searches():
    out = {}
    for model, platform, devices, keys in SEARCHES:
        p = trireme("plan", "--model", model, "--platform", platform, "--devices", devices, *[a for k in keys for a in ("--set", k)])
        out[f"{model} {platform} {devices} {' '.join(keys)}"] = {"step_s": p["step_s"], "peak_memory_bytes": p["peak_memory_bytes"],
                                                                 "layout": p["layout"],
                                                                 "runners_up": [r["step_s"] for r in p["runners_up"]]}
    return out


def figures():
    p = trireme("validate", SOURCE / "configs" / "runs" / "published")
    return {f["name"]: {k: f[k] for k in ("predicted", "bound", "needed_GB", "fits")} for f in p["figures"]}


def rows():
    out = {}
    for table in ("throughput", "memory_and_time", "single_node_gpt_a100"):
        p = trireme("validate", pathlib.Path(TABLES) / f"{table}.csv")
        for r in p["rows"]:
            if r["predicted"] is not None:
                out.setdefault(f"{table} {r['id']} {r['unit']}", []).append(r["predicted"])
    return out


SUITES = {"FrozenRuns": runs, "FrozenLayouts": layouts, "FrozenSearches": searches, "FrozenFigures": figures, "FrozenRows": rows}


def differences(expected, found, at=""):
    if isinstance(expected, dict) and isinstance(found, dict):
        # A layout may have keys that there were none of when it was frozen.
        for key in expected.keys() | (set() if at.endswith("/layout") else found.keys()):
            if key not in expected or key not in found:
                yield f"{at}/{key}: only in the {'golden' if key in expected else 'answer'}"
            else:
                yield from differences(expected[key], found[key], f"{at}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for i, (e, f) in enumerate(zip(expected, found)):
            yield from differences(e, f, f"{at}/{i}")
    elif isinstance(expected, float) or isinstance(found, float):
        if not isinstance(expected, (int, float)) or not isinstance(found, (int, float)) or \
                abs(expected - found) > TOLERANCE * max(abs(expected), abs(found)):
            yield f"{at}: {found!r}, frozen as {expected!r}"
    elif expected != found:
        yield f"{at}: {found!r}, frozen as {expected!r}"


def test_of(name):
    def compares(self):
        if name == "FrozenRows" and not TABLES:
            self.skipTest("TRIREME_VALIDATION names no folder of published measurements")
        found = list(differences(json.loads((GOLDEN / f"{name}.json").read_text()), SUITES[name]()))
        self.assertEqual(found[:20], [], f"{len(found)} values differ")
    return compares


for suite in SUITES:
    globals()[suite] = type(suite, (unittest.TestCase,), {"test_equals_what_was_frozen": test_of(suite)})


if __name__ == "__main__":
    if "--write" in sys.argv:
        for suite in [a for a in sys.argv[1:] if a != "--write"] or SUITES:
            if suite == "FrozenRows" and not TABLES:
                continue
            (GOLDEN / f"{suite}.json").write_text(json.dumps(SUITES[suite](), indent=0, sort_keys=True) + "\n")
    else:
        run_suites()
