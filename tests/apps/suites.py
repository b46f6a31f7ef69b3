"""How the files of this folder run as programs, and what several of them do to processes."""
import os
import signal
import sys
import unittest


def run_suites():
    """The suites that the command line names; exits with 77, which ctest counts as skipped (SKIP_RETURN_CODE), where
    every test was."""
    result = unittest.main(module="__main__", verbosity=2, exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun == len(result.skipped) else 0)


def clean_environment():
    """This process's environment without a launcher's variables: what the program starts is no rank of what runs the tests."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "RANK", "WORLD_", "MASTER_"))}


def kill_if_there(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
