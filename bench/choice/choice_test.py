"""Scores of small lists that can be worked out by hand, layouts that can be counted, a page of invented lines."""
import json
import pathlib
import tempfile
import unittest

import page
from layouts import layouts
from scores import error, median, median_error, places, regret, spearman


class Scores(unittest.TestCase):
    def test_median(self):
        self.assertEqual(median([3, 1, 2]), 2)
        self.assertEqual(median([4, 1, 3, 2]), 2.5)
        with self.assertRaises(ValueError):
            median([])

    def test_equal_values_share_their_places(self):
        self.assertEqual(places([10, 30, 20, 20]), [1, 4, 2.5, 2.5])

    def test_spearman_sees_only_the_order(self):
        self.assertEqual(spearman([1, 2, 3], [10, 1000, 1001]), 1)
        self.assertEqual(spearman([1, 2, 3], [3, 2, 1]), -1)
        # 1 - 6 sum d^2 / (n (n^2 - 1)) without ties: d = 0, 1, -1, 0: 1 - 6 * 2 / (4 * 15).
        self.assertAlmostEqual(spearman([1, 2, 3, 4], [1, 3, 2, 4]), 0.8)
        # With ties: places 1, 2.5, 2.5, 4 beside 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5).
        self.assertAlmostEqual(spearman([1, 2, 2, 3], [1, 2, 3, 4]), 4.5 / 22.5**0.5)
        self.assertIsNone(spearman([1, 1], [1, 2]))
        with self.assertRaises(ValueError):
            spearman([1], [1, 2])

    def test_regret_is_what_the_choice_costs(self):
        # Predicted least: the second, which took 110; the first took 100.
        self.assertAlmostEqual(regret([2, 1, 3], [100, 110, 300]), 0.1)
        self.assertEqual(regret([1, 2], [5, 6]), 0)

    def test_errors_are_of_what_was_measured(self):
        self.assertAlmostEqual(error(90, 100), -0.1)
        self.assertAlmostEqual(median_error([90, 120, 103], [100, 100, 100]), 0.1)


class Layouts(unittest.TestCase):
    MODEL = {"num_layers": 2, "num_experts": 4, "global_batch": 4}

    def test_one_rank_has_micro_batches(self):
        found = layouts(self.MODEL, 1)
        self.assertEqual([(l["micro_batch"], l["schedule"]) for l in found], [(1, "1f1b"), (2, "1f1b"), (4, "1f1b")])

    def test_two_stages_have_both_schedules_of_several_micro_batches(self):
        found = [(l["micro_batch"], l["schedule"]) for l in layouts(self.MODEL, 2) if l["pp"] == 2]
        self.assertEqual(found, [(1, "1f1b"), (1, "gpipe"), (2, "1f1b"), (2, "gpipe"), (4, "1f1b")])

    def test_degrees_divide_ranks_layers_and_experts(self):
        found = {(l["pp"], l["dp"], l["ep"]) for l in layouts(self.MODEL, 4)}
        self.assertEqual(found, {(1, 4, 1), (1, 4, 2), (1, 4, 4), (2, 2, 1), (2, 2, 2)})  # four stages have no layers

    def test_patterns_where_experts_are_on_several_nodes(self):
        patterns = {(l["ep"], l["all_to_all"]) for l in layouts(self.MODEL, 4, ranks_per_node=2)}
        self.assertEqual(len([p for p in patterns if p[0] == 4]), 8)
        self.assertEqual({p for p in patterns if p[0] < 4}, {(1, "flat"), (2, "flat")})


def lines_of(model, ranks, predicted_ms, first_ms, second_ms):
    out = []
    for i, (p, a, b) in enumerate(zip(predicted_ms, first_ms, second_ms)):
        layout = {"pp": 1, "dp": ranks, "ep": 1, "schedule": "1f1b", "micro_batch": 2**i, "all_to_all": "flat"}
        out.append({"predicted": model, "ranks": ranks, "layout": layout, "step_s": p / 1e3})
        for of_pass, ms in ((1, a), (2, b)):
            out.append({"measured": model, "ranks": ranks, "layout": layout, "pass": of_pass, "median_s": ms / 1e3,
                        "steps_s": [ms / 1e3] * 5, "cores": 2, "load": 1.0, "load_after": 2.0})
    return out


class Page(unittest.TestCase):
    def setUp(self):
        # One rank: predicted and measured alike but for a tenth. Four: the second is predicted fastest, the first measured so.
        self.lines = lines_of("m", 1, [90, 180], [100, 200], [100, 200]) + lines_of("m", 4, [80, 60, 120], [50, 55, 100], [50, 55, 100])

    def test_judgements(self):
        found = {(j.get("choice") or j["order"], j.get("ranks")): j for j in page.judgements(page.results(self.lines))}
        self.assertEqual(found["m", 1]["regret"], 0)
        self.assertAlmostEqual(found["m", 4]["regret"], 0.1)
        self.assertEqual(found["m", 4]["layout"], "dp 4, micro-batch 2")
        self.assertEqual(found["m", 4]["regret_of_a_first_pass"], 0)
        self.assertAlmostEqual(found["m", "any"]["regret"], 0.1)
        order = found["m", None]
        self.assertEqual(order["runs"], 5)
        self.assertEqual(order["ceiling"], 1)
        # Predicted 60 80 90 120 180 beside measured 55 50 100 100 200: places 1 2 3 4 5 and 2 1 3.5 3.5 5.
        self.assertAlmostEqual(order["spearman"], 8.5 / (10 * 9.5) ** 0.5)
        self.assertAlmostEqual(order["median_error_rank_a_core"], 0.1)
        self.assertAlmostEqual(order["median_error_ranks_share_cores"], 0.2)  # 0.6, 0.0909, 0.2

    def test_the_planner_s_own_choice_comes_before_the_least_predicted(self):
        planned = {"planned": "m", "ranks": 4, "layout": self.lines[6]["layout"]}  # the first of four ranks: predicted 80
        found = page.judgements(page.results(self.lines + [planned]))[1]
        self.assertEqual((found["ranks"], found["layout"], found["regret"]), (4, "dp 4, micro-batch 1", 0))

    def test_the_last_of_equal_lines_counts(self):
        again = dict(self.lines[1], median_s=0.3, steps_s=[0.3] * 5)
        entries = page.results(self.lines + [again])["m"][1]
        self.assertEqual(entries[0]["passes_s"][1], 0.3)

    def test_the_section_is_replaced_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            docs = pathlib.Path(folder) / "search.md"
            docs.write_text("# Search\n\ntext\n\n## Limits\n- one\n")
            saved = pathlib.Path(folder) / "lines.jsonl"
            saved.write_text("\n".join(map(json.dumps, self.lines)))
            found = page.results(page.read_lines(saved))
            picture = saved.with_suffix(".svg")
            picture.write_text(page.plot(found))
            page.put_section(docs, found, picture)
            once = docs.read_text()
            self.assertLess(once.index("text"), once.index(page.HEADING))
            self.assertLess(once.index(page.HEADING), once.index("## Limits"))
            self.assertIn("](lines.svg)", once)
            page.put_section(docs, found, picture)
            self.assertEqual(docs.read_text(), once)
            # The clusters' has a place of its own, and leaves this one.
            for _ in range(2):
                page.put_section(docs, found, picture, of_cluster=True)
                self.assertEqual([docs.read_text().count(heading + "\n") for heading in (page.HEADING, page.CLUSTER_HEADING)], [1, 1])
                page.put_section(docs, found, picture)
            self.assertLess(docs.read_text().index(page.CLUSTER_HEADING), docs.read_text().index("## Limits"))


if __name__ == "__main__":
    unittest.main()
