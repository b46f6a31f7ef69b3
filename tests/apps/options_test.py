"""Options of every command: numbers that are none, and options that have no meaning beside the others. Needs TRIREME and
TRIREME_SOURCE_DIR in the environment."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from small_model import small_model
from suites import clean_environment, run_suites

TRIREME = os.environ["TRIREME"]
SOURCE = pathlib.Path(os.environ["TRIREME_SOURCE_DIR"])


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-options-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        (cls.folder / "run.toml").write_text(
            'name = "r"\nfolder = "r"\n' + small_model(vocab_size=300, num_layers=2) +
            '[batch]\nsequence_length = 32\nmicro_batch = 1\nglobal_batch = 4\n[train]\nsteps = 3\n[data]\ntrain = "random"\n')
        (cls.folder / "a.txt").write_text("a text\n")

    def trireme(self, *arguments, **environment):
        return subprocess.run([TRIREME, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL,
                              env={**clean_environment(), "TRIREME_CONFIGS": str(SOURCE / "configs"), **environment})

    def refused(self, *arguments, says, **environment):
        out = self.trireme(*arguments, **environment)
        self.assertEqual(out.returncode, 2, (arguments, out.stdout, out.stderr))
        lines = [line for line in out.stderr.strip().splitlines() if line and not line.startswith("libgomp: ")]  # it tells, too
        self.assertEqual(len(lines), 1, (arguments, out.stderr))
        self.assertIn(says, lines[0])


class Numbers(Case):
    def commands(self):
        listed = self.trireme("--help").stdout.split("Subcommands:")[1]
        return re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)

    def test_every_option_that_is_a_number_is_checked(self):
        """CLI11 gives the type of each option: INT, UINT and FLOAT must have a check, which stands behind a colon."""
        commands = self.commands()
        self.assertIn("plan", commands)
        for command in commands:
            for line in self.trireme(command, "--help").stdout.splitlines():
                option = re.match(r"  +(--[A-Za-z-]+) (U?INT|FLOAT)(\S*)", line)
                if not option:
                    continue
                with self.subTest(command=command, option=option[1]):
                    self.assertRegex(option[3], r"^:(POSITIVE|\S+\.\.\S+?)(=\S+)?$")
                    for wrong in ("", "1x", "1" + "0" * 40):
                        out = self.trireme(command, option[1], wrong)
                        self.assertEqual(out.returncode, 2, (wrong, out.stderr))
                        self.assertRegex(out.stderr, re.escape(option[1]) + r": .* is not a (positive |whole )?number (from|of at most) \S+")
                        self.assertNotRegex(out.stderr, r"\d{60}")

    def test_seeds_have_64_bits(self):
        for command in ("data", "generate"):
            if command in self.commands():
                self.refused(command, "--seed", 2 ** 64, says="--seed: 18446744073709551616 is not a whole number from 0 to 18446744073709551615")

    def test_threads_of_the_environment(self):
        for wrong in ("99999999", "0", "-1", "many", "2,", "1025"):
            self.refused("plan", "run.toml", says=f"environment: OMP_NUM_THREADS = {wrong}: a number of threads from 1 to 1024",
                         OMP_NUM_THREADS=wrong)
        self.refused("plan", "run.toml", says="MKL_NUM_THREADS", MKL_NUM_THREADS="99999999")
        for right in ("", "3", "4,2"):
            self.assertEqual(self.trireme("plan", "run.toml", OMP_NUM_THREADS=right).returncode, 0)


class Meaningless(Case):
    def test_of_plan(self):
        a_model = ("plan", "--model", "olmoe_1b_7b", "--platform", "dgx_h100", "--devices", 8)
        for option in ("--devices", "--global-batch", "--sequence"):
            self.refused("plan", "run.toml", option, 64, says=f"run.toml: {option}: the run's file says that")
            self.refused("plan", "run.toml", "--search", option, 64, says=f"run.toml: {option}: the run's file says that")
        for option in ("--memory-GiB", "--top", "--threads"):
            self.refused("plan", "run.toml", option, 4, says=f"{option}: has a meaning only with --search")
        self.refused(*a_model, "--ranks", 2, says="--ranks: is of a run's file")
        self.refused(*a_model, "--actions", says="--actions: is of a layout that is simulated")
        self.refused(*a_model, "--data", "x", says="--data: goes into the run that --out writes")
        self.refused("plan", "run.toml", "--search", "--actions", says="--actions: is of a layout that is simulated")

    def test_of_model_and_validate(self):
        self.refused("model", "olmoe_1b_7b", "--markdown", says="--markdown: is a table of all models")
        self.refused("validate", SOURCE / "configs/runs/published", "--models", "x.csv", says="--models: is of a CSV file of rows")


class MeaninglessWithTorch(Case):
    def test_of_probe(self):
        for option in (("--save-race",), ("--patterns", "flat"), ("--bytes", 8), ("--top-k", 2), ("--samples", 3)):
            self.refused("probe", "--quick", "--ranks", 2, *option, says=f"{option[0]}: is of the race of patterns: needs --all-to-all")
        self.refused("probe", "--nodes-per-group", 3, says="--nodes-per-group: is of links between ranks")
        self.refused("probe", "--links", "--run", "run.toml", says="--run: says what to compute")

    def test_sizes_that_no_host_has_are_refused(self):
        # 4 x 10^15 x 2 x 2 bytes are 14.2 PiB.
        self.refused("probe", "--all-to-all", "--ranks", 2, "--bytes", "1e15", says="--bytes = 1e+15: 2 ranks that have so much")

    def test_of_generate(self):
        self.refused("generate", "r", "--timeout", 5, says="--timeout: has a meaning only with several ranks")
        for option in (("--top-k", 3), ("--top-p", 0.5)):
            self.refused("generate", "r", "--temperature", 0, *option, says=f"{option[0]}: has no meaning with --temperature 0")
        self.refused("generate", "r", "--ep", 2, "--timeout", "1e-9", says="--timeout: 1e-9 is not a number from 0.1 to 1000000")

    def test_of_data(self):
        self.refused("data", "a.txt", "--out", "d", "--valid-fraction", 0, "--seed", 3, says="--seed: chooses documents for validation")


if __name__ == "__main__":
    run_suites()
