"""`timeplex evaluate`, `compare` and `diagnose` as a user calls them."""

import json
from pathlib import Path

import polars as pl
import pytest
from tests.builders import small_kb
from typer.testing import CliRunner

import timeplex as package
from timeplex.cli.main import app

FAST = ["--set", "epochs=2", "--set", "options.dimension=8", "--set", "batch_size=100"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("evaluate")
    small_kb(400, valid=0.2, test=0.2).save(folder / "small.kb")
    small_kb(400, seed=1, valid=0.2, test=0.2).save(folder / "other.kb")
    made = {"kb": str(folder / "small.kb")}
    for name, model, kb in (
        ("timeplex", "timeplex-base", "small"),
        ("complex", "complex", "small"),
        ("tnt", "tnt-complex", "small"),
        ("elsewhere", "timeplex-base", "other"),
    ):
        made[name] = str(folder / name)
        arguments = ["train", str(folder / f"{kb}.kb"), "-o", made[name], "--model", model, *FAST]
        assert CliRunner().invoke(app, arguments).exit_code == 0
    return made


def test_evaluate_prints_filters_baselines_and_times(timeplex, runs: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    answer = timeplex("evaluate", runs["timeplex"], "--protocol", "published-code", "--by", "relation")
    assert answer.code == 0, answer.err
    assert "test: 80 facts, 160 queries" in answer.out
    assert "protocol published-code: per-instant filter over observed instants, pessimistic ties" in answer.out
    for words in ("ignore-time", "exact-span", "copy nearest", "expected-aeiou", "By relation", "aeIOU@1", "HITS@10"):
        assert words in answer.out


def test_evaluate_json_and_queries(timeplex, runs: dict[str, str], tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "queries.parquet"
    answer = timeplex("evaluate", runs["timeplex"], "--json", "--by", "span", "--per-query", str(file))
    result = json.loads(answer.out)
    assert result["model"] == "timeplex-base"
    assert result["protocol"]["name"] == "paper"
    queries = pl.read_parquet(file).filter(pl.col("direction") != "time")
    assert result["link"]["per-instant"]["both"]["mrr"] == pytest.approx((1 / queries["rank_per_instant"]).mean())
    assert result["by"]["link"]["none"].keys() == set(queries["span"])
    assert result["by"]["time"]["grid"].keys() <= set(queries["span"])
    assert set(result["baselines"]) == {"most frequent", "most frequent then", "copy nearest"}


def test_one_filter_alone(timeplex, runs: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    result = json.loads(timeplex("evaluate", runs["complex"], "--filter", "none", "--json", "--split", "valid").out)
    assert list(result["link"]) == ["none"]
    assert result["protocol"]["filter"] == "none"
    assert result["time"] == {}


def test_a_kb_alone_shows_the_baselines(timeplex, runs: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    answer = timeplex("evaluate", runs["kb"])
    assert "baselines on synthetic-400-0, test: 80 facts" in answer.out
    assert "copy nearest" in answer.out
    assert "Time prediction" not in answer.out
    assert json.loads(timeplex("evaluate", runs["kb"], "--json").out)["link"] == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "colour"], "There is no breakdown by 'colour'. Use one of: relation, span, class, seen, frequency."),
        (["--split", "dev"], "has no 'dev' facts. The splits with facts are: train, valid, test."),
        (["--protocol", "mine"], "There is no protocol 'mine'. Use one of: paper, published-code."),
        (["--filter", "raw"], "There is no filter 'raw'."),
        (["--per-query", "queries.csv"], "queries.csv is not a .parquet file."),
        (["--per-query", "/dev/null/queries.parquet"], "queries.parquet cannot be written"),
    ],
)
def test_mistakes_are_one_sentence(timeplex, runs: dict[str, str], arguments, message) -> None:  # type: ignore[no-untyped-def]
    assert message in timeplex("evaluate", runs["complex"], *arguments).complaint()


def test_what_is_no_run(timeplex, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert "nothing-here" in timeplex("evaluate", str(tmp_path / "nothing-here")).complaint()


def test_compare_as_table_latex_and_json(timeplex, runs: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    pair = [runs["timeplex"], runs["tnt"]]
    answer = timeplex("compare", *pair, "--by-relation")
    assert "MRR (%):" in answer.out
    assert "aeIOU@1 (%):" in answer.out
    latex = timeplex("compare", *pair, "--latex").out
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2
    result = json.loads(timeplex("compare", *pair, "--by-relation", "--json").out)
    whole = {row["metric"]: row for row in result["comparisons"] if row["of"] == "all"}
    evaluated = [json.loads(timeplex("evaluate", run, "--json").out) for run in pair]
    for side, figures in zip(("first", "second"), evaluated, strict=True):
        assert whole["MRR"][side] == pytest.approx(figures["link"]["per-instant"]["both"]["mrr"])
        assert whole["aeIOU@1"][side] == pytest.approx(figures["time"]["mean-mass"]["aeiou@1"])
    assert whole["MRR"]["low"] <= whole["MRR"]["difference"] <= whole["MRR"]["high"]
    by_relation = [row for row in result["comparisons"] if row["metric"] == "MRR" and row["of"] != "all"]
    assert sum(row["facts"] for row in by_relation) == whole["MRR"]["facts"] == 80


def test_a_model_without_times_is_compared_by_ranks(timeplex, runs: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    result = json.loads(timeplex("compare", runs["timeplex"], runs["complex"], "--json").out)
    assert {row["metric"] for row in result["comparisons"]} == {"MRR"}


def test_compare_refuses_other_queries(timeplex, runs: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    assert "only one run" in timeplex("compare", runs["timeplex"]).complaint()
    assert "small.kb is not a run folder" in timeplex("compare", runs["timeplex"], runs["kb"]).complaint()
    assert "same queries" in timeplex("compare", runs["timeplex"], runs["elsewhere"]).complaint()
    assert (
        "No spans were predicted by 'best'"
        in timeplex("compare", runs["timeplex"], runs["tnt"], "--decoder", "best").complaint()
    )


def test_diagnose(timeplex, runs: dict[str, str], tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    kb = package.read(runs["kb"])
    s, r, o, *_ = next(iter(kb.test))
    fact = [kb.entities[s], kb.relations[r], kb.entities[o]]
    pictures = ["--distances", str(tmp_path / "d.png"), "--across-time", str(tmp_path / "a.svg"), "--fact", *fact]
    answer = timeplex("diagnose", runs["timeplex"], runs["tnt"], *pictures)
    assert answer.code == 0, answer.err
    assert "Orderings in train" in answer.out
    assert "Broken by top subjects on test" in answer.out
    assert (tmp_path / "d.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "a.svg").read_text()
    result = json.loads(timeplex("diagnose", runs["timeplex"], "--json").out)
    assert result["violations"]["timeplex"]["queries"] == 80
    assert 0 <= result["violations"]["timeplex"]["share"] <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fact", "a", "b", "c"], "--across-time and --fact belong together."),
        (["--years", "1990"], "'1990' are not years. Give the first and the last, such as 1958..2017."),
        (["--split", "dev"], "has no 'dev' facts."),
        (["--across-time", "a.png", "--fact", "nobody", "b", "c"], "nobody"),
    ],
)
def test_mistakes_in_diagnosing(timeplex, runs: dict[str, str], arguments, message) -> None:  # type: ignore[no-untyped-def]
    answer = timeplex("diagnose", runs["timeplex"], "--json", *arguments)
    assert answer.code == 2
    assert message in answer.err


def test_runs_of_other_kbs_are_not_mixed(timeplex, runs: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    assert "not trained on the same KB" in timeplex("diagnose", runs["timeplex"], runs["elsewhere"]).complaint()


def test_what_training_said_of_dev_is_what_evaluate_says(timeplex, runs: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    said = json.loads((Path(runs["tnt"]) / "metrics.json").read_text())["dev"]
    answer = timeplex("evaluate", runs["tnt"], "--split", "valid", "--protocol", "published-code", "--json")
    found = json.loads(answer.out)["link"]["per-instant"]["both"]
    assert {name: found[name] for name in said} == pytest.approx(said)


def test_a_kb_without_orderings_says_so(timeplex, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    rows = [f"e{number},knows,e{number % 7},{1990 + number % 9},{1995 + number % 9}" for number in range(60)]
    (tmp_path / "facts.csv").write_text("\n".join(["subject,relation,object,begin,end", *rows]))
    assert timeplex("train", str(tmp_path / "facts.csv"), "-o", str(tmp_path / "run"), *FAST).code == 0
    answer = timeplex("diagnose", str(tmp_path / "run"))
    assert answer.code == 0
    assert answer.out.startswith("No relation comes before another")


def test_times_have_no_frequency(timeplex, runs: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    """Frequency is that of the asked entity, which a time query has not."""
    answer = timeplex("evaluate", runs["timeplex"], "--by", "frequency", "--json")
    assert answer.code == 0, answer.err
    by = json.loads(answer.out)["by"]
    assert by["time"] == {}
    assert "rare" in by["link"]["none"]


def test_a_fact_that_is_not_known_has_no_gold(timeplex, runs: dict[str, str], tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    kb = package.read(runs["kb"])
    s, r, o, *_ = next(iter(kb.test))
    facts = {"known": (kb.entities[s], kb.entities[o]), "unknown": (kb.entities[o], kb.entities[o])}
    for name, (subject, object_) in facts.items():
        picture = ["--across-time", str(tmp_path / f"{name}.svg"), "--fact", subject, kb.relations[r], object_]
        assert timeplex("diagnose", runs["timeplex"], *picture).code == 0
    assert "gold" in (tmp_path / "known.svg").read_text()
    assert "gold" not in (tmp_path / "unknown.svg").read_text()
