"""Prints the folder of the torch that this Python imports, or that lies among its environment's packages."""
import importlib.util
import os
import sys
import sysconfig

spec = importlib.util.find_spec("torch")
folders = list(spec.submodule_search_locations or []) if spec else []
folders += [os.path.join(sysconfig.get_path(kind), "torch") for kind in ("platlib", "purelib")]
for folder in folders:
    if os.path.isdir(os.path.join(folder, "lib")):
        print(folder)
        sys.exit(0)
sys.exit(1)
