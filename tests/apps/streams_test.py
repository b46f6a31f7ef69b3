"""What a process is handed by whoever starts it: standard streams that are closed, full or without a reader, and limits on
the size of files. Needs TRIREME in the environment."""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest

from small_model import small_model
from suites import clean_environment, run_suites

TRIREME = os.environ["TRIREME"]


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-streams-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "run.toml").write_text(
            'name = "r"\nfolder = "r"\n' + small_model(vocab_size=300, num_layers=2) + '[layout]\nep = 2\n'
            '[batch]\nsequence_length = 32\nmicro_batch = 1\nglobal_batch = 4\n[train]\nsteps = 4\n[data]\ntrain = "random"\n'
            '[checkpoint]\nevery = 2\n[device]\nthreads = 1\n')

    def start(self, *arguments, before=None, **streams):
        return subprocess.Popen([TRIREME, *arguments], cwd=self.folder, text=True, preexec_fn=before,
                                env={**clean_environment(), "OMP_NUM_THREADS": "1"},
                                **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams})

    def trireme(self, *arguments, **options):
        process = self.start(*arguments, **options)
        output, errors = process.communicate(timeout=300)
        return process.returncode, output, errors

    def steps(self):
        return sorted(p.name for p in (self.folder / "r" / "checkpoints").glob("step-*"))


class Closed(Case):
    def closed(self, *streams):
        def close():
            for stream in streams:
                os.close(stream)
        return close

    def test_a_run_trains_with_any_stream_closed(self):
        for streams in ((1,), (2,), (0, 1, 2)):
            code, _, errors = self.trireme("train", "run.toml", "--set", f'folder="r{len(streams)}{streams[0]}"', before=self.closed(*streams))
            self.assertEqual(code, 0, (streams, errors))
            # What would have been printed has not gone into a file of the run's that took the stream's number.
            for line in (self.folder / f"r{len(streams)}{streams[0]}" / "metrics.jsonl").read_text().splitlines():
                json.loads(line)

    def test_data_are_made_with_all_closed(self):
        (self.folder / "t.txt").write_text("one\n\ntwo\n")
        self.assertEqual(self.trireme("data", "t.txt", "--out", "a", "--valid-fraction", "0")[0], 0)
        self.assertEqual(self.trireme("data", "t.txt", "--out", "b", "--valid-fraction", "0", before=self.closed(0, 1, 2))[0], 0)
        self.assertEqual((self.folder / "a_train.bin").read_bytes(), (self.folder / "b_train.bin").read_bytes())


class SizeLimit(Case):
    """A write that a limit on the size of files (ulimit -f) refuses is an error with the file's name."""
    LIMIT = 60 * 1024

    def limited(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.LIMIT, self.LIMIT))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and what it starts would, too

    def test_data_and_runs_fail_with_the_name_of_the_file(self):
        # A token of a byte takes two bytes of the file.
        (self.folder / "t.txt").write_text("text " * self.LIMIT)
        code, _, errors = self.trireme("data", "t.txt", "--out", "d/t", "--documents", "file", "--valid-fraction", "0", before=self.limited)
        self.assertEqual(code, 3, errors)
        self.assertIn("cannot write d/t_train.bin: File too large", errors)
        self.assertEqual(list(self.folder.glob("d/*")), [])
        # Two embeddings of 300 x 32 values with two moments each in float32: more than 60 KiB.
        code, _, errors = self.trireme("train", "run.toml", before=self.limited)
        self.assertEqual(code, 3, errors)
        self.assertRegex(errors, "rank [01]: the checkpoint of step 2 was not written: cannot write .*: File too large")
        self.assertNotIn("signal", errors)


class Output(Case):
    def test_a_full_disk_ends_a_run_at_its_first_line(self):
        with open("/dev/full", "w") as full:
            code, _, errors = self.trireme("train", "run.toml", stdout=full)
        self.assertEqual(code, 3, errors)
        self.assertIn("rank 0: No space left on device [operation write standard output]", errors)
        self.assertEqual(self.steps(), [])

    def test_a_reader_that_goes_ends_a_run_in_order(self):
        process = self.start("train", "run.toml", "--json", "--set", "train.steps=100000", "--set", "checkpoint.every=0")
        self.assertEqual(json.loads(process.stdout.readline())["step"], 1)
        process.stdout.close()
        errors = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(timeout=300), 75, errors)
        self.assertEqual(errors.count("nobody reads standard output any more: stopping after this step, then saving a checkpoint"), 1, errors)
        self.assertNotIn("failed", errors)
        self.assertEqual(len(self.steps()), 1)

    def test_every_command_says_that_its_output_was_not_written(self):
        for arguments in (("plan", "run.toml"), ("plan", "run.toml", "--json"), ("model",), ("--help",), ("train", "--help"), ("--version",)):
            with open("/dev/full", "w") as full:
                code, _, errors = self.trireme(*arguments, stdout=full)
            self.assertEqual(code, 3, (arguments, errors))
            self.assertIn("cannot write the output: No space left on device", errors, arguments)


if __name__ == "__main__":
    run_suites()
