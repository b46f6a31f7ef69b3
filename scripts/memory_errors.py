#!/usr/bin/env python3
"""Puts the errors of predicted memory into docs/memory.md, from what `trireme validate ROWS.csv --json` printed.

    trireme validate ROWS.csv --json > errors.json
    scripts/memory_errors.py errors.json
"""
import json
import pathlib
import statistics
import sys

BEGIN, END = "<!-- errors: begin -->", "<!-- errors: end -->"


def table(rows):
    """Rows that say the same (only their number of micro-batches differs) share a line."""
    same = {}
    for r in rows:
        same.setdefault((r["model"], r["unit"], round(r["predicted"], 3), r["measured"]), []).append(r)
    lines = ["| rows | model | unit | predicted | measured | error |", "|---|---|---|---|---|---|"]
    for group in same.values():
        r = group[0]
        error = 100 * (r["predicted"] / r["measured"] - 1)
        ids = ", ".join(str(g["id"]) for g in group)
        lines.append(f"| {ids} | {r['model']} | {r['unit']} | {r['predicted']:.2f} | {r['measured']:.2f} | "
                     f"{error:+.2f} % |")
    return lines


def summary(rows):
    lines = []
    for unit in dict.fromkeys(r["unit"] for r in rows):
        errors = [abs(100 * (r["predicted"] / r["measured"] - 1)) for r in rows if r["unit"] == unit]
        lines.append(f"- {unit}: {len(errors)} rows, mean error {statistics.mean(errors):.2f} %, "
                     f"largest {max(errors):.2f} %")
    return lines


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1]) as file:
        rows = [r for r in json.load(file)["rows"] if r["kind"] == "memory" and r["predicted"] is not None]
    page = pathlib.Path(__file__).resolve().parent.parent / "docs" / "memory.md"
    text = page.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(before + BEGIN + "\n" + "\n".join(summary(rows) + [""] + table(rows)) + "\n" + END + after)


if __name__ == "__main__":
    main()
