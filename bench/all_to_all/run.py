#!/usr/bin/env python3
"""Races the all-to-all patterns, and MPI_Alltoallv where there is an MPI, on clusters of network namespaces and writes
docs/all_to_all tables and plots. Needs root.

  sudo ./bench/all_to_all/run.py --trireme build/bin/trireme --out docs/all_to_all

A cluster's links first, then size by size one sample of each pattern in turn and then each MPI. Let nothing else run
meanwhile.
"""
import argparse
import json
import math
import os
import pathlib
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CASES = {  # nodes, ranks a node, rate, sizes in bytes a pair
    "8x4": (8, 4, "100mbit", [64, 512, 4096, 16384]),
    "16x2": (16, 2, "100mbit", [64, 512, 4096, 16384]),
    "4x2": (4, 2, "100mbit", [512, 4096, 32768, 131072]),
}
COLOURS = ["#1b6ca8", "#d1495b", "#3a7d44", "#e08e0b", "#7b4fa3", "#00798c", "#8a5a44", "#555555", "#c2185b", "#000000", "#9e9e9e"]


MPI = ("openmpi", "mpich")
NETCLUSTER = str(SOURCE / "scripts" / "netcluster")
BATCH_S = 0.05  # seconds of repetitions a sample, as the probe has it


def build_mpi(options):
    """MPI_Alltoallv on the same tokens, for each MPI whose compiler is there."""
    built = {}
    sources = [str(SOURCE / f) for f in ("bench/all_to_all/mpi/alltoallv.cpp", "src/plan/all_to_all/drawn_tokens.cpp",
                                         "src/base/rng.cpp", "src/base/processor_time.cpp")]
    for library in MPI:
        compiler = shutil.which(f"mpicxx.{library}")
        if compiler is None or shutil.which(f"mpiexec.{library}") is None:
            print(f"no {library} here: left out", file=sys.stderr)
            continue
        program = str(pathlib.Path(options.work) / f"alltoallv.{library}")
        subprocess.run([compiler, "-O2", "-std=c++20", f"-I{SOURCE / 'src'}", *sources, "-o", program], check=True)
        built[library] = program
    return built


def mpi_command(library, program, cluster, size, samples, batch_s):
    hosts = ",".join(f"{address}:{ranks}" for address, ranks in zip(cluster["addresses"], cluster["ranks"]))
    count, card = str(sum(cluster["ranks"])), cluster["interface"]
    work = [program, str(size), str(samples), str(batch_s)]
    if library == "openmpi":
        return ["mpiexec.openmpi", "--allow-run-as-root", "-np", count, "--host", hosts, "--mca", "plm", "rsh", "--mca",
                "plm_rsh_agent", f"'{NETCLUSTER} --on'", "--mca", "orte_leave_session_attached", "1", "--mca",
                "oob_tcp_if_include", card, "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", "--mca",
                "btl_tcp_if_include", card, "--mca", "mpi_yield_when_idle", "1", "--bind-to", "none", "--oversubscribe", *work]
    shell = pathlib.Path(program).with_name("on_node")  # hydra takes one word
    shell.write_text(f'#!/bin/sh\nexec "{NETCLUSTER}" --on "$@"\n')
    shell.chmod(0o755)
    return ["UCX_TLS=tcp,self", f"UCX_NET_DEVICES={card}", "mpiexec.mpich", "-launcher", "rsh", "-launcher-exec", str(shell),
            "-iface", card, "-hosts", hosts, "-n", count, *work]


def run_mpi(library, program, cluster, size, samples, batch_s):
    """Its line, or why there is none. MPICH over UCX may hang when it ends: it is ended once its line is there."""
    command = [NETCLUSTER, "--on", cluster["addresses"][0], *mpi_command(library, program, cluster, size, samples, batch_s)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    line = {"mpi": library, "bytes_per_pair": size, "failed": "no result within 60 s"}
    watch = selectors.DefaultSelector()
    watch.register(process.stdout, selectors.EVENT_READ)
    end = time.monotonic() + 60
    while time.monotonic() < end and watch.select(timeout=max(0.0, end - time.monotonic())):
        text = process.stdout.readline()
        if not text:
            line["failed"] = "it ended without a result"
            break
        if text.startswith("{"):
            line.update(json.loads(text))
            del line["failed"]
            break
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return line


def counters(cluster):
    """Segments sent again and packets dropped so far on all nodes."""
    done = subprocess.run([NETCLUSTER, "--counters"], capture_output=True, text=True, check=True)
    return [int(v) for v in done.stdout.split()]


def drive(options):
    """Inside one cluster: the links and a short race that goes into the platform file; or, size by size, all patterns and
    then every MPI."""
    cluster = json.loads(os.environ["NETCLUSTER"])
    sizes = [int(size) for size in options.sizes.split(",")]
    probe = [NETCLUSTER, "--inside", "--", options.trireme, "probe", "--json", "--out", options.platform]
    if options.drive == "before":
        return subprocess.run([*probe, "--links", "--all-to-all", "--save-race", "--quick", "--bytes", options.sizes, "--samples",
                               "5"]).returncode
    for size in sizes:
        before = counters(cluster)
        code = subprocess.run([*probe, "--all-to-all", "--bytes", str(size), "--samples", str(options.samples)]).returncode
        if code != 0:
            return code
        after = counters(cluster)
        print(json.dumps({"resent": after[0] - before[0], "dropped": after[1] - before[1], "size": size}), flush=True)
        for library in MPI:
            program = pathlib.Path(options.work) / f"alltoallv.{library}"
            if not program.exists():
                continue
            before = counters(cluster)
            line = run_mpi(library, str(program), cluster, size, options.samples, BATCH_S)
            after = counters(cluster)
            line["resent"], line["dropped"] = after[0] - before[0], after[1] - before[1]
            print(json.dumps(line), flush=True)
    return 0


def in_cluster(case, part, options):
    nodes, ranks, rate, sizes = CASES[case]
    command = [*options.prefix.split(), NETCLUSTER, "--nodes", str(nodes), "--ranks-per-node", str(ranks), "--rate", rate,
               "--driver", "--", sys.executable, str(pathlib.Path(__file__).resolve()), "--drive", part, "--trireme",
               options.trireme, "--platform", options.platform, "--work", options.work, "--samples", str(options.samples), "--sizes", ",".join(map(str, sizes))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}\n{done.stdout}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return lines, next(l for l in done.stderr.splitlines() if l.startswith("netcluster:"))


def measure(case, options):
    """Two equal clusters one after the other, so that others may use the machine in between."""
    options.platform = str(pathlib.Path(options.work) / f"{case}.toml")
    lines, shape = in_cluster(case, "before", options)
    result = {"case": case, "netcluster": shape, "links": [l for l in lines if "shared_link" in l],
              "link_samples": [l for l in lines if "shared_sample" in l],
              "race_before": [l for l in lines if "pattern" in l], "sizes": []}
    lines, _ = in_cluster(case, "judged", options)
    for size in CASES[case][3]:
        of_size = [l for l in lines if l.get("bytes_per_pair") == size]
        tcp = next(l for l in lines if l.get("size") == size)
        entry = {"bytes": size, "points": [l for l in of_size if "pattern" in l], "pick": next(l for l in of_size if "pick" in l),
                 "mpi": [l for l in of_size if "mpi" in l], "resent": tcp["resent"], "dropped": tcp["dropped"]}
        result["sizes"].append(entry)
        print(f"{case} {size}: " + ", ".join(f"{p['pattern']} {p['median_s'] * 1e3:.2f}" for p in entry["points"]) +
              "".join(f", {m['mpi']} {m.get('median_s', math.nan) * 1e3:.2f}" for m in entry["mpi"]), file=sys.stderr, flush=True)
    return result


def size_text(size):
    return f"{size // 1024} KiB" if size >= 1024 else f"{size} B"


NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}


def fit_text(link):
    where = "on the nodes" if link["level"] == "host" else "between nodes"
    rate = f"{link['bytes_per_s'] / 1e6:.1f} MB/s"
    if link.get("alone_bytes_per_s", 0) > 0:  # results of earlier probes have fewer terms
        rate += f" with all partners at once, {link['alone_bytes_per_s'] / 1e6:.1f} with one"
    bucket = f" after the first {link['bucket_bytes'] / 1024:.1f} KiB" if link.get("bucket_bytes", 0) > 0 else ""
    blend = f"blended with p = {link['blend']:g}" if link.get("blend", 0) > 0 else "the longer of both"
    turn = f" and {link['turn_s'] * 1e6:.0f} us a turn" if link.get("turn_s", -1) >= 0 else ""
    return (f"Fit {where}: {link['latency_s'] * 1e6:.0f} us, {link['message_s'] * 1e6:.1f} us a message ({link['wake_s'] * 1e6:.1f} more{turn} "
            f"where few may be under way), {rate}{bucket}, {blend}; median residual {link['residual'] * 100:.0f} %.")


def median(values):
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def ms(line):
    return f"{line['median_s'] * 1e3:.2f}" if "median_s" in line else "-"


def tables(result):
    nodes, ranks, rate, _ = CASES[result["case"]]
    patterns = [p["pattern"] for p in result["sizes"][0]["points"]]
    libraries = [m["mpi"] for m in result["sizes"][0]["mpi"]]
    out = [f"### {nodes} nodes of {ranks}, {rate} a node each way", ""]
    out += [fit_text(link) for link in result["links"]]
    link = result["links"][-1]
    picking = f", {link['gather_s'] * 1e6:.1f} us to pick a few by number" if "gather_s" in link else ""
    out.append(f"Rows copied at {link['copy_bytes_per_s'] / 1e6:.0f} MB/s a rank{picking}.")
    out.append(f"{result['netcluster']}.")
    out += ["", "Median ms (predicted ms):", "", "| bytes a pair | " + " | ".join(patterns + [NAMES[m] for m in libraries]) + " |",
            "|---|" + "---|" * (len(patterns) + len(libraries))]
    errors = {name: [] for name in patterns}
    for size in result["sizes"]:
        by_name = {p["pattern"]: p for p in size["points"]}
        for name in patterns:
            errors[name].append(abs(by_name[name]["predicted_s"] / by_name[name]["median_s"] - 1))
        cells = [f"{ms(by_name[n])} ({by_name[n]['predicted_s'] * 1e3:.2f})" for n in patterns] + [ms(m) for m in size["mpi"]]
        out.append(f"| {size_text(size['bytes'])} | " + " | ".join(cells) + " |")
    out += ["", "| bytes a pair | chosen by an earlier race: time / fastest | by price: time / fastest | HALO against best flat | best of ours "
            "against best MPI | busy cores, patterns | " + " | ".join(f"busy cores, {NAMES[m]}" for m in libraries) +
            " | segments sent again, packets dropped |", "|---|" + "---|" * (len(libraries) + 6)]
    for size in result["sizes"]:
        by_name = {p["pattern"]: p for p in size["points"]}
        pick, flat = size["pick"], min(by_name[n]["median_s"] for n in ("flat", "pairwise", "scattered"))
        peer = [m["median_s"] for m in size["mpi"] if "median_s" in m]
        busy = [p["busy_cores"] for p in size["points"]]
        chosen = f"{pick['pick']}: {pick['pick_over_best']:.2f}" if pick["pick_by"] == "race" else "-"
        against = f"{min(peer) / min(p['median_s'] for p in size['points']):.2f}" if peer else "-"
        out.append(f"| {size_text(size['bytes'])} | {chosen} | {pick['priced_pick']}: {pick['priced_pick_over_best']:.2f} | "
                   f"{flat / by_name['halo']['median_s']:.2f} | {against} | {min(busy):.1f} to {max(busy):.1f} | " +
                   "".join(f"{m['busy_cores']:.1f} | " if "busy_cores" in m else "- | " for m in size["mpi"]) +
                   f"{size['resent']}, {size['dropped']} |")
    every = [e for list_ in errors.values() for e in list_]
    out += ["", f"Error of the prediction: median {median(every) * 100:.0f} % over all patterns and sizes; by pattern "
            + ", ".join(f"{n} {median(e) * 100:.0f} %" for n, e in errors.items()) + "; by size "
            + ", ".join(f"{size_text(size['bytes'])} {median([errors[n][i] for n in patterns]) * 100:.0f} %"
                        for i, size in enumerate(result["sizes"])) + ".", "",
            "| bytes a pair | " + " | ".join(f"{n}: messages, KiB off the node" for n in patterns) + " |", "|---|" + "---|" * len(patterns)]
    for size in result["sizes"]:
        by_name = {p["pattern"]: p for p in size["points"]}
        out.append(f"| {size_text(size['bytes'])} | " + " | ".join(
            f"{by_name[n]['messages_off_node']}, {by_name[n]['bytes_off_node'] / 1024:.1f}" for n in patterns) + " |")
    return "\n".join(out) + "\n"


def plot(result):
    """Time over size, both logarithmic, as SVG."""
    width, height, left, bottom = 640, 380, 60, 40
    points = [(p["pattern"], s["bytes"], p["median_s"]) for s in result["sizes"] for p in s["points"]]
    points += [(NAMES[m["mpi"]], s["bytes"], m["median_s"]) for s in result["sizes"] for m in s["mpi"] if "median_s" in m]
    x0, x1 = (math.log(f(b for _, b, _ in points)) for f in (min, max))
    y0, y1 = math.log(min(t for _, _, t in points)) - 0.1, math.log(max(t for _, _, t in points)) + 0.1
    x = lambda b: left + (math.log(b) - x0) / (x1 - x0) * (width - left - 130)
    y = lambda t: height - bottom - (math.log(t) - y0) / (y1 - y0) * (height - bottom - 20)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for size in result["sizes"]:
        out.append(f'<text x="{x(size["bytes"]):.1f}" y="{height - 15}" text-anchor="middle">{size_text(size["bytes"])}</text>')
    for exponent in range(-6, 3):
        for step in (1, 2, 5):
            t = step * 10.0**exponent
            if y0 < math.log(t) < y1:
                out.append(f'<path d="M{left} {y(t):.1f}H{width - 130}" stroke="#ddd"/><text x="{left - 5}" y="{y(t) + 4:.1f}" '
                           f'text-anchor="end">{t * 1e3:g} ms</text>')
    for i, name in enumerate(dict.fromkeys(n for n, _, _ in points)):
        line = [(x(b), y(t)) for n, b, t in points if n == name]
        colour = COLOURS[i % len(COLOURS)]
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="' +
                   " ".join(f"{a:.1f},{b:.1f}" for a, b in line) + '"/>')
        out.append(f'<text x="{width - 122}" y="{30 + 17 * i}" fill="{colour}">{name}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--trireme", default=str(SOURCE / "build" / "bin" / "trireme"))
    p.add_argument("--out", default=str(SOURCE / "docs" / "all_to_all"), help="folder for the tables, plots and raw results")
    p.add_argument("--cases", default=",".join(CASES), help="of " + ", ".join(CASES))
    p.add_argument("--samples", type=int, default=7)
    p.add_argument("--prefix", default="", help="command to run each netcluster with")
    p.add_argument("--tables-only", action="store_true", help="from the raw results of an earlier run")
    p.add_argument("--drive", help=argparse.SUPPRESS)  # this script as the driver of a netcluster
    p.add_argument("--platform", help=argparse.SUPPRESS)
    p.add_argument("--work", help=argparse.SUPPRESS)
    p.add_argument("--sizes", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.drive:
        sys.exit(drive(o))
    o.trireme = str(pathlib.Path(o.trireme).resolve())
    out = pathlib.Path(o.out).resolve()
    o.out = str(out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as o.work:
        if not o.tables_only:
            build_mpi(o)
        for case in o.cases.split(","):
            raw = out / f"{case}.json"
            result = json.loads(raw.read_text()) if o.tables_only else measure(case, o)
            raw.write_text(json.dumps(result, indent=1))
            (out / f"{case}.md").write_text(tables(result))
            (out / f"{case}.svg").write_text(plot(result))


if __name__ == "__main__":
    main()
