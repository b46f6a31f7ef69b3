"""trireme generate from outside. Needs TRIREME (the program) in the environment."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from small_model import small_model
from suites import clean_environment, run_suites

TRIREME = os.environ["TRIREME"]
SOURCE = pathlib.Path(os.environ["TRIREME_SOURCE_DIR"])


def run_file(vocab_size, data):
    # No dense layers, so that Mixtral can express it.
    model = small_model(vocab_size=vocab_size, num_layers=2).replace("num_dense_layers = 1\ndense_ffn = 48\n", "")
    return f"""
name = "small"
folder = "out_{data.split('/')[-1]}"
{model}[batch]
sequence_length = 32
global_batch = 8
[train]
steps = 6
[train.optimizer]
learning_rate = 0.01
[data]
train = "{data}"
[checkpoint]
every = 3
keep = 5
"""


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-generate-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        words = "the quick brown fox jumps over a lazy dog while seven wizards vex jolly big sphinxes".split()
        (cls.folder / "text.txt").write_text("\n\n".join(
            " ".join(words[(i * 7 + j * j) % len(words)] for j in range(5 + i % 11)) for i in range(400)) + "\n")
        cls.must("data", "text.txt", "--out", "text")
        (cls.folder / "bytes.toml").write_text(run_file(264, "text_train"))
        (cls.folder / "random.toml").write_text(run_file(100, "random"))
        cls.must("train", "bytes.toml")
        cls.must("train", "random.toml")

    @classmethod
    def trireme(cls, *arguments, text=None):
        clean = clean_environment()
        return subprocess.run([TRIREME, *map(str, arguments)], cwd=cls.folder, capture_output=True, input=text or b"",
                              timeout=300, env={**clean, "OMP_NUM_THREADS": "1"})

    @classmethod
    def must(cls, *arguments, text=None):
        out = cls.trireme(*arguments, text=text)
        if out.returncode != 0:
            raise AssertionError(f"{arguments}: {out.returncode}: {out.stderr.decode()}")
        return out

    def lines(self, *arguments, text=None):
        out = self.must("generate", *arguments, "--json", text=text)
        return [json.loads(line) for line in out.stdout.splitlines()]

    def refused(self, *arguments, text=None):
        out = self.trireme("generate", *arguments, text=text)
        self.assertEqual(out.returncode, 2, out.stdout + out.stderr)
        return out.stderr.decode().strip().splitlines()[-1]


class Generate(Case):
    def test_a_text_and_its_json(self):
        shown = self.must("generate", "out_text_train", "--prompt", "the qu", "--max-tokens", 12, "--temperature", 0)
        line, = self.lines("out_text_train", "--prompt", "the qu", "--max-tokens", 12, "--temperature", 0)
        self.assertEqual(set(line), {"prompt", "prompt_number", "prompt_tokens", "sample", "text", "tokens", "finish", "seed",
                                     "tokens_per_s"})
        self.assertEqual(line["prompt_tokens"], list(b"the qu"))
        # the data's words have ASCII letters, and after six steps nothing else is likeliest: a token is a byte
        self.assertEqual(line["text"].encode(), bytes(line["tokens"]))
        self.assertEqual(len(line["tokens"]), 12)
        self.assertEqual(line["finish"], "length")
        self.assertEqual(shown.stdout, b"the qu" + bytes(line["tokens"]) + b"\n")
        self.assertIn(b"step 6", shown.stderr)
        self.assertIn(b"tokenizer: byte", shown.stderr)

    def test_every_form_of_the_same_model(self):
        at = ("--prompt", "a lazy", "--max-tokens", 8, "--temperature", 0)
        wanted = [line["tokens"] for line in self.lines("out_text_train", *at)]
        for source in ("bytes.toml", "out_text_train/checkpoints", "out_text_train/checkpoints/step-00000006"):
            self.assertEqual([line["tokens"] for line in self.lines(source, *at)], wanted, source)
        before = self.must("generate", "out_text_train", *at, "--step", 3)
        self.assertIn(b"step 3", before.stderr)
        self.assertIn("3, 6", self.refused("out_text_train", *at, "--step", 4))
        self.assertIn("was evaluated", self.refused("out_random", "--prompt-ids", "1", "--best"))
        self.assertIn("one checkpoint", self.refused("out_text_train/checkpoints/step-00000006", *at, "--step", 3))

    def test_the_seed_decides(self):
        at = ("out_text_train", "--prompt", "seven", "--samples", 3, "--max-tokens", 20)
        tokens = lambda *more: [line["tokens"] for line in self.lines(*at, *more)]
        first = tokens("--seed", 4)
        self.assertEqual(first, tokens("--seed", 4))
        self.assertNotEqual(first, tokens("--seed", 5))
        self.assertEqual(len({tuple(t) for t in first}), 3)
        self.assertEqual([line["sample"] for line in self.lines(*at)], [0, 1, 2])
        # one at a time: the same numbers are drawn
        self.assertEqual(first, tokens("--seed", 4, "--batch", 1))
        # a nucleus of one token, and one likeliest token, are greedy
        greedy = tokens("--temperature", 0)
        self.assertEqual(greedy, tokens("--top-k", 1))
        self.assertEqual(greedy, tokens("--top-p", "1e-9"))
        self.assertEqual(greedy[0], greedy[1])

    def test_prompts_of_files_and_of_standard_input(self):
        (self.folder / "prompts.txt").write_text("the\na lazy\r\nseven")
        at = ("out_text_train", "--max-tokens", 3, "--temperature", 0)
        prompts = lambda lines: [line["prompt"] for line in lines]
        self.assertEqual(prompts(self.lines(*at, "--prompt-file", "prompts.txt", "--prompt", "big")), ["big", "the", "a lazy", "seven"])
        (self.folder / "prompts.txt").write_text("the\nfox\n---\nseven\n")
        self.assertEqual(prompts(self.lines(*at, "--prompt-file", "prompts.txt", "--separator", "---")), ["the\nfox", "seven"])
        self.assertEqual(prompts(self.lines(*at, text=b"over a\n")), ["over a"])
        line, = self.lines(*at, text="caf\u00e9".encode())
        self.assertEqual((line["prompt"], line["prompt_tokens"]), ("caf\u00e9", list(b"caf\xc3\xa9")))
        cut = self.trireme("generate", *at, text=b"caf\xc3")
        self.assertEqual(cut.returncode, 2)
        self.assertIn(b"a prompt must be text in UTF-8: byte 3 of one is 0xc3", cut.stderr)
        several = self.must("generate", *at, "--prompt", "the", "--prompt", "fox").stdout
        self.assertTrue(several.startswith(b"== prompt 1, sample 1 ==\nthe"), several)
        self.assertIn(b"\n\n== prompt 2, sample 1 ==\nfox", several)
        self.assertIn("no such file", self.refused(*at, "--prompt-file", "none.txt"))

    def test_an_empty_prompt_begins_behind_an_end(self):
        out = self.must("generate", "out_text_train", "--prompt", "", "--max-tokens", 3, "--json")
        self.assertEqual(json.loads(out.stdout)["prompt_tokens"], [256])
        self.assertIn(b"an empty prompt begins with token 256, behind which a new text begins; the run was trained with "
                      b"data.reset_at_documents, so the model has not learned how one begins", out.stderr)

    def test_data_whose_texts_begin_with_bos(self):
        self.must("data", "text.txt", "--out", "begun", "--bos")
        line, = self.lines("out_text_train", "--data", "begun_train", "--prompt", "the", "--max-tokens", 1)
        self.assertEqual(line["prompt_tokens"], [257, *b"the"])

    def test_stop_texts(self):
        at = ("out_text_train", "--prompt", "the", "--max-tokens", 12, "--temperature", 0)
        whole = self.lines(*at)[0]["text"]
        stop = whole[4:6]
        line, = self.lines(*at, "--stop", stop)
        self.assertEqual((line["text"], line["finish"]), (whole[:whole.index(stop)], "stop"))
        self.assertLess(len(line["tokens"]), 12)
        self.assertIn("--stop", self.refused(*at, "--stop", ""))

    def test_longer_than_trained_is_said(self):
        out = self.must("generate", "out_text_train", "--prompt", "the", "--max-tokens", 30)
        self.assertIn(b"warning: prompt 1 has 3 tokens and may get 30 more, but the model was trained on sequences of 32", out.stderr)
        self.assertNotIn(b"warning", self.must("generate", "out_text_train", "--prompt", "the", "--max-tokens", 29).stderr)

    def test_models_without_a_tokenizer(self):
        self.assertIn("nothing says which tokenizer this model of 100 tokens was trained with", self.refused("out_random", "--prompt", "a"))
        self.assertIn("has 259 tokens, and the model has 100", self.refused("out_random", "--prompt", "a", "--tokenizer", "byte"))
        line, = self.lines("out_random", "--prompt-ids", "5,99,3", "--max-tokens", 4)
        self.assertEqual(line["prompt_tokens"], [5, 99, 3])
        self.assertEqual(len(line["tokens"]), 4)
        self.assertNotIn("text", line)
        for wrong in ("100", "5,-1", "5,x", "5,", "", "99999999999999999999"):
            self.assertIn("--prompt-ids", self.refused("out_random", "--prompt-ids", wrong), wrong)

    def test_bad_input(self):
        at = ("out_text_train", "--prompt", "a")
        self.assertIn("no such folder", self.refused("nowhere", "--prompt", "a"))
        (self.folder / "empty").mkdir(exist_ok=True)
        self.assertIn("holds no weights", self.refused("empty", "--prompt", "a"))
        for option, value in (("--temperature", -1), ("--temperature", "nan"), ("--top-p", 0), ("--top-p", 1.5), ("--top-k", -1),
                              ("--max-tokens", -1), ("--samples", 0), ("--batch", 0), ("--seed", -1), ("--threads", 100000)):
            self.assertIn(option, self.refused(*at, f"{option}={value}"), (option, value))
        for option, value in (("--dtype", "int8"), ("--tokenizer", "none.model"), ("--data", "nowhere")):
            self.assertIn(value, self.refused(*at, f"{option}={value}"), (option, value))

        self.assertIn("--separator", self.refused(*at, "--separator", "=="))
        (self.folder / "binary").write_bytes(b"text\n\0\xff\n")
        self.assertIn("binary: --prompt-file: a prompt must be text in UTF-8: byte 0 of one is 0x00",
                      self.refused("out_text_train", "--prompt-file", "binary"))

    def test_more_memory_than_there_is(self):
        # 2 x 2 layers x 2 heads x 8 x 4 bytes = 256 bytes a token; 2^24 tokens x 2^12 sequences: 16 TiB
        message = self.refused("out_text_train", "--prompt", "a", "--samples", 4096, "--batch", 4096, "--max-tokens", 1 << 24)
        self.assertIn("--max-tokens", message)
        self.assertIn("16384.0 GiB", message)

    def test_dtypes(self):
        for dtype in ("float64", "bfloat16"):
            line, = self.lines("out_text_train", "--prompt", "the", "--max-tokens", 3, "--dtype", dtype)
            self.assertEqual(len(line["tokens"]), 3)


class PromptInput(Case):
    """What a prompt is read from may never end, never begin, or be no text."""

    def fed(self, program):
        return subprocess.Popen(["sh", "-c", program], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                env={**clean_environment(), "OMP_NUM_THREADS": "1", "T": TRIREME})

    def test_input_without_an_end_is_refused(self):
        for program, says in (("yes | $T generate out_text_train", "standard input holds more than 16 MiB"),
                              ("$T generate out_text_train < /dev/zero", "standard input holds more than 16 MiB"),
                              ("$T generate out_text_train --prompt-file /dev/zero", "/dev/zero: --prompt-file: holds more than 16 MiB"),
                              ("$T generate out_text_train < .", "standard input is a folder"),
                              ("$T generate out_text_train --prompt-file .", "--prompt-file: is a folder")):
            process = self.fed(program)
            errors = process.communicate(timeout=120)[1].decode()
            self.assertEqual(process.returncode, 2, (program, errors))
            self.assertIn(says, errors)

    def test_input_that_does_not_come_is_waited_for_with_a_word(self):
        os.mkfifo(self.folder / "pipe")
        for source, name in (("< pipe", "standard input"), ("--prompt-file pipe", "pipe")):
            # Opened for reading and writing, a pipe has a writer that never writes.
            process = self.fed(f"exec 3<>pipe; exec $T generate out_text_train --max-tokens 1 {source}" if source[0] == "<" else
                               f"exec $T generate out_text_train --max-tokens 1 {source}")
            line = process.stderr.readline().decode()
            self.assertIn(f"waits for a prompt on {name}", line)
            process.kill()
            process.communicate()
        self.lines("out_text_train", "--max-tokens", 1, text=b"the")


class Ranks(Case):
    at = ("out_text_train", "--prompt", "the", "--prompt", "a lazy", "--max-tokens", 6, "--temperature", 0)

    def test_ranks_give_the_texts_of_one(self):
        wanted = [line["tokens"] for line in self.lines(*self.at)]
        for pp, ep in ((2, 1), (1, 2), (2, 2)):
            self.assertEqual([line["tokens"] for line in self.lines(*self.at, "--pp", pp, "--ep", ep)], wanted, (pp, ep))
        out = self.must("generate", "out_text_train", "--max-tokens", 3, "--temperature", 0, "--pp", 2, text=b"--the\nfox\n")
        self.assertTrue(out.stdout.startswith(b"--the\nfox"), out.stdout)

    def test_bad_input_is_said_once(self):
        for wrong, key in ((("--pp", 3), "--pp"), (("--ep", 3), "--ep"), (("--ep", 2, "--stop", ""), "--stop")):
            out = self.trireme("generate", *self.at, *wrong)
            self.assertEqual(out.returncode, 2, out.stderr)
            self.assertEqual(out.stderr.decode().count(key), 1, out.stderr)


class HuggingFace(Case):
    def test_an_exported_folder_goes_on_alike_and_as_transformers_has_it(self):
        self.must("convert", "out_text_train/checkpoints", "--to-hf", "hf")
        at = ("--prompt-ids", "116,104,101,32", "--max-tokens", 20, "--temperature", 0, "--dtype", "float64")
        ours = self.lines("out_text_train", *at)[0]["tokens"]
        self.assertEqual(self.lines("hf", *at)[0]["tokens"], ours)
        python = os.environ.get("TRIREME_PYTHON", "python3")
        if subprocess.run([python, "-c", "import transformers"], capture_output=True).returncode != 0:
            self.skipTest("no Python with transformers (set TRIREME_PYTHON)")
        out = subprocess.run([python, str(SOURCE / "tools/check_hf_generate.py"), "hf", "--tokens", "116", "104", "101", "32"],
                             cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(out.returncode, 0, out.stderr)
        theirs = json.loads(out.stdout)
        self.assertGreater(theirs["margin"], 1e-6)  # transformers keeps norms in float32, which decides nothing then
        self.assertEqual(theirs["tokens"], ours)


if __name__ == "__main__":
    run_suites()
