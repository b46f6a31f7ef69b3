"""netcluster, and the probes of the network, from outside."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from clusters import NETCLUSTER, NO_ROOT, TRIREME, can_make_namespaces, left_behind, namespaces, netcluster
from suites import run_suites


@unittest.skipUnless(can_make_namespaces(), NO_ROOT)
class NetCluster(unittest.TestCase):
    def setUp(self):
        self.before = left_behind()
        self.links = set(os.listdir("/sys/class/net"))

    def tearDown(self):
        self.assertLessEqual(left_behind(), self.before, "a namespace is left behind")
        self.assertEqual(set(os.listdir("/sys/class/net")), self.links, "the host's own links changed")

    def test_ranks_have_the_environment_of_torchrun(self):
        show = "echo $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $WORLD_SIZE $MASTER_ADDR $MASTER_PORT $GLOO_SOCKET_IFNAME"
        done = netcluster("--nodes", 2, "--ranks-per-node", "2,1", "--rate", "100mbit", "--", "sh", "-c", show)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"0 0 2 3 10.77.0.1 29500 node0", "1 1 2 3 10.77.0.1 29500 node0",
                                                            "2 0 1 3 10.77.0.1 29500 node0"])
        self.assertIn("tbf burst 16kb, limit 8mb", done.stderr)
        self.assertIn("segments sent again", done.stderr)

    def test_the_rate_holds(self):
        # 2 MB by a plain socket over 20 Mbit/s: 0.84 s where nothing else limits.
        program = ("import os, socket, time\n"
                   "if os.environ['RANK'] == '0':\n"
                   "    s = socket.create_server(('', 29501)); c, _ = s.accept(); begin = time.monotonic(); n = 0\n"
                   "    while chunk := c.recv(1 << 16): n += len(chunk)\n"
                   "    print(n, time.monotonic() - begin)\n"
                   "else:\n"
                   "    for _ in range(100):\n"
                   "        try: c = socket.create_connection((os.environ['MASTER_ADDR'], 29501)); break\n"
                   "        except OSError: time.sleep(0.05)\n"
                   "    c.sendall(bytes(2 << 20))\n")
        done = netcluster("--nodes", 2, "--ranks-per-node", 1, "--rate", "20mbit", "--", sys.executable, "-c", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        received, seconds = done.stdout.split()
        self.assertEqual(int(received), 2 << 20)
        self.assertGreater(float(seconds), 0.8)

    def test_a_failing_rank_ends_the_others(self):
        begin = time.monotonic()
        done = netcluster("--nodes", 2, "--grace", 0.5, "--", "sh", "-c", "[ $RANK = 2 ] && exit 5; sleep 60")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("3 ranks still run", done.stderr)
        self.assertLess(time.monotonic() - begin, 30)

    def test_signals_clean_up(self):
        for sign in (signal.SIGINT, signal.SIGTERM):
            running = subprocess.Popen([NETCLUSTER, "--nodes", "2", "--", "sleep", "60"], stderr=subprocess.PIPE, text=True)
            running.stderr.readline()  # the links are made
            running.send_signal(sign)
            running.communicate(timeout=30)
            self.assertEqual(running.returncode, 128 + sign)
            self.assertLessEqual(left_behind(), self.before)

    def test_only_what_a_dead_netcluster_left_is_removed(self):
        foreign, stale = f"trireme-foreign-{os.getpid()}", "trireme-nc-4194999-0"  # above the largest process id
        for name in (foreign, stale):
            subprocess.run(["ip", "netns", "add", name], check=True)
        try:
            done = netcluster("--clean")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn(stale, namespaces())
            self.assertIn(foreign, namespaces())
        finally:
            subprocess.run(["ip", "netns", "delete", foreign], check=True)

    def test_bad_input(self):
        for arguments, says in [(["--nodes", 2], "a command is missing"),
                                (["--nodes", 3, "--ranks-per-node", "1,2", "--", "true"], "do not fit"),
                                (["--ranks-per-node", "two", "--", "true"], "must be a number"),
                                (["--rate", "quick", "--", "true"], "rate")]:
            done = netcluster(*arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(says, done.stderr)


class NetworkProbe(unittest.TestCase):
    KEYS = {"pattern", "bytes_per_pair", "median_s", "p99_s", "predicted_s", "messages_off_node", "bytes_off_node"}

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.arguments = ["probe", "--all-to-all", "--json", "--quick", "--samples", "3", "--bytes", "256,4096", "--out",
                          str(self.folder / "platform.toml")]

    def check(self, done, patterns):
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        points = [line for line in lines if "pattern" in line]
        self.assertEqual({(p["pattern"], p["bytes_per_pair"]) for p in points},
                         {(name, size) for name in patterns for size in (256, 4096)})
        for p in points:
            self.assertLessEqual(self.KEYS, set(p))
            self.assertGreater(p["median_s"], 0)
            self.assertGreater(p["predicted_s"], 0)
        picks = [line for line in lines if "pick" in line]
        self.assertEqual([p["bytes_per_pair"] for p in picks], [256, 4096])
        for p in picks:
            self.assertIn(p["pick"], patterns)
            self.assertIn(p["runner_up"], patterns)
        return points

    PATTERNS = ["flat", "pairwise", "scattered", "bruck", "node_aware", "halo", "allgather_a2a", "dedup"]

    def test_on_one_host(self):
        done = subprocess.run([TRIREME, *self.arguments, "--ranks", "2"], capture_output=True, text=True, timeout=300)
        for p in self.check(done, self.PATTERNS):
            self.assertEqual((p["messages_off_node"], p["bytes_off_node"]), (0, 0))

    @unittest.skipUnless(can_make_namespaces(), NO_ROOT)
    def test_on_a_cluster(self):
        done = netcluster("--nodes", 2, "--ranks-per-node", 2, "--rate", "1gbit", "--", TRIREME, *self.arguments, timeout=300)
        points = self.check(done, self.PATTERNS)
        # Two nodes of two: flat has 2 messages off the node, HALO 1; both the same bytes.
        flat, halo = ([p for p in points if p["pattern"] == name][0] for name in ("flat", "halo"))
        self.assertEqual((flat["messages_off_node"], halo["messages_off_node"]), (2, 1))
        self.assertEqual(flat["bytes_off_node"], halo["bytes_off_node"])

    def test_one_rank_is_refused(self):
        done = subprocess.run([TRIREME, *self.arguments, "--ranks", "1"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("there is no network in one rank", done.stderr)


if __name__ == "__main__":
    run_suites()
