#!/usr/bin/env python3
"""Kills, stops and slows ranks of training runs at random moments, and looks at what is left.

After every case: the program ended as it should, its last line names the right rank, no rank is left running, and the
run's folder resumes. The same seed gives the same kinds, ranks and delays; what a rank does after such a delay is up to
the host. A case takes some seconds on an idle host.

    scripts/random_faults.py build/release/bin/trireme --count 100 --seed 1
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

RUN = """
name = "faults"
folder = "out"
timeout_s = {timeout_s}
[model]
vocab_size = 64
hidden = 32
num_layers = 2
num_dense_layers = 1
dense_ffn = 48
[model.attention]
num_heads = 4
num_kv_heads = 2
head_dim = 8
[model.moe]
num_experts = 8
expert_ffn = 16
[model.moe.router]
top_k = 2
[layout]
pp = 2
dp = {dp}
ep = {dp}
[batch]
sequence_length = 32
micro_batch = 1
global_batch = {batch}
[train]
steps = 1000000
[data]
train = "random"
[device]
threads = 1
[checkpoint]
every = 1
"""
KINDS = ("kill", "stop", "slow")


def own_environment():
    """Without what would make the program a rank of somebody else's launch."""
    launchers = ("SLURM_", "RANK", "WORLD_", "LOCAL_", "MASTER_", "TRIREME_", "TORCHELASTIC_")
    return {k: v for k, v in os.environ.items() if not k.startswith(launchers)}


def variables_of(pid):
    try:
        return set(pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


def ranks_of(launcher):
    """Processes that this launcher has started, by rank."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        variables = variables_of(pid)
        if f"TRIREME_LAUNCHER_PID={launcher}".encode() in variables:
            found[int(next(v for v in variables if v.startswith(b"RANK="))[5:])] = int(pid)
    return found


class Run:
    """One run of the program, its output kept as it comes."""

    def __init__(self, program, folder, *arguments):
        self.process = subprocess.Popen([program, "train", "run.toml", *arguments], cwd=folder, text=True, env=own_environment(),
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.steps, self.errors = [], []
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.steps), (self.process.stderr, self.errors))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def end(self, timeout):
        """The exit code; None where it did not end in time."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        for reader in self.readers:
            reader.join(timeout=10)
        return code

    def wait_for_step(self, timeout):
        end = time.monotonic() + timeout
        while not self.steps and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        return bool(self.steps)

    def wait_for_rank(self, rank, timeout):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if rank in (ranks := ranks_of(self.process.pid)):
                return ranks[rank]
            time.sleep(0.02)
        return None

    def kill_all(self):
        for pid in [self.process.pid, *ranks_of(self.process.pid).values()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def choose(rng, ranks):
    return {"kind": rng.choice(KINDS), "rank": rng.randrange(ranks), "while": rng.choice(("starting", "training")),
            "delay_s": round(rng.uniform(0, 2), 3)}


def try_case(case, o, folder):
    """What is wrong after it, as a list of sentences."""
    limit = 120 + 4 * o.timeout  # far beyond what any case may take
    run = Run(o.trireme, folder, "--ranks", str(o.ranks), "--json", "--resume-if-any")
    wrong = []
    try:
        pid = run.wait_for_rank(case["rank"], limit)
        if pid is None:
            return ["the rank never began"]
        # A rank that is only slowed is slowed while it trains: a stop that is asked for earlier is another case.
        if (case["while"] == "training" or case["kind"] == "slow") and not run.wait_for_step(limit):
            return [f"no step was made: {run.errors}"]
        time.sleep(case["delay_s"])
        os.kill(pid, signal.SIGKILL if case["kind"] == "kill" else signal.SIGSTOP)
        if case["kind"] == "slow":
            time.sleep(1)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.5)
            os.kill(run.process.pid, signal.SIGINT)
        code = run.end(limit)
        if code is None:
            return ["it does not end"]
        last = run.errors[-1] if run.errors else ""
        if case["kind"] == "slow":
            if code != 75:
                wrong.append(f"exit code {code}, and not 75 of a stopped run")
        else:
            if code != 3:
                wrong.append(f"exit code {code}, and not 3")
            how = "killed by signal 9" if case["kind"] == "kill" else "no heartbeat"
            if not last.startswith(f"trireme: failed: rank {case['rank']} was the first to fail: {how}"):
                wrong.append(f"the last line names another end: {last!r}")
        for text in ("rank -1", "frame #", "internal error"):
            if any(text in line for line in run.errors):
                wrong.append(f"{text!r} is printed")
        if left := ranks_of(run.process.pid):
            wrong.append(f"ranks are left running: {sorted(left)}")
        if wrong:
            wrong.append("it said: " + " / ".join(run.errors))
    finally:
        run.kill_all()
    done = sorted(p.name for p in (folder / "out" / "checkpoints").glob("step-*"))
    reached = int(done[-1].split("-")[1]) if done else 0
    again = Run(o.trireme, folder, "--ranks", str(o.ranks), "--json", "--resume-if-any", "--set", f"train.steps={reached + 1}")
    try:
        code = again.end(limit)
        first = json.loads(again.steps[0])["step"] if again.steps else None
        if code != 0 or first != reached + 1:
            wrong.append(f"the folder does not resume from step {reached}: exit code {code}, {again.errors}")
    finally:
        again.kill_all()
    return wrong


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("trireme", help="the program")
    p.add_argument("--count", type=int, default=100, help="cases (default 100)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--ranks", type=int, default=4, help="an even number (default 4)")
    p.add_argument("--timeout", type=float, default=8, help="timeout_s of the runs (default 8)")
    p.add_argument("--json", action="store_true", help="one JSON object a case")
    o = p.parse_args()
    o.trireme = os.path.abspath(o.trireme)
    if o.ranks < 2 or o.ranks % 2:
        p.error("--ranks: an even number")
    rng = random.Random(o.seed)
    failures = 0
    for number in range(1, o.count + 1):
        case = choose(rng, o.ranks)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-faults-"))
        try:
            (folder / "run.toml").write_text(RUN.format(timeout_s=o.timeout, dp=o.ranks // 2, batch=o.ranks))
            begin = time.monotonic()
            wrong = try_case(case, o, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        failures += bool(wrong)
        took = time.monotonic() - begin
        if o.json:
            print(json.dumps({"case": number, **case, "seconds": round(took, 2), "wrong": wrong}), flush=True)
        else:
            print(f"{number:3d} {case['kind']} rank {case['rank']} {case['delay_s']:.2f} s into {case['while']}: "
                  f"{'; '.join(wrong) or 'as it should be'} ({took:.1f} s)", flush=True)
    if not o.json:
        print(f"{o.count - failures} of {o.count} as they should be (seed {o.seed})")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
