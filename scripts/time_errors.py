#!/usr/bin/env python3
"""Puts the errors of predicted step times into docs/validation.md, from what Trireme itself printed.

    trireme validate throughput.csv --json > throughput.json
    trireme validate throughput.csv --stack uncalibrated --json > uncalibrated.json
    trireme validate memory_and_time.csv --json > memory_and_time.json
    trireme validate single_node_gpt_a100.csv --json > single_node.json
    trireme calibrate throughput.csv --json > calibration.json
    scripts/time_errors.py throughput.json uncalibrated.json memory_and_time.json single_node.json calibration.json [apart.json]

Rows that nothing was fitted to are kept in a table of their own (apart.csv), so that their errors stand apart.
"""
import collections
import json
import pathlib
import sys

BEGIN, END = "<!-- errors: begin -->", "<!-- errors: end -->"


def percent(x):
    return "-" if x is None else f"{100 * x:.1f} %"


def summary_line(name, s):
    return f"| {name} | {s['n']} | {percent(s['mape'])} | {percent(s['median_ape'])} | {percent(s['constant_mfu_mape'])} |"


def groups(title, of):
    return [f"| {title} | rows | MAPE | median | constant MFU |", "|---|---|---|---|---|"] + [summary_line(g["name"], g) for g in of] + [""]


def competing(of):
    lines = ["| layouts that compete | rows | MAPE | Spearman | top-1 regret |", "|---|---|---|---|---|"]
    for g in of:
        if g["spearman"] is None:
            continue
        name = ", ".join(g["name"].split(" | ")[:-1])  # without the source
        lines.append(f"| {name} | {g['n']} | {percent(g['mape'])} | {g['spearman']:.2f} | {percent(g['top1_regret'])} |")
    return lines + [""]


def held_out(calibration):
    lines = ["| rows | n | fitted | model left out | every fifth row left out |", "|---|---|---|---|---|"]

    def cell(e):
        return "-" if e is None else f"{percent(e['mape'])} / {percent(e['median_ape'])}"

    for key in ("all", "kind", "kind, stack and device known by others", "model", "stack"):
        for g in calibration[key]:
            name = g["name"] if key not in ("kind, stack and device known by others",) else g["name"] + ", stack and device known"
            lines.append(f"| {name} | {g['fitted']['n']} | {cell(g['fitted'])} | {cell(g['model_left_out'])} | {cell(g['row_left_out'])} |")
    return lines + [""]


def rows_table(rows):
    lines = ["| row | model | stack | unit | predicted | measured | error |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        if r["predicted"] is None or r["kind"] != "time":
            continue
        star = "*" if r["assumptions"] else ""
        lines.append(f"| {r['id']}{star} | {r['model']} | {r['stack'] or '-'} | {r['unit']} | {r['predicted']:.4g} | {r['measured']:.4g} | "
                     f"{100 * (r['predicted'] / r['measured'] - 1):+.1f} % |")
    return lines + [""]


def skipped(files):
    count = collections.Counter(r["skipped"] for f in files for r in f["rows"] if r["skipped"])
    return ["| not predicted because | rows |", "|---|---|"] + [f"| {reason} | {n} |" for reason, n in count.most_common()] + [""]


def page(throughput, uncalibrated, memory_and_time, single, calibration, apart=None):
    out = ["### Sums", "", "| rows | n | MAPE | median | constant MFU |", "|---|---|---|---|---|"]
    out.append(summary_line("`throughput.csv`, calibrated", throughput["time"]))
    out.append(summary_line("`throughput.csv`, rows without any assumption", throughput["without_assumptions"]))
    out.append(summary_line("`throughput.csv`, uncalibrated", uncalibrated["time"]))
    out.append(summary_line("`memory_and_time.csv`, times", memory_and_time["time"]))
    out.append(summary_line("`single_node_gpt_a100.csv` (not fitted to)", single["time"]))
    if apart:
        out.append(summary_line("rows that came after the fit (not fitted to)", apart["time"]))
    out += ["", "### Held out", "", "Mean / median of |predicted / measured - 1|.", ""] + held_out(calibration)
    out += ["### By stack, device and model", ""]
    out += groups("stack", throughput["by_stack"]) + groups("device", throughput["by_device"]) + groups("model", throughput["by_model"])
    out += ["### Layouts that compete", "", "Rows of equal stack, model, hardware, devices, format, batch and sequence; three at least.", ""]
    out += competing(throughput["groups"])
    out += ["### Not predicted", ""] + skipped([throughput, memory_and_time])
    out += ["### Rows", "", "A star marks a row that rests on an assumption.", ""] + rows_table(throughput["rows"])
    if apart:
        out += ["### Rows that came after the fit", ""] + groups("stack", apart["by_stack"]) + groups("model", apart["by_model"])
        out += competing(apart["groups"]) + rows_table(apart["rows"])
    return "\n".join(out)


def main():
    if len(sys.argv) not in (6, 7):
        sys.exit(__doc__)
    text = page(*(json.loads(pathlib.Path(p).read_text()) for p in sys.argv[1:]))
    target = pathlib.Path(__file__).resolve().parent.parent / "docs" / "validation.md"
    old = target.read_text()
    before, rest = old.split(BEGIN)
    target.write_text(before + BEGIN + "\n\n" + text + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
