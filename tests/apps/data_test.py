"""trireme data from outside: mistakes, inputs, tokenizers. Needs TRIREME (the program) in the environment."""
import array
import bz2
import gzip
import json
import lzma
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from suites import run_suites

TRIREME = os.environ["TRIREME"]

# A stand-in for the package `tokenizers`, which need not be there: a token a character, those of WORDS apart.
STAND_IN = '''
import json
class Encoding:
    def __init__(self, ids, offsets):
        self.ids, self.offsets = ids, offsets
class Tokenizer:
    @staticmethod
    def from_file(path):
        self = Tokenizer()
        self.state = json.load(open(path))
        if "vocab" not in self.state:
            raise Exception("no vocab in it")
        self.vocab, self.cut = self.state["vocab"], self.state.get("truncation")
        return self
    def no_truncation(self): self.cut = None
    def no_padding(self): pass
    def to_str(self): return json.dumps(self.state)
    def get_vocab(self, with_added_tokens): return self.vocab
    def token_to_id(self, token): return self.vocab.get(token)
    def id_to_token(self, id): return next((t for t, i in self.vocab.items() if i == id), None)
    def encode_batch(self, texts, add_special_tokens):
        if any("die now" in t for t in texts):
            import os; os._exit(7)
        if any("fail now" in t for t in texts):
            raise ValueError("cannot do this")
        out = []
        for text in texts:
            ids = [self.vocab.get(c, self.vocab["<unk>"]) for c in text][:self.cut]
            out.append(Encoding(ids, [(i, i + 1) for i in range(len(ids))]))
        print("a library prints this")
        return out
    def decode(self, ids, skip_special_tokens): return "".join(self.id_to_token(i) for i in ids)
'''


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-data-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def trireme(self, *arguments, environment=None, **options):
        return subprocess.run([TRIREME, "data", *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              timeout=180, env={**os.environ, **(environment or {})}, **options)

    def build(self, *arguments, **options):
        out = self.trireme(*arguments, "--out", "out/d", "--valid-fraction", 0, "--json", **options)
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout)

    def tokens(self, prefix="out/d_train"):
        return list(array.array("H", (self.folder / f"{prefix}.bin").read_bytes()))

    def weights(self, prefix="out/d_train"):
        return list(array.array("f", (self.folder / f"{prefix}.weights").read_bytes()))

    def files(self):
        return {str(p.relative_to(self.folder)): p.read_bytes() for p in self.folder.rglob("*") if p.is_file()}

    def refused(self, *arguments, says, out="out/d", **options):
        before, folders = self.files(), sorted(p for p in self.folder.rglob("*") if p.is_dir())
        result = self.trireme(*arguments, *(["--out", out] if out else []), **options)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        lines = [line for line in result.stderr.splitlines() if not line.startswith("training a SentencePiece model")]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("trireme: error: "), lines[0])
        for part in says:
            self.assertIn(part, lines[0])
        self.assertEqual(result.stdout, "")
        self.assertEqual(self.files(), before, "something was written")
        self.assertEqual(sorted(p for p in self.folder.rglob("*") if p.is_dir()), folders)


class DataMistakes(Case):
    """One clear error each, exit code 2, and nothing is written."""

    def test_of_inputs(self):
        text = "a text\n\nand another\n"
        self.write("a.txt", text)
        self.write("latin.txt", "first\n\ncaf\xe9\n".encode("latin-1"))
        self.write("zero.txt", b"x" * 600 + b"\n\0")
        self.write("utf16.txt", text.encode("utf-16-le"))
        self.write("utf32.txt", text.encode("utf-32"))
        self.write("half.txt", b"\xff\xfea\x00\x3d\xd8")
        self.write("a.zip", b"PK\x03\x04 and more")
        self.write("a.pdf", "%PDF-1.7")
        self.write("a.parquet", "PAR1")
        self.write("cut.gz", gzip.compress(text.encode() * 100)[:-9])
        self.write("bad.gz", b"\x1f\x8b\x08\xe0" + b"nonsense" * 10)
        self.write("tar.gz", gzip.compress(b"a" * 257 + b"ustar\x0000"))
        self.write("twice.gz", gzip.compress(gzip.compress(text.encode())))
        self.write("blank.txt", "\n \n\t\n")
        self.write("empty/.hidden", text)
        self.write("t.idx", "")
        self.write("t.bin", "abcd")
        for name, says in {
            "none.txt": ["none.txt: no such file"],
            "latin.txt": ["latin.txt:3: byte 10 (0xE9) is not UTF-8", "iconv -f LATIN1"],
            "zero.txt": ["zero.txt:2: byte 601 is 0"],
            "utf16.txt": ["utf16.txt: seems to be UTF-16 without a byte order mark", "iconv"],
            "utf32.txt": ["utf32.txt: is UTF-32"],
            "half.txt": ["half.txt:1: byte 1 of the unpacked text is half of a surrogate pair (U+D83D)"],
            "a.zip": ["a.zip: is a zip archive"],
            "a.pdf": ["a.pdf: is a PDF", "pdftotext"],
            "a.parquet": ["a.parquet: is a Parquet table", "read_parquet"],
            "cut.gz": ["cut.gz: is compressed by gzip", "it is not complete"],
            "bad.gz": ["bad.gz: is compressed by gzip", "damaged"],
            "tar.gz": ["tar.gz: is compressed by gzip, and what is in it is a tar archive"],
            "twice.gz": ["twice.gz: is compressed twice"],
            TRIREME: ["is a program"],
            "blank.txt": ["leaves no document for training: 0 documents were found"],
            "/dev/null": ["leaves no document for training"],
            "empty": ["empty: is a folder that holds no file"],
            "t.bin": ["t.bin: is a token file"],
        }.items():
            with self.subTest(name=name):
                self.refused(name, says=says)
        self.refused("a.txt", "./a.txt", says=["a.txt: is named twice"])
        self.refused("a.txt", "zero.txt", says=["zero.txt:2"])

    def test_of_json_lines(self):
        good = '{"text": "a"}\n'
        for content, says in {
            good + '{"text": NaN}\n': ["a.jsonl:2: is not JSON at byte 9 of the line: NaN is no value"],
            good + '{"text": "\\ud83d"}\n': ["a.jsonl:2: is not JSON at byte", "surrogate"],
            good + '{"text": "b': ["a.jsonl:2: is not JSON: the object has no end in this line"],
            good + "[1]\n": ["a.jsonl:2: expected a JSON object", "a list"],
            good + '{"body": "b"}\n': ['a.jsonl:2: has no string "text"; it has "body"'],
            good + '{"text": null}\n': ['a.jsonl:2: has no string "text": it is null'],
            "[" + good.strip() + ",\n" + good + "]": ["a.jsonl:1: expected a JSON object", "jq -c '.[]'"],
            "text\n": ["a.jsonl:1: is not JSON", "--documents can say otherwise"],
        }.items():
            with self.subTest(content=content):
                self.write("a.jsonl", content)
                self.refused("a.jsonl", says=says)
        self.write("a.jsonl", good)
        self.write("a.txt", good)
        self.refused("a.txt", says=["a.txt:1: is a JSON object: --documents jsonl"])
        self.refused("a.txt", "--json-key", "text", says=["--json-key: is a field of JSON lines"])
        self.refused("a.jsonl", "--prompt-key", "p", says=["--prompt-key = p", "--completion-key"])
        self.refused("a.jsonl", "--prompt-key", "p", "--completion-key", "p", says=["--completion-key = p: is the field of --prompt-key, too"])
        self.refused("a.jsonl", "--weights-key", "text", says=["--weights-key = text: is the field of the text, too"])
        self.refused("a.jsonl", "--weights-key", "w", says=['a.jsonl:1: has no field "w"; it has "text"'])
        self.write("w.jsonl", '{"text": "a", "w": -1}\n')
        self.refused("w.jsonl", "--weights-key", "w", says=["w.jsonl:1", "a weight must be a number from 0"])
        self.write("w.jsonl", '{"text": "a", "w": 0}\n')
        self.refused("w.jsonl", "--weights-key", "w", "--valid-fraction", 0, says=["every training token weighs 0"])

    def test_of_options(self):
        self.write("a.txt", "a text\n")
        self.write("bad.model", "no model")
        self.write("bad.json", "{}")
        self.write("folder/x", "")
        self.write("file", "")
        for options, says in [
            (["--documents", "page"], ["--documents = page: must be one of blank_line, line, file, separator, jsonl"]),
            (["--documents", "separator"], ["--separator: is missing"]),
            (["--documents", "separator", "--separator", "("], ["--separator = (: not a regular expression"]),
            (["--documents", "separator", "--separator", "(" * 20000 + "a" + ")" * 20000], ["--valid-fraction"]),  # deep, and read
            (["--separator", "x"], ["--separator = x: has a meaning only with --documents separator"]),
            (["--drop-separator"], ["--drop-separator: has a meaning only"]),
            (["--valid-fraction", 1], ["--valid-fraction = 1: must lie in [0, 1)"]),
            (["--valid-fraction", "nan"], ["--valid-fraction: nan is not a number from 0 to 1"]),
            (["--valid-fraction", 0.5], ["--valid-fraction = 0.5: leaves no document"]),
            (["--tokenizer", "gpt2"], ["--tokenizer = gpt2: must be"]),
            (["--tokenizer", "bad.model"], ["bad.model: not a SentencePiece model"]),
            (["--tokenizer", "none.model"], ["none.model: not a SentencePiece model"]),
            (["--tokenizer", "folder"], ["--tokenizer = folder: the folder holds no tokenizer.json"]),
            (["--tokenizer", "none.json"], ["--tokenizer = none.json: no such file"]),
            (["--eos", "</s>"], ["--eos = </s>: the byte tokenizer"]),
            (["--eos", "</s>", "--no-eos"], ["--eos = </s>: has no meaning with --no-eos"]),
            (["--vocab-size", 500], ["--vocab-size: is of a tokenizer that is trained"]),
            (["--train-tokenizer", "t.txt"], ["--train-tokenizer = t.txt: must end in .model"]),
            (["--train-tokenizer", "a.txt"], ["--train-tokenizer = a.txt: must end in .model"]),
            (["--train-tokenizer", "t.model", "--tokenizer", "byte"], ["--tokenizer = byte: --train-tokenizer"]),
            (["--train-tokenizer", "t.model", "--vocab-size", 10], ["--vocab-size = 10: must be at least 300"]),
            (["--train-tokenizer", "t.model", "--vocab-size", 8000], ["--vocab-size = 8000: SentencePiece: Vocabulary size too high"]),
            (["--train-tokenizer", "t.model", "--model-type", "word"], ["--model-type = word: must be bpe or unigram"]),
            (["--train-tokenizer", "file/t.model"], ["file"]),
            (["--sede", 1], ["--sede"]),
            (["--seed", -1], ["--seed"]),
        ]:
            with self.subTest(options=options):
                self.refused("a.txt", *options, says=says)
        self.write("three.txt", "one\n\ntwo\n\nthree\n")
        self.refused("three.txt", "--valid-fraction", "1e-9", says=["leaves no document for validation", "a greater fraction"])
        self.write("empty.txt", "")
        self.refused("empty.txt", says=["inputs = empty.txt"])
        self.refused("a.txt", says=["--out"], out=None)
        self.refused("a.txt", says=["--out = folder/: is a folder"], out="folder/")
        self.refused("a.txt", says=["--out = .: is a folder"], out=".")
        self.refused("a.txt", says=["--out = file/..: is a folder"], out="file/..")
        self.refused("a.txt", says=["file"], out="file/d")
        self.write("d_train.bin", "words of a text\n")
        self.refused("d_train.bin", says=["--out = d_train.bin: is one of the inputs"], out="d")
        self.refused("/dev/stdin", "--train-tokenizer", "t.model", says=["--train-tokenizer: reads the inputs before"],
                     input="a text\n")


class DataPython(Case):
    """A python3 that is none: what stands first in the PATH is started for a Hugging Face tokenizer."""

    def python(self, script):
        self.write("bin/python3", "#!/bin/sh\n" + script)
        (self.folder / "bin/python3").chmod(0o755)
        return {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}

    def test_an_answer_that_is_none_is_bad_input(self):
        self.write("a.txt", "a text\n")
        self.write("hf/tokenizer.json", "{}")
        for answer in ("hello", "[]", "{}", '{"vocab_size": "x"}'):
            with self.subTest(answer=answer):
                self.refused("a.txt", "--tokenizer", "hf", says=["hf/tokenizer.json: is read by python3", answer],
                             environment=self.python(f"echo '{answer}'\n"))

    def test_one_that_does_not_answer_is_waited_for_with_a_word(self):
        self.write("a.txt", "a text\n")
        self.write("hf/tokenizer.json", "{}")
        out = self.trireme("a.txt", "--tokenizer", "hf", "--out", "out/d", environment=self.python("sleep 3\n"))
        self.assertIn("hf/tokenizer.json: waits for python3 to answer, 2 s so far", out.stderr)


class DataInputs(Case):
    def test_every_form_of_a_text_gives_the_same_tokens(self):
        text = "first\n\nsecond \u20ac \U0001f600\nof two lines\n"
        self.write("a.txt", text)
        self.build("a.txt")
        expected = self.tokens()
        for form, content in {"gz": gzip.compress(text.encode()), "bz2": bz2.compress(text.encode()),
                              "xz": lzma.compress(text.encode()), "mark": text.encode("utf-8-sig"), "utf16": text.encode("utf-16"),
                              "json": "".join(json.dumps({"text": t}) + "\n" for t in text.strip().split("\n\n")).encode()
                              }.items():
            with self.subTest(form=form):
                self.write(f"b.{form}", content)
                self.build(f"b.{form}")
                self.assertEqual(self.tokens(), expected)
        self.build("/dev/stdin", input=text)
        self.assertEqual(self.tokens(), expected)

    def test_bad_documents_are_skipped_and_counted(self):
        self.write("a.jsonl", '{"text": "a"}\n{"text": NaN}\n{"text": "b"}\n{"text": 1}\n')
        self.write("b.txt", b"c\n\ncaf\xe9\nd\n\ne\n")
        self.write("c.zip", b"PK\x03\x04")
        made = self.build("a.jsonl", "b.txt", "c.zip", "--skip-bad")
        self.assertEqual(bytes(t for t in self.tokens() if t < 256), b"abce")
        self.assertEqual(made["skipped"]["count"], 4)
        self.assertIn("a.jsonl:2: is not JSON", made["skipped"]["first"][0])
        shown = self.trireme("a.jsonl", "--skip-bad", "--out", "out/d", "--valid-fraction", 0)
        self.assertIn("2 bad documents were skipped:\n  a.jsonl:2:", shown.stdout)
        self.refused("c.zip", "--skip-bad", says=["0 documents were found, 1 bad ones were skipped", "c.zip: is a zip archive"],
                     out="other/d")

    def test_validation_files_of_before_are_told(self):
        self.write("a.txt", "".join(f"document {i}\n" for i in range(100)))
        for fraction, told in ((0, False), (0.2, False), (0, True)):
            shown = self.trireme("a.txt", "--documents", "line", "--out", "out/d", "--valid-fraction", fraction)
            self.assertEqual("out/d_valid: files of before" in shown.stdout, told, shown.stdout)

    def test_the_tokenizers_training_counts_in_the_time(self):
        self.write("a.txt", "".join(f"a line of words {i * 37 % 101}\n" for i in range(3000)))
        made = self.build("a.txt", "--train-tokenizer", "new/t.model", "--vocab-size", 300)
        self.assertGreater(made["tokenizer_seconds"], 0)
        self.assertGreater(made["seconds"], made["tokenizer_seconds"])
        shown = self.trireme("a.txt", "--train-tokenizer", "t.model", "--vocab-size", 300, "--out", "out/d", "--documents", "line")
        self.assertRegex(shown.stdout, r"\d s: [\d.]+ s for the tokenizer, [\d.]+ s to tokenize")


class DataStops(Case):
    def test_a_signal_leaves_no_half_file(self):
        process = subprocess.Popen([TRIREME, "data", "/dev/stdin", "--out", "out/d", "--documents", "line"], cwd=self.folder,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stdin.close)
        process.stdin.write(b"a document\n" * 200000)  # 2.2 MB, more than a pipe holds: it is reading
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.stderr.readline(), b"\n")
        self.assertIn(b"stopping at the end of this document", process.stderr.readline())
        try:
            process.stdin.write(b"another\n" * 1000000)
        except BrokenPipeError:
            pass
        self.assertIn(b"stopped by a signal: no file was written", process.communicate(timeout=120)[1])
        self.assertEqual(process.returncode, 3)
        self.assertEqual(list(self.folder.iterdir()), [])


class HuggingFace(Case):
    """With a stand-in for the package, so that the child process and its errors are tested everywhere."""

    def setUp(self):
        super().setUp()
        self.write("package/tokenizers.py", STAND_IN)
        self.environment = {"PYTHONPATH": str(self.folder / "package")}
        self.vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, "<end>": 3, "a": 4, "b": 5, "\u00e9": 6, " ": 7, "hole": 40}
        self.write("hf/tokenizer.json", json.dumps({"vocab": self.vocab, "truncation": 3, "model": {"unk_token": "<unk>"}}))
        self.write("a.txt", "ab\u00e9 ba\n\nx\n")

    def test_tokens_ids_and_kept_files(self):
        self.write("hf/tokenizer_config.json", json.dumps({"eos_token": {"content": "<end>"}, "bos_token": None}))
        self.write("hf/weights.bin", "not of the tokenizer")
        meta = self.build("a.txt", "--tokenizer", "hf", environment=self.environment)["train"]
        # Whole, although the file says that texts are cut at three tokens; x is unknown; <end> by tokenizer_config.json.
        self.assertEqual(self.tokens(), [4, 5, 6, 7, 5, 4, 3, 0, 3])
        self.assertEqual([meta[k] for k in ("tokenizer", "vocab_size", "eos", "bos", "pad", "num_unknown", "tokenizer_file")],
                         ["huggingface", 41, 3, -1, -1, 1, "d_train.tokenizer"])
        kept = self.folder / "out" / "d_train.tokenizer"
        self.assertEqual(sorted(p.name for p in kept.iterdir()), ["tokenizer.json", "tokenizer_config.json"])
        self.assertEqual((kept / "tokenizer.json").read_bytes(), (self.folder / "hf/tokenizer.json").read_bytes())
        # What was kept is a tokenizer itself; another one takes its place.
        self.build("a.txt", "--tokenizer", "out/d_train.tokenizer", environment=self.environment)
        self.assertEqual(self.tokens(), [4, 5, 6, 7, 5, 4, 3, 0, 3])
        self.build("a.txt")
        self.assertFalse(kept.exists())

    def test_where_the_end_token_comes_from(self):
        for files, eos in [({}, 2), ({"config.json": {"eos_token_id": [3, 2]}}, 3),
                           ({"generation_config.json": {"eos_token_id": 1}, "config.json": {"eos_token_id": 3}}, 1),
                           ({"special_tokens_map.json": {"eos_token": "<end>"}, "config.json": {"eos_token_id": 1}}, 3)]:
            with self.subTest(files=files):
                for name, content in files.items():
                    self.write(f"hf/{name}", json.dumps(content))
                made = self.build("a.txt", "--tokenizer", "hf/tokenizer.json", environment=self.environment)
                self.assertEqual(made["train"]["eos"], eos)
                for name in files:
                    (self.folder / "hf" / name).unlink()
        self.assertEqual(self.build("a.txt", "--tokenizer", "hf", "--eos", "<s>", environment=self.environment)["train"]["eos"], 1)

    def test_weights_follow_characters(self):
        self.write("a.jsonl", json.dumps({"p": "\u00e9 a", "c": "b\u00e9"}) + "\n")
        self.build("a.jsonl", "--tokenizer", "hf", "--prompt-key", "p", "--completion-key", "c", environment=self.environment)
        self.assertEqual(self.tokens(), [6, 7, 4, 5, 6, 2])
        self.assertEqual(self.weights(), [0, 0, 0, 1, 1, 1])

    def test_tokens_that_may_be_the_end_are_named(self):
        tokens = [f"<t{i}>" for i in range(14)]
        added = [{"id": 50 + i, "content": token} for i, token in enumerate(tokens)]
        self.write("bare/tokenizer.json", json.dumps({"vocab": {"a": 4, "b": 5}, "added_tokens": added[::-1]}))
        self.refused("a.txt", "--tokenizer", "bare", environment=self.environment,
                     says=["--tokenizer = bare: has no end-of-text token: name one of its tokens by --eos (such as those added to its "
                           f"vocabulary: {' '.join(tokens[:12])} ...), or say --no-eos"])

    def test_mistakes(self):
        refused = lambda *a, says: self.refused("a.txt", *a, says=says, environment=self.environment)
        refused("--tokenizer", "hf", "--eos", "<stop>", says=["hf/tokenizer.json: --eos = <stop>: has no such token"])
        self.write("other/tokenizer.json", '{"version": 1}')
        refused("--tokenizer", "other", says=["other/tokenizer.json: not a tokenizer of Hugging Face: no vocab"])
        self.write("old/vocab.json", "{}")
        refused("--tokenizer", "old", says=["save_pretrained"])
        self.write("sp/tokenizer.model", "")
        refused("--tokenizer", "sp", says=["name its SentencePiece model, sp/tokenizer.model"])
        self.write("package/tokenizers.py", "raise ImportError('not there')\n")
        refused("--tokenizer", "hf", says=["hf/tokenizer.json", "pip install tokenizers"])
        self.environment = {"PATH": str(self.folder)}
        refused("--tokenizer", "hf", says=["hf/tokenizer.json", "python3 cannot be started", "pip install tokenizers"])

    def test_a_child_that_ends_or_fails_is_named(self):
        for text, says in {"die now": "python3 ended with exit code 7", "fail now": "ValueError: cannot do this"}.items():
            self.write("b.txt", text)
            result = self.trireme("b.txt", "--out", "out/d", "--tokenizer", "hf", environment=self.environment)
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn(says, result.stderr)
            self.assertFalse((self.folder / "out").exists())


class DataFullDisk(Case):
    def test_tokens_weights_and_tokenizer_stay_those_of_before(self):
        disk = self.folder / "out"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest(f"cannot mount a file system (root is needed): {mounted.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)], check=True)
        self.write("package/tokenizers.py", STAND_IN)
        self.write("hf/tokenizer.json", json.dumps({"vocab": {"<unk>": 0, "</s>": 1, "a": 2}, "filling": "x" * 20000}))
        self.write("a.jsonl", '{"p": "a", "c": "aa"}\n' * 10)
        options = ["--prompt-key", "p", "--completion-key", "c", "--tokenizer", "hf"]
        environment = {"PYTHONPATH": str(self.folder / "package")}
        self.build("a.jsonl", *options, environment=environment)
        before = {name: content for name, content in self.files().items() if name.startswith("out/")}
        self.assertIn("out/d_train.tokenizer/tokenizer.json", before)
        self.write("a.jsonl", '{"p": "aaa", "c": "a"}\n' * 20)
        # Pages of 4 KiB: for none, for the tokens and no more, and for all but the tokenizer's last file.
        for free in (0, 8, 24):
            with self.subTest(free=free):
                room = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - 1024 * free
                (disk / "filler").write_bytes(bytes(max(0, room)))
                result = self.trireme("a.jsonl", *options, "--out", "out/d", "--valid-fraction", 0, environment=environment)
                (disk / "filler").unlink()
                self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
                self.assertIn("No space left on device", result.stderr)
                self.assertEqual({n: c for n, c in self.files().items() if n.startswith("out/")}, before)


class RealTokenizers(Case):
    """The package itself, where python3 has it."""

    def setUp(self):
        super().setUp()
        found = subprocess.run(["python3", "-c", "import tokenizers"], capture_output=True)
        if found.returncode != 0:
            self.skipTest("python3 has no package tokenizers")

    def test_tokens_are_the_packages(self):
        made = subprocess.run(["python3", "-c", """
import json
from tokenizers import Tokenizer, models, trainers, pre_tokenizers, decoders
t = Tokenizer(models.BPE())
t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
texts = [f"the quick brown fox number {i} \u00e9\u6f22" for i in range(200)]
t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=400, special_tokens=["<|endoftext|>"],
                                                 initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
t.enable_truncation(4)
t.save("tokenizer.json")
t.no_truncation()
with open("a.jsonl", "w") as out:
    for text in texts:
        out.write(json.dumps({"text": text}) + "\\n")
eos = t.token_to_id("<|endoftext|>")
print(json.dumps([i for text in texts for i in t.encode(text).ids + [eos]]))
"""], cwd=self.folder, capture_output=True, text=True, check=True)
        self.build("a.jsonl", "--tokenizer", "tokenizer.json")
        self.assertEqual(self.tokens(), json.loads(made.stdout))


if __name__ == "__main__":
    run_suites()
