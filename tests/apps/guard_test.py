"""What watches a training run, from outside: losses that explode, gradients that are not finite, going back to a checkpoint,
frozen parameters, the load of experts. Needs TRIREME (the program) in the environment."""
import json
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

from small_model import small_model
from suites import clean_environment, run_suites

TRIREME = os.environ["TRIREME"]

RUN = """
name = "small"
folder = "out"
timeout_s = 20
""" + small_model(vocab_size=264, num_layers=3) + """aux_loss_coefficient = 0.01
[batch]
sequence_length = 32
micro_batch = 1
global_batch = 4
[train]
steps = 12
[data]
train = "random"
[checkpoint]
every = 2
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-guard-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "run.toml").write_text(RUN)

    def trireme(self, *arguments, timeout=180):
        clean = clean_environment()
        return subprocess.run([TRIREME, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              timeout=timeout, env=clean)

    def train(self, *settings, ranks=1, resume=False, restarts=0):
        arguments = ["train", "run.toml", "--ranks", ranks, "--json"] + (["--resume"] if resume else [])
        arguments += ["--restarts", restarts] if restarts else []
        for setting in settings:
            arguments += ["--set", setting]
        return self.trireme(*arguments)

    def lines(self, result):
        return [json.loads(line) for line in result.stdout.splitlines()]

    def steps(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.lines(result)

    def checkpoints(self, folder="out"):
        return sorted(int(p.name.split("-")[1]) for p in (self.folder / folder / "checkpoints").glob("step-*"))


# The highest learning rate at once: no warm-up, no decay.
EXPLODES = ["train.optimizer.learning_rate=50", "train.schedule.kind=constant"]
# The loss of random tokens stays near ln(264) with a noise of some 0.2 %. Measured with this seed: 5.57 to 5.594 in the first
# nine steps, 5.611 in the tenth, which is above 1.0025 times their median, and then no more than 5.592 up to the 26th.
NOISE = ["train.loss_spike.factor=1.0025", "train.loss_spike.window=8", "train.optimizer.learning_rate=1e-6", "train.seed=2"]


class Spikes(Case):
    def test_a_loss_that_explodes_ends_the_run(self):
        failed = self.train(*EXPLODES, "checkpoint.every=0")
        self.assertEqual(failed.returncode, 3, failed.stderr)
        self.assertIn("the loss is ", failed.stderr)
        self.assertIn("more than 3 times", failed.stderr)
        self.assertIn("no checkpoint has been written", failed.stderr)
        self.assertEqual(self.checkpoints(), [])
        last = self.lines(failed)[-1]  # the step is told of
        self.assertLess(last["step"], 12)
        self.assertGreater(last["loss"], 3 * math.log(264))

    def test_on_every_rank_alike(self):
        alone = self.train(*EXPLODES, "checkpoint.every=0")
        for layout in (["layout.pp=2"], ["layout.ep=2"]):
            together = self.train(*EXPLODES, *layout, "checkpoint.every=0", "folder=out2", ranks=2)
            self.assertEqual(together.returncode, 3, together.stderr)
            self.assertEqual(self.lines(together)[-1]["step"], self.lines(alone)[-1]["step"])
            self.assertNotIn("internal error", together.stderr)

    def test_the_last_good_checkpoint_is_named(self):
        self.steps(self.train("train.steps=4"))
        # The weights of step 4 are good: step 5 has shown it. The update of step 5 explodes, step 6 shows that.
        failed = self.train(*EXPLODES, "checkpoint.every=1", "checkpoint.keep=10", resume=True)
        self.assertEqual(failed.returncode, 3, failed.stderr)
        bad = self.lines(failed)[-1]["step"]
        self.assertIn(f"the last good checkpoint is {self.folder}/out/checkpoints/step-{bad - 2:08d}", failed.stderr)
        self.assertIn(f"(that of step {bad - 1} holds the weights that step {bad} began with)", failed.stderr)
        self.assertNotIn(bad, self.checkpoints())

    def test_a_stop_by_the_guard_is_not_started_again(self):
        for ranks, layout in ((1, []), (2, ["layout.ep=2"])):
            failed = self.train(*EXPLODES, *layout, "checkpoint.every=1", f"folder=out{ranks}", ranks=ranks, restarts=3)
            self.assertEqual(failed.returncode, 3, failed.stderr)
            self.assertEqual(failed.stderr.count("trireme: failed: rank"), 2, failed.stderr)  # the reason, and the launcher's last line
            self.assertIn("not started again: it would end in the same way", failed.stderr)
            info = json.loads((self.folder / f"out{ranks}" / "run_info.json").read_text())
            self.assertEqual(len(info["sessions"]), 1)

    def test_off_lets_it_be(self):
        steps = self.steps(self.train(*EXPLODES, "train.loss_spike.action=off", "train.steps=2"))
        self.assertGreater(max(s["loss"] for s in steps), 3 * math.log(264))

    def test_skipping_leaves_the_weights_as_they_were(self):
        steps = self.steps(self.train(*NOISE, "train.loss_spike.action=skip", "train.steps=13", "checkpoint.every=1",
                                      "checkpoint.keep=20"))
        plain = self.steps(self.train(*NOISE, "train.loss_spike.action=off", "train.steps=13", "folder=plain"))
        self.assertEqual([s["step"] for s in steps], list(range(1, 14)))
        self.assertEqual([s["loss"] for s in steps[:10]], [s["loss"] for s in plain[:10]])
        self.assertNotEqual(steps[10]["loss"], plain[10]["loss"])
        # The tenth step's update is skipped, and so is its checkpoint.
        self.assertEqual(self.checkpoints(), [s for s in range(1, 14) if s != 10])


class Rewinds(Case):
    def rewound(self, result):
        return [(int(a), int(b)) for a, b in re.findall(r"step (\d+): .*: the model goes back to step (\d+), the data of steps",
                                                        result.stderr)]

    def test_one_and_two_ranks_go_back_alike(self):
        settings = [*NOISE, "train.loss_spike.action=rewind", "train.loss_spike.max_rewinds=100", "train.steps=16",
                    "checkpoint.keep=3", "device.dtype=float64"]
        reference = self.train(*settings, "folder=one")
        self.assertEqual(reference.returncode, 0, reference.stderr)
        self.assertGreater(len(self.rewound(reference)), 0, reference.stderr)
        losses = [(s["step"], s["loss"]) for s in self.lines(reference)]
        # Steps are taken again, with other data.
        again = [step for step, _ in losses if [s for s, _ in losses].count(step) > 1]
        self.assertTrue(again)
        for step in set(again):
            taken = [loss for s, loss in losses if s == step]
            self.assertEqual(len(taken), len(set(taken)), "the data must be another")
        for name, layout in (("pp", ["layout.pp=2"]), ("ep", ["layout.ep=2"])):
            other = self.train(*settings, *layout, f"folder={name}", ranks=2)
            self.assertEqual(other.returncode, 0, other.stderr)
            self.assertEqual(self.rewound(other), self.rewound(reference))
            self.assertEqual([s["step"] for s in self.lines(other)], [s for s, _ in losses])
            for a, (_, b) in zip(self.lines(other), losses):
                self.assertAlmostEqual(a["loss"], b, delta=1e-10)

    def test_files_of_the_run_forget_what_was_gone_back_from(self):
        settings = [*NOISE, "train.loss_spike.action=rewind", "train.loss_spike.max_rewinds=100", "checkpoint.keep=3"]
        # The step that is bad is always told of, here between those that are logged, and no later line takes its place.
        result = self.train(*settings, "train.log_every=4", "train.steps=12")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.rewound(result), [(10, 8)])
        self.assertEqual([s["step"] for s in self.lines(result)], [4, 8, 10, 12])
        logged = [json.loads(line)["step"] for line in (self.folder / "out" / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(logged, [4, 8, 12])
        # A file for what comes behind step 8: it starts a session there.
        self.assertEqual(len(list((self.folder / "out" / "tensorboard").iterdir())), 2)
        shown = self.trireme("report", "out")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        # A resume takes steps 9 to 12 again, and tells of the last alone.
        shutil.rmtree(self.folder / "out" / "checkpoints" / "step-00000012")
        shutil.rmtree(self.folder / "out" / "checkpoints" / "step-00000010")
        with (self.folder / "out" / "metrics.jsonl").open("a") as metrics:
            metrics.write(json.dumps({**self.lines(result)[-1], "step": 11}) + "\n")
        resumed = self.train(*settings, "train.log_every=4", "train.steps=12", resume=True)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        logged = [json.loads(line)["step"] for line in (self.folder / "out" / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(logged, [4, 8, 12])

    def test_the_best_checkpoint_that_is_named_is_there(self):
        failed = self.train(*NOISE, "train.loss_spike.action=rewind", "train.loss_spike.max_rewinds=100", "train.steps=16", "data.valid=random",
                            "train.eval_sequences=8", "train.eval_every=1", "checkpoint.every=1", "checkpoint.keep_best=true")
        self.assertEqual(failed.returncode, 0, failed.stderr)
        self.assertEqual(len(self.rewound(failed)), 1)
        best = json.loads((self.folder / "out" / "checkpoints" / "best.json").read_text())
        self.assertIn(best["step"], self.checkpoints())
        losses = {s["step"]: s["eval_loss"] for s in self.lines(failed) if "eval_loss" in s}
        self.assertEqual(best["eval_loss"], min(losses.values()))

    def test_a_resumed_run_goes_on_as_the_uninterrupted_one(self):
        settings = [*NOISE, "train.loss_spike.action=rewind", "train.loss_spike.max_rewinds=100", "train.steps=16",
                    "checkpoint.keep=0"]
        whole = self.train(*settings, "folder=whole")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        shutil.copytree(self.folder / "whole", self.folder / "cut")
        self.assertEqual(self.rewound(whole), [(10, 8)])
        # Of each step the last line is the one that the run went on from.
        last = {s["step"]: s["loss"] for s in self.lines(whole)}
        for kept, rewinds in ((12, []), (8, [(10, 8)])):  # behind the rewind, and before it
            for step in self.checkpoints("cut"):
                if step > kept:
                    shutil.rmtree(self.folder / "cut" / "checkpoints" / f"step-{step:08d}")
            resumed = self.train(*settings, "folder=cut", resume=True)
            self.assertEqual(resumed.returncode, 0, resumed.stderr)
            self.assertEqual(self.rewound(resumed), rewinds)
            again = {s["step"]: s["loss"] for s in self.lines(resumed)}
            self.assertEqual(again, {step: last[step] for step in range(kept + 1, 17)})  # bit for bit

    def test_at_most_so_often(self):
        failed = self.train(*NOISE, "train.loss_spike.action=rewind", "train.loss_spike.max_rewinds=1", "train.steps=200",
                            "checkpoint.keep=3")
        self.assertEqual(failed.returncode, 3, failed.stderr)
        self.assertEqual(len(self.rewound(failed)), 1, failed.stderr)
        self.assertIn("the run has gone back 1 times (train.loss_spike.max_rewinds)", failed.stderr)

    def test_nothing_to_go_back_to(self):
        failed = self.train(*EXPLODES, "train.loss_spike.action=rewind", "checkpoint.every=0")
        self.assertEqual(failed.returncode, 3, failed.stderr)
        self.assertIn("there is nothing to go back to; no checkpoint has been written", failed.stderr)


class NotFinite(Case):
    def test_nan_gradients(self):
        # With the spikes let be, a loss of infinity makes gradients that are not finite: updates are skipped, then it ends.
        failed = self.train("train.optimizer.learning_rate=1e30", "train.schedule.kind=constant", "train.loss_spike.action=off",
                            "train.max_skipped_updates=3", "checkpoint.every=1", "checkpoint.keep=10", "train.steps=40")
        self.assertEqual(failed.returncode, 3, failed.stderr)
        skipped = [int(s) for s in re.findall(r"step (\d+): the gradient norm is \S+; the update is skipped", failed.stderr)]
        self.assertEqual(len(skipped), 3, failed.stderr)
        self.assertEqual(skipped, list(range(skipped[0], skipped[0] + 3)))
        self.assertIn("3 updates were skipped in a row before it (train.max_skipped_updates)", failed.stderr)
        # Nothing is saved of the skipped steps, though one was due at each.
        self.assertEqual(self.checkpoints(), list(range(1, skipped[0])))
        self.assertIn(f"step {skipped[0]} is not saved: its update was skipped", failed.stderr)

    def test_a_run_that_ends_in_a_skipped_step_says_so(self):
        failed = self.train("train.optimizer.learning_rate=1e30", "train.schedule.kind=constant", "train.loss_spike.action=off",
                            "checkpoint.every=0", "train.steps=5")
        self.assertEqual(failed.returncode, 3, failed.stderr)
        self.assertIn("the run ends with a step whose update was skipped and saves nothing of it", failed.stderr)
        self.assertEqual(self.checkpoints(), [])


def tensors(folder):
    """Name -> bytes, of a checkpoint's safetensors files."""
    out = {}
    for file in folder.glob("rank-*.safetensors"):
        data = file.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(data[8:8 + length]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                out[name] = data[8 + length + begin:8 + length + end]
    return out


class Frozen(Case):
    def test_frozen_parameters_stay_and_can_be_thawed(self):
        freeze = 'train.freeze=["*.router.*", "embed.weight"]'
        self.steps(self.train(freeze, "train.steps=1", "train.optimizer.learning_rate=0.01", "checkpoint.keep=10"))
        self.steps(self.train(freeze, "train.steps=6", "train.optimizer.learning_rate=0.01", "checkpoint.keep=10", resume=True))
        first, later = (tensors(self.folder / "out" / "checkpoints" / f"step-{s:08d}") for s in (1, 6))
        names = [n for n in first if not n.startswith("optimizer.")]
        moved = {n for n in names if first[n] != later[n]}
        frozen = {n for n in names if ".router." in n or n == "embed.weight"}
        self.assertEqual(len(frozen), 3)
        self.assertEqual(moved, set(names) - frozen)
        for name in frozen:
            self.assertNotIn("optimizer.exp_avg." + name, later)
        thawed = self.train("train.steps=8", "checkpoint.keep=10", resume=True)
        self.steps(thawed)
        self.assertIn("3 parameters that were frozen are trained from here on: their optimizer state starts at zero", thawed.stderr)
        last = tensors(self.folder / "out" / "checkpoints" / "step-00000008")
        for name in frozen:
            self.assertNotEqual(last[name], later[name], name)
            self.assertIn("optimizer.exp_avg." + name, last)

    def test_the_same_on_two_ranks(self):
        settings = ['train.freeze=["layers.1.experts.[0-3].*", "*.attention.q.weight"]', "device.dtype=float64",
                    "train.optimizer.decay_norms_and_biases=true"]
        reference = self.steps(self.train(*settings, "folder=one"))
        for name, layout in (("pp", ["layout.pp=2"]), ("ep", ["layout.ep=2"])):
            other = self.steps(self.train(*settings, *layout, f"folder={name}", ranks=2))
            for a, b in zip(other, reference):
                self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-10)
                self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-10)

    def test_a_pattern_of_nothing_is_bad_input(self):
        for command in ("train", "plan"):
            refused = self.trireme(command, "run.toml", "--ranks", 1, "--set", 'train.freeze=["*.routr.*"]')
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn('"*.routr.*" is the name of no parameter of the model; near it are layers.*.router.weight', refused.stderr)

    def test_the_plan_counts_their_state_out(self):
        def memory(*settings):
            shown = self.trireme("plan", "run.toml", "--ranks", 1, "--json", *[a for s in settings for a in ("--set", s)])
            self.assertEqual(shown.returncode, 0, shown.stderr)
            return json.loads(shown.stdout)["memory"][0]
        whole, frozen = memory(), memory('train.freeze=["embed.weight"]')
        # The embedding's 264 x 32 elements lose two moments of four bytes each, in memory and in a checkpoint.
        self.assertEqual(whole["constant"]["moments"] - frozen["constant"]["moments"], 264 * 32 * 8)
        self.assertEqual(whole["peak_bytes"] - frozen["peak_bytes"], 264 * 32 * 8)
        self.assertEqual(whole["checkpoint_copy_bytes"] - frozen["checkpoint_copy_bytes"], 264 * 32 * 8)
        self.assertEqual(whole["constant"]["gradients"], frozen["constant"]["gradients"])


class Router(Case):
    def test_metrics_and_report_tell_of_the_load(self):
        steps = self.steps(self.train("layout.pp=2", ranks=2))
        for s in steps:
            load = s["router_load"]
            self.assertEqual(load["first_layer"], 1)
            # 4 sequences of 32 tokens, two experts each.
            self.assertEqual([sum(rows) for rows in load["rows"]], [256, 256])
            for rows, most, least in zip(load["rows"], load["max_over_mean"], load["min_over_mean"]):
                self.assertAlmostEqual(most, max(rows) / 32, delta=6e-5)  # rounded to four digits
                self.assertAlmostEqual(least, min(rows) / 32, delta=6e-5)
            self.assertAlmostEqual(max(load["max_over_mean"]), s["expert_load_max_over_mean"], delta=6e-5)
        shown = self.trireme("report", "out")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("Rows of an expert over its layer's mean", shown.stdout)

    def test_a_collapsed_router_is_warned_of(self):
        # Of two experts the one that was used less in the first step gets a selection bias that wins every token from then on.
        model = ["model.moe.num_experts=2", "model.moe.router.top_k=1", "model.moe.router.selection_bias=true",
                 "model.moe.router.selection_bias_rate=1000", "train.expert_collapse_steps=3"]
        self.steps(self.train(*model, "train.steps=1"))
        shutil.copytree(self.folder / "out", self.folder / "quiet")
        freeze = 'train.freeze=["*.selection_bias"]'
        result = self.train(*model, freeze, "train.steps=7", resume=True)
        self.assertEqual([s["expert_load_max_over_mean"] for s in self.steps(result)], [2] * 6)
        warned = [line for line in result.stderr.splitlines() if "the router has collapsed" in line]
        self.assertEqual(len(warned), 2, result.stderr)  # one a layer, once
        for layer, line in zip((1, 2), warned):
            self.assertRegex(line, rf"warning: step 4: layer {layer}: expert [01] gets 100\.0 % of all tokens")
        quiet = self.train(*model, freeze, "train.steps=7", "train.expert_collapse_steps=0", "folder=quiet", resume=True)
        self.steps(quiet)
        self.assertNotIn("collapsed", quiet.stderr)


if __name__ == "__main__":
    run_suites()
