"""trireme evaluate, blends and resuming with another batch, from outside. Needs TRIREME (the program) in the environment."""
import json
import math
import os
import pathlib
import shutil
import signal
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
""" + small_model(vocab_size=264, num_layers=2) + """
[layout]
pp = 1
ep = 1
[batch]
sequence_length = 16
micro_batch = 1
global_batch = 8
[train]
steps = 8
eval_sequences = 40
[data]
train = "data/text_train"
valid = "data/text_valid"
[checkpoint]
every = 4
[device]
dtype = "float64"
threads = 1
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-evaluate-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.run_file = self.folder / "run.toml"
        self.run_file.write_text(RUN)
        (self.folder / "data").mkdir()
        words = "the quick brown fox jumps over a lazy dog while seven wizards quietly vex jolly big sphinxes".split()
        self.make_data("text", [" ".join(words[(i * 7 + j * j) % len(words)] for j in range(5 + i % 11)) for i in range(300)])
        self.make_data("code", [f"x{i} = y{i % 7} + {i * i};" for i in range(300)])

    def make_data(self, name, documents):
        (self.folder / f"{name}.txt").write_text("\n".join(documents) + "\n")
        made = self.trireme("data", f"{name}.txt", "--documents", "line", "--out", f"data/{name}", "--valid-fraction", "0.2")
        self.assertEqual(made.returncode, 0, made.stderr)

    def trireme(self, *arguments, timeout=180):
        clean = clean_environment()
        return subprocess.run([TRIREME, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=timeout,
                              env=clean)

    def train(self, *arguments):
        result = self.trireme("train", self.run_file, "--json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()], result.stderr

    def evaluate(self, *arguments):
        result = self.trireme("evaluate", *arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def refused(self, *arguments):
        result = self.trireme(*arguments)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        return result.stderr


class Evaluate(Case):
    def test_agrees_with_the_evaluation_of_the_run(self):
        steps, _ = self.train()
        wanted = steps[-1]["eval_loss"]
        self.assertEqual(list(steps[-1]["eval_loss_by_set"]), ["text_valid"])
        found = self.evaluate("out", "--sequences", 40)  # the run's data.valid
        self.assertAlmostEqual(found["together"]["loss"], wanted, delta=1e-12)
        checkpoint = "out/checkpoints/step-00000008"
        self.assertTrue(found["weights"].endswith(checkpoint))
        self.assertEqual(found["sequence_length"], 16)
        for source in ("run.toml", checkpoint, "out/checkpoints"):
            for ranks in (1, 2):
                again = self.evaluate(source, "--data", "data/text_valid", "--sequences", 40, "--ranks", ranks)
                self.assertAlmostEqual(again["together"]["loss"], wanted, delta=1e-12)
        # On the run's own layout, another one: two stages.
        staged = self.evaluate("run.toml", "--sequences", 40, "--set", "layout.pp=2")
        self.assertAlmostEqual(staged["together"]["loss"], wanted, delta=1e-12)
        earlier = self.evaluate("out", "--step", 4, "--sequences", 40)
        self.assertNotAlmostEqual(earlier["together"]["loss"], wanted, delta=1e-4)

    def test_numbers_fit_together(self):
        self.train()
        found = self.evaluate("out", "--data", "data/text_valid", "--data", "data/code_valid=numbers")
        self.assertEqual([s["name"] for s in found["sets"]], ["text_valid", "numbers"])
        for s in found["sets"] + [found["together"]]:
            self.assertAlmostEqual(s["perplexity"], math.exp(s["loss"]), delta=1e-9 * s["perplexity"])
            # Bytes are tokens, and the end-of-text ones (256) have no byte: bits per byte are the loss in bits times tokens
            # a byte.
            self.assertLess(s["bytes"], s["tokens"])
            self.assertAlmostEqual(s["bits_per_byte"], s["loss"] / math.log(2) * s["tokens"] / s["bytes"], delta=1e-9)
        a, b = found["sets"]
        self.assertEqual(found["together"]["tokens"], a["tokens"] + b["tokens"])
        self.assertAlmostEqual(found["together"]["loss"], (a["loss"] * a["tokens"] + b["loss"] * b["tokens"]) / (a["tokens"] + b["tokens"]),
                               delta=1e-12)
        # The targets of the whole windows of 16 tokens but the first token of each document; the documents of the file, as
        # the index has them.
        index = (self.folder / "data/text_valid.idx").read_bytes()
        count = struct.unpack_from("<Q", index, 18)[0]
        lengths = struct.unpack_from(f"<{count}i", index, 34)
        starts = set()
        at = 0
        for length in lengths:
            starts.add(at)
            at += length
        windows = (at - 1) // 16
        self.assertEqual(a["sequences"], windows)
        self.assertEqual(a["tokens"], sum(1 for t in range(1, 16 * windows + 1) if t not in starts))
        ends = sum(1 for t in range(1, 16 * windows + 1) if t + 1 in starts and t not in starts)
        self.assertEqual(a["bytes"], a["tokens"] - ends)
        table = self.trireme("evaluate", "out", "--data", "data/text_valid", "--data", "data/code_valid=numbers").stdout
        for text in ("text_valid", "numbers", "together", "bits per byte", f"{found['together']['loss']:.6f}"):
            self.assertIn(text, table)

    def test_what_is_not_known_is_not_told_as_a_number(self):
        self.train()
        (self.folder / "data/text_valid.meta.json").unlink()
        found = self.evaluate("out", "--data", "data/text_valid")["together"]
        self.assertIsNone(found["bits_per_byte"])
        self.assertIsNone(found["bytes"])
        self.assertGreater(found["loss"], 0)
        self.assertIn("unknown", self.trireme("evaluate", "out", "--data", "data/text_valid").stdout)

    def test_loss_weights_choose_the_targets(self):
        self.train()
        tokens = (self.folder / "data/code_valid.bin").stat().st_size // 2
        whole = self.evaluate("out", "--data", "data/code_valid")["together"]
        parts = []
        for rest in (0, 1):
            (self.folder / "data/code_valid.weights").write_bytes(struct.pack(f"<{tokens}f", *[float(i % 2 == rest) for i in range(tokens)]))
            parts.append(self.evaluate("out", "--data", "data/code_valid")["together"])
        self.assertEqual(sum(p["tokens"] for p in parts), whole["tokens"])
        self.assertEqual(sum(p["bytes"] for p in parts), whole["bytes"])
        self.assertAlmostEqual(sum(p["loss"] * p["tokens"] for p in parts), whole["loss"] * whole["tokens"], delta=1e-8)

    def test_a_hugging_face_folder_is_the_checkpoint_it_was_made_of(self):
        self.run_file.write_text(RUN.replace("num_dense_layers = 1\n", "num_dense_layers = 0\n").replace("dense_ffn = 48\n", ""))
        self.train()
        made = self.trireme("convert", "out/checkpoints", "--to-hf", "hf")
        self.assertEqual(made.returncode, 0, made.stderr)
        wanted = self.evaluate("out", "--data", "data/text_valid")["together"]
        found = self.evaluate("hf", "--data", "data/text_valid", "--sequence-length", 16, "--set", "device.dtype=float64", "--ranks", 2)
        self.assertAlmostEqual(found["together"]["loss"], wanted["loss"], delta=1e-12)

    def test_one_clear_error_each(self):
        self.assertIn("no such folder or file", self.refused("evaluate", "absent", "--data", "data/text_valid"))
        self.assertIn("holds no weights", self.refused("evaluate", "data", "--data", "data/text_valid"))
        self.assertIn("it has not been trained", self.refused("evaluate", "run.toml"))
        self.train()
        self.assertIn("has no checkpoint of step 5; it has 4, 8", self.refused("evaluate", "out", "--step", 5))
        self.assertIn("is one checkpoint", self.refused("evaluate", "out/checkpoints/step-00000008", "--step", 4))
        self.assertIn("--sequences = few", self.refused("evaluate", "out", "--sequences", "few"))
        self.assertIn("--sequences = 0", self.refused("evaluate", "out", "--sequences", "0"))
        self.assertIn("absent.idx", self.refused("evaluate", "out", "--data", "absent"))
        self.assertIn("give its prefix, without .bin", self.refused("evaluate", "out", "--data", "data/text_valid.bin"))
        self.assertIn("second set with the name \"text_valid\"",
                      self.refused("evaluate", "out", "--data", "data/text_valid", "--data", "data/text_valid"))
        self.assertIn("one sequence takes batch.sequence_length + 1",
                      self.refused("evaluate", "out", "--data", "data/text_valid", "--sequence-length", 1000000))
        for name, tokens in (("large", [5] * 40 + [300]), ("none", [])):
            (self.folder / f"data/{name}.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
            (self.folder / f"data/{name}.idx").write_bytes(
                b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 1, 2) + struct.pack("<iqqq", len(tokens), 0, 0, 1))
        self.assertIn("holds token 300", self.refused("evaluate", "out", "--data", "data/large"))
        self.assertIn("holds 0 tokens", self.refused("evaluate", "out", "--data", "data/none"))
        (self.folder / "data/text_valid.weights").write_bytes(b"1234")
        self.assertIn("text_valid.weights: has 4 bytes", self.refused("evaluate", "out"))

    def test_a_damaged_checkpoint_is_told_once(self):
        self.train()
        part = sorted((self.folder / "out" / "checkpoints").glob("step-*/rank-00000.safetensors"))[-1]
        part.write_bytes(part.read_bytes()[:-10])
        for ranks in (1, 2):
            self.assertIn(part.name, self.refused("evaluate", "out", "--ranks", ranks))

    def test_a_stop_ends_it_without_a_result(self):
        self.train()
        process = subprocess.Popen([TRIREME, "evaluate", "out", "--data", "random", "--sequences", "1000000000000000", "--json"],
                                   cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        said = process.stderr.readline()  # progress, so it is under way
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        self.assertIn("of 1000000000000000 sequences", said)
        self.assertEqual((process.returncode, output), (3, ""))
        self.assertIn("stopped on request before the end", errors)


class Blends(Case):
    BLEND = ["--set", 'data.train=[{path="data/text_train", weight=3}, {path="data/code_train", name="code"}]',
             "--set", 'data.valid=[{path="data/text_valid"}, {path="data/code_valid"}]']

    def test_proportions_and_losses_by_set(self):
        steps, errors = self.train(*self.BLEND)
        # 8 sequences of 16 tokens a step, 3 : 1.
        self.assertEqual([s["tokens_by_set"] for s in steps],
                         [{"code": 2 * 16 * n, "text_train": 6 * 16 * n} for n in range(1, 9)])
        last = steps[-1]
        self.assertAlmostEqual(last["eval_loss"], sum(last["eval_loss_by_set"].values()) / 2, delta=1e-12)
        self.assertEqual(sorted(last["eval_loss_by_set"]), ["code_valid", "text_valid"])
        state = json.loads((self.folder / "out/checkpoints/step-00000008/state.json").read_text())
        self.assertEqual(state["sequences_seen"], 64)
        self.assertEqual(state["data"]["tokens"], last["tokens_by_set"])
        metrics = [json.loads(line) for line in (self.folder / "out/metrics.jsonl").read_text().splitlines()]
        self.assertEqual(metrics[-1]["eval_loss_by_set"], last["eval_loss_by_set"])

    def test_a_resumed_blend_goes_on_bit_for_bit_and_may_change(self):
        whole, _ = self.train(*self.BLEND, "--set", "folder=whole")
        self.train(*self.BLEND, "--set", "train.steps=8")
        shutil.rmtree(self.folder / "out/checkpoints/step-00000008")
        resumed, _ = self.train(*self.BLEND, "--resume")
        self.assertEqual([s["loss"] for s in resumed], [s["loss"] for s in whole[4:]])
        _, errors = self.train("--resume", "--set", "train.steps=9")
        self.assertIn("the blend was text_train 3, code 1 and is text_train 1; removed code; text_train at its sequence 48", errors)

    def test_another_batch_goes_on_with_the_next_sequence(self):
        # Learning rate 0: a loss tells which sequences it was computed on. Steps of 8 after 64 sequences against steps of 4.
        still = ["--set", "train.optimizer.learning_rate=0", "--set", "checkpoint.every=8", "--set", "train.eval_sequences=0"]
        eight, _ = self.train(*still, "--set", "train.steps=10", "--set", "folder=eight")
        self.train(*still)
        four, errors = self.train(*still, "--resume", "--set", "batch.global_batch=4", "--set", "train.steps=12", "--set",
                                  "data.reset_at_documents=true")
        self.assertIn("resumed from step 8 (step-00000008), at sequence 64 of the data", errors)
        self.assertEqual([s["step"] for s in four], [9, 10, 11, 12])
        self.assertEqual(four[-1]["tokens_seen"], eight[-1]["tokens_seen"])
        # Two steps of 4 hold the sequences of one of 8; targets differ a little in number, so the means agree nearly.
        for pair, one in ((four[0:2], eight[8]), (four[2:4], eight[9])):
            self.assertAlmostEqual((pair[0]["loss"] + pair[1]["loss"]) / 2, one["loss"], delta=5e-3)

    def test_another_seed_or_other_data_is_refused(self):
        self.train()
        train = ["train", self.run_file, "--resume", "--set", "train.steps=9"]
        error = self.refused(*train, "--set", "train.seed=2")
        self.assertIn("train.seed = 2: the checkpoint's run had 1", error)
        self.assertIn('checkpoint.allow_changes = ["seed"]', error)
        error = self.refused(*train, "--set", "data.train=data/code_train", "--ranks", 2)
        self.assertIn("no set of the checkpoint's run is left: it had text_train 1", error)
        self.assertIn("model.moe.router.scale", self.refused(*train, "--set", "model.moe.router.scale=2.5"))
        _, errors = self.train("--resume", "--set", "train.steps=9", "--set", "train.seed=2", "--set",
                               'checkpoint.allow_changes=["seed"]')
        self.assertIn("WARNING: train.seed = 2", errors)

    def test_sets_of_other_tokenizers_and_without_weight(self):
        meta = self.folder / "data" / "code_valid.meta.json"
        other = json.loads(meta.read_text())
        other.update(tokenizer="sentencepiece", vocab_size=300)
        meta.write_text(json.dumps(other))
        error = self.refused("train", self.run_file, "--set", "data.valid=data/code_valid")
        self.assertIn("data.valid = ", error)
        self.assertIn("another tokenizer (sentencepiece, 300 tokens)", error)
        tokens = (self.folder / "data" / "text_train.bin").stat().st_size // 2
        (self.folder / "data" / "text_train.weights").write_bytes(bytes(4 * tokens))
        self.assertIn("every loss weight of it is 0", self.refused("train", self.run_file))

    def test_evaluations_that_make_no_sense(self):
        self.assertIn("evaluates nothing", self.refused("train", self.run_file, "--set", "train.eval_every=2", "--set",
                                                        "train.eval_sequences=0"))
        _, errors = self.train("--set", "train.eval_sequences=1000000000000000", "--set", "train.eval_every=4")
        self.assertEqual(errors.count("an evaluation takes these"), 1)
        steps, errors = self.train("--set", "train.eval_sequences=all", "--set", "folder=all")
        self.assertNotIn("an evaluation takes these", errors)


if __name__ == "__main__":
    run_suites()
