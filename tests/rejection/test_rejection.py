"""Can it be told? Scores by their formulas, intervals that hold, rules that cost what they say, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from small_tasks import Task, linear_task
from torch import Tensor

from foible import cli, distort, fit_rejection, reject
from foible.basket import Basket
from foible.data import Dataset
from foible.errors import UserError
from foible.findings import Findings
from foible.rejection.rule import read_rule
from foible.rejection.scores import limit_for, strangeness, told_apart


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_scores_are_their_formulas() -> None:
    logits = 3 * draw(2, 50, 4)
    p = logits.double().softmax(-1)
    found = strangeness(logits)
    entropy = -(p * p.log()).sum(-1)
    mean = p.mean(0)
    assert torch.allclose(found["max-softmax"], -p[0].amax(-1).log())
    assert torch.allclose(found["entropy"], entropy[0])
    assert torch.allclose(found["energy"], -logits[0].double().exp().sum(-1).log())
    assert torch.allclose(found["disagreement"], -(mean * mean.log()).sum(-1) - entropy.mean(0))
    assert "disagreement" not in strangeness(logits[0])


def test_answers_that_are_all_but_certain_are_still_told_apart() -> None:
    logits = torch.tensor([[0.0, 60.0, 0.0], [0.0, 61.0, 0.0]])
    first, second = strangeness(logits)["max-softmax"].tolist()
    assert first > second > 0
    assert strangeness(torch.tensor([[0.0, -torch.inf]]))["entropy"].tolist() == [0.0]


def told_of(real: Tensor, fooling: Tensor) -> tuple[float, ...]:
    """Of two classes the energy is any number that one likes: AUROC, its interval, what passes, its interval."""
    pair = [torch.stack([-scores, torch.full_like(scores, -1e30)], 1) for scores in (real, fooling)]
    [one] = [one for one in told_apart(*pair) if one.score == "energy"]
    return one.auroc, one.low, one.high, one.passes, one.passes_low, one.passes_high


def test_auroc_and_what_passes_by_hand() -> None:
    real = torch.arange(1, 101).double()
    auroc, low, high, passes, passes_low, passes_high = told_of(real, torch.tensor([95.0, 95.5, 200.0, 0.5]).double())
    assert auroc == pytest.approx((94.5 + 95 + 100 + 0) / 400)
    assert limit_for(real) == 95
    assert limit_for(real, 0.901) == 91
    assert passes == 0.5
    assert low < auroc < high
    assert passes_low < passes < passes_high


def test_complete_separation_is_not_certain() -> None:
    auroc, low, high, passes, passes_low, passes_high = told_of(draw(200), draw(12) + 50)
    assert (auroc, high, passes, passes_low) == (1.0, 1.0, 0.0, 0.0)
    assert 0.7 < low < 0.99
    assert 0.05 < passes_high < 0.4


def test_intervals_hold_their_level() -> None:
    """Two normals one deviation apart: the true figures are known."""
    from scipy.stats import norm

    area, share, n = norm.cdf(1 / 2**0.5), norm.cdf(norm.ppf(0.95) - 1), 120
    held = [0, 0]
    for number in range(n):
        _, low, high, _, least, most = told_of(draw(150, seed=number), draw(40, seed=number + 1000) + 1)
        held[0] += low <= area <= high
        held[1] += least <= share <= most
    assert held[0] >= 0.9 * n
    assert held[1] >= 0.9 * n


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return linear_task(tmp_path_factory.mktemp("reject"))


@pytest.fixture(scope="module")
def run(task: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("distorted") / "run"
    distort(str(task.basket), task.data, out=out, source="A", images=30, device="cpu", quiet=True, workers=1)
    return out


def test_a_rule_of_a_run_does_what_its_file_says(task: Task, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "rule.json"
    rule = fit_rejection(run, task.data, str(task.basket), score="disagreement", out=file, device="cpu", quiet=True)
    assert rule == read_rule(file)
    assert (rule.suspect, list(rule.networks)) == ("A", ["A", "B", "C"])
    assert (rule.fitted["real"], rule.cost.n) == (30, 30)
    found = Findings.open(run).filter(outcome="found")
    assert rule.caught.n == len(found)
    told = reject(file, run, str(task.basket), device="cpu", quiet=True)
    assert list(told.names) == found.column("id")
    assert int(told.refused.sum()) == rule.caught.count
    basket = Basket.open(str(task.basket))
    logits = basket.predict(torch.stack(found.images()))
    assert torch.equal(rule.refuses(logits), told.refused)
    with pytest.raises(UserError, match=r"takes logits \(networks, n, classes\) of A, B, C"):
        rule.refuses(logits[0])


def test_the_threshold_costs_what_was_asked_for(task: Task) -> None:
    """Real images in thousands: the share refused of those that had no part in the fitting is near the share asked."""
    basket = Basket.open(str(task.basket))
    pixels = torch.randint(0, 256, (3000, 1, 12, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    real = Dataset("noise", "test", pixels, torch.zeros(3000, dtype=torch.int64), ("0", "1", "2"))
    fooling = Dataset("dark", "test", pixels[:200] // 16, torch.zeros(200, dtype=torch.int64), ("0", "1", "2"))
    rule = fit_rejection(fooling, real, basket, suspect="B", cost=0.1, quiet=True)
    assert rule.cost.n == 1500
    assert 0.07 < rule.cost.count / rule.cost.n < 0.13
    assert (rule.caught.count, rule.caught.n) == (100, 100)  # nothing on them: all networks are undecided
    told = reject(rule, real, basket, quiet=True).to_json()
    assert told["refused"]["n"] == 3000
    assert told["refused"]["count"] == len(told["images"])
    assert [one["score"] for one in told["images"]] == sorted((one["score"] for one in told["images"]), reverse=True)


def test_what_is_no_better_than_chance_is_said(task: Task) -> None:
    pixels = torch.randint(0, 256, (300, 1, 12, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    parts = [Dataset(name, "test", some, torch.zeros(150, dtype=torch.int64), ("0", "1", "2"))
             for name, some in (("one", pixels[:150]), ("other", pixels[150:]))]  # fmt: skip
    with pytest.raises(UserError, match=r"no score tells fooling images .* AUROC of max-softmax 0\.\d\d .*--score"):
        fit_rejection(*parts, str(task.basket), suspect="A", device="cpu", quiet=True)
    assert (
        fit_rejection(*parts, str(task.basket), suspect="A", score="energy", device="cpu", quiet=True).caught.n == 150
    )


def test_bad_input_is_refused(task: Task, run: Path, tmp_path: Path) -> None:
    def fails(match: str, fooling: object = run, networks: object = str(task.basket), **options: object) -> None:
        with pytest.raises(UserError, match=match):
            fit_rejection(fooling, task.data, networks, device="cpu", quiet=True, **options)  # type: ignore[arg-type]

    fails("no found image among 0 rows", Findings.open(run).filter(outcome="exhausted"))
    fails("3 fooling images are too few", Findings.open(run).filter(outcome="found").head(3))
    fails("12 real images are too few", images=12)
    fails("which network is fooled.* --suspect", task.data)
    fails("score is 'entrop', did you mean 'entropy'|score is 'entrop'", score="entrop")
    fails("cost is 1.0", cost=1.0)
    fails("disagreement takes several networks", networks=str(task.basket / "A"), score="disagreement")
    fails("is no run: give a run folder", tmp_path)
    broken = {name: (lambda images: images.new_full((len(images), 3), torch.nan)) for name in "A"}
    fails("network A answers with NaN or infinity for 60 of 60 real images",
          networks=Basket(broken, classes=["0", "1", "2"], preprocess="inside"))  # fmt: skip
    file = tmp_path / "rule.json"
    fit_rejection(run, task.data, str(task.basket), score="energy", out=file, device="cpu", quiet=True)
    with pytest.raises(UserError, match="fitted to another network: 'A' has the weights"):
        reject(file, task.data, [f"A={task.basket / 'B'}"], device="cpu", quiet=True)
    assert reject(file, task.data, [f"renamed={task.basket / 'A'}"], device="cpu", quiet=True).score.shape == (60,)
    record = json.loads(file.read_text())
    for key, value in (("threshold", "high"), ("score", "beauty"), ("networks", {}), ("schema_version", 2)):
        file.write_text(json.dumps(record | {key: value}))
        with pytest.raises(UserError, match=r"rule\.json"):
            read_rule(file)
    with pytest.raises(UserError, match="there is no rule"):
        read_rule(tmp_path / "nothing.json")


def test_the_command(task: Task, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = str(tmp_path / "rule.json")
    common = ["--basket", str(task.basket), "--device", "cpu"]
    assert cli.run(["reject", "fit", str(run), "--data", task.data, "--out", rule, "--score", "energy", *common]) == 0
    said = capsys.readouterr().out
    assert "Refuse an image where energy is above" in said
    assert "AUROC" in said
    assert cli.run(["reject", "apply", rule, "--data", str(run), *common]) == 0
    assert "refused of these images" in capsys.readouterr().out
    assert cli.run(["reject", "apply", rule, "--data", str(run), *common, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["refused"]["n"] == len(Findings.open(run).filter(outcome="found"))
    assert cli.run(["reject", "fit", str(run), "--data", task.data, "--out", rule]) == 2


def test_images_in_a_folder_are_fooling_images_too(task: Task, tmp_path: Path) -> None:
    from PIL import Image

    draws = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for number in range(12):
        Image.fromarray(draws.integers(0, 30, (12, 12), np.uint8)).save(tmp_path / "images" / f"{number:02}.png")
    spec = f"folder:{tmp_path / 'images'}"
    rule = fit_rejection(spec, task.data, str(task.basket), suspect="A", score="entropy", device="cpu", quiet=True)
    assert rule.caught.n == 12
    told = reject(rule, spec, str(task.basket), device="cpu", quiet=True)
    assert sorted(told.names)[0].endswith("00.png")
