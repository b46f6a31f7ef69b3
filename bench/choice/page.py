"""From the JSON lines of run.py to judgements, a Markdown section and a picture."""
import json
import math
import pathlib

from layouts import name
from scores import median, median_error, regret, spearman

HEADING = "## Is the choice right?"
CLUSTER_HEADING = "## Is the choice right across nodes?"
COLOURS = {1: "#1b6ca8", 2: "#3a7d44", 4: "#d1495b", 8: "#7b4fa3"}


def read_lines(path):
    path = pathlib.Path(path)
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]


def key_of(model, ranks, layout):
    return model, ranks, json.dumps(layout, sort_keys=True)


def key(line, kind):
    return key_of(line[kind], line["ranks"], line["layout"])


def results(lines):
    """{model: {ranks: entries}}: of each layout that was measured and predicted. Of equal lines the last counts."""
    predicted = {key(line, "predicted"): line for line in lines if "predicted" in line}
    planned = {(line["planned"], line["ranks"]): key(line, "planned") for line in lines if "planned" in line}
    passes = {}
    for line in lines:
        if "measured" in line:
            passes.setdefault(key(line, "measured"), {})[line["pass"]] = line
    out = {}
    for at, of_pass in passes.items():
        if at not in predicted:
            continue
        model, ranks, _ = at
        first = next(iter(of_pass.values()))
        steps = [s for line in of_pass.values() for s in line["steps_s"]]
        out.setdefault(model, {}).setdefault(ranks, []).append({
            "layout": first["layout"], "predicted_s": predicted[at]["step_s"], "measured_s": median(steps),
            "planned": planned.get((model, ranks)) == at,
            "passes_s": {p: line["median_s"] for p, line in of_pass.items()}, "cores": first["cores"],
            "load": max(max(line["load"], line["load_after"]) for line in of_pass.values())})
    return {model: dict(sorted(by_ranks.items())) for model, by_ranks in out.items()}


def choice(entries):
    """The planner's own where it was asked, else the least predicted; the fastest measured; how much slower than it the former is."""
    some = [e for e in entries if e["planned"]] or entries
    chosen = min(some, key=lambda e: e["predicted_s"])
    fastest = min(entries, key=lambda e: e["measured_s"])
    return chosen, fastest, chosen["measured_s"] / fastest["measured_s"] - 1


def in_both_passes(entries):
    return [e for e in entries if 1 in e["passes_s"] and 2 in e["passes_s"]]


def second_look(entries):
    """What a choice by a first pass of measurements costs by a second one: no prediction can be asked for less. None without."""
    both = in_both_passes(entries)
    return regret([e["passes_s"][1] for e in both], [e["passes_s"][2] for e in both]) if both else None


def judge_choice(model, ranks, entries):
    chosen, fastest, behind = choice(entries)
    return {"choice": model, "ranks": ranks, "layouts": len(entries), "layout": name(chosen["layout"]), "predicted_s": chosen["predicted_s"],
            "measured_s": chosen["measured_s"], "fastest": name(fastest["layout"]), "fastest_s": fastest["measured_s"],
            "regret": behind, "regret_of_a_first_pass": second_look(entries)}


def judge_order(model, entries):
    both = in_both_passes(entries)
    out = {"order": model, "runs": len(entries),
           "spearman": spearman([e["predicted_s"] for e in entries], [e["measured_s"] for e in entries]),
           "ceiling": spearman([e["passes_s"][1] for e in both], [e["passes_s"][2] for e in both]) if both else None,
           "highest_load": max(e["load"] for e in entries)}
    for what, of in (("rank_a_core", lambda e: ranks_of(e) <= e["cores"]), ("ranks_share_cores", lambda e: ranks_of(e) > e["cores"])):
        some = [e for e in entries if of(e)]
        if some:
            out[f"median_error_{what}"] = median_error([e["predicted_s"] for e in some], [e["measured_s"] for e in some])
    return out


def ranks_of(entry):
    return entry["layout"]["pp"] * entry["layout"]["dp"]


def judgements(found):
    out = []
    for model, by_ranks in found.items():
        for ranks, entries in by_ranks.items():
            out.append(judge_choice(model, ranks, entries))
        every = [e for entries in by_ranks.values() for e in entries]
        if len(by_ranks) > 1:
            out.append(judge_choice(model, "any", every))
        out.append(judge_order(model, every))
    return out


def percent(value, digits=1):
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def ms(seconds):
    return f"{1e3 * seconds:.1f}"


def tables(found):
    lines = judgements(found)
    out = ["| model | ranks | layouts | chosen | predicted ms | measured ms | fastest | measured ms | slower by | by a first pass |",
           "|---|---|---|---|---|---|---|---|---|---|"]
    for j in lines:
        if "choice" in j:
            fastest = "the same" if j["fastest"] == j["layout"] and j["fastest_s"] == j["measured_s"] else j["fastest"]
            out.append(f"| {j['choice']} | {j['ranks']} | {j['layouts']} | {j['layout']} | {ms(j['predicted_s'])} | {ms(j['measured_s'])} | "
                       f"{fastest} | {ms(j['fastest_s'])} | {percent(j['regret'])} | {percent(j['regret_of_a_first_pass'])} |")
    out += ["", "| model | runs | Spearman | between passes | median error, a rank a core | median error, ranks share cores |",
            "|---|---|---|---|---|---|"]
    for j in lines:
        if "order" in j:
            number = lambda x: "-" if x is None else f"{x:.3f}"
            out.append(f"| {j['order']} | {j['runs']} | {number(j['spearman'])} | {number(j['ceiling'])} | "
                       f"{percent(j.get('median_error_rank_a_core'))} | {percent(j.get('median_error_ranks_share_cores'))} |")
    return "\n".join(out)


def plot(found):
    """Predicted over measured, both in logs: colours are numbers of ranks, shapes models; rings are the choices."""
    size, edge = 520, 56
    entries = [(model, ranks, e) for model, by_ranks in found.items() for ranks, of in by_ranks.items() for e in of]
    values = [v for _, _, e in entries for v in (e["predicted_s"], e["measured_s"])]
    low, high = math.log(min(values) / 1.1), math.log(max(values) * 1.1)
    along = lambda v: edge + (math.log(v) - low) / (high - low) * (size - 2 * edge)
    across = lambda v: size - along(v)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size + 130} {size}" font-family="sans-serif" font-size="12">',
           f'<rect width="{size + 130}" height="{size}" fill="white"/>',
           f'<rect x="{edge}" y="{edge}" width="{size - 2 * edge}" height="{size - 2 * edge}" fill="none" stroke="#999"/>']
    first, last = math.exp(low), math.exp(high)
    for factor, dash in ((1.0, ""), (0.9, "4 3"), (1.1, "4 3")):
        a, b = max(first, first / factor), min(last, last / factor)
        out.append(f'<line x1="{along(a):.1f}" y1="{across(a * factor):.1f}" x2="{along(b):.1f}" y2="{across(b * factor):.1f}" '
                   f'stroke="#999" stroke-dasharray="{dash}"/>')
    for tick in (v * 10**e for e in range(-3, 2) for v in (1, 2, 3, 5)):
        if first < tick < last:
            out.append(f'<text x="{along(tick):.1f}" y="{size - edge + 16}" text-anchor="middle">{1e3 * tick:.0f}</text>')
            out.append(f'<text x="{edge - 6}" y="{across(tick) + 4:.1f}" text-anchor="end">{1e3 * tick:.0f}</text>')
    out.append(f'<text x="{size / 2}" y="{size - 14}" text-anchor="middle">measured step, ms</text>')
    out.append(f'<text x="16" y="{size / 2}" text-anchor="middle" transform="rotate(-90 16 {size / 2})">predicted step, ms</text>')
    shape = {}
    for model, ranks, e in entries:
        square = shape.setdefault(model, len(shape)) % 2 == 1
        x, y, colour = along(e["measured_s"]), across(e["predicted_s"]), COLOURS.get(ranks, "#555")
        mark = f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6"' if square else f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4"'
        out.append(f'{mark} fill="{colour}" fill-opacity="0.75"><title>{model}, {ranks} ranks, {name(e["layout"])}: predicted '
                   f'{ms(e["predicted_s"])}, measured {ms(e["measured_s"])} ms</title></{"rect" if square else "circle"}>')
    for by_ranks in found.values():
        for of in by_ranks.values():
            chosen = choice(of)[0]
            out.append(f'<circle cx="{along(chosen["measured_s"]):.1f}" cy="{across(chosen["predicted_s"]):.1f}" r="7" fill="none" stroke="black"/>')
    at = edge + 8
    for model, number in shape.items():
        mark = f'<rect x="{size - 36}" y="{at - 6}" width="6" height="6"/>' if number % 2 else f'<circle cx="{size - 33}" cy="{at - 3}" r="3.4"/>'
        out.append(f'{mark}<text x="{size - 22}" y="{at + 1}">{model}</text>')
        at += 18
    for ranks in sorted({ranks for _, ranks, _ in entries}):
        out.append(f'<text x="{size - 22}" y="{at + 1}" fill="{COLOURS.get(ranks, "#555")}">{ranks} rank{"s" if ranks > 1 else ""}</text>')
        at += 18
    out.append(f'<circle cx="{size - 33}" cy="{at - 3}" r="6" fill="none" stroke="black"/><text x="{size - 22}" y="{at + 1}">chosen</text>')
    return "\n".join(out) + "\n</svg>\n"


def cluster_section(found, picture):
    return f"""{CLUSTER_HEADING}

The same on four nodes of two ranks with 100 Mbit/s between them (`scripts/netcluster`: network namespaces of one machine, so that
eight ranks share its cores): every mesh with 1f1b and micro-batches of 1 and 2, and every pattern where an expert group
leaves its node. A step is the median of {passes_text(found)}.

{tables(found)}

![predicted over measured, dashed: 10 % off]({picture})

Reproduce, as root: `bench/choice/run.py --netcluster --trireme build/release/bin/trireme --out LINES.jsonl --docs docs/search.md`.
"""


def section(found, picture):
    return f"""{HEADING}

`bench/choice/run.py` trains every layout that `trireme train` executes (pp, ep, dp, schedule, micro-batch) of two small models
and lays the measured step beside the predicted one, from a platform file that `trireme probe` wrote on it. A step is
the median of {passes_text(found)}. *Slower by* is what the choice costs against the fastest of all that was measured; *by
a first pass* what it costs to choose by one pass of measurements, judged by the other: no prediction can be asked for less.
*any*: the number of ranks is chosen too.

{tables(found)}

![predicted over measured, dashed: 10 % off]({picture})

Reproduce: `bench/choice/run.py --trireme build/release/bin/trireme --out LINES.jsonl --docs docs/search.md` on an idle machine.
"""


def passes_text(found):
    counts = {len(e["passes_s"]) for by_ranks in found.values() for of in by_ranks.values() for e in of}
    least, most = min(counts), max(counts)
    if most == 1:
        return "one pass"
    return f"all steps of {most if least == most else f'{least} to {most}'} passes, layouts interleaved"


def put_section(path, found, picture, of_cluster=False):
    """Replaces the section in a Markdown file, or adds it before "## Limits", else at the end."""
    text = path.read_text()
    place = pathlib.Path(picture).resolve().relative_to(path.resolve().parent).as_posix()
    made = (cluster_section if of_cluster else section)(found, place) + "\n"
    before, heading, rest = text.partition((CLUSTER_HEADING if of_cluster else HEADING) + "\n")
    if heading:
        after = rest.find("\n## ")
        text = before + made + (rest[after + 1:] if after >= 0 else "")
    elif "\n## Limits" in text:
        text = text.replace("\n## Limits", "\n" + made + "## Limits", 1)
    else:
        text += "\n" + made
    path.write_text(text.rstrip("\n") + "\n")
