"""Clusters of network namespaces, for tests. Needs TRIREME_SOURCE_DIR, and TRIREME (the program) where a rank of it runs."""
import os
import pathlib
import re
import subprocess

SOURCE = pathlib.Path(os.environ["TRIREME_SOURCE_DIR"])
NETCLUSTER = str(SOURCE / "scripts" / "netcluster")
TRIREME = os.environ.get("TRIREME", "")


def namespaces():
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.split()


def left_behind():
    """Namespaces of a netcluster that runs no more. Other clusters on this host may come and go during a test."""
    makers = {name: re.fullmatch(r"trireme-nc-(\d+)-(switch|\d+)", name) for name in namespaces()}
    return {name for name, maker in makers.items() if maker and not os.path.exists(f"/proc/{maker[1]}")}


def can_make_namespaces():
    probe = f"trireme-test-{os.getpid()}"
    try:
        made = subprocess.run(["ip", "netns", "add", probe], capture_output=True)
    except FileNotFoundError:
        return False
    if made.returncode == 0:
        subprocess.run(["ip", "netns", "delete", probe], check=True)
    return made.returncode == 0 and os.geteuid() == 0


NO_ROOT = "network namespaces need root and iproute2: netcluster is not tried"


def netcluster(*arguments, timeout=120):
    return subprocess.run([NETCLUSTER, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)
