"""Launching, stopping, waiting and dying, from outside."""
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from suites import run_suites

TRIREME = os.environ["TRIREME"]
SOURCE = pathlib.Path(os.environ["TRIREME_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "scripts"))
import random_faults  # noqa: E402

SLURM_OF_ONE_TASK = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "4711",
                     "SLURM_TASKS_PER_NODE": "1", "SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "localhost"}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Case(unittest.TestCase):
    LIMIT = 120  # for what takes seconds; no test passes or fails by less

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-launch-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "run.toml").write_text(random_faults.RUN.format(timeout_s=8, dp=1, batch=2))

    def start(self, *arguments, environment=None):
        process = subprocess.Popen([TRIREME, *map(str, arguments)], cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**random_faults.own_environment(), **(environment or {})})
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        for pid in [process.pid, *random_faults.ranks_of(process.pid).values()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def train(self, *arguments, environment=None, steps=3):
        process = self.start("train", "run.toml", "--json", "--set", f"train.steps={steps}", *arguments, environment=environment)
        output, errors = process.communicate(timeout=self.LIMIT)
        return process.returncode, [json.loads(line) for line in output.splitlines()], errors

    def wait_for_step(self, process, step):
        for line in process.stdout:
            if json.loads(line)["step"] >= step:
                return
        self.fail(process.stderr.read())

    def torchrun(self, rank, world, port, **changes):
        made = {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(world),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **changes}
        return {name: value for name, value in made.items() if value is not None}


class WhoStartsRanks(Case):
    def test_an_explicit_number_comes_before_a_step_of_one_task(self):
        code, steps, errors = self.train("--ranks", 2, environment=SLURM_OF_ONE_TASK)
        self.assertEqual((code, len(steps)), (0, 3), errors)
        self.assertTrue((self.folder / "out" / "measured" / "rank-00001.json").exists())

    def test_half_a_launchers_environment_is_none_and_is_said(self):
        code, steps, errors = self.train("--ranks", 2, environment={"WORLD_SIZE": "8", "RANK": "3", "MASTER_ADDR": "nowhere"})
        self.assertEqual((code, len(steps)), (0, 3), errors)
        self.assertEqual(errors.count("RANK, WORLD_SIZE, MASTER_ADDR are set but MASTER_PORT is not"), 1, errors)

    def test_probe_agrees(self):
        process = self.start("probe", "--links", "--quick", "--ranks", 2, "--json", environment=SLURM_OF_ONE_TASK)
        output, errors = process.communicate(timeout=self.LIMIT)
        self.assertEqual(process.returncode, 0, errors)
        self.assertNotIn("no network in one rank", errors)

    def test_several_tasks_do_not_start_ranks_each(self):
        process = self.start("train", "run.toml", "--ranks", 3, environment=self.torchrun(1, 2, free_port()))
        _, errors = process.communicate(timeout=self.LIMIT)
        self.assertEqual(process.returncode, 2, errors)
        self.assertIn("torchrun has started 2 ranks", errors)

    def test_pods_without_local_ranks_train(self):
        port = free_port()
        ranks = [self.start("train", "run.toml", "--json", "--set", "train.steps=2",
                            environment=self.torchrun(r, 2, port, LOCAL_RANK=None, LOCAL_WORLD_SIZE=None)) for r in range(2)]
        outputs = [r.communicate(timeout=self.LIMIT) for r in ranks]
        self.assertEqual([r.returncode for r in ranks], [0, 0], outputs)
        self.assertEqual(len(outputs[0][0].splitlines()), 2)

    def test_an_ipv6_address_with_brackets(self):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError as error:
            self.skipTest(f"this machine has no IPv6: {error}")
        port = free_port()
        ranks = [self.start("train", "run.toml", "--json", "--set", "train.steps=2",
                            environment=self.torchrun(r, 2, port, MASTER_ADDR="[::1]")) for r in range(2)]
        outputs = [r.communicate(timeout=self.LIMIT) for r in ranks]
        self.assertEqual([r.returncode for r in ranks], [0, 0], outputs)


class Threads(Case):
    def test_a_single_ranks_threads_wait_asleep(self):
        if {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & set(os.environ):
            self.skipTest("the environment says already how threads wait")
        process = self.start("train", "run.toml", "--ranks", 1, "--json", "--set", "layout.pp=1")
        self.wait_for_step(process, 1)
        # What libgomp found when it was loaded into this very process.
        self.assertLessEqual({b"OMP_WAIT_POLICY=passive", b"GOMP_SPINCOUNT=0"}, random_faults.variables_of(process.pid))

    def test_what_the_user_sets_stays(self):
        process = self.start("train", "run.toml", "--ranks", 1, "--json", "--set", "layout.pp=1", environment={"OMP_WAIT_POLICY": "active"})
        self.wait_for_step(process, 1)
        found = random_faults.variables_of(process.pid)
        self.assertIn(b"OMP_WAIT_POLICY=active", found)
        self.assertNotIn(b"GOMP_SPINCOUNT=0", found)


class OneError(Case):
    def test_bad_input_is_told_once_by_ranks_that_all_find_it(self):
        for setting in ("layout.pq=3", "train.seed=none", "layout.pp=3"):
            with self.subTest(setting=setting):
                port = free_port()
                ranks = [self.start("train", "run.toml", "--set", setting, environment=self.torchrun(r, 2, port)) for r in range(2)]
                errors = [r.communicate(timeout=self.LIMIT)[1] for r in ranks]
                self.assertEqual([r.returncode for r in ranks], [2, 2], errors)
                self.assertEqual("".join(errors).count("trireme: error: "), 1, errors)

    def test_rank_0_says_that_it_waits_and_what_no_interface_is(self):
        alone = self.start("train", "run.toml", "--set", "timeout_s=4", environment=self.torchrun(0, 2, free_port()))
        _, errors = alone.communicate(timeout=self.LIMIT)
        self.assertEqual(alone.returncode, 3, errors)
        self.assertIn("waits until all 2 ranks have come", errors)
        result = self.start("train", "run.toml", "--ranks", "2", environment={"GLOO_SOCKET_IFNAME": "nope0"})
        _, errors = result.communicate(timeout=self.LIMIT)
        self.assertEqual(result.returncode, 2, errors)
        self.assertEqual(errors.count("trireme: error: GLOO_SOCKET_IFNAME = nope0: is no network interface of this host"), 1, errors)

    def test_a_wrong_address_keeps_its_reason_and_the_limit(self):
        for address, reason in (("no-such-host.invalid", "ame "), ("127.0.0.1", "Connection refused")):
            with self.subTest(address=address):
                began = time.monotonic()
                rank = self.start("train", "run.toml", "--set", "timeout_s=3",
                                  environment=self.torchrun(1, 2, free_port(), MASTER_ADDR=address))
                _, errors = rank.communicate(timeout=self.LIMIT)
                self.assertEqual(rank.returncode, 3, errors)
                told = [line for line in errors.splitlines() if "trireme: failed" in line]
                self.assertEqual(len(told), 1, errors)
                self.assertIn(reason, told[0])
                self.assertIn("(tried for 3 s)", told[0])
                self.assertNotIn("frame #", errors)
                self.assertLess(time.monotonic() - began, 3 + 30, "the program's own start included")


class Stopping(Case):
    def test_the_first_signal_is_answered_and_the_run_can_be_gone_on_with(self):
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            with self.subTest(sign=sign):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                process = self.start("train", "run.toml", "--ranks", 2, "--json")
                self.wait_for_step(process, 2)
                process.send_signal(sign)
                output, errors = process.communicate(timeout=self.LIMIT)
                self.assertEqual(process.returncode, 75, errors)
                self.assertIn("trireme: stopping after this step, then saving a checkpoint", errors)
                last = json.loads(output.splitlines()[-1])["step"]
                code, steps, errors = self.train("--ranks", 2, "--resume", steps=last + 1)
                self.assertEqual((code, [s["step"] for s in steps]), (0, [last + 1]), errors)

    def test_in_an_evaluation_of_training(self):
        # An evaluation far longer than this test; the fifth second on it says how far it is.
        evaluates = ["--set", "data.valid=random", "--set", "train.eval_sequences=1000000", "--set", "train.eval_every=2"]
        process = self.start("train", "run.toml", "--ranks", 2, "--json", *evaluates, "--set", "checkpoint.every=0")
        for line in process.stderr:
            if line.startswith("evaluating "):
                break
        else:
            self.fail("it does not say that it evaluates")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=self.LIMIT)
        self.assertEqual(process.returncode, 75, errors)
        self.assertIn("trireme: stopping after this part of the evaluation, then saving a checkpoint", errors)
        self.assertIn("the evaluation of step 2 was stopped: it has no result", errors)
        steps = [json.loads(line) for line in output.splitlines()]
        self.assertEqual([s["step"] for s in steps], [1, 2])
        self.assertNotIn("eval_loss", steps[-1])
        code, steps, errors = self.train("--ranks", 2, "--resume", steps=3)
        self.assertEqual((code, [s["step"] for s in steps]), (0, [3]), errors)

    def test_a_single_rank(self):
        process = self.start("train", "run.toml", "--ranks", 1, "--json", "--set", "layout.pp=1")
        self.wait_for_step(process, 2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=self.LIMIT)
        self.assertEqual(process.returncode, 75, errors)
        self.assertIn("stopping after this step, then saving a checkpoint; again to kill", errors)

    def test_a_second_signal_kills_a_single_rank(self):
        process = self.start("train", "run.toml", "--ranks", 1, "--json", "--set", "layout.pp=1")
        self.wait_for_step(process, 2)
        # Both wait for it while it is stopped, so that no step can end between them. Two threads may then handle them at
        # once: either may speak first.
        for sign in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            process.send_signal(sign)
        _, errors = process.communicate(timeout=self.LIMIT)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("trireme: killed on request", errors.splitlines())

    def test_a_signal_before_the_first_step_ends_all_at_once(self):
        process = self.start("train", "run.toml", "--ranks", 2, "--json")
        end = time.monotonic() + self.LIMIT
        while len(random_faults.ranks_of(process.pid)) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=self.LIMIT)
        self.assertIn("asks the ranks to stop; again to kill them", errors)
        # Where the host was so fast that the ranks trained by then they were stopped as above.
        self.assertIn(process.returncode, (130, 75), errors)
        if process.returncode == 130:
            self.assertIn("stopped before the ranks had begun to train", errors)
        self.assertEqual(random_faults.ranks_of(process.pid), {})


class Dying(Case):
    def test_ranks_end_with_a_killed_launcher(self):
        process = self.start("train", "run.toml", "--ranks", 2, "--json")
        self.wait_for_step(process, 1)
        self.assertEqual(len(random_faults.ranks_of(process.pid)), 2)
        process.kill()
        process.wait()
        end = time.monotonic() + self.LIMIT
        while random_faults.ranks_of(process.pid) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(random_faults.ranks_of(process.pid), {})

    def test_a_lost_store_is_told_without_frames(self):
        # Rank 0 serves it, as under srun.
        port = free_port()
        ranks = [self.start("train", "run.toml", "--json", environment=self.torchrun(r, 2, port)) for r in range(2)]
        self.wait_for_step(ranks[0], 2)
        ranks[0].kill()
        _, errors = ranks[1].communicate(timeout=self.LIMIT)
        self.assertEqual(ranks[1].returncode, 3, errors)
        self.assertNotIn("frame #", errors)
        self.assertNotIn("rank -1", errors)
        self.assertRegex(errors, r"trireme: failed: .*rank 0: ")

    def test_a_rank_that_cannot_write_is_the_one_that_is_named(self):
        process = self.start("train", "run.toml", "--ranks", 2, "--json")
        self.wait_for_step(process, 2)
        # From here on rank 1 alone can open no file: its part of the next checkpoint fails, and all ranks end with it.
        resource.prlimit(random_faults.ranks_of(process.pid)[1], resource.RLIMIT_NOFILE, (3, 3))
        _, errors = process.communicate(timeout=self.LIMIT)
        self.assertEqual(process.returncode, 3, errors)
        self.assertEqual(errors.splitlines()[-1], "trireme: failed: rank 1 was the first to fail: failed (exit code 3); rank 0 failed "
                                                  "(exit code 3)")
        self.assertRegex(errors, r"trireme: failed: rank 1: the checkpoint of step \d+ was not written: .*Too many open files")

    def test_a_rank_that_dies_comes_back(self):
        process = self.start("train", "run.toml", "--ranks", 2, "--json", "--restarts", 1, "--set", "train.steps=60")
        self.wait_for_step(process, 5)
        os.kill(random_faults.ranks_of(process.pid)[1], signal.SIGKILL)
        output, errors = process.communicate(timeout=self.LIMIT)
        self.assertEqual(process.returncode, 0, errors)
        self.assertRegex(errors, r"rank 1 was the first to fail: killed by signal 9 \(Killed\); restart 1 of 1: all ranks start "
                                 r"again from step \d+")
        self.assertIn("trireme: ended after 1 of 1 restart", errors)
        self.assertEqual(json.loads(output.splitlines()[-1])["step"], 60)
        steps = [json.loads(line)["step"] for line in (self.folder / "out" / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(steps, list(range(1, 61)), "each step once")

    def test_without_checkpoints_it_begins_anew_and_says_so(self):
        process = self.start("train", "run.toml", "--ranks", 2, "--json", "--restarts", 1, "--set", "train.steps=60", "--set",
                             "checkpoint.every=0", "--set", "checkpoint.at_end=false")
        self.wait_for_step(process, 5)
        os.kill(random_faults.ranks_of(process.pid)[0], signal.SIGKILL)
        _, errors = process.communicate(timeout=self.LIMIT)
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("all ranks start again from the beginning: checkpoint.every is 0", errors)

    def test_restarts_are_for_the_own_launcher(self):
        process = self.start("train", "run.toml", "--restarts", 1, environment=self.torchrun(1, 2, free_port()))
        _, errors = process.communicate(timeout=self.LIMIT)
        self.assertEqual(process.returncode, 2, errors)
        self.assertIn("--restarts = 1: only where trireme starts the ranks", errors)


class RandomFaults(unittest.TestCase):
    def test_some_moments(self):
        done = subprocess.run([sys.executable, str(SOURCE / "scripts" / "random_faults.py"), TRIREME, "--count", "5", "--seed", "3",
                               "--ranks", "2"], capture_output=True, text=True, timeout=850)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("5 of 5 as they should be", done.stdout)


if __name__ == "__main__":
    run_suites()
