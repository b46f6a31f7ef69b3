"""A run's folder, its checkpoints, and Hugging Face folders out and in, from outside. Needs TRIREME in the environment."""
import array
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from small_model import small_model
from suites import clean_environment, kill_if_there, run_suites

TRIREME = os.environ["TRIREME"]
SOURCE = pathlib.Path(os.environ["TRIREME_SOURCE_DIR"])
PYTHON = os.environ.get("TRIREME_PYTHON", sys.executable)

RUN = """
name = "small"
folder = "out"
timeout_s = 20
""" + small_model(vocab_size=264, num_layers=2).replace("head_dim = 8", "head_dim = 8\nqk_norm = true") + """
[batch]
sequence_length = 32
micro_batch = 1
global_batch = 4
[train]
steps = 6
eval_every = 2
eval_sequences = 4
[data]
train = "data/text_train"
valid = "data/text_valid"
[checkpoint]
every = 2
"""

TEXTS = ["The quick brown fox, 42 times.", "Die Möwe fliegt über den Fluß.", "狐狸跳过了懒狗。 今天天气很好", "a  b   c\n\n\td .", "🦊 ok"]


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-checkpoint-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.run_file = self.folder / "run.toml"
        self.run_file.write_text(RUN)
        self.checkpoints = self.folder / "out" / "checkpoints"

    def environment(self):
        return clean_environment()

    def trireme(self, *arguments, timeout=180):
        return subprocess.run([TRIREME, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=timeout,
                              env=self.environment())

    def done(self, *arguments):
        out = self.trireme(*arguments)
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        return out

    def refused(self, *arguments, says):
        out = self.trireme(*arguments)
        self.assertEqual(out.returncode, 2, out.stdout + out.stderr)
        errors = [line for line in out.stderr.splitlines() if "error:" in line]
        self.assertEqual(len(errors), 1, out.stderr)
        for text in says:
            self.assertIn(text, errors[0])
        return errors[0]

    def make_text(self):
        words = "the quick brown fox jumps over a lazy dog while seven wizards quietly vex jolly big sphinxes".split()
        lines = []
        for i in range(600):
            lines.append(" ".join(words[(i * 7 + j * j) % len(words)] for j in range(5 + i % 11)))
            if i % 5 == 4:
                lines += [TEXTS[i % 3], ""]
        (self.folder / "text.txt").write_text("\n".join(lines))

    def make_data(self, *options):
        self.make_text()
        (self.folder / "data").mkdir(exist_ok=True)
        return self.done("data", "text.txt", "--out", "data/text", "--valid-fraction", "0.1", *options)

    def steps(self):
        return sorted(int(p.name.split("-")[1]) for p in self.checkpoints.glob("step-*"))


class RunFolder(Case):
    def start(self, *arguments):
        process = subprocess.Popen([TRIREME, "train", "run.toml", "--ranks", "1", *arguments], cwd=self.folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment())
        self.addCleanup(kill_if_there, process.pid)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.assertIn("step", process.stdout.readline())  # the first step is done: it holds its folder
        return process

    def test_a_second_run_is_refused_and_the_first_goes_on(self):
        self.make_data()
        first = self.start("--set", "train.steps=100000", "--set", "checkpoint.every=0")
        before = (self.folder / "out" / "run.toml").read_text()
        self.refused("train", "run.toml", "--ranks", 1, "--set", "train.steps=7",
                     says=["folder = ", "is in use by run ", f"process {first.pid}"])
        # And with two ranks, where the launcher's checks see nothing: rank 0 refuses, the other ends with it.
        two = self.trireme("train", "run.toml", "--ranks", 2, "--set", "train.steps=7")
        self.assertEqual(two.returncode, 2, two.stderr)
        self.assertIn(f"process {first.pid}", two.stderr)
        self.assertEqual((self.folder / "out" / "run.toml").read_text(), before, "nothing was changed")
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=120)
        self.assertFalse((self.folder / "out" / "run.lock").exists())
        steps = [json.loads(line)["step"] for line in (self.folder / "out" / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))

    def test_a_killed_run_is_taken_over_at_once_and_its_sessions_are_listed(self):
        self.make_data()
        first = self.start("--set", "train.steps=100000", "--set", "train.eval_sequences=0", "--set", "train.eval_every=0")
        end = time.monotonic() + 120
        while not self.steps() and time.monotonic() < end:
            time.sleep(0.02)
        first.kill()
        first.wait()
        self.assertTrue((self.folder / "out" / "run.lock").exists())
        last = self.steps()[-1]
        resumed = self.done("train", "run.toml", "--ranks", 1, "--resume", "--set", f"train.steps={last + 1}")
        self.assertIn("took over the folder", resumed.stderr)
        info = json.loads((self.folder / "out" / "run_info.json").read_text())
        self.assertEqual([s["from_step"] for s in info["sessions"]], [0, last])
        self.assertEqual(info["sessions"][1]["command"][1:4], ["train", "run.toml", "--ranks"])
        self.assertNotEqual(info["sessions"][0]["session"], info["sessions"][1]["session"])
        # The program's own version stands in it: `trireme --version` prints "trireme <version>".
        self.assertEqual("trireme " + info["sessions"][0]["version"], self.done("--version").stdout.strip())
        index = json.loads((self.checkpoints / f"step-{last + 1:08d}" / "index.json").read_text())
        self.assertEqual(index["run"], info["run"])
        self.assertEqual(index["session"], info["sessions"][1]["session"])
        # TensorBoard's files: one a session, in order of their names.
        self.assertEqual(len(list((self.folder / "out" / "tensorboard").iterdir())), 2)

    def test_what_a_resume_reads_is_checked_before_a_rank_starts(self):
        self.make_data()
        self.done("train", "run.toml", "--ranks", 1)
        state = self.checkpoints / "step-00000006" / "state.json"
        good = state.read_text()
        state.write_text(good.replace('"optimizer_steps": 6', '"optimizer_steps": 0'))
        more = ("train", "run.toml", "--resume", "--set", "train.steps=8")
        for ranks in (1, 2):
            self.refused(*more, "--ranks", ranks, says=["state.json", "another checksum"])
        state.write_text(good)
        (self.checkpoints / "step-00000006").rename(self.checkpoints / "step-00000060")
        self.refused(*more, "--ranks", 2, says=["step-00000060", "holds step 6"])
        (self.checkpoints / "step-00000060").rename(self.checkpoints / "step-00000006")
        (self.checkpoints / "step-00000006" / "rank-00000.safetensors").unlink()
        self.refused(*more, "--ranks", 2, says=["step-00000006/rank-00000.safetensors"])

    def test_a_damaged_tensor_is_found_and_the_folder_stays_as_it_was(self):
        self.make_data()
        self.done("train", "run.toml", "--ranks", 1)
        tensors = self.checkpoints / "step-00000006" / "rank-00000.safetensors"
        good = tensors.read_bytes()
        tensors.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        files = [self.folder / "out" / name for name in ("run.toml", "plan.json", "run_info.json", "metrics.jsonl")]
        before = [file.read_bytes() for file in files]
        more = ("train", "run.toml", "--resume", "--ranks", 1, "--set", "train.steps=8")
        self.refused(*more, says=["rank-00000.safetensors", "checksum"])
        self.assertEqual([file.read_bytes() for file in files], before)
        tensors.write_bytes(good)
        self.done(*more)

    def test_a_checkpoint_that_lost_its_index_is_named(self):
        self.make_data()
        self.done("train", "run.toml", "--ranks", 1, "--set", "checkpoint.every=3")
        index = self.checkpoints / "step-00000006" / "index.json"
        index.unlink()
        resumed = self.done("train", "run.toml", "--resume", "--ranks", 1, "--set", "train.steps=7", "--set", "checkpoint.every=0")
        self.assertIn("step-00000006 is damaged: it has no index.json, so the run goes on from step 3", resumed.stderr)


class Keeping(Case):
    def test_keep_0_keeps_all(self):
        self.make_data()
        self.done("train", "run.toml", "--ranks", 1, "--set", "checkpoint.keep=0", "--set", "checkpoint.every=1")
        self.assertEqual(self.steps(), [1, 2, 3, 4, 5, 6])

    def test_the_best_and_every_nth_stay_beside_the_newest(self):
        self.make_data()
        # The rate is so high that the loss falls first and rises then; which step is the best, the metrics say.
        self.done("train", "run.toml", "--ranks", 1, "--set", "train.steps=12", "--set", "checkpoint.keep=1", "--set",
                  "checkpoint.keep_best=true", "--set", "checkpoint.keep_every=4", "--set", "train.optimizer.learning_rate=0.05")
        lines = map(json.loads, (self.folder / "out" / "metrics.jsonl").read_text().splitlines())
        losses = {m["step"]: m["eval_loss"] for m in lines if "eval_loss" in m}
        best = min(losses, key=losses.get)
        self.assertEqual(set(self.steps()), {4, 8, 12, best})
        named = json.loads((self.checkpoints / "best.json").read_text())
        self.assertEqual((named["step"], named["folder"]), (best, f"step-{best:08d}"))
        self.assertAlmostEqual(named["eval_loss"], losses[best])
        self.assertAlmostEqual(json.loads((self.checkpoints / "step-00000004" / "state.json").read_text())["eval_loss"], losses[4])

    def test_the_best_needs_an_evaluation(self):
        self.refused("train", "run.toml", "--set", "checkpoint.keep_best=true", "--set", "train.eval_sequences=0", "--set", "train.eval_every=0",
                     says=["checkpoint.keep_best", "train.eval_sequences"])


class Convert(Case):
    def convert(self, *arguments):
        return json.loads(self.done("convert", *arguments, "--json").stdout)

    def test_the_run_file_for_a_text_of_ones_own_can_be_exported(self):
        self.make_data()
        own = pathlib.Path(__file__).parents[2] / "configs" / "runs" / "own_text.toml"
        self.done("train", own, "--set", "data.train=data/text_train", "--set", "data.valid=data/text_valid", "--set", "folder=own",
                  "--set", "train.steps=1", "--set", "batch.sequence_length=16", "--set", "train.eval_sequences=2")
        self.convert("own", "--to-hf", "hf")

    def test_what_is_converted_and_where_it_goes(self):
        self.make_data()
        self.done("train", "run.toml", "--ranks", 1, "--set", "checkpoint.keep=0")
        # Each checkpoint has its own copy of what an export needs.
        for file in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            self.assertEqual((self.checkpoints / "step-00000004" / "hf" / file).read_text(), (self.folder / "out" / "hf" / file).read_text())
        newest = str(pathlib.Path("out") / "checkpoints" / "step-00000006")
        self.assertEqual(self.convert("out", "--to-hf", "a")["source"], newest)
        self.assertEqual(self.convert("out/checkpoints", "--to-hf", "a")["source"], newest)
        self.assertTrue(self.convert("run.toml", "--to-hf", "a")["source"].endswith(newest))
        self.assertEqual(self.convert(newest, "--to-hf", "a")["source"], newest)
        self.assertTrue(self.convert("out", "--to-hf", "a", "--step", 4)["source"].endswith("step-00000004"))
        lines = map(json.loads, (self.folder / "out" / "metrics.jsonl").read_text().splitlines())
        losses = {m["step"]: m["eval_loss"] for m in lines if "eval_loss" in m}
        best = min(losses, key=losses.get)
        self.assertTrue(self.convert("out", "--to-hf", "a", "--best")["source"].endswith(f"step-{best:08d}"))
        for wrong, says in [(("out", "--step", 5), ["SOURCE = out", "has no checkpoint of step 5; it has 2, 4, 6"]),
                            (("data",), ["SOURCE = data", "holds no weights"]), (("nowhere",), ["SOURCE = nowhere", "no such folder"])]:
            self.assertNotIn("checkpoint.initial", self.refused("convert", *wrong, "--to-hf", "b", says=says))
        self.refused("convert", "out", "--to-hf", "", says=["--to-hf: the name of a folder"])
        (self.folder / "large.json").write_text(json.dumps({"model": {"vocab": {str(i): i for i in range(1000)}}}))
        self.refused("convert", "out", "--to-hf", "b", "--tokenizer", "large.json", says=["--tokenizer = large.json: has 1000 tokens"])
        self.assertFalse((self.folder / "b").exists())
        # Somebody's folder.
        (self.folder / "b").mkdir()
        (self.folder / "b" / "model-notes.safetensors").write_text("mine")
        self.refused("convert", "out", "--to-hf", "b", says=["--to-hf", "model-notes.safetensors", "--overwrite"])
        self.done("convert", "out", "--to-hf", "b", "--overwrite")
        self.assertEqual((self.folder / "b" / "model-notes.safetensors").read_text(), "mine")

        # The exported folder as the model and the weights of another run, on two ranks; the data is gone by then.
        shutil.rmtree(self.folder / "b")
        files = self.convert("out", "--to-hf", "a", "--shard-GB", "0.00003")["files"]
        self.assertIn("tokenizer.json", files)
        again = RUN[:RUN.index("[model]")] + '[model]\nfile = "a"\n' + RUN[RUN.index("[batch]"):]
        self.run_file.write_text(again.replace('"out"', '"again"') + 'initial = "a"\n')
        shard = sorted((self.folder / "a").glob("model-00002-of-*.safetensors"))[0]
        shard.rename(self.folder / "shard")
        for ranks in (1, 2):
            error = self.refused("train", "run.toml", "--ranks", ranks, says=[shard.name, "a shard is missing"])
            self.assertNotIn("rank ", error.replace("rank-", ""))
        self.assertFalse((self.folder / "again").exists())
        (self.folder / "shard").rename(shard)
        config = json.loads((self.folder / "a" / "config.json").read_text())
        config["something_else"] = {"kept": True}
        config["max_position_embeddings"] = 777
        (self.folder / "a" / "config.json").write_text(json.dumps(config))
        self.done("train", "run.toml", "--ranks", 2, "--set", "train.steps=2")
        self.convert("again", "--to-hf", "back")
        back = json.loads((self.folder / "back" / "config.json").read_text())
        self.assertEqual(back, config)


class Transformers(Case):
    """Needs a Python with transformers: TRIREME_PYTHON."""

    def setUp(self):
        super().setUp()
        if subprocess.run([PYTHON, "-c", "import transformers, torch"], capture_output=True).returncode != 0:
            self.skipTest("no Python with torch and transformers (set TRIREME_PYTHON)")

    def check(self, folder, *arguments):
        out = subprocess.run([PYTHON, SOURCE / "tools" / "check_hf_export.py", folder, *arguments], cwd=self.folder,
                             capture_output=True, text=True, timeout=300)
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout)

    def trained(self, *data_options, vocab_size):
        self.make_data(*data_options)
        self.done("train", "run.toml", "--ranks", 1, "--set", "train.steps=2", "--set", f"model.vocab_size={vocab_size}",
                  "--set", "train.eval_sequences=0", "--set", "train.eval_every=0")
        self.done("convert", "out", "--to-hf", "hf")
        return self.folder / "hf"

    def ids_of(self, text, tokenizer):
        """What `trireme data` makes of one document."""
        (self.folder / "one.txt").write_text(text)
        self.done("data", "one.txt", "--out", "one", "--valid-fraction", "0", "--tokenizer", tokenizer, "--documents", "file")
        meta = json.loads((self.folder / "one_train.meta.json").read_text())
        tokens = array.array("H", (self.folder / "one_train.bin").read_bytes())
        self.assertEqual(tokens[-1], meta["eos"])
        return list(tokens)[:-1]

    def test_bytes(self):
        folder = self.trained(vocab_size=264)
        found = self.check(folder, *(a for t in TEXTS for a in ("--text", t)))
        self.assertEqual(found["ids"], [list(t.encode()) for t in TEXTS])
        self.assertEqual(found["decoded"], TEXTS)
        self.assertEqual(found["special"], {"eos": 256, "bos": 257, "pad": 258})
        self.assertEqual(found["vocab_size"], 259)
        self.assertEqual(found["config"]["eos_token_id"], 256)
        self.assertEqual(found["config"]["max_position_embeddings"], 32)
        self.assertTrue(found["generated"].startswith(TEXTS[0]))
        self.assertGreater(len(found["generated_ids"]), len(found["ids"][0]))
        # Bytes that are no text come as what stands for them, and the ids of all bytes are the bytes.
        code = ("import sys, transformers; t = transformers.AutoTokenizer.from_pretrained(sys.argv[1]); "
                "names = t.convert_ids_to_tokens(list(range(256))); "
                "assert len(set(names)) == 256 and t.convert_tokens_to_ids(names) == list(range(256)); "
                "assert t.decode([65, 0xff, 66, 0xe2, 0x82]) == 'A\\ufffdB\\ufffd', t.decode([65, 0xff, 66, 0xe2, 0x82])")
        out = subprocess.run([PYTHON, "-c", code, folder], capture_output=True, text=True)
        self.assertEqual(out.returncode, 0, out.stderr)

    def sentencepiece(self, kind):
        self.make_text()
        (self.folder / "data").mkdir()
        model = self.folder / "tokenizer.model"
        made = self.trireme("data", "text.txt", "--out", "data/text", "--valid-fraction", "0.1", "--train-tokenizer", model,
                            "--vocab-size", "340", "--model-type", kind)
        if "no SentencePiece" in made.stderr:
            self.skipTest("this build has no SentencePiece")
        self.assertEqual(made.returncode, 0, made.stderr)
        folder = self.trained("--tokenizer", model, vocab_size=340)
        found = self.check(folder, *(a for t in TEXTS for a in ("--text", t)))
        self.assertEqual(found["ids"], [self.ids_of(t, model) for t in TEXTS])
        self.assertEqual(found["decoded"], TEXTS)
        self.assertTrue(found["generated"].startswith(TEXTS[0]))
        self.assertEqual(found["special"]["eos"], found["config"]["eos_token_id"])

    def test_sentencepiece_bpe(self):
        self.sentencepiece("bpe")

    def test_sentencepiece_unigram(self):
        self.sentencepiece("unigram")

    def test_a_hugging_face_tokenizer(self):
        code = ("import sys, tokenizers as t; m = t.Tokenizer(t.models.BPE(unk_token=None)); "
                "m.pre_tokenizer = t.pre_tokenizers.ByteLevel(add_prefix_space=False); m.decoder = t.decoders.ByteLevel(); "
                "m.train([sys.argv[1]], t.trainers.BpeTrainer(vocab_size=300, special_tokens=['<|endoftext|>'], "
                "initial_alphabet=t.pre_tokenizers.ByteLevel.alphabet())); m.save(sys.argv[2])")
        self.make_text()
        (self.folder / "data").mkdir()
        (self.folder / "tok").mkdir()
        file = self.folder / "tok" / "tokenizer.json"
        subprocess.run([PYTHON, "-c", code, self.folder / "text.txt", file], check=True)
        # `trireme data` asks the python3 of the PATH for the package.
        path = f"{pathlib.Path(PYTHON).parent}:{os.environ['PATH']}"
        made = subprocess.run([TRIREME, "data", "text.txt", "--tokenizer", file, "--out", "data/text", "--valid-fraction", "0.1"],
                              cwd=self.folder, capture_output=True, text=True, env={**os.environ, "PATH": path})
        self.assertEqual(made.returncode, 0, made.stderr)
        self.done("train", "run.toml", "--ranks", 1, "--set", "train.steps=2", "--set", "model.vocab_size=300", "--set",
                  "train.eval_sequences=0", "--set", "train.eval_every=0")
        self.done("convert", "out", "--to-hf", "hf")
        found = self.check("hf", *(a for t in TEXTS for a in ("--text", t)))
        self.assertEqual(found["decoded"], TEXTS)
        self.assertEqual(found["special"]["eos"], 0)
        self.assertEqual(found["config"]["eos_token_id"], 0)
        self.assertTrue(found["generated"].startswith(TEXTS[0]))
        # The same by --tokenizer, for weights of which no tokenizer is known.
        shutil.rmtree(self.folder / "out" / "hf")
        for checkpoint in self.checkpoints.glob("step-*"):
            shutil.rmtree(checkpoint / "hf")
        (self.folder / "out" / "run.toml").unlink()
        bare = self.done("convert", "out", "--to-hf", "bare")
        self.assertIn("give --tokenizer", bare.stderr)
        self.done("convert", "out", "--to-hf", "bare", "--tokenizer", "tok")
        self.assertEqual(self.check("bare", "--text", TEXTS[0])["ids"], found["ids"][:1])


if __name__ == "__main__":
    run_suites()
