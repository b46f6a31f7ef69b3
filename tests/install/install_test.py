"""Installs the build to a folder of its own and uses it from there: the program, and the planning half as a CMake package.

install_test.py BUILD_FOLDER SOURCE_FOLDER
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

build, source = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
work = build / "install_test"
prefix, consumer, elsewhere = work / "prefix", work / "consumer", work / "elsewhere"


def run(*command, fails=False, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if (done.returncode != 0) != fails:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(work, ignore_errors=True)
        elsewhere.mkdir(parents=True)
        run("cmake", "--install", build, "--prefix", prefix)
        # Nothing of the source tree, and no libtorch by the environment.
        cls.environment = {k: v for k, v in os.environ.items() if k not in ("TRIREME_CONFIGS", "LD_LIBRARY_PATH")}

    def trireme(self, *arguments):
        return run(prefix / "bin" / "trireme", *arguments, cwd=elsewhere, env=self.environment)

    def step_of_the_program(self):
        run_file = prefix / "share/trireme/configs/runs/quickstart.toml"
        platform = prefix / "share/trireme/configs/platforms/laptop.toml"
        out = json.loads(self.trireme("plan", run_file, "--ranks", "4", "--platform", platform, "--json"))
        return out["step_s"]

    def test_the_program_finds_its_libraries_and_configs(self):
        declared = (source / "CMakeLists.txt").read_text().split("project(trireme VERSION ")[1].split()[0]
        self.assertRegex(self.trireme("--version").strip(), rf"^trireme {declared}( \(.*\))?$")
        names = sorted(p.stem for p in (source / "configs/models").glob("*.toml"))
        installed = sorted(p.stem for p in (prefix / "share/trireme/configs/models").glob("*.toml"))
        self.assertEqual(installed, names)
        # By name: found beside the installed program, from a folder that has no configs.
        self.assertEqual(json.loads(self.trireme("model", "deepseek_v3", "--json"))["name"], "DeepSeek-V3")
        self.assertGreater(self.step_of_the_program(), 0)

    def test_the_planning_half_is_a_package(self):
        run("cmake", "-S", source / "tests/install/consumer", "-B", consumer, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
            env=self.environment)
        run("cmake", "--build", consumer, env=self.environment)
        configs = prefix / "share/trireme/configs"
        step = float(run(consumer / "price_run", configs / "runs/quickstart.toml", configs / "platforms/laptop.toml", "4"))
        self.assertEqual(step, self.step_of_the_program())

    def test_headers_are_of_the_planning_half_alone(self):
        folders = sorted(p.name for p in (prefix / "include/trireme").iterdir())
        self.assertEqual(folders, ["base", "model", "plan", "platform", "report", "search", "sim"])
        for header in (prefix / "include/trireme").rglob("*.h"):
            for line in header.read_text().splitlines():
                self.assertNotRegex(line, r"#include <(torch|ATen|c10)/")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
