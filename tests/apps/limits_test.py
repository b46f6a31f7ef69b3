"""Limits from outside: memory that is not there, devices that are not there, hostile words and files of a run. Needs
TRIREME and TRIREME_SOURCE_DIR in the environment."""
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile
import unittest

from small_model import small_model
from suites import run_suites

TRIREME = os.environ["TRIREME"]
SOURCE = pathlib.Path(os.environ["TRIREME_SOURCE_DIR"])
MIB, GIB = 1 << 20, 1 << 30


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-limits-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write_run(self, more="", layers=2, vocab_size=300):
        run = self.folder / "run.toml"
        run.write_text('name = "r"\nfolder = "r"\n' + small_model(vocab_size=vocab_size, num_layers=layers) +
                       '[batch]\nsequence_length = 32\nmicro_batch = 1\nglobal_batch = 4\n[train]\nsteps = 3\n'
                       '[data]\ntrain = "random"\n[checkpoint]\nat_end = false\n[device]\nthreads = 1\n' + more)
        return run

    def trireme(self, *arguments, address_space=0, timeout=300, text=True, **environment):
        def limit():
            if address_space:
                resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
        return subprocess.run([TRIREME, *[a if isinstance(a, bytes) else str(a) for a in arguments]], cwd=self.folder, capture_output=True,
                              text=text, errors="replace" if text else None, timeout=timeout, preexec_fn=limit,
                              env={**os.environ, "TRIREME_CONFIGS": str(SOURCE / "configs"), **environment})

    def refused(self, *arguments, **options):
        """The one line that a user's mistake gets."""
        out = self.trireme(*arguments, **options)
        self.assertEqual(out.returncode, 2, out.stdout + out.stderr)
        lines = [line for line in out.stderr.strip().splitlines() if " warning " not in line]
        self.assertEqual(len(lines), 1, out.stderr)
        return lines[0]


class Memory(Case):
    # 2 x 2^30 x 32 values of the two tables alone in float32, times value, gradient and two moments: 2^30 x 32 x 2 x 4 x 4
    # bytes are 1 TiB, which no host of these tests has.
    TOO_LARGE = ("--set", "model.vocab_size=1073741824")

    def test_a_run_that_does_not_fit_is_refused_before_its_first_step(self):
        for ranks in (1, 2):
            told = self.refused("train", self.write_run(), "--ranks", ranks, *self.TOO_LARGE)
            self.assertRegex(told, r"run.toml: memory: rank.* needs? .*GiB.*\(.*moments .* GiB.*\); free on this host are .* of .* \(.*\)\. --force")
        self.assertFalse((self.folder / "r").exists())

    def free_under(self, limit, *arguments):
        """What `train` says that a process has free under `ulimit -v`: the limit less the program's own addresses."""
        told = self.refused("train", self.write_run(), *arguments, address_space=limit)
        if "ulimit" not in told:
            self.skipTest("this host has less memory free than the run needs: " + told)
        found = re.search(r"memory: rank 0 needs .*; free for a process are ([0-9.]+) (MiB|GiB) of .* \(ulimit -v\)\. --force", told)
        self.assertTrue(found, told)
        return float(found[1]) * (MIB if found[2] == "MiB" else GIB)

    # 3 layers x 8 experts x 3 x 1024 x 2048 values, with gradients and two moments in float32: 2.25 GiB.
    STATES = ("--set", "model.hidden=1024", "--set", "model.moe.expert_ffn=2048", "--set", "model.num_layers=4")
    # 64 x 2048 tokens of 256 values in float32 are 128 MiB a tensor, and a layer keeps a dozen.
    ACTIVATIONS = ("--set", "model.hidden=256", "--set", "batch.micro_batch=64", "--set", "batch.global_batch=64", "--set",
                   "batch.sequence_length=2048")

    def ends_out_of_memory(self, limit, *arguments):
        out = self.trireme("train", self.write_run(), *arguments, "--force", address_space=limit)
        self.assertIn("Started all the same (--force)", out.stderr)
        # A failure of the run, with what holds the memory, and not a bug with a stack of C++ frames.
        self.assertEqual(out.returncode, 3, out.stderr)
        self.assertRegex(out.stderr, r"trireme: failed: rank 0: out of memory: .*tensors hold .*; at its peak the plan expects of it: .*\[operation ")
        self.assertNotIn("frame #", out.stderr)
        self.assertNotIn("internal error", out.stderr)
        return out.stderr

    def test_a_ulimit_is_a_limit_and_force_goes_past_it(self):
        self.free_under(2 * GIB, *self.STATES)
        self.assertIn("outside of a step", self.ends_out_of_memory(2 * GIB, *self.STATES))

    def test_memory_that_ends_in_a_step_names_the_action(self):
        # The plan's peak is 1.7 GiB.
        mapped = 1.5 * GIB - self.free_under(3 * GIB // 2, *self.ACTIVATIONS)
        self.assertRegex(self.ends_out_of_memory(int(mapped) + 400 * MIB, *self.ACTIVATIONS), r"\[operation (forward|load_batch) .*\]")

    def test_little_address_space_at_the_start_is_a_failure_and_no_crash(self):
        # Where it ends depends on the machine: while libraries, threads, groups or checkpoints are made, or not at all.
        for limit in range(600, 1001, 50):
            out = self.trireme("train", self.write_run('[layout]\nep = 2\n'), address_space=limit * MIB)
            with self.subTest(limit=limit):
                self.assertIn(out.returncode, (0, 2, 3), out.stderr)
                self.assertNotIn("terminate called", out.stderr)
                self.assertNotIn("signal 6", out.stderr)
                if out.returncode == 3:
                    self.assertRegex(out.stderr, "out of memory|Cannot allocate memory")

    def test_a_plan_for_this_host_asks_the_host(self):
        plan = json.loads(self.trireme("plan", self.write_run(), *self.TOO_LARGE, "--json").stdout)
        self.assertFalse(plan["feasible"])
        meminfo = pathlib.Path("/proc/meminfo").read_text()
        total = int(re.search(r"MemTotal: *([0-9]+) kB", meminfo)[1]) * 1024
        # At most what the host has, and not the 8 GiB that were a guess for any host.
        shown = plan["reasons"][0].split("their host has ")[1]
        self.assertLessEqual(float(shown.split()[0]) * (GIB if "GiB" in shown else MIB), 1.01 * total)


class Devices(Case):
    def test_a_device_that_is_not_there_is_one_line(self):
        for ranks in (1, 2):
            told = self.refused("train", self.write_run(), "--ranks", ranks, "--set", "device.device=cuda", CUDA_VISIBLE_DEVICES="")
            self.assertRegex(told, r'run.toml: device.device = cuda: (this program is built|this host shows)')

    def test_slow_dtypes_and_long_warm_ups_are_told(self):
        out = self.trireme("train", self.write_run(), "--set", "device.dtype=float16", "--set", "train.schedule.warmup_steps=9",
                           "--set", "train.steps=1")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("float16 is slow on a CPU", out.stderr)
        self.assertEqual(out.stderr.count("warmup_steps = 9 is more than train.steps (1)"), 1)


class Words(Case):
    """What a user wrote comes back in one printable line."""

    def test_codes_are_escaped(self):
        told = self.refused("plan", self.write_run(), "--set", "layout.pp=\x1b[2J\nx")
        self.assertNotIn("\x1b", told)
        self.assertIn("\\x1b[2J", told)
        told = self.refused("plan", self.write_run(), "--\x1b[1m")
        self.assertIn("\\x1b[1m", told)
        told = self.refused("plan", "no\nsuch.toml")
        self.assertIn("no\\nsuch.toml", told)

    def test_names_of_other_trainers_are_hinted_at(self):
        self.assertIn("did you mean train.optimizer.learning_rate?", self.refused("plan", self.write_run(), "--set", "train.optimizer.lr=1"))
        self.assertIn("did you mean batch.global_batch?", self.refused("plan", self.write_run(), "--set", "batch.global_batch_size=8"))

    def test_a_path_that_is_not_utf8_is_named(self):
        self.write_run()
        os.rename(self.folder / "run.toml", os.fsencode(self.folder) + b"/r\xff.toml")
        out = self.trireme("plan", b"r\xff.toml", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        json.loads(out.stdout)
        told = self.refused("plan", b"r\xff.toml", "--set", b"folder=\"a\xff\"")
        self.assertIn("\\xff", told)
        os.mkdir(os.fsencode(self.folder) + b"/d\xff")
        os.rename(os.fsencode(self.folder) + b"/r\xff.toml", os.fsencode(self.folder) + b"/d\xff/run.toml")
        self.assertIn("folder = ", self.refused("plan", b"d\xff/run.toml"))

    def test_a_small_model_is_not_nothing(self):
        out = self.trireme("model", "tiny")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertNotIn("0.00 B", out.stdout)

    def test_a_budget_may_be_any_number(self):
        for budget in ("1e300", "1e-300", "1e30"):
            self.refused("design", "--platform", "dgx_h100", "--devices", 8, "--params", budget, "--layers", 8, "--hidden", 2048)


class Reports(Case):
    def trained(self, name="r"):
        run = self.write_run()
        out = self.trireme("train", run, "--set", f'name="{name}"', "--set", f'folder="{name}"')
        self.assertEqual(out.returncode, 0, out.stderr)
        return self.folder / name

    def test_an_action_that_there_is_not_is_one_line(self):
        folder = self.trained()
        plan = json.loads((folder / "plan.json").read_text())
        plan["stages"][0]["actions"][1]["id"] = 1_000_000
        (folder / "plan.json").write_text(json.dumps(plan))
        self.assertIn("plan.json: no rank could execute this plan: stage 0: action 1000000 stands at place 1", self.refused("report", folder))

    def test_a_run_may_be_called_as_a_mark_of_the_page(self):
        folder = self.trained("@DATA@")
        self.assertEqual(self.trireme("report", folder).returncode, 0)
        page = (folder / "report.html").read_text()
        data = json.loads(page.split('<script type="application/json" id="data">')[1].split("</script>")[0])
        self.assertEqual(data["title"], "@DATA@")
        facts = dict(data["facts"])
        self.assertEqual(list(facts)[:2], ["name", "model"])
        for fact in ("parameters", "layout", "date", "platform"):
            self.assertIn(fact, facts)
        self.assertEqual(len(set(data["colours"])), len(data["kinds"]))


if __name__ == "__main__":
    run_suites()
