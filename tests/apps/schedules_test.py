"""Schedules from outside: by name and from files. Needs TRIREME (the program) in the environment."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from small_model import small_model
from suites import run_suites

TRIREME = os.environ["TRIREME"]
SOURCE = pathlib.Path(os.environ["TRIREME_SOURCE_DIR"])
NAMES = ("gpipe", "1f1b", "interleaved_1f1b", "merged_1f1b", "zero_bubble_h1", "zero_bubble_v", "dualpipe_v")


class Schedules(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-schedules-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        # Two stages, four micro-batches of each of two data ranks.
        (self.folder / "run.toml").write_text(small_model(64, 5) + "[layout]\npp = 2\nep = 2\n[batch]\nglobal_batch = 8\n"
                                              "sequence_length = 32\n[data]\ntrain = \"random\"\n")

    def trireme(self, *arguments):
        return subprocess.run([TRIREME, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env={**os.environ, "TRIREME_CONFIGS": str(SOURCE / "configs")})

    def plan(self, *arguments):
        out = self.trireme("plan", "run.toml", "--ranks", 4, *arguments)
        self.assertEqual(out.returncode, 0, out.stderr)
        return out.stdout

    def refused(self, *arguments):
        out = self.trireme("plan", "run.toml", "--ranks", 4, *arguments)
        self.assertEqual(out.returncode, 2, out.stdout + out.stderr)
        self.assertEqual(len(out.stderr.strip().splitlines()), 1, out.stderr)
        return out.stderr

    def test_any_schedule_is_shown_planned_and_read_back(self):
        for name in NAMES:
            with self.subTest(name):
                by_name = ("--set", f"layout.schedule={name}")
                grid, rows = self.plan(*by_name, "--show", "grid"), self.plan(*by_name, "--show", "csv")
                self.assertTrue(grid.startswith(f"{name}, 2 stages, 4 micro-batches, "), grid)
                self.assertEqual(len(rows.splitlines()), 2)
                (self.folder / "grid.txt").write_text(grid)
                (self.folder / f"{name}.csv").write_text(rows)
                plan = json.loads(self.plan(*by_name, "--json"))
                self.assertEqual(plan["num_micro_batches"], 4)
                for file in ("grid.txt", f"{name}.csv"):
                    from_file = ("--set", f"layout.schedule_file={file}")
                    self.assertEqual(self.plan(*from_file, "--show", "grid"), grid)
                    again = json.loads(self.plan(*from_file, "--json"))
                    self.assertEqual(again["step_s"], plan["step_s"])
                    self.assertEqual(again["memory"], plan["memory"])

    def test_a_layout_that_is_only_estimated_shows_its_schedule(self):
        out = self.trireme("plan", "run.toml", "--ranks", 8, "--set", "layout.tp=2", "layout.schedule=dualpipe_v", "--show", "grid")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertTrue(out.stdout.startswith("dualpipe_v, 2 stages, 4 micro-batches, 2 chunks\n"))

    def test_a_wrong_file_is_one_clear_line(self):
        heading = "mine, 2 stages, 4 micro-batches, 1 chunk\n"
        right = "stage 0 | F0 F1 F2 F3 B0 B1 B2 B3\n"

        def error(row, name="g.txt", first=heading + right):
            (self.folder / name).write_text(first + row)
            return self.refused("--set", f"layout.schedule_file={name}")

        self.assertIn("g.txt: schedule line 3: stage 1: micro-batch 3 chunk 0 has 1 F, 0 B",
                      error("stage 1 | F0 B0 F1 B1 F2 B2 F3\n"))
        self.assertIn("g.txt: schedule line 3: stage 1: F1 needs a message from stage 0 that it gets after another one",
                      error("stage 1 | F1 F0 F2 F3 B0 B1 B2 B3\n"))
        self.assertIn("g.txt: schedule line 3 = G2: in the row of stage 1", error("stage 1 | F0 F1 G2\n"))
        self.assertIn("c.csv: schedule line 2, cell 2 = 1X0: in the row of stage 1", error("1F0,1X0\n", "c.csv", "0F0,0B0\n"))
        self.assertIn("holds a schedule of 1 stages: layout.pp (2) must be that", error("", "c.csv", "0F0,0B0\n"))
        self.assertIn("is 4 micro-batches of a data rank; the schedule of", error("1F0,1B0\n", "c.csv", "0F0,0B0\n"))
        self.assertIn("no such file", self.refused("--set", "layout.schedule_file=none.txt"))

    def test_what_does_not_go_together(self):
        self.assertIn("--show", self.refused("--search", "--show", "grid"))
        (self.folder / "g.csv").write_text(self.plan("--show", "csv"))
        (self.folder / "run.toml").write_text((self.folder / "run.toml").read_text().replace("pp = 2", "pp = 2\nschedule_file = \"g.csv\""))
        self.assertIn("must be left out with --search", self.refused("--search", "--platform", "dgx_h100"))
        self.assertIn("is planned by segments", self.refused("--set", "layout.overlap.experts=true", "--platform", "dgx_h100"))


if __name__ == "__main__":
    run_suites()
