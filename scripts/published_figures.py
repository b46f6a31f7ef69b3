#!/usr/bin/env python3
"""Puts the figures that Piper, Pangu Ultra MoE and EUROPA publish of their runs into docs/validation.md, from what Trireme itself printed.

    trireme validate configs/runs/published --json > figures.json
    scripts/published_figures.py figures.json
"""
import json
import pathlib
import sys

BEGIN, END = "<!-- published: begin -->", "<!-- published: end -->"
BEYOND = {"peak": "beyond the devices' peak", "layout": "beyond what this layout allows"}


def number(x):
    return f"{x:,.0f}" if x >= 1000 else f"{x:.4g}"


def line(f):
    about = "about " if f["range"] else ""
    notes = [f"**{BEYOND[f['beyond_bound']]}**"] if f["beyond_bound"] else []
    if not f["fits"]:
        notes.append("does not fit: " + f["why_not"])
    return (f"| [{f['name']}](../configs/runs/published/{f['file']}) | {f['devices']} | {f['unit']} | {number(f['predicted'])} | "
            f"{about}{number(f['published'])} | {f['ratio']:.2f} | {number(f['bound'])} ({f['bound_by']}) | {'; '.join(notes)} |")


def assumed(figures):
    """Each assumption once, with the runs that rest on it."""
    runs = {}
    for f in figures:
        for a in f["assumed"]:
            runs.setdefault(a, []).append(f["name"])
    return [f"| {a} | {', '.join(names) if len(names) < len(figures) else 'all'} |" for a, names in runs.items()]


def page(figures):
    out = ["| run | devices | unit | predicted | published | ratio | at most | |", "|---|---|---|---|---|---|---|---|"]
    out += [line(f) for f in figures]
    ratios = sorted(f["ratio"] for f in figures if not f["beyond_bound"])
    within = sum(1 for r in ratios if 0.8 <= r <= 1.25)
    middle = len(ratios) // 2
    median = ratios[middle] if len(ratios) % 2 else (ratios[middle - 1] + ratios[middle]) / 2
    out += ["", f"Of the {len(ratios)} figures within their bound: median ratio {median:.2f}, {within} within 0.8 to 1.25, from "
                f"{ratios[0]:.2f} to {ratios[-1]:.2f}.", "", "| assumed | of |", "|---|---|"]
    return "\n".join(out + assumed(figures))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    text = page(json.loads(pathlib.Path(sys.argv[1]).read_text())["figures"])
    target = pathlib.Path(__file__).resolve().parent.parent / "docs" / "validation.md"
    before, rest = target.read_text().split(BEGIN)
    target.write_text(before + BEGIN + "\n\n" + text + "\n\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
