"""What people must be able to see, and the test that looks at it as they do: on a terminal or on the page.

A screen is a pseudo-terminal of 80 columns with the real command on it (`tests/helpers/terminal.py`); a page is the
report in Chromium, 400 and 1280 pixels wide. What a person reads in the README is read there.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
TERMINAL = {"on_terminal", "at_terminal"}
PAGES = {"six", "trained", "inferred", "watch", "request"}
SEEN = {
    "a training says who reached the target, and when": (
        "cli/test_screens.py::test_a_training_says_first_who_reached_the_target",
        "browser/test_screens.py::test_a_training_shows_who_reached_the_target_and_who_did_not",
    ),
    "frameworks are ranked, with those that cannot be told apart": (
        "cli/test_screens.py::test_frameworks_are_ranked_first_and_all_fits_a_screen",
        "browser/test_screens.py::test_frameworks_stand_in_order_with_those_that_cannot_be_told_apart",
        "browser/test_screens.py::test_frameworks_are_compared_in_pairs",
        "browser/test_screens.py::test_many_series_are_small_multiples_and_none_is_left_out",
    ),
    "an inference has p50, p95, p99 and its throughput": (
        "cli/test_screens.py::test_an_inference_says_its_latencies",
        "browser/test_screens.py::test_an_inference_shows_p50_p95_p99_and_the_throughput",
    ),
    "a cluster's table has one series; factors that follow from others, or cannot be told apart, are named": (
        "cli/test_screens.py::test_a_cluster_has_one_series_and_a_network_of_nobody_no_roofline",
        "cli/test_everyday_screens.py::test_factors_that_are_confounded_together_have_no_effect_on_the_screen",
    ),
    "several workers are compared with one on all cores": (
        "cli/test_screens.py::test_several_workers_are_compared_with_one_on_all_cores",
    ),
    "one rule for what differs": ("cli/test_screens.py::test_frameworks_are_ranked_first_and_all_fits_a_screen",),
    "causes have intervals, and the times of the table": (
        "cli/test_screens.py::test_causes_have_intervals_and_the_times_of_the_table",
    ),
    "units that people read": (
        "cli/test_screens.py::test_units_are_those_that_people_read",
        "cli/test_everyday_screens.py::test_a_checkup_has_units_and_fits",
    ),
    "short first, all on request, 80 columns with any number of factors": (
        "cli/test_everyday_screens.py::test_forty_configurations_of_four_factors_are_answered_on_one_screen",
        "cli/test_everyday_screens.py::test_every_section_shows_something_or_says_why_not",
        "cli/test_everyday_screens.py::test_a_plan_of_twelve_factors_has_every_name_and_level_whole",
    ),
    "bar, count and time left, Ctrl-C, and signs of life while something is installed": (
        "cli/test_progress.py::test_bar_count_and_time_left_are_always_on_the_line",
        "cli/test_everyday_screens.py::test_ctrl_c_ends_after_the_trial_and_the_same_command_goes_on",
        "cli/test_everyday_screens.py::test_a_second_ctrl_c_ends_at_once_in_one_line",
        "runner/environments/test_variants.py::test_another_version_with_a_package_is_an_environment_of_its_own",
    ),
    "the report on a phone": (
        "browser/test_screens.py::test_nothing_scrolls_sideways_on_a_phone",
        "browser/test_screens.py::test_a_row_is_named_by_all_factors_that_vary_and_its_name_is_not_cut",
        "browser/test_screens.py::test_legends_cover_nothing",
        "browser/test_screens.py::test_a_chart_says_what_it_leaves_out",
    ),
    "a network of one's own is tried first, and another trial when it changes": (
        "e2e/test_own_code.py::test_a_network_that_does_not_fit_its_data_is_told_on_a_screen",
        "e2e/test_own_code.py::test_a_changed_network_is_another_trial",
        "cli/test_everyday_screens.py::test_a_study_of_an_onnx_file_is_told_what_can_be_done_with_it",
    ),
    "no roofline of a network that nobody knows": (
        "cli/test_screens.py::test_a_cluster_has_one_series_and_a_network_of_nobody_no_roofline",
    ),
    "versions and packages to compare, and on which platforms": (
        "runner/environments/test_variants.py::test_another_version_with_a_package_is_an_environment_of_its_own",
        "docs/test_readme.py::test_the_platforms_are_said",
    ),
    "what became slower between two studies": (
        "cli/test_screens.py::test_a_slower_study_fails_where_that_is_beyond_doubt",
    ),
    "completion, the nearest word, failures, a changed protocol, the ranks of a profile": (
        "cli/test_everyday_screens.py::test_a_shell_completes_values",
        "cli/test_everyday_screens.py::test_a_mistyped_word_is_answered_with_the_nearest",
        "cli/test_everyday_screens.py::test_failures_lead_to_status_and_status_to_what_failed",
        "cli/test_everyday_screens.py::test_the_ranks_of_a_profile_are_taken_file_by_file",
    ),
    "a comparison of models with a bar": (
        "cli/test_life.py::test_a_comparison_on_a_terminal_has_a_bar_with_its_share_and_time",
    ),
}


def _looks_at(test: str) -> set[str]:
    """What a test is given, by the names of its parameters; an error if there is no such test."""
    file, _, name = test.partition("::")
    for node in ast.parse((TESTS / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return {argument.arg for argument in node.args.args}
    raise AssertionError(f"there is no test {test}")


@pytest.mark.parametrize("what", SEEN)
def test_it_is_looked_at_where_people_see_it(what: str) -> None:
    for test in SEEN[what]:
        if not test.startswith("docs/"):
            assert _looks_at(test) & (PAGES if test.startswith("browser/") else TERMINAL), test
        else:
            _looks_at(test)
