"""What commands do with files that are not theirs: a run's folder that holds a user's, outputs named over inputs, pipes where a
file is expected, files that change under a run. Needs TRIREME in the environment."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from small_model import small_model
from suites import clean_environment, kill_if_there, run_suites

TRIREME = os.environ["TRIREME"]

RUN = """# of mine
name = "small"
folder = "out"
timeout_s = 20
""" + small_model(vocab_size=264, num_layers=2).replace("head_dim = 8", "head_dim = 8\nqk_norm = true") + """
[batch]
sequence_length = 32
micro_batch = 1
global_batch = 2
[train]
steps = 2
[data]
train = "data/text_train"
[checkpoint]
every = 2
[device]
threads = 1
"""


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """One trained run, which each test has a copy of."""
        cls.made = pathlib.Path(tempfile.mkdtemp(prefix="trireme-files-"))
        cls.addClassCleanup(shutil.rmtree, cls.made, ignore_errors=True)
        (cls.made / "run.toml").write_text(RUN)
        (cls.made / "text.txt").write_text("\n\n".join(f"a document of {i} words " * 5 for i in range(400)))
        for words in (("data", "text.txt", "--tokenizer", "byte", "--out", "data/text", "--valid-fraction", "0"),
                      ("train", "run.toml", "--ranks", "1")):
            out = subprocess.run([TRIREME, *words], cwd=cls.made, capture_output=True, text=True, env=clean_environment())
            assert out.returncode == 0, out.stderr

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-files-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        shutil.copytree(self.made, self.folder, dirs_exist_ok=True)
        saved = self.folder / "out" / "run.toml"
        saved.write_text(saved.read_text().replace(str(self.made), str(self.folder)))
        self.checkpoint = self.folder / "out" / "checkpoints" / "step-00000002"

    def trireme(self, *arguments, timeout=60):
        return subprocess.run([TRIREME, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, env=clean_environment())

    def files(self):
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*")
                if path.is_file() and not path.is_symlink()}

    def refused(self, *arguments, says):
        """One line and exit code 2, and every file is as it was."""
        before = self.files()
        out = self.trireme(*arguments)
        self.assertEqual(out.returncode, 2, out.stdout + out.stderr)
        errors = [line for line in out.stderr.splitlines() if "error:" in line]
        self.assertEqual(len(errors), 1, out.stderr)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, errors[0])
        after = self.files()
        self.assertEqual(sorted(after), sorted(before))
        for name, content in before.items():
            self.assertEqual(after[name], content, name)
        return errors[0]


class RunFolders(Case):
    def test_a_folder_with_files_of_the_users_is_not_taken(self):
        exported = self.folder / "hf" / "mine"
        self.assertEqual(self.trireme("convert", "out", "--to-hf", exported).returncode, 0)
        for ranks in (1, 2):
            self.refused("train", "run.toml", "--set", "folder=.", "--ranks", ranks, says=["folder = ", "holds run.toml, which no run has written"])
        (self.folder / "mine").mkdir()
        shutil.copytree(self.folder / "hf", self.folder / "mine" / "hf")
        self.refused("train", "run.toml", "--set", "folder=mine", says="holds hf, which no run has written")

    def test_an_export_in_a_runs_own_hf_folder_is_not_removed(self):
        shutil.rmtree(self.folder / "out" / "checkpoints")
        (self.folder / "out" / "hf" / "model.safetensors").write_bytes(b"mine")
        self.refused("train", "run.toml", says=["out/hf/model.safetensors: no run has written it"])
        (self.folder / "out" / "hf" / "model.safetensors").unlink()
        self.assertEqual(self.trireme("train", "run.toml").returncode, 0)
        self.refused("convert", "out", "--to-hf", "out/hf", "--overwrite", says="is hf of the run in ")

    def test_a_run_does_not_lie_in_a_checkpoint(self):
        for inside in (self.checkpoint, self.checkpoint / "hf" / "new", self.folder / "out" / "checkpoints" / "new"):
            self.refused("train", "run.toml", "--set", f"folder={inside}", says=["folder = ", ": name another folder"])

    def test_other_files_of_a_folder_stay(self):
        notes = self.folder / "mine" / "notes.txt"
        notes.parent.mkdir()
        notes.write_text("mine")
        (self.folder / "scratch").mkdir()
        (self.folder / "mine" / "checkpoints").symlink_to(self.folder / "scratch")
        for _ in range(2):
            out = self.trireme("train", "run.toml", "--set", "folder=mine", "--set", "checkpoint.at_end=false", "--set", "checkpoint.every=0")
            self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(notes.read_text(), "mine")
        # And the checkpoints of a run alone are a folder to go on from.
        (self.folder / "moved").mkdir()
        shutil.copytree(self.folder / "out" / "checkpoints", self.folder / "moved" / "checkpoints")
        out = self.trireme("train", "run.toml", "--set", "folder=moved", "--set", "train.steps=3", "--resume")
        self.assertEqual(out.returncode, 0, out.stderr)

    def test_links_to_nothing_and_places_where_nothing_can_be_made(self):
        (self.folder / "gone").symlink_to("nothing")
        (self.folder / "locked").mkdir()
        (self.folder / "locked" / "run.lock").symlink_to("nothing")
        for ranks in (1, 2):
            for folder, says in (("gone", "is a link, and what it names does not exist"),
                                 ("locked", "run.lock: is a link, and what it names does not exist"),
                                 ("text.txt/out", "can't be made or written: Not a directory")):
                self.refused("train", "run.toml", "--set", f"folder={folder}", "--ranks", ranks, says=says)
        self.refused("convert", "out", "--to-hf", "gone", says=["--to-hf = gone", "is a link"])


class Outputs(Case):
    def test_what_a_run_keeps_is_not_written_over(self):
        for option, name in (("--html", "checkpoints/step-00000002/index.json"), ("--html", "plan.json"), ("--html", "run.toml"),
                             ("--trace", "metrics.jsonl"), ("--trace", "run_info.json"), ("--html", "hf/config.json"),
                             ("--html", "measured/rank-00000.json"), ("--html", "checkpoints/new.html")):
            self.refused("report", "out", option, f"out/{name}", says=[option, "of the run in " if "step-" not in name else "is in the checkpoint"])
        self.refused("report", "out", "--html", "data/text_train.bin", says="is a file of the data set")
        for _ in range(2):
            self.assertEqual(self.trireme("report", "out").returncode, 0)

    def test_an_input_is_not_an_output(self):
        for option in ("--html", "--trace"):
            self.refused("plan", "run.toml", option, "./run.toml", says=[option, "is what RUN names to be read"])
        self.refused("plan", "run.toml", "--search", "--out", "run.toml", says=["--out", "is what RUN names to be read"])
        self.refused("plan", "run.toml", "--trace", "data/text_train.bin", says="is a file of the data set")
        self.refused("plan", "run.toml", "--html", "text.txt", says="is there already and is not a page")
        self.refused("probe", "--quick", "--ranks", 2, "--out", "run.toml", says=["--out", "is there already and is not a platform file"])
        self.refused("probe", "--quick", "--run", "run.toml", "--out", "run.toml", says=["--out", "is what --run names to be read"])

    def test_two_outputs_are_two_files(self):
        self.refused("plan", "run.toml", "--html", "a.x", "--trace", "./a.x", says=["--trace", "is what --html names to be written"])
        self.refused("report", "out", "--html", "a.x", "--trace", "a.x", says=["--trace", "is what --html names to be written"])
        self.refused("plan", "run.toml", "--search", "--csv", "a.x", "--out", "a.x", says=["--out", "is what --csv names to be written"])
        for _ in range(2):
            out = self.trireme("plan", "run.toml", "--html", "a.html", "--trace", "a.json")
            self.assertEqual(out.returncode, 0, out.stderr)
        out = self.trireme("plan", "run.toml", "--html", "/dev/null", "--trace", "/dev/null")
        self.assertEqual(out.returncode, 0, out.stderr)

    def test_an_export_that_cannot_be_whole_changes_nothing(self):
        self.assertEqual(self.trireme("convert", "out", "--to-hf", "hf").returncode, 0)
        (self.folder / "hf" / "config.json").unlink()
        (self.folder / "hf" / "config.json").mkdir()
        (self.folder / "hf" / "model.safetensors").write_bytes(b"of before")
        self.refused("convert", "out", "--to-hf", "hf", says=["--to-hf", "holds config.json, which is a folder"])


class Resumes(Case):
    def test_another_dtype_is_refused_before_the_folder_is_written(self):
        for ranks in (1, 2):
            self.refused("train", "run.toml", "--resume", "--set", "train.steps=3", "--set", "device.dtype=bfloat16", "--ranks", ranks,
                         says=["rank-00000.safetensors", "is F32 ", "and the run needs BF16 "])

    def test_a_state_that_cannot_be_read_too(self):
        file = self.checkpoint / "state.json"
        index = self.checkpoint / "index.json"
        state, of_index = json.loads(file.read_text()), json.loads(index.read_text())
        of_index.pop("xxh3", None), of_index["files"].pop("state.json", None), of_index.pop("checksum", None)
        index.write_text(json.dumps(of_index))
        for key in [k for k in state if "sum" in k or k == "xxh3"]:
            del state[key]
        for key, value in (("optimizer_steps", -1), ("tokens_seen", "many"), ("guard", 1), ("frozen", 1), ("expert_collapse", 1)):
            file.write_text(json.dumps({**state, key: value}))
            self.refused("train", "run.toml", "--resume", "--set", "train.steps=3", says=["state.json", key])


class Pipes(Case):
    """A pipe that nobody writes to: whoever opens it waits for ever."""

    def in_place_of(self, name):
        path = self.folder / name
        path.unlink(missing_ok=True)
        os.mkfifo(path)

    def test_is_named(self):
        train, resume = ("train", "run.toml", "--set", "train.steps=3"), ("train", "run.toml", "--set", "train.steps=3", "--resume")
        at = "out/checkpoints/step-00000002/"
        for command, name in ((train, "run.toml"), (resume, "data/text_train.bin"), (resume, "data/text_train.idx"),
                              (resume, "data/text_train.meta.json"), (resume, "data/text_train.weights"), (resume, at + "index.json"),
                              (resume, at + "state.json"), (resume, at + "model.toml"), (resume, at + "rank-00000.safetensors"),
                              (resume, "out/plan.json"), (resume, "out/metrics.jsonl"), (resume, "out/run.lock"), (resume, "out/run_info.json"),
                              (("report", "out"), "out/plan.json"), (("report", "out"), "out/predicted.json"), (("report", "out"), "out/costs.json"),
                              (("report", "out"), "out/metrics.jsonl"), (("report", "out"), "out/run_info.json"),
                              (("evaluate", "hf", "--data", "data/text_train"), "hf/config.json"),
                              (("evaluate", "hf", "--data", "data/text_train"), "hf/model.safetensors")):
            with self.subTest(command=command[0], name=name):
                self.doCleanups()
                self.setUp()
                if name.startswith("hf/"):
                    self.assertEqual(self.trireme("convert", "out", "--to-hf", "hf").returncode, 0)
                self.in_place_of(name)
                # Far longer than any of them takes that does not wait.
                self.refused(*command, says=[pathlib.Path(name).name, "is a pipe: expected a regular file"])


class UnderARun(Case):
    def test_data_that_becomes_shorter_is_named(self):
        process = subprocess.Popen([TRIREME, "train", "run.toml", "--ranks", "1", "--set", "train.steps=1000000", "--set", "folder=long",
                                    "--set", "checkpoint.every=0"],
                                   cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
        self.addCleanup(kill_if_there, process.pid)
        self.assertIn("step", process.stdout.readline())
        os.truncate(self.folder / "data" / "text_train.bin", 1000)
        _, told = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, told)
        self.assertIn("data/text_train.bin", told.splitlines()[-1])
        self.assertIn("something has made it shorter", told.splitlines()[-1])

    def test_a_terminal_that_closes_stops_a_run_with_a_checkpoint(self):
        for ranks in (1, 2):
            process = subprocess.Popen([TRIREME, "train", "run.toml", "--ranks", str(ranks), "--set", "train.steps=1000000", "--set",
                                        f"folder=long{ranks}", "--set", "checkpoint.every=0"],
                                       cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
            self.addCleanup(kill_if_there, process.pid)
            self.assertIn("step", process.stdout.readline())
            for _ in range(2):  # a shell and the system may both send it
                process.send_signal(signal.SIGHUP)
            _, told = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 75, told)
            self.assertTrue(list((self.folder / f"long{ranks}" / "checkpoints").glob("step-*/index.json")))


    def data_that_waits_for_more(self):
        """`trireme data` with its outputs open, in the middle of its input."""
        process = subprocess.Popen([TRIREME, "data", "/dev/stdin", "--out", "made/d", "--documents", "line"], cwd=self.folder, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
        self.addCleanup(kill_if_there, process.pid)
        process.stdin.write("a line of text\n" * 10000)
        process.stdin.flush()
        end = time.monotonic() + 60
        made = str(self.folder / "made") + "/"
        while time.monotonic() < end:
            opened = [os.readlink(fd) for fd in pathlib.Path(f"/proc/{process.pid}/fd").iterdir() if fd.is_symlink()]
            if any(name.startswith(made) for name in opened):
                return process
            time.sleep(0.02)
        self.fail("it opened no output")

    def test_data_that_is_killed_leaves_no_file(self):
        (self.folder / "probe").mkdir()
        try:
            os.close(os.open(self.folder / "probe", os.O_TMPFILE | os.O_WRONLY))
        except OSError:
            self.skipTest("this file system has no files without a name")
        process = self.data_that_waits_for_more()
        process.kill()
        process.communicate(timeout=60)
        self.assertEqual(os.listdir(self.folder / "made"), [])

    def test_a_terminal_that_closes_stops_data(self):
        process = self.data_that_waits_for_more()
        process.send_signal(signal.SIGHUP)
        _, told = process.communicate("one more line\n", timeout=60)
        self.assertEqual(process.returncode, 3, told)
        self.assertFalse((self.folder / "made").exists(), "the folder that it made is gone too")


class Reports(Case):
    def test_costs_are_read_as_strictly_as_the_rest(self):
        costs = self.folder / "out" / "costs.json"
        good = json.loads(costs.read_text())
        costs.write_text("[" * 100)
        self.refused("report", "out", says="costs.json")
        good["stages"][0]["action_s"].pop()
        costs.write_text(json.dumps(good))
        self.refused("report", "out", says=["costs.json", "stages[0].action_s"])

    def test_a_router_load_that_is_none_is_told_in_words(self):
        with (self.folder / "out" / "metrics.jsonl").open("a") as file:
            file.write('{"step": 3, "loss": 1.0, "router_load": [[1, 1]]}\n')
        told = self.refused("report", "out", says=["metrics.jsonl:3", "router_load"])
        self.assertNotIn("json.exception", told)

    def test_that_no_layout_fits_is_an_answer(self):
        out = self.trireme("plan", "--model", "olmoe_1b_7b", "--platform", "dgx_h100", "--devices", 8, "--set", "layout.tp=3")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("No layout fits.", out.stdout)
        # The model has no dense layer, and no data-parallel degree was found that a rule could speak of.
        self.assertNotIn("feed-forward width 0", out.stdout)
        self.assertNotIn("dp 0", out.stdout)


if __name__ == "__main__":
    run_suites()
