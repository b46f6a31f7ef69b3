"""trireme plan --model and trireme design from outside. Needs TRIREME (the program) in the environment."""
import csv
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

TRIREME = os.environ["TRIREME"]
SOURCE = pathlib.Path(os.environ["TRIREME_SOURCE_DIR"])


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-plan-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def trireme(self, *arguments, timeout=300):
        return subprocess.run([TRIREME, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, "TRIREME_CONFIGS": str(SOURCE / "configs")})

    def plan(self, *arguments):
        out = self.trireme("plan", *arguments, "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout)

    def refused(self, *arguments):
        out = self.trireme(*arguments)
        self.assertEqual(out.returncode, 2, out.stdout + out.stderr)
        self.assertEqual(len(out.stderr.strip().splitlines()), 1, out.stderr)
        return out.stderr


MOE = ("--model", "deepseek_v2_lite", "--platform", "dgx_h100", "--devices", 16)


class Plan(Case):
    def test_documented_keys(self):
        plan = self.plan(*MOE, "--explain")
        documented = (SOURCE / "docs" / "search.md").read_text()
        for key in plan:
            self.assertIn(f"`{key}`", documented)
        # the published count of DeepSeek-V2-Lite, from its model card: 15.7 B, 2.4 B active without the embedding
        self.assertAlmostEqual(plan["model"]["params_total"] / 1e9, 15.7, delta=0.05)
        self.assertTrue(plan["feasible"])
        self.assertEqual(plan["reasons"], [])
        layout = plan["layout"]
        self.assertEqual(layout["pp"] * layout["tp"] * layout["cp"] * layout["dp"], 16)
        tokens = plan["batch"]["global_batch"] * plan["batch"]["sequence_length"]
        self.assertAlmostEqual(plan["tokens_per_s"], tokens / plan["step_s"], delta=1e-6 * plan["tokens_per_s"])
        self.assertAlmostEqual(plan["tokens_per_s_per_device"] * 16, plan["tokens_per_s"], delta=1e-6 * plan["tokens_per_s"])
        self.assertAlmostEqual(plan["model_tflops_per_device"] * 1e12, plan["tokens_per_s_per_device"] * plan["model"]["flops_per_token"],
                               delta=1e-6 * 1e15)
        self.assertAlmostEqual(plan["mfu"], plan["model_tflops_per_device"] * 1e12 / plan["platform"]["peak_flops_per_s"], delta=1e-9)
        # what a stage's device holds at its peak adds up to what it needs
        for stage in plan["memory"]:
            on_device = sum(i["bytes"] for i in stage["items"] if i["place"] == "device")
            self.assertAlmostEqual(on_device / stage["needed_bytes"], 1, delta=1e-6)
        self.assertEqual(plan["peak_memory_bytes"], max(s["needed_bytes"] for s in plan["memory"]))
        self.assertEqual(len(plan["timeline"]), layout["pp"])
        self.assertGreaterEqual(len(plan["runners_up"]), 1)
        self.assertGreaterEqual(plan["runners_up"][0]["step_s"], plan["step_s"])

    def test_several_keys_after_one_set_are_kept(self):
        plan = self.plan(*MOE, "--set", "layout.pp=2", "layout.ep=8", "layout.schedule=1f1b")
        for key, value in {"pp": 2, "ep": 8, "schedule": "1f1b"}.items():
            self.assertEqual(plan["layout"][key], value)

    def test_text_and_files(self):
        out = self.trireme("plan", *MOE, "--csv", "all.csv", "--html", "page.html", "--trace", "trace.json", "--top", 3)
        self.assertEqual(out.returncode, 0, out.stderr)
        for text in ("Layout: pp", "Memory of a rank of each stage", "stage  0 |", "GFLOP/token", "causal attention", "assumed:"):
            self.assertIn(text, out.stdout)
        rows = list(csv.DictReader((self.folder / "all.csv").open()))
        self.assertGreater(len(rows), 2)
        self.assertIn("yes", {r["feasible"] for r in rows})
        self.assertTrue(json.loads((self.folder / "trace.json").read_text())["traceEvents"])
        self.assertIn("</html>", (self.folder / "page.html").read_text())

    def test_a_probed_host_has_curves_only(self):
        plan = self.plan("--model", "quickstart", "--platform", "laptop", "--devices", 4, "--precision", "float32", "--sequence", 256)
        self.assertTrue(plan["feasible"])
        self.assertTrue(any("share of the host" in a for a in plan["assumptions"]))
        self.assertGreater(plan["mfu"], 0)
        self.assertLess(plan["mfu"], 1)

    def test_what_train_cannot_run_is_listed_and_written_all_the_same(self):
        # tensor parallelism and latent attention are nothing that train executes
        plan = self.plan(*MOE, "--set", "layout.tp=2", "layout.pp=1", "--out", "found.toml")
        self.assertIn("layout.tp", plan["unrunnable"])
        self.assertIn("model.attention.kind", plan["unrunnable"])
        text = (self.folder / "found.toml").read_text()
        self.assertIn("\ntp = 2\n", text)
        self.assertIn('train = "random"', text)
        self.assertIn('dtype = "bfloat16"', text)
        for key, value in {"micro_batch": plan["layout"]["micro_batch"], **plan["batch"]}.items():
            self.assertIn(f"\n{key} = {value}\n", text)
        # Planning the file estimates the same layout.
        again = self.plan("found.toml")
        self.assertAlmostEqual(again["step_s"], plan["step_s"], delta=1e-9 * plan["step_s"])
        self.assertEqual(again["layout"], plan["layout"])
        self.assertEqual(again["unrunnable"], plan["unrunnable"])
        out = self.trireme("plan", *MOE, "--set", "layout.tp=2", "layout.pp=1")
        self.assertIn("trireme train can't run: ", out.stdout)
        self.assertIn("layout.tp = 2 (must be 1)", out.stdout)

    def test_less_memory_than_there_is(self):
        free = self.plan(*MOE, "--set", "layout.swap=[]")
        bound = self.plan(*MOE, "--set", "layout.swap=[]", "--memory-GiB", 30)
        self.assertTrue(bound["feasible"])
        self.assertLessEqual(bound["peak_memory_bytes"], 30 * 2**30)
        self.assertGreater(free["peak_memory_bytes"], 30 * 2**30)
        self.assertGreaterEqual(bound["step_s"], free["step_s"])
        self.assertIn("at most the 80", self.refused("plan", *MOE, "--memory-GiB", 81))

    def test_rates_name_their_sources(self):
        rates = {r["what"]: r for r in self.plan(*MOE, "--explain")["rates"]}
        # 3.35 TB/s of HBM3 by the data sheet of an H100 SXM, times the profile's share
        memory = rates["memory"]
        self.assertLess(memory["value"], 3350)
        self.assertIn("dgx_h100's data sheet x memory of H100-SXM5-80GB, profile published", memory["source"])
        # below the 64 GB/s of a PCIe 5.0 x16 link
        self.assertLess(rates["host link"]["value"], 64)
        self.assertEqual(rates["host link"]["source"], "dgx_h100's data sheet")

    def test_infeasible_is_an_answer_with_reasons(self):
        plan = self.plan("--model", "deepseek_v3", "--platform", "dgx_a100", "--devices", 8)
        self.assertFalse(plan["feasible"])
        self.assertRegex(plan["reasons"][0], r"stage \d+ needs [\d.]+ GB of 85\.9")
        uneven = self.plan(*MOE, "--set", "layout.ep=7")
        self.assertFalse(uneven["feasible"])
        self.assertIn("layout.ep = 7 does not divide the 64 experts", uneven["reasons"])
        self.assertIsNone(uneven["step_s"])

    def test_a_million_devices_get_an_honest_answer(self):
        plan = self.plan("--model", "deepseek_v3", "--platform", "dgx_h100", "--devices", 1048576, "--set", "layout.schedule=1f1b",
                         "layout.cp=1", "layout.etp=1")
        self.assertTrue(plan["feasible"])
        layout = plan["layout"]
        self.assertEqual(layout["pp"] * layout["tp"] * layout["dp"], 1048576)


class Published(Case):
    RUNS = SOURCE / "configs" / "runs" / "published"

    def test_a_folder_of_figures(self):
        out = self.trireme("validate", self.RUNS, "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        figures = json.loads(out.stdout)["figures"]
        self.assertEqual([f["file"] for f in figures], sorted(p.name for p in self.RUNS.glob("*.toml")))
        for f in figures:
            self.assertAlmostEqual(f["ratio"], f["predicted"] / f["published"])
            self.assertLessEqual(f["predicted"], f["bound"], f["file"])
            self.assertTrue(f["assumed"], f["file"])
            self.assertIn(f["beyond_bound"], (None, "peak", "layout"))
        beyond = [f["name"] for f in figures if f["beyond_bound"]]
        self.assertEqual(beyond, ["europa_3_final"])
        # The page names every figure.
        page = (SOURCE / "docs" / "validation.md").read_text()
        for f in figures:
            self.assertIn(f"[{f['name']}](../configs/runs/published/{f['file']})", page)

    def test_text_names_assumptions_and_what_is_beyond(self):
        out = self.trireme("validate", self.RUNS / "europa_3_final.toml", self.RUNS / "piper_weak_862b.toml")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("assumed: 65,536 tokens a GPU and step", out.stdout)
        self.assertEqual(out.stdout.count("the published figure is beyond"), 1)

    def test_plan_shows_the_run(self):
        answer = self.plan(self.RUNS / "pangu_5_fused.toml")
        self.assertTrue(answer["feasible"])
        self.assertEqual(answer["layout"]["all_to_all"], "allgather_a2a")
        self.assertEqual(answer["devices"], 6144)

    def test_one_clear_error_each(self):
        file = self.folder / "run.toml"
        text = (self.RUNS / "piper_weak_862b.toml").read_text().replace("../../", f"{SOURCE}/configs/")
        file.write_text(text.replace("[published]", "[publishd]"))
        self.assertIn("publishd", self.refused("validate", file))
        file.write_text(text.replace("value = ", "valu = "))
        self.assertIn("published.value", self.refused("validate", file))
        file.write_text(text.replace('set = [', 'set = ["layout.pp=2", '))
        self.assertIn("the run's own tables say that", self.refused("validate", file))
        file.write_text(text.replace('set = [', 'set = ["precision.compte=float8", '))
        self.assertIn("precision.compte", self.refused("validate", file))
        file.write_text(text.split("[published]")[0])
        self.assertIn("published", self.refused("validate", file))
        file.unlink()
        self.assertIn("has no TOML file", self.refused("validate", self.folder))
        self.assertIn("one CSV file of rows", self.refused("validate", "a.csv", "b.csv"))


class Rows(Case):
    """Measurements of models that only the table beside them describes, columns in an order of their own."""

    MODELS = ("vocab,model,layers,dense_layers,hidden,heads,kv_heads,head_dim,attention_type,kv_lora_rank,dense_ffn,n_experts,"
              "topk,expert_ffn,n_shared,shared_ffn,ffn_matrices,mtp_depth,tied_embeddings,notes\n"
              "100000,Owl-30B,32.0,0,2048,32,4,128,GQA,,,64,8,1024,0,,3,0,no,QK-norm\n"
              "100000,Lynx-7B,32,32,4096,32,8,128,GQA,,14336,,,,,,3,0,no,\n")
    ROWS = ("tokens_per_s_per_device,seq_len,global_batch,micro_batch,ep,pp,tp,n_devices,precision,hardware,model,"
            "source_file_or_url,scorable\n"
            "9000,4096,128,1,8,1,1,16,BF16,H100,Owl-30B,github:pytorch/torchtitan,yes\n"
            "9000,4096,128,1,,1,1,16,BF16,an abacus,Owl-30B,x,yes\n"
            ",4096,128,1,,1,1,16,BF16,H100,Owl-30B,x,no: nothing was measured\n"
            "11000,4096.0,128,1,,1,2.0,16,BF16,h100,Lynx 7B,x,yes\n"
            "11000,4096,128,one,,1,2,16,BF16,H100,Lynx-7B,x,yes\n")

    def test_a_table_of_ones_own(self):
        rows, models = self.folder / "rows.csv", self.folder / "models.csv"
        rows.write_text(self.ROWS)
        models.write_text(self.MODELS)
        # Aliases of another collection may lie beside: their models need not be in this one.
        (self.folder / "model_aliases.csv").write_text("alias,model,layers\nsomething else,Elsewhere-9B,\n")
        out = self.trireme("validate", rows, "--models", models, "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        answer = json.loads(out.stdout)
        self.assertEqual([r["id"] for r in answer["rows"]], ["2", "3", "4", "5", "6"])
        self.assertEqual([r["measured"] for r in answer["rows"]], [9000, 9000, None, 11000, 11000])
        self.assertEqual([r["unit"] for r in answer["rows"]][:1], ["tokens/s/device"])
        self.assertEqual([r["skipped"] for r in answer["rows"]],
                         [None, 'hardware "an abacus" is not described', "nothing was measured", None,
                          'micro_batch = "one" is not a whole number of at least 1'])
        for row in answer["rows"]:
            self.assertEqual(row["predicted"] is None, row["skipped"] is not None)
        self.assertEqual(answer["all"]["n"], 2)
        for key in ("n", "mape", "median_ape"):
            self.assertIn(key, answer["all"])

    def test_a_profile_of_ones_own(self):
        rows, models = self.folder / "rows.csv", self.folder / "models.csv"
        rows.write_text(self.ROWS)
        models.write_text(self.MODELS)
        before = json.loads(self.trireme("validate", rows, "--models", models, "--json", "--stack", "uncalibrated").stdout)
        self.assertIn("cannot write", self.refused("calibrate", rows, "--models", models, "--out", "missing/mine.toml"))
        out = self.trireme("calibrate", rows, "--models", models, "--out", "mine.toml", "--folds", 2, "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual([r["id"] for r in json.loads(out.stdout)["rows"]], ["2", "5"])
        self.assertTrue((self.folder / "mine.toml").read_text().startswith('name = "mine"'))
        after = json.loads(self.trireme("validate", rows, "--models", models, "--json", "--stack", self.folder / "mine.toml").stdout)
        self.assertLess(after["all"]["mape"], before["all"]["mape"])

    def test_a_profile_that_is_not_there(self):
        rows = self.folder / "rows.csv"
        rows.write_text(self.ROWS)
        self.assertIn("or one of frontier, published", self.refused("validate", rows, "--stack", "nope"))


class Runnable(Case):
    """Layouts that train executes, simulated one by one on a platform of curves."""
    model = ("--model", "quickstart", "--platform", SOURCE / "configs/platforms/laptop.toml", "--devices", 4, "--sequence", 64,
             "--global-batch", 8, "--runnable")
    asked = (SOURCE / "configs/runs/quickstart.toml", "--platform", SOURCE / "configs/platforms/laptop.toml", "--set",
             "batch.sequence_length=64", "batch.global_batch=8", "--search", "--runnable")

    def test_a_model_s_best_layout_is_a_run(self):
        found = self.plan(*self.model, "--out", "r.toml")
        self.assertTrue(found["feasible"])
        self.assertEqual(found["unrunnable"], [])
        self.assertEqual(found["mesh"]["pp"] * found["mesh"]["dp"], 4)
        self.assertGreater(found["search"]["simulated"], 20)
        # the fastest, and none of those behind it is faster
        self.assertTrue(all(found["step_s"] <= r["step_s"] for r in found["runners_up"]))
        self.assertEqual([f["ranks"] for f in found["fewer_ranks"]], [1, 2])
        self.assertEqual(found["layout"]["all_to_all"], "flat")  # one host: nobody has measured how patterns differ there
        # planning the file says the same of it
        again = self.plan("r.toml", "--ranks", 4)
        self.assertAlmostEqual(again["step_s"], found["step_s"], delta=1e-9 * found["step_s"])
        self.assertEqual(again["mesh"], found["mesh"])
        documented = (SOURCE / "docs" / "search.md").read_text() + (SOURCE / "docs" / "plan.md").read_text()
        for key in found:
            self.assertIn(f"`{key}`", documented)

    def test_a_run_keeps_what_it_is(self):
        found = self.plan(*self.asked, "layout.ep=2", "train.steps=7", "--ranks", 4, "--out", "found.toml")
        self.assertEqual(found["mesh"]["ep"], 2)
        text = (self.folder / "found.toml").read_text()
        for line in ("steps = 7", "learning_rate = 0.004", 'name = "quickstart"', "sequence_length = 64", "global_batch = 8", "ep = 2"):
            self.assertIn(f"\n{line}\n", text)
        self.assertIn(str(SOURCE / "data/gcide_train"), text)
        # the model's search of the same question, with the same key given, finds the same
        model = self.plan(*self.model, "--set", "layout.ep=2")
        self.assertEqual(model["layout"], found["layout"])
        self.assertAlmostEqual(model["step_s"], found["step_s"], delta=1e-9 * found["step_s"])

    def test_text(self):
        out = self.trireme("plan", *self.asked, "--ranks", 2, "--top", 3, "--out", "found.toml")
        self.assertEqual(out.returncode, 0, out.stderr)
        for text in ("layouts that trireme train executes", "The best of fewer ranks", "Predicted step", "Written to found.toml"):
            self.assertIn(text, out.stdout)

    def test_on_a_data_sheet_too(self):
        asked = ("--model", "quickstart", "--platform", "dgx_h100", "--devices", 8, "--sequence", 256, "--global-batch", 64, "--runnable")
        plan = self.plan(*asked, "--out", "r.toml")
        self.assertTrue(plan["feasible"])
        self.assertEqual((plan["layout"]["tp"], plan["layout"]["sharding"], plan["unrunnable"]), (1, "none", []))
        self.assertTrue(all(plan["step_s"] <= r["step_s"] for r in plan["runners_up"]))
        self.assertEqual(plan["fewer_ranks"], [])  # devices of their own share nothing
        again = self.plan("r.toml", "--ranks", 8)
        self.assertAlmostEqual(again["step_s"], plan["step_s"], delta=1e-9 * plan["step_s"])
        self.assertEqual(again["assumptions"], plan["assumptions"])
        # another stack, another price; and less memory than the device has
        self.assertNotEqual(self.plan(*asked, "--stack", "uncalibrated")["step_s"], plan["step_s"])
        self.assertFalse(self.plan(*asked, "--memory-GiB", 0.01)["feasible"])
        # 46.7 billion parameters with their states replicated: 47e9 * (2 + 4 + 4 + 8) bytes over at most 16 stages and experts
        large = self.plan("--model", "mixtral_8x7b", "--platform", "dgx_h100", "--devices", 2, "--runnable")
        self.assertFalse(large["feasible"])
        self.assertIn("needs", large["reasons"][0])

    def test_what_does_not_go_together(self):
        self.assertIn("layout.tp = 2: must be 1 in a training run", self.refused("plan", *self.model, "--set", "layout.tp=2"))
        self.assertIn("cannot write", self.refused("plan", *self.model, "--out", self.folder / "missing" / "r.toml"))
        self.assertIn("--model searches by itself", self.refused("plan", *self.model, "--search"))
        self.assertIn("estimates no layout", self.refused("plan", *self.model, "--csv", "all.csv"))
        for option in (("--runnable",), ("--out", "x.toml"), ("--data", "d")):
            self.assertIn("needs --search", self.refused("plan", self.asked[0], *option))
        self.assertIn("--ranks and --set change it", self.refused("plan", self.asked[0], "--search", "--devices", 4))
        # five ranks can neither be stages of four layers nor divide the batch
        self.assertIn("ranks = 5: no layout", self.refused("plan", *self.asked, "--ranks", 5))
        self.assertIn("latent attention", self.refused("plan", "--model", "deepseek_v2_lite", *self.model[2:]))


class BadPlans(Case):
    def test_each_mistake_is_one_clear_line(self):
        self.assertIn("did you mean deepseek_v3?", self.refused("plan", "--model", "deepsek_v3", "--platform", "dgx_h100", "--devices", 8))
        self.assertIn("did you mean dgx_h100?", self.refused("plan", "--model", "deepseek_v3", "--platform", "dgx_h10", "--devices", 8))
        self.assertIn("layout.schedule", self.refused("plan", *MOE, "--set", "layout.schedule=2f2b"))
        self.assertIn("did you mean layout.recompute?", self.refused("plan", *MOE, "--set", "layout.recomputes=[]"))
        self.assertIn("bfloat16", self.refused("plan", *MOE, "--precision", "bfloat61"))
        self.assertIn("--devices", self.refused("plan", "--model", "deepseek_v3", "--platform", "dgx_h100"))
        self.assertIn("--platform", self.refused("plan", "--model", "deepseek_v3", "--devices", 8))
        self.assertIn("megatron", self.refused("plan", *MOE, "--stack", "megatron_core_2052"))
        for devices in (0, -8, "many"):
            out = self.trireme("plan", "--model", "deepseek_v3", "--platform", "dgx_h100", "--devices", devices)
            self.assertEqual(out.returncode, 2)
            self.assertIn("--devices", out.stderr)

    def test_a_platform_with_a_negative_bandwidth(self):
        text = (SOURCE / "configs" / "platforms" / "dgx_h100.toml").read_text()
        (self.folder / "broken.toml").write_text(text.replace("memory_GBps = 3350", "memory_GBps = -3350"))
        error = self.refused("plan", "--model", "deepseek_v3", "--platform", "broken.toml", "--devices", 8)
        self.assertIn("memory_GBps", error)
        self.assertIn("-3350", error)

    def test_options_that_are_no_numbers_are_one_line(self):
        for option, value in (("--devices", "1e3"), ("--devices", 0), ("--devices", 2**63), ("--global-batch", -1), ("--sequence", "x")):
            self.assertIn(option, self.refused("plan", "--model", "deepseek_v3", "--platform", "dgx_h100", "--devices", 8, option, value)
                          if option != "--devices" else
                          self.refused("plan", "--model", "deepseek_v3", "--platform", "dgx_h100", option, value))

    def test_sizes_beyond_any_model(self):
        for key in ("num_layers", "mtp_depth", "moe.num_experts", "residual_streams"):
            self.assertIn("2147483647" if key != "residual_streams" else "a width of",
                          self.refused("plan", *MOE, "--set", f"model.{key}=2147483647"))

    def test_loads_that_are_none(self):
        counts = "load.counts=[" + ",".join(["1"] * 63) + ",{}]"
        for value in ("nan", "inf", "-1", "1e308"):
            self.assertIn("load.counts", self.refused("plan", *MOE, "--set", counts.format(value)))
        self.assertIn("at least one expert", self.refused("plan", *MOE, "--set", "load.counts=[" + ",".join(["0"] * 64) + "]"))

    def test_the_name_that_kernels_had_is_read_with_a_hint(self):
        fixed = (*MOE, "--set", "layout={pp=1, tp=1, cp=1, ep=8, etp=1, schedule=\"1f1b\"}", "batch.micro_batch=1")
        hint = "memory_profile is called kernels now"
        now, before = (self.plan(*fixed, "--set", f"{key}=plain") for key in ("kernels", "memory_profile"))
        self.assertEqual((before["layout"], before["memory"]), (now["layout"], now["memory"]))
        self.assertIn(hint, before["assumptions"])
        self.assertNotIn(hint, now["assumptions"])
        self.assertIn("give one of the two", self.refused("plan", *fixed, "--set", "kernels=plain", "memory_profile=plain"))
        # of a run's file, too
        run = (SOURCE / "configs/runs/quickstart.toml", "--platform", "dgx_h100", "--search", "--ranks", 2, "--set", "layout.pp=1")
        self.assertIn(hint, self.plan(*run, "--set", "memory_profile=plain")["assumptions"])
        self.assertNotEqual(self.plan(*run, "--set", "kernels=plain")["peak_memory_bytes"], self.plan(*run)["peak_memory_bytes"])

    def test_an_inline_table_fixes_its_keys(self):
        plan = Case.plan(self, *MOE, "--set", "layout={pp=1, tp=1, cp=1, ep=8, etp=1, schedule=\"1f1b\"}")
        self.assertEqual((plan["layout"]["pp"], plan["layout"]["ep"]), (1, 8))

    def test_files_that_are_none(self):
        for option in ("--csv", "--html", "--trace"):
            self.assertIn("cannot write", self.refused("plan", *MOE, option, self.folder / "missing" / "x"))
            self.assertIn("cannot write", self.refused("plan", *MOE, option, self.folder))
        for option in ("--html", "--trace"):
            out = self.trireme("plan", SOURCE / "configs/runs/quickstart.toml", option, self.folder / "missing" / "x")
            self.assertEqual((out.returncode, out.stdout), (2, ""))
            self.assertIn("cannot write", out.stderr)
        # an endless device is no file; a pipe is one
        self.assertIn("longer than", self.refused("plan", "--model", "deepseek_v3", "--platform", "dgx_h100", "--devices", 8,
                                                  "--stack", "/dev/zero"))
        self.assertIn("is a folder", self.refused("plan", "/"))
        for text in (b"", b"\xff\xfe", b"\0\0", b"a = [", b"[model]\nx = \"\xe9\"\n"):
            (self.folder / "m.toml").write_bytes(text)
            self.assertIn("m.toml", self.refused("plan", "--model", "./m.toml", "--platform", "dgx_h100", "--devices", 8))

    def test_calibrating_to_nothing(self):
        (self.folder / "rows.csv").write_text("model,hardware,n_devices,tokens_per_s_per_device\nnone,H100,8,100\n")
        error = self.refused("calibrate", "rows.csv", "--out", "profile.toml")
        self.assertIn("none of its rows", error)
        self.assertIn("row 2:", error)
        self.assertFalse((self.folder / "profile.toml").exists())

    def test_stopping_a_search_leaves_no_file(self):
        search = subprocess.Popen([TRIREME, "plan", "--model", "deepseek_v3", "--platform", "dgx_h100", "--devices", "2048", "--csv",
                                   "all.csv"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "TRIREME_CONFIGS": str(SOURCE / "configs")})
        self.addCleanup(search.kill)
        search.stderr.readline()  # its first word of progress
        search.send_signal(signal.SIGINT)
        search.communicate(timeout=60)
        self.assertNotEqual(search.returncode, 0)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_neither_run_nor_model_or_both(self):
        self.assertIn("--model", self.refused("plan"))
        self.assertIn("--model", self.refused("plan", "run.toml", *MOE))


class Design(Case):
    def test_ranks_architectures_of_a_budget(self):
        out = self.trireme("design", "--platform", "dgx_h100", "--devices", 64, "--params", 30, "--active", 3, "--hidden", 2048, 3072,
                           "--set", "layout.cp=1", "layout.etp=1", "layout.schedule=1f1b", "layout.swap=[]", "--tokens", 1e12, "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        found = json.loads(out.stdout)
        self.assertIn("not known", found["not_known"])
        steps = [c["step_s"] for c in found["candidates"] if c["step_s"] is not None]
        self.assertGreater(len(steps), 1)
        self.assertEqual(steps, sorted(steps))
        for c in found["candidates"]:
            self.assertAlmostEqual(c["params_total"] / 30e9, 1, delta=0.05)
            self.assertAlmostEqual(c["params_active"] / 3e9, 1, delta=0.05)

    def test_budgets_that_make_no_sense(self):
        base = ("design", "--platform", "dgx_h100", "--devices", 64)
        self.assertIn("--params or --flops", self.refused(*base))
        self.assertIn("--tokens", self.refused(*base, "--flops", 1e24))
        self.assertIn("no architecture", self.refused(*base, "--params", 30, "--active", 29))
        self.assertIn("billions", self.refused(*base, "--params", 100e9))
        self.assertIn("--active = 31", self.refused(*base, "--params", 30, "--active", 31))
        for value in ("nan", "inf", "0", "-1", "1e308", "x"):
            self.assertIn("not a positive number of at most 1e+30", self.refused(*base, "--params", value))

    def test_says_that_work_a_token_is_not_equal(self):
        base = ("design", "--platform", "dgx_h100", "--devices", 64, "--params", 30, "--hidden", 2048, "--layers", 24, "--set",
                "layout.pp=1", "layout.tp=1", "layout.cp=1", "layout.etp=1", "layout.schedule=1f1b", "layout.swap=[]")
        self.assertIn("--active", json.loads(self.trireme(*base, "--json").stdout)["note"])
        self.assertNotIn("note", json.loads(self.trireme(*base, "--active", 3, "--json").stdout))


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromName(sys.argv[1] if len(sys.argv) > 1 else "Plan", sys.modules[__name__])
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(0 if result.wasSuccessful() else 1)
