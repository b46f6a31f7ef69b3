"""The trireme program from outside: its output, exit codes and files. Needs TRIREME (the program) in the environment."""
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
SOURCE = pathlib.Path(os.environ["TRIREME_SOURCE_DIR"])

RUN = """
name = "small"
folder = "out"
timeout_s = 8
""" + small_model(vocab_size=264, num_layers=4) + """aux_loss_coefficient = 0.01
[layout]
pp = 2
ep = 2
[batch]
sequence_length = 32
micro_batch = 1
global_batch = 8
[train]
steps = 6
eval_sequences = 6
[data]
train = "data/text_train"
valid = "data/text_valid"
[checkpoint]
every = 3
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.run_file = self.folder / "run.toml"
        self.run_file.write_text(RUN)

    def trireme(self, *arguments, environment=None, timeout=180):
        clean = clean_environment()
        return subprocess.run([TRIREME, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              timeout=timeout, env={**clean, **(environment or {})})

    def make_data(self):
        (self.folder / "data").mkdir()
        words = "the quick brown fox jumps over a lazy dog while seven wizards quietly vex jolly big sphinxes".split()
        lines = []
        for i in range(1200):
            lines.append(" ".join(words[(i * 7 + j * j) % len(words)] for j in range(5 + i % 11)))
            if i % 5 == 4:
                lines.append("")
        (self.folder / "text.txt").write_text("\n".join(lines))
        made = self.trireme("data", "text.txt", "--out", "data/text", "--valid-fraction", "0.1", "--json")
        self.assertEqual(made.returncode, 0, made.stderr)
        return json.loads(made.stdout)

    def steps(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]


class Usage(Case):
    def test_help_names_the_commands(self):
        shown = self.trireme("--help")
        self.assertEqual(shown.returncode, 0)
        for command in ("plan", "report", "model"):
            self.assertIn(command, shown.stdout)
            self.assertEqual(self.trireme(command, "--help").returncode, 0)

    def test_no_command_and_unknown_options_are_bad_input(self):
        self.assertEqual(self.trireme().returncode, 2)
        unknown = self.trireme("modle", "deepseek_v3")
        self.assertEqual(unknown.returncode, 2)
        self.assertRegex(unknown.stderr, r'command = modle: must be one of plan, .*\(did you mean model\?\)')
        self.assertEqual(self.trireme("plan", self.run_file, "--speed", "9").returncode, 2)

    def test_plan_prints_the_grid_and_json(self):
        shown = self.trireme("plan", self.run_file, "--ranks", 4)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        # 8 sequences over 2 data ranks: 4 micro-batches; 1f1b on 2 stages warms up with one forward.
        self.assertIn("F0 F1 B0 F2 B1 F3 B2 B3", shown.stdout)
        plan = json.loads(self.trireme("plan", self.run_file, "--ranks", 4, "--json").stdout)
        # embed and head 264 x 32 each; attention a layer 32 x (32 + 16 + 16 + 32) + two norms of 32; dense 3 x 32 x 48;
        # three MoE layers of 8 x 3 x 32 x 16 and a router of 8 x 32; final norm 32.
        self.assertEqual(plan["model"]["params_total"],
                         2 * 264 * 32 + 4 * (32 * 96 + 64) + 3 * 32 * 48 + 3 * (8 * 3 * 32 * 16 + 8 * 32) + 32)
        self.assertTrue(plan["feasible"])
        self.assertGreater(plan["step_s"], 0)


    def test_model_prints_counts_and_suggests_names(self):
        out = self.trireme("model", "deepseek_v3", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        j = json.loads(out.stdout)
        self.assertEqual(j["params_total"], 671026404352)
        self.assertAlmostEqual(j["flops_per_token"]["megatron"]["value"] / 1e9, 260.0, places=1)
        self.assertIn("causal attention", j["flops_per_token"]["megatron"]["convention"])
        self.assertEqual(sum(p["params"] for p in j["parts"].values()), j["params_with_mtp"])
        self.assertIn("671.03 B", self.trireme("model", "DeepSeek-V3").stdout)
        cut = json.loads(self.trireme("model", "deepseek_v3", "--set", "model.num_layers=4", "--json").stdout)
        self.assertLess(cut["params_total"], 20e9)
        wrong = self.trireme("model", "deepsek_v3")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("did you mean deepseek_v3?", wrong.stderr)

    def test_the_documented_table_of_models_is_what_the_program_prints(self):
        out = self.trireme("model", "--markdown")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn(out.stdout, (SOURCE / "docs" / "models.md").read_text())

    def test_a_folder_of_configs_of_ones_own(self):
        (self.folder / "models").mkdir()
        (self.folder / "platforms").mkdir()
        shutil.copy(SOURCE / "configs" / "models" / "tiny.toml", self.folder / "models" / "mine.toml")
        os.environ["TRIREME_CONFIGS"] = str(self.folder)
        self.addCleanup(os.environ.pop, "TRIREME_CONFIGS")
        self.assertEqual(list(json.loads(self.trireme("model", "--json").stdout)), ["mine"])

class BadInput(Case):
    def refused(self, *arguments, says, command="train"):
        result = self.trireme(command, self.run_file, *arguments)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        errors = [line for line in result.stderr.splitlines() if "error:" in line]
        self.assertEqual(len(errors), 1, result.stderr)
        for text in says:
            self.assertIn(text, errors[0])
        self.assertEqual(result.stdout, "")
        self.assertFalse((self.folder / "out").exists(), "nothing may be written")

    def test_one_clear_error_each(self):
        self.make_data()
        for arguments, says in [
            (["--set", "layout.pq=2"], ["layout.pq"]),
            (["--set", 'train.steps="many"'], ["train.steps", "many"]),
            (["--set", "layout.ep=3"], ["layout.ep", "model.moe.num_experts (8)"]),
            (["--set", "layout.pp=5"], ["layout.pp", "model.num_layers (4)"]),
            (["--set", "batch.global_batch=7", "--ranks", "4"], ["batch.global_batch"]),
            (["--ranks", "3"], ["layout"]),
            (["--set", "data.train=absent"], ["data.train", "absent"]),
            (["--set", "model.vocab_size=100"], ["data.train", "100"]),
            (["--set", "layout.schedule=zigzag"], ["layout.schedule", "1f1b"]),
            (["--resume"], ["checkpoint"]),
            (["--set", "train.optimizer.eps=0.0"], ["train.optimizer.eps", "above 0"]),
            (["--set", "device.threads=100000"], ["device.threads = 100000"]),
            (["--set", "folder=data/text_train.bin"], ["folder = ", "Not a directory"]),
            (["--set", "folder=data/text_train.bin/x"], ["folder = ", "Not a directory"]),
            (["--set", f"folder={'x' * 300}"], ["folder = ", "name too long"]),
            (["--set", 'folder="a\\u0000b"'], ["folder", "zero byte"]),
            (["--set", 'folder=""', "--set", 'name="a\\nb"'], ["name = "]),
            (["--set", 'folder=""', "--set", 'name="/a"'], ["name = \"/a\""]),
        ]:
            with self.subTest(arguments=arguments):
                self.refused(*arguments, says=says)

    def test_a_token_that_the_meta_file_does_not_know_of(self):
        self.make_data()
        path = self.folder / "data" / "text_train.bin"
        tokens = bytearray(path.read_bytes())
        tokens[100:102] = b"\xff\xff"
        path.write_bytes(tokens)
        result = self.trireme("train", self.run_file)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("error: "), 1, result.stderr)
        self.assertIn("holds token 65535 at place 50", result.stderr)
        (self.folder / "data" / "text_train.meta.json").write_text("{")
        error = self.trireme("train", self.run_file).stderr
        self.assertIn("text_train.meta.json: not valid: parse error at line 1", error)
        self.assertNotIn("exception", error)

    def test_options_that_would_do_nothing_or_too_much(self):
        for arguments, says in [
            (["model", "--set", "model.hidden=64"], ["--set = model.hidden=64", "MODEL"]),
            (["plan", self.run_file, "--pareto"], ["--pareto", "--search"]),
            (["probe", "--quick", "--set", "layout.ep=2"], ["--set = layout.ep=2", "--run"]),
            (["probe", "--links", "--ranks", 1000000], ["--ranks = 1000000", "cores"]),
            (["probe", "--all-to-all", "--ranks", 2, "--patterns", "flatt"], ["--patterns = flatt"]),
        ]:
            with self.subTest(arguments=arguments):
                result = self.trireme(*arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                for text in says:
                    self.assertIn(text, result.stderr)

    def test_a_typo_in_the_file_names_file_and_key(self):
        self.make_data()
        self.run_file.write_text(RUN.replace("[train]", "[train]\nstepps = 3"))
        self.refused(says=["run.toml", "train.stepps", "train.steps"])

    def test_a_probe_that_could_not_be_written_measures_nothing(self):
        for arguments in (["--ranks", 2], ["--ranks", 1], ["--ranks", 2, "--links"]):
            for out in ("missing/platform.toml", self.folder):
                with self.subTest(arguments=arguments, out=out):
                    result = self.trireme("probe", *arguments, "--out", out)
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertIn("cannot write", result.stderr)
                    self.assertEqual(len(result.stderr.splitlines()), 1, "no line of progress")
                    self.assertEqual(result.stdout, "")

    def test_a_truncated_data_file(self):
        self.make_data()
        path = self.folder / "data" / "text_train.bin"
        path.write_bytes(path.read_bytes()[:-100])
        self.refused(says=["data.train", "text_train"])


class Training(Case):
    def test_four_ranks_print_a_json_object_a_step(self):
        self.make_data()
        steps = self.steps(self.trireme("train", self.run_file, "--ranks", 4, "--json"))
        self.assertEqual([s["step"] for s in steps], [1, 2, 3, 4, 5, 6])
        for s in steps:
            for key in ("loss", "grad_norm", "tokens_per_s", "predicted_step_s", "measured_step_s", "peak_memory_bytes"):
                self.assertGreater(s[key], 0, key)
        # A model that knows nothing gives ln 264 = 5.576 nats.
        self.assertAlmostEqual(steps[0]["loss"], 5.576, delta=0.15)
        self.assertLess(steps[-1]["loss"], steps[0]["loss"])
        self.assertGreater(steps[-1]["eval_loss"], 0)
        for name in ("run.toml", "plan.json", "costs.json", "predicted.json", "metrics.jsonl", "measured/rank-00003.json",
                     "checkpoints/step-00000006/index.json"):
            self.assertTrue((self.folder / "out" / name).exists(), name)

    def test_every_layout_has_the_same_losses(self):
        self.make_data()
        reference = None
        for ranks, layout in [(1, (1, 1)), (2, (2, 1)), (2, (1, 2)), (4, (2, 2)), (4, (1, 2)), (3, (3, 1)), (4, (4, 1))]:
            pp, ep = layout
            result = self.trireme("train", self.run_file, "--ranks", ranks, "--json", "--set", f"layout.pp={pp}",
                                  "--set", f"layout.ep={ep}", "--set", f"folder=out-{ranks}-{pp}-{ep}",
                                  "--set", "train.steps=3", "--set", "device.dtype=float64")
            steps = self.steps(result)
            # Six sequences of evaluation are no multiple of what four data ranks take at once: some get padding.
            losses = [s["loss"] for s in steps] + [s["grad_norm"] for s in steps] + [steps[-1]["eval_loss"]]
            reference = reference or losses
            for a, b in zip(losses, reference):
                self.assertAlmostEqual(a, b, delta=1e-10, msg=str((ranks, layout)))

    def test_resuming_gives_the_losses_of_an_uninterrupted_run(self):
        self.make_data()
        whole = self.steps(self.trireme("train", self.run_file, "--ranks", 4, "--json", "--set", "folder=whole"))
        half = self.trireme("train", self.run_file, "--ranks", 4, "--json", "--set", "train.steps=6", "--set",
                            "checkpoint.every=3")
        self.steps(half)
        shutil.rmtree(self.folder / "out" / "checkpoints" / "step-00000006")
        resumed = self.steps(self.trireme("train", self.run_file, "--ranks", 4, "--json", "--resume"))
        self.assertEqual([s["step"] for s in resumed], [4, 5, 6])
        self.assertEqual([s["loss"] for s in resumed], [s["loss"] for s in whole[3:]])  # bit for bit
        self.assertEqual([s["grad_norm"] for s in resumed], [s["grad_norm"] for s in whole[3:]])
        # And in another layout, to rounding.
        shutil.rmtree(self.folder / "out" / "checkpoints" / "step-00000006")
        other = self.steps(self.trireme("train", self.run_file, "--ranks", 2, "--json", "--resume", "--set",
                                        "layout.pp=1"))
        for a, b in zip(other, whole[3:]):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4)

    def test_a_folder_with_checkpoints_is_not_trained_over(self):
        self.make_data()
        self.steps(self.trireme("train", self.run_file, "--ranks", 1, "--set", "layout.pp=1", "--set", "layout.ep=1",
                                "--json", "--set", "train.steps=1"))
        again = self.trireme("train", self.run_file, "--ranks", 4)
        self.assertEqual(again.returncode, 2)
        self.assertIn("--resume", again.stderr)

    def test_torchrun_and_slurm_environments(self):
        self.make_data()
        for number, make in enumerate([
            lambda r: {"RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2",
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29611"},
            lambda r: {"SLURM_PROCID": str(r), "SLURM_NTASKS": "2", "SLURM_LOCALID": str(r), "SLURM_STEP_ID": "0",
                       "SLURM_JOB_ID": "4711", "SLURM_TASKS_PER_NODE": "2", "SLURM_STEP_TASKS_PER_NODE": "2",
                       "SLURM_NNODES": "1", "SLURM_NODEID": "0", "SLURM_STEP_NODELIST": "localhost",
                       "SLURM_JOB_NODELIST": "localhost"},
        ]):
            ranks = [subprocess.Popen([TRIREME, "train", "run.toml", "--json", "--set", f"folder=env{number}",
                                       "--set", "train.steps=2", "--set", "layout.pp=1"], cwd=self.folder,
                                      env={**os.environ, **make(r)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True) for r in range(2)]
            outputs = [p.communicate(timeout=120) for p in ranks]
            self.assertEqual([p.returncode for p in ranks], [0, 0], outputs)
            self.assertEqual(len(outputs[0][0].splitlines()), 2)
            self.assertEqual(outputs[1][0], "")


class Failures(Case):
    def start(self, *arguments):
        self.make_data()
        process = subprocess.Popen([TRIREME, "train", "run.toml", "--ranks", "4", "--json", "--set", "train.steps=100000",
                                    "--set", "train.eval_sequences=0", *arguments], cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        for line in process.stdout:  # steps are being made
            if json.loads(line)["step"] >= 8:
                break
        else:
            self.fail(process.stderr.read())
        return process

    def rank_pid(self, process, rank):
        children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        for pid in children:
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if f"RANK={rank}".encode() in environment:
                return int(pid)
        self.fail(f"no rank {rank} among {children}")

    def test_a_killed_rank_is_named_and_the_run_resumes(self):
        for rank in (0, 3):
            with self.subTest(rank=rank):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                shutil.rmtree(self.folder / "data", ignore_errors=True)
                process = self.start()
                os.kill(self.rank_pid(process, rank), signal.SIGKILL)
                began = time.monotonic()
                _, errors = process.communicate(timeout=60)
                self.assertLess(time.monotonic() - began, 8 + 10)
                self.assertEqual(process.returncode, 3, errors)
                self.assertRegex(errors, rf"rank {rank}\b.*signal 9")
                self.assertRegex(errors, r"operation ")
                self.assertRegex(errors, r"group ")
                checkpoints = sorted(p.name for p in (self.folder / "out" / "checkpoints").glob("step-*"))
                self.assertTrue(checkpoints)
                last = int(checkpoints[-1].split("-")[1])
                resumed = self.steps(self.trireme("train", "run.toml", "--ranks", 4, "--json", "--resume", "--set",
                                                  f"train.steps={last + 2}"))
                self.assertEqual([s["step"] for s in resumed], [last + 1, last + 2])

    def test_a_stopped_rank_is_named_within_the_timeout(self):
        process = self.start("--set", "timeout_s=4")
        pid = self.rank_pid(process, 2)
        os.kill(pid, signal.SIGSTOP)
        try:
            _, errors = process.communicate(timeout=60)
        finally:
            kill_if_there(pid)
        self.assertEqual(process.returncode, 3, errors)
        self.assertRegex(errors, r"rank 2\b")

    def test_a_run_whose_gradients_are_not_finite_ends(self):
        self.make_data()
        failed = self.trireme("train", self.run_file, "--ranks", 4, "--json", "--set", "train.steps=40", "--set",
                              "train.optimizer.learning_rate=1e30", "--set", "checkpoint.every=0", "--set",
                              "train.loss_spike.action=off")
        self.assertEqual(failed.returncode, 3, failed.stderr)
        self.assertIn("10 updates were skipped in a row before it", failed.stderr)

    def test_ctrl_c_saves_and_ends_cleanly(self):
        process = self.start("--set", "checkpoint.every=0")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, errors)  # stopped, and neither finished nor failed
        last = json.loads(output.splitlines()[-1])["step"]
        self.assertTrue((self.folder / "out" / "checkpoints" / f"step-{last:08d}" / "index.json").exists())
        self.assertFalse(list((self.folder / "out" / "checkpoints").glob(".tmp*")))

    def test_a_corrupt_checkpoint_is_bad_input(self):
        self.make_data()
        self.steps(self.trireme("train", self.run_file, "--ranks", 4, "--json", "--set", "train.steps=3"))
        file = next((self.folder / "out" / "checkpoints").glob("step-*/rank-00000.safetensors"))
        file.write_bytes(file.read_bytes()[:-64])
        resumed = self.trireme("train", self.run_file, "--ranks", 4, "--resume")
        self.assertEqual(resumed.returncode, 2, resumed.stderr)
        self.assertIn("rank-00000.safetensors", resumed.stderr)


class FullDisk(Case):
    """A file system of its own that is full, or becomes full: one clear error, exit 3, and nothing half written."""

    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        # 4,096 KiB; a page is the least that a file takes.
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4096k", "tmpfs", str(self.disk)],
                                 capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest(f"cannot mount a file system (root is needed): {mounted.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.disk)], check=True)

    def leave_free(self, kib):
        """Fills the disk but for so much."""
        filler = self.disk / "filler"
        free = os.statvfs(self.disk).f_bavail * os.statvfs(self.disk).f_frsize // 1024
        if filler.exists():
            free += filler.stat().st_size // 1024
            filler.unlink()
        with open(filler, "wb") as file:
            file.write(bytes(1024 * max(0, free - kib)))

    def files(self):
        return sorted(str(p.relative_to(self.disk)) for p in self.disk.rglob("*") if p.is_file() and p.name != "filler")

    def fails(self, *arguments, **options):
        result = self.trireme(*arguments, **options)
        self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
        self.assertNotIn("internal error", result.stderr)
        says = [line for line in result.stderr.splitlines() if "No space left on device" in line]
        self.assertTrue(says, result.stderr)
        self.assertTrue(any(str(self.disk.name) in line or "output" in line for line in says), says)
        return result

    def test_data_files(self):
        self.make_data()
        text = self.folder / "text.txt"
        self.assertEqual(self.trireme("data", text, "--out", "disk/text").returncode, 0)
        before = {name: (self.disk / name).read_bytes() for name in self.files()}
        text.write_text(text.read_text()[: 20000])  # another text, whose files would be smaller
        for free in (0, 16, 40):
            with self.subTest(free=free):
                self.leave_free(free)
                self.fails("data", text, "--out", "disk/text")
                # Meta files apart, whose .bin is then another one: readers ignore those.
                after = {name: (self.disk / name).read_bytes() for name in self.files()}
                for name, content in before.items():
                    if not name.endswith(".json"):
                        self.assertEqual(after[name], content, name)
                self.assertEqual(sorted(after), sorted(before))

    def test_plan_probe_and_report_files(self):
        self.make_data()
        self.steps(self.trireme("train", self.run_file, "--ranks", 1, "--json", "--set", "train.steps=2", "--set",
                                "layout.pp=1", "--set", "layout.ep=1"))
        self.leave_free(0)
        self.fails("plan", self.run_file, "--html", "disk/page.html")
        self.fails("plan", self.run_file, "--trace", "disk/trace.json")
        self.fails("report", "out", "--html", "disk/page.html", "--trace", "disk/trace.json")
        self.fails("probe", "--quick", "--ranks", 1, "--out", "disk/platform.toml")
        self.assertEqual(self.files(), [])
        with open(self.disk / "output", "w") as output:
            shown = subprocess.run([TRIREME, "plan", str(self.run_file)], stdout=output, stderr=subprocess.PIPE, text=True)
        self.assertEqual(shown.returncode, 3, shown.stderr)
        self.assertIn("No space left on device", shown.stderr)

    def test_a_run_folder_that_is_full_from_the_start(self):
        self.make_data()
        self.leave_free(0)
        result = self.fails("train", self.run_file, "--ranks", 4, "--json", "--set", "folder=disk/run")
        self.assertEqual(result.stdout, "", "no step may be run")
        self.assertEqual(self.files(), [])

    def test_a_checkpoint(self):
        self.make_data()
        arguments = [self.run_file, "--ranks", 4, "--json", "--set", "folder=disk/run", "--set", "train.eval_sequences=0"]
        self.steps(self.trireme("train", *arguments, "--set", "train.steps=3"))
        # Three float32 numbers a parameter, some 0.7 MB: the next one finds half of that, at another place each time.
        self.leave_free(400)
        failed = self.fails("train", *arguments, "--resume", "--set", "train.steps=6")
        self.assertIn("step 6 was not written", failed.stderr)
        self.assertIn("intact", failed.stderr)
        checkpoints = self.disk / "run" / "checkpoints"
        self.assertEqual([p.name for p in checkpoints.iterdir()], ["step-00000003"])
        (self.disk / "filler").unlink()
        resumed = self.steps(self.trireme("train", *arguments, "--resume", "--set", "train.steps=6"))
        self.assertEqual([s["step"] for s in resumed], [4, 5, 6])

    def test_metrics(self):
        self.make_data()
        arguments = [self.run_file, "--ranks", 2, "--json", "--set", "folder=disk/run", "--set", "layout.pp=1", "--set",
                     "train.eval_sequences=0", "--set", "checkpoint.every=0", "--set", "checkpoint.at_end=false", "--set",
                     "train.steps=2000"]
        self.assertEqual(self.trireme("train", *arguments, "--set", "train.steps=1").returncode, 0)
        self.leave_free(64)
        self.fails("train", *arguments)
        lines = (self.disk / "run" / "metrics.jsonl").read_text()
        self.assertTrue(lines.endswith("\n"), "the last line is whole")
        for number, line in enumerate(lines.splitlines(), start=1):
            self.assertEqual(json.loads(line)["step"], number)


class Chain(Case):
    def test_data_plan_train_report(self):
        self.make_data()
        self.steps(self.trireme("train", self.run_file, "--ranks", 4, "--json", "--set", "train.steps=8"))
        shown = self.trireme("report", "out")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        for text in ("predicted", "measured", "rank"):
            self.assertIn(text, shown.stdout)
        report = json.loads(self.trireme("report", "out", "--json").stdout)
        self.assertTrue(report)
        # 8 steps with a checkpoint every 3: the copies are exactly what was planned, 12 bytes an owned parameter.
        plan = json.loads(self.trireme("plan", self.run_file, "--ranks", 4, "--json").stdout)
        copies = [stage["checkpoint_copy_bytes"] for stage in plan["memory"]]
        # Stage 0: embedding 264 x 32; two layers of 32 x 96 + 64; dense 3 x 32 x 48; half of 8 x 3 x 32 x 16 experts, a
        # router of 8 x 32.
        self.assertEqual(copies[0], 12 * (264 * 32 + 2 * (32 * 96 + 64) + 3 * 32 * 48 + 4 * 3 * 32 * 16 + 8 * 32))
        self.assertEqual(report["checkpoint_copy_bytes"]["measured"], max(copies))
        page = (self.folder / "out" / "report.html").read_text()
        self.assertNotRegex(page, r"(src|href)=[\"']https?:")
        trace = json.loads((self.folder / "out" / "trace.json").read_text())
        self.assertTrue(trace["traceEvents"])
        self.assertEqual(self.trireme("report", "absent").returncode, 2)
        # The page and the trace are written together or not at all.
        self.assertNotEqual(self.trireme("report", "out", "--html", "absent/page.html", "--trace", "alone.json").returncode, 0)
        self.assertFalse((self.folder / "alone.json").exists())


if __name__ == "__main__":
    run_suites()
