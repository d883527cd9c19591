"""The benches run and say what they measured; how fast is never asserted."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
import structlog

from bench import __main__ as command
from bench import budget, imports, tick, work
from bench.rounds import in_turns
from bench.row import Row
from bench.windows import most_within, shortest


@pytest.fixture(autouse=True)
def logging_as_it_was():
    """A bench decides for its process what is logged; the tests that come after it listen again."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


# --- what a row says -----------------------------------------------------------------------------------------------


def test_a_row_judges_its_ratio_where_there_is_a_reference_and_its_figure_where_there_is_none():
    assert Row.judged("b", "w", 90, "/s", reference=100, at_least=0.9).reached is True
    assert Row.judged("b", "w", 89, "/s", reference=100, at_least=0.9).reached is False
    assert Row.judged("b", "w", 25, "calls", at_most=25).reached is True
    assert Row.judged("b", "w", 26, "calls", at_most=25).reached is False


def test_a_row_can_be_judged_by_the_median_ratio_or_by_another_figure_than_its_ratio():
    assert Row.judged("b", "w", 90, "/s", reference=100, ratio=0.5, at_least=0.9).reached is False
    assert Row.judged("b", "w", 1, "times", reference=6.5, figure=1, at_most=1.05).ratio == pytest.approx(1 / 6.5)


def test_a_row_without_a_target_is_neither_reached_nor_missed():
    row = Row.judged("b", "w", 12, "MB")
    assert (row.reached, row.target, row.ratio) == (None, "", None)


def test_the_target_is_told_as_a_comparison():
    assert Row.judged("b", "w", 1, "s", at_most=1.5).target == "≤ 1.5"
    assert Row.judged("b", "w", 1, "s", at_least=0.98).target == "≥ 0.98"


def test_what_is_compared_takes_turns_and_the_ratio_is_the_median_of_the_rounds():
    order, mine, theirs = [], iter([10.0, 40.0, 90.0]), iter([10.0, 20.0, 30.0])

    def ours() -> float:
        order.append("ours")
        return next(mine)

    def reference() -> float:
        order.append("reference")
        return next(theirs)

    compared = in_turns(3, ours, reference)
    assert order == ["ours", "reference", "reference", "ours", "ours", "reference"]
    assert (compared.ours, compared.reference, compared.ratio) == (40, 20, 2)


@pytest.mark.parametrize(
    ("moments", "most"),
    [([0.0], 1), ([0.0, 59.9], 2), ([0.0, 60.0], 1), ([0.0, 10.0, 60.0, 69.9], 3)],
)
def test_a_window_holds_its_beginning_and_not_the_moment_a_minute_later(moments, most):
    assert most_within(60.0, moments) == most


def test_more_calls_than_a_limit_are_measured_by_the_shortest_time_they_took():
    assert shortest(3, [0.0, 50.0, 61.0, 62.0, 130.0]) == 12.0
    assert shortest(3, [0.0, 50.0]) is None


# --- the benches, small --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bench", [work, budget], ids=lambda bench: bench.NAME)
def test_what_moved_time_measures_is_the_same_on_every_machine_and_reached(bench):
    rows = bench.run(quick=True)
    assert rows
    assert {row.reached for row in rows} == {True}


@pytest.mark.parametrize("bench", [tick, imports], ids=lambda bench: bench.NAME)
def test_a_quick_run_measures_something(bench):
    rows = bench.run(quick=True)
    assert rows
    assert {row.bench for row in rows} == {bench.NAME}
    assert all(row.ours > 0 and row.reference > 0 for row in rows)


# --- the command ---------------------------------------------------------------------------------------------------


ROW = Row.judged("work", "RQ jobs per message sent", 0.04, "jobs", reference=6.5, figure=2.0, at_most=1.05)


def test_the_command_prints_a_table_writes_json_and_ends_well_even_when_a_target_is_missed(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setitem(command.BENCHES, "work", lambda quick: [ROW])
    file = tmp_path / "rows.json"
    assert command.main(["--quick", "--only", "work", "--json", str(file)]) == 0
    written = json.loads(file.read_text())
    assert written["rows"] == [asdict(ROW)]
    assert written["quick"] is True
    assert written["machine"]["cores"] >= 1
    told = capsys.readouterr().out
    assert "RQ jobs per message sent" in told
    assert "≤ 1.05" in told


def test_json_on_the_standard_output_stands_there_alone(monkeypatch, capsys):
    monkeypatch.setitem(command.BENCHES, "work", lambda quick: [ROW])
    assert command.main(["--only", "work", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [asdict(ROW)]


def test_a_bench_that_breaks_is_named_does_not_stop_the_others_and_fails_the_command(monkeypatch, capsys):
    def breaks(quick: bool) -> list[Row]:
        raise RuntimeError("no server")

    monkeypatch.setitem(command.BENCHES, "work", breaks)
    monkeypatch.setitem(command.BENCHES, "budget", lambda quick: [ROW])
    assert command.main(["--only", "work", "--only", "budget"]) == 1
    captured = capsys.readouterr()
    assert "work broke" in captured.out
    assert "no server" in captured.err
    assert "RQ jobs per message sent" in captured.out


def test_a_bench_that_does_not_exist_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["--only", "warp"])
    assert ended.value.code == 2
    assert "warp" in capsys.readouterr().err
