"""Every layout of a model that `trireme train` executes."""

MICRO_BATCHES = (1, 2, 4, 8, 16)  # sequences: what `trireme plan --search` tries
PATTERNS = ("flat", "pairwise", "scattered", "bruck", "node_aware", "halo", "allgather_a2a", "dedup")
ON_ONE_NODE = ("flat",)


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def layouts(model, ranks, ranks_per_node=0, most_micro_batch=max(MICRO_BATCHES), schedules=("1f1b", "gpipe")):
    """model: num_layers, num_experts and global_batch. ranks_per_node: of several nodes; 0: all on one, where every rank has
    the same way to each other and the flat exchange stands for all patterns."""
    out = []
    for pp in divisors(ranks):
        if pp > model["num_layers"]:
            continue
        dp = ranks // pp
        for ep in divisors(dp):
            if model["num_experts"] % ep or model["global_batch"] % dp:
                continue
            across = ranks_per_node and ep > ranks_per_node
            for micro_batch in MICRO_BATCHES:
                sequences = model["global_batch"] // dp
                if sequences % micro_batch or micro_batch > most_micro_batch:
                    continue
                alike = pp == 1 or sequences == micro_batch  # no pipeline, or one order of one micro-batch
                for schedule in schedules[:1] if alike else schedules:
                    for pattern in PATTERNS if across else ON_ONE_NODE:
                        out.append({"pp": pp, "dp": dp, "ep": ep, "schedule": schedule, "micro_batch": micro_batch,
                                    "all_to_all": pattern})
    return out


def name(layout):
    parts = [f"{axis} {layout[axis]}" for axis in ("pp", "ep", "dp") if layout[axis] > 1]
    if layout["schedule"] != "1f1b":
        parts.append(layout["schedule"])
    if layout.get("stage_layers"):
        parts.append("layers " + "+".join(map(str, layout["stage_layers"])))
    if layout["all_to_all"] != "flat":
        parts.append(layout["all_to_all"])
    return ", ".join(parts + [f"micro-batch {layout['micro_batch']}"])


def found(layout):
    """A layout as `trireme plan --search --runnable --json` gives it, in the terms of this list."""
    out = {key: layout[key] for key in ("pp", "dp", "ep", "schedule", "micro_batch", "all_to_all")}
    out["dp"] = out["dp"] or 1
    if out["pp"] == 1:
        out["schedule"] = "1f1b"
    if layout.get("stage_layers"):
        out["stage_layers"] = layout["stage_layers"]
    return out


def settings(layout):
    """As arguments of `trireme plan RUN` and `trireme train RUN`."""
    keys = ("pp", "dp", "ep", "schedule", "all_to_all", "stage_layers")
    of_layout = [f"layout.{key}={layout[key]}" for key in keys if key in layout]
    return [word for setting in [*of_layout, f"batch.micro_batch={layout['micro_batch']}"] for word in ("--set", setting)]
