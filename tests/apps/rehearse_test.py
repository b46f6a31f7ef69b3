"""Rehearsals from outside: real messages, waits instead of compute, no data and no weights."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from small_model import small_model
from suites import run_suites

TRIREME = os.environ["TRIREME"]
SOURCE = pathlib.Path(os.environ["TRIREME_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "scripts"))
import random_faults  # noqa: E402

# No data lies where the file says.
RUN = """
name = "small"
folder = "out"
timeout_s = 8
""" + small_model(vocab_size=64, num_layers=4) + """[layout]
pp = 2
ep = 2
[batch]
sequence_length = 16
micro_batch = 1
global_batch = 16
[train]
steps = 3
[data]
train = "nothing/there"
[device]
threads = 1
"""
PHASES = {"step", "warm_up", "steady", "cool_down"}


class Case(unittest.TestCase):
    LIMIT = 120  # for what takes seconds; no test passes or fails by less

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-rehearse-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "run.toml").write_text(RUN)

    def start(self, *arguments, environment=None):
        process = subprocess.Popen([TRIREME, *map(str, arguments)], cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**random_faults.own_environment(), **(environment or {})})
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        for pid in [process.pid, *random_faults.ranks_of(process.pid).values()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def rehearse(self, *arguments, code=0):
        process = self.start("rehearse", "run.toml", *arguments)
        output, errors = process.communicate(timeout=self.LIMIT)
        self.assertEqual(process.returncode, code, errors)
        return output, errors

    def rehearse_json(self, *arguments):
        return json.loads(self.rehearse("--json", "--steps", 2, *arguments)[0])


class Rehearse(Case):
    def check(self, found, ranks):
        self.assertTrue(found["emulated"].startswith("emulated: every segment was replaced by a wait"))
        self.assertEqual(found["steps"], 2)
        self.assertEqual([r["rank"] for r in found["ranks"]], list(range(ranks)))
        for of in (found, *found["ranks"]):
            self.assertGreater(of["step_s"], 0)
            for key in ("bubble_fraction", "exposed_all_to_all_fraction"):
                for side in (key, "predicted_" + key):
                    self.assertEqual(set(of[side]), PHASES)
                    for value in of[side].values():
                        self.assertTrue(0 <= value <= 1, of[side])
        self.assertGreater(found["predicted_step_s"], 0)
        # What is waited for is waited for: no kind of compute is shorter than it was to be, but for the last sleeper's
        # delay, which the next wait makes up for.
        for kind in found["kinds"]:
            if kind["lane"] == "compute":
                seconds = kind["seconds"]
                self.assertGreater(seconds["rehearsed"], seconds["predicted"] - 1e-3 * kind["count"], kind)

    def test_every_schedule_that_train_runs(self):
        for schedule in ("gpipe", "1f1b"):
            found = self.rehearse_json("--set", f"layout.schedule={schedule}")
            self.check(found, 4)
            self.assertEqual(found["schedule"], schedule)
            kinds = {k["kind"]: k["count"] for k in found["kinds"]}
            # 8 micro-batches of each of two data ranks; three layers with experts.
            self.assertEqual(kinds["all_to_all forward dispatch"], 2 * 8 * 3)
            self.assertEqual(kinds["send forward"], 2 * 8)
        # gpipe has no steady phase: its first backward begins after its last forward.
        self.assertFalse((self.folder / "out").exists(), "a rehearsal writes nothing into the run's folder")

    def test_one_rank_and_an_uneven_load(self):
        self.check(self.rehearse_json("--ranks", 1, "--set", "layout.pp=1", "--set", "layout.ep=1"), 1)
        found = self.rehearse_json("--load", "0.5")
        self.check(found, 4)
        self.assertEqual(found["load"], "drawn for each layer and micro-batch, 50 % of the mean as standard deviation")

    def test_patterns(self):
        for pattern in ("pairwise", "dedup"):
            with self.subTest(pattern=pattern):
                found = self.rehearse_json("--set", "layout.pp=1", "--set", "layout.ep=4", "--ranks", 4, "--set",
                                           f"layout.all_to_all={pattern}", "--load", "0.3")
                self.check(found, 4)
                self.assertEqual(found["all_to_all"]["pattern"], pattern)

    def test_a_cluster_of_accelerators_on_this_host(self):
        # Two nodes of eight devices by the platform's data sheet: halo has phases inside and between them.
        found = self.rehearse_json("--platform", "dgx_h100", "--set", "device.dtype=bfloat16", "--set", "layout.pp=1", "--set",
                                   "layout.ep=16", "--set", "model.moe.num_experts=16", "--set", "layout.all_to_all=halo", "--ranks", 16)
        self.check(found, 16)
        self.assertEqual(found["mesh"]["ranks_of_host"], [8, 8])
        self.assertEqual({p["phase"] for p in found["phases"] if p["part"] == "rows"}, {"local", "remote", "redistribute"})
        # Devices of their own: nothing is shared, so waiting and computing are the same.
        self.assertAlmostEqual(found["plan_step_s"], found["predicted_step_s"], delta=1e-9 * found["plan_step_s"])

    def test_as_a_runs_routers_had_it(self):
        trained = self.start("train", "run.toml", "--ranks", 2, "--set", "layout.pp=1", "--set", "data.train=random")
        _, errors = trained.communicate(timeout=self.LIMIT)
        self.assertEqual(trained.returncode, 0, errors)
        found = self.rehearse_json("--load", "out")
        self.check(found, 4)
        self.assertRegex(found["load"], r"as in step \d+ of out")
        _, errors = self.rehearse("--load", "out", "--set", "model.moe.num_experts=4", code=2)
        self.assertIn("--load = out: a run with 3 layers of 4 experts from layer 1 on; this one has 3 of 8 from layer 1 on", errors)

    def test_text_page_and_trace_say_that_it_is_emulated(self):
        text, errors = self.rehearse("--steps", 1, "--html", "page.html", "--trace", "trace.json")
        self.assertIn("Rehearsal, emulated: every segment was replaced by a wait", text)
        self.assertRegex(text, r"step, emulated +\d")
        self.assertRegex(text, r"(?m)^  kind +lane +actions +predicted +rehearsed +error$")
        self.assertRegex(text, r"(?m)^  warm-up +bubble ")
        self.assertNotRegex(text, r"predicted +(share +)?measured")
        self.assertIn("step 1 of 1: ", errors)
        self.assertIn("(emulated: compute is waited for)", errors)
        page = (self.folder / "page.html").read_text()
        self.assertIn('"measured_as":"rehearsed"', page)
        names = {e["args"]["name"] for e in json.loads((self.folder / "trace.json").read_text())["traceEvents"] if e["name"] == "process_name"}
        self.assertIn("rehearsed (emulated compute) rank 3 (stage 1)", names)

    def test_under_a_launcher(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        ranks = [self.start("rehearse", "run.toml", "--json", "--steps", 2, "--set", "layout.pp=1",
                            environment={"RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2",
                                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}) for r in range(2)]
        outputs = [r.communicate(timeout=self.LIMIT) for r in ranks]
        self.assertEqual([r.returncode for r in ranks], [0, 0], outputs)
        self.check(json.loads(outputs[0][0]), 2)
        self.assertEqual(outputs[1][0], "")

    def test_bad_input_is_told_once(self):
        for arguments, told in ((("--load", "much"), "--load = much: must be platform, even, a standard deviation"),
                                (("--load", "-1"), "--load = -1: a number between 0 and 10"),
                                (("--ranks", 4, "--set", "layout.pp=3"), "layout.pp"),
                                (("--platform", "nowhere"), "nowhere"),
                                (("--html", "no/such/page.html"), "no/such")):
            with self.subTest(arguments=arguments):
                _, errors = self.rehearse(*arguments, code=2)
                self.assertIn(told, errors)
                self.assertEqual(errors.count("trireme: error: "), 1, errors)
        _, errors = self.rehearse("--steps", "0", code=2)
        self.assertIn("--steps", errors)

    def test_another_run_on_another_rank(self):
        (self.folder / "other.toml").write_text(RUN.replace("sequence_length = 16", "sequence_length = 32"))
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        ranks = [self.start("rehearse", file, "--set", "layout.pp=1",
                            environment={"RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2",
                                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
                 for r, file in enumerate(("run.toml", "other.toml"))]
        outputs = [r.communicate(timeout=self.LIMIT) for r in ranks]
        self.assertEqual([r.returncode for r in ranks], [3, 3], outputs)
        self.assertEqual("".join(o[1] for o in outputs).count("has another run than rank 0"), 1, outputs)


class Faults(Case):
    def disturb(self, sign):
        process = self.start("rehearse", "run.toml", "--steps", 1000000)
        for line in process.stderr:
            if "step 2 of " in line:
                break
        else:
            self.fail("no step was made")
        began = time.monotonic()
        os.kill(random_faults.ranks_of(process.pid)[3], sign)
        _, errors = process.communicate(timeout=self.LIMIT)
        self.assertLess(time.monotonic() - began, 60, "far above the run's time-out of 8 s")
        self.assertEqual(process.returncode, 3, errors)
        told = [line for line in errors.splitlines() if "trireme: failed: " in line and "was the first to fail" not in line]
        self.assertEqual(len(told), 1, errors)
        self.assertRegex(told[0], r"failed: rank 3: ")
        # The action of a living rank that waited: with its micro-batch and place, or a reduction.
        self.assertRegex(told[0], r"((dispatch|combine|send|receive)\b.* mb \d+|reduce|count_tokens)", told[0])
        return told[0]

    def test_a_killed_rank(self):
        self.assertRegex(self.disturb(signal.SIGKILL), "signal 9")

    def test_a_stopped_rank(self):
        self.assertRegex(self.disturb(signal.SIGSTOP), "no heartbeat")


if __name__ == "__main__":
    run_suites()
