"""Studio: the first page of many findings, a run of a million rows, many people labelling at once, durable answers.

python -m benchmarks.studio [--rows 1000000] [--json FILE]
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common import Row, arguments, report
from foible.findings import SCHEMA, with_metadata
from foible.images import encode_png
from foible.runs.record import settings_hash
from foible.studio.rows import key_of
from foible.studio.store import Store

CLASSES = tuple("0123456789")
NETWORKS = tuple(f"mlp-{size}" for size in (10, 20, 30, 40, 50))
UNIT = 8192
SETTINGS: dict[str, Any] = {
    "recipe": "hunt", "data": "fake", "data_sha256": "0", "split": "test", "unit": UNIT, "device": "cpu",
    "canvas_given": None, "suspects": ["mlp-10"], "peers": list(NETWORKS[1:]), "trials": 0, "seed": 0,
    "space": "affine", "objective": "dissent", "search": "hill-climb", "networks": dict.fromkeys(NETWORKS, "0"),
    "preprocess": {name: {} for name in NETWORKS},
}  # fmt: skip
WHERE = {
    "basket": ["basket"], "data": "fake", "device": "cpu", "trust": False, "space": "affine", "objective": "dissent",
    "search": "hill-climb",
}  # fmt: skip


def made_up(folder: Path, rows: int) -> Path:
    """A run of so many found rows, in shards as a hunt writes them: 28×28 images, five networks, ten classes."""
    draws = np.random.default_rng(0)
    few = [_row(draws) for _ in range(256)]
    base = pa.Table.from_pylist(few, schema=SCHEMA)
    (folder / "shards").mkdir(parents=True)
    settings = {**SETTINGS, "trials": rows}
    key = settings_hash(settings)
    for unit, start in enumerate(range(0, rows, UNIT)):
        count = min(UNIT, rows - start)
        table = base.take(pa.array(draws.integers(0, len(few), count)))
        columns = {
            "id": pa.array([f"mlp-10-{lane:07d}" for lane in range(start, start + count)]),
            "lane": pa.array(range(start, start + count), pa.int64()),
            "config": pa.array([key] * count),
            "realism": pa.array(draws.normal(-1, 1, count).astype(np.float32)),
            "size": pa.array(draws.gamma(2, 1, count).astype(np.float32)),
        }
        for name, values in columns.items():
            table = table.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), values)
        file = folder / "shards" / f"unit-{unit:06d}.parquet"
        pq.write_table(with_metadata(table, CLASSES, {key: settings}), file, compression="zstd")
    units = -(-rows // UNIT)
    config = {"hash": key, "settings": settings, "where": WHERE, "units": units}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _row(draws: np.random.Generator) -> dict[str, Any]:
    truth, said = draws.choice(10, 2, replace=False).tolist()
    image = (draws.random((1, 28, 28)) ** 4 * 255).astype(np.uint8)
    image[:, :, :8] = image[:, :, 20:] = 0
    before, after = (draws.dirichlet(np.ones(10), 5).astype(np.float32).tolist() for _ in range(2))
    moves = int(draws.integers(1, 6))
    return {
        "id": "", "config": "", "suspect": "mlp-10", "networks": list(NETWORKS), "lane": 0, "outcome": "found",
        "tags": [], "image": encode_png(image), "origin": encode_png(image // 2), "origin_data": "fake",
        "origin_split": "test", "origin_index": int(draws.integers(1000)), "truth": truth, "consensus": truth,
        "said": said, "before": before, "after": after, "moves": moves, "candidates": 60, "forwards": 200,
        "backwards": 0, "path": [], "trace": draws.random((moves + 1, 5)).astype(np.float32).tolist(), "point": [],
        "change": [("rotation °", 7.0)], "kinds": ["rotation"], "score": float(draws.gamma(2, 0.5)),
        "versions": "{}",
    }  # fmt: skip


class Program:
    """A server in a process of its own, as a user starts it, asked over one connection."""

    def __init__(self, *args: str, folder: Path) -> None:
        script = "import sys; from foible.cli import main; sys.argv[0] = 'foible'; main()"
        command = [sys.executable, "-c", script, *args, "--port", "0", "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
        assert self.process.stdout is not None
        self.said = json.loads(self.process.stdout.readline())
        self.site = urlsplit(self.said["link"])
        self.base = f"{self.site.scheme}://{self.site.netloc}"
        self.cookie = self.ask(self.site.path, "")[1].get("set-cookie", "").partition(";")[0]

    def ask(self, path: str, cookie: str | None = None, body: Any = None) -> tuple[int, dict[str, str], bytes, float]:
        """Status, headers, body and seconds."""
        began = time.perf_counter()
        asking = http.client.HTTPConnection(self.site.hostname or "", self.site.port, timeout=60)
        headers = {"host": self.site.netloc, "cookie": self.cookie if cookie is None else cookie}
        if body is not None:
            headers |= {"origin": self.base, "content-type": "application/json"}
        asking.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
        reply = asking.getresponse()
        data = reply.read()
        asking.close()
        return reply.status, {k.lower(): v for k, v in reply.getheaders()}, data, time.perf_counter() - began

    @property
    def cpu(self) -> float:
        """Seconds of processor time that the server has used: on a busy machine, what the clock cannot say."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        if not stat.exists():
            return float("nan")
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory(self) -> float:
        """The most that the server ever held, in MB; 0 where the system does not say."""
        status = Path(f"/proc/{self.process.pid}/status")
        found = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
        return int(found[1]) / 1000 if found else 0.0


@contextmanager
def program(*args: str, folder: Path) -> Iterator[Program]:
    made = Program(*args, folder=folder)
    try:
        yield made
    finally:
        made.process.terminate()
        made.process.wait()


def at_most(name: str, ours: float, bar: float, unit: str) -> Row:
    return Row(name, ours, bar, "the bar", ours / bar, 1.0, unit, at_most=True)


def grids(folder: Path, rows: int) -> list[Row]:
    """The first page of 100,000 findings, and of a run of so many rows."""
    made = []
    for count, name in ((100_000, "many"), (rows, "million")):
        run = made_up(folder / name, count)
        with program("studio", str(run), folder=folder) as site:
            page = f"/run/{key_of(run)}/"
            before = site.cpu
            status, _, data, first = site.ask(page)
            spent = site.cpu - before
            assert status == 200
            again = median(site.ask(page)[3] for _ in range(9))
            ordered = site.ask(f"{page}?order=realistic")[3]
            scroll = median(site.ask(f"{page}cards?from={start}")[3] for start in range(60, 60 * 20, 60))
            thumb = re.findall(rb'src="([^"]+/thumb)"', data)[5].decode()
            picture = median(site.ask(thumb)[3] for _ in range(9))
            if count == 100_000:
                made += [
                    at_most("first page of 100,000 findings, first time", 1000 * first, 200, "ms"),
                    at_most("the same, processor time of the server", 1000 * spent, 200, "ms"),
                    at_most("the same, again", 1000 * again, 200, "ms"),
                    at_most("the next 60 cards", 1000 * scroll, 200, "ms"),
                    at_most("sorted by realism, first time", 1000 * ordered, 200, "ms"),
                    at_most("one thumbnail", 1000 * picture, 50, "ms"),
                ]
                files = re.findall(rb'(?:src|href)="(/static/[^"]+)"', data)
                weight = len(data) + sum(len(site.ask(name.decode())[2]) for name in {*files})
                made.append(at_most("the gallery's page before images", weight / 1000, 200, "kB"))
            else:
                made += [
                    at_most(f"a run of {count:,} rows opens", first, 2, "s"),
                    at_most("the same, processor time of the server", spent, 2, "s"),
                    at_most("its memory", site.memory, 1000, "MB"),
                ]
    return made


def labelling(folder: Path, people: int = 20, images: int = 60) -> list[Row]:
    """People at once, as fast as the server answers; nothing lost, nothing doubled."""
    run = made_up(folder / "labelled", images)
    given: list[list[tuple[str, int]]] = [[] for _ in range(people)]
    times: list[float] = []
    with program("label", str(run), "--annotators", str(people), "--votes", str(people), folder=folder) as site:
        links = list(site.said["links"].values())
        cookies = [site.ask(urlsplit(link).path, "")[1]["set-cookie"].split(";") for link in links]
        names = [(one[0], next(part.split("=")[1] for part in one if "path" in part.lower())) for one in cookies]

        def work(number: int) -> None:
            cookie, base = names[number]
            while turns := json.loads(site.ask(f"{base}/next", cookie)[2])["turns"]:
                for one in turns:
                    site.ask(f"{base}/image/{one['turn']}", cookie)
                    choice = (number + len(given[number])) % 10
                    sent = {"turn": one["turn"], "choice": choice, "seconds": 1, "key": f"key-{one['turn']}"}
                    status, _, _, took = site.ask(f"{base}/answer", cookie, sent)
                    assert status == 200
                    times.append(took)
                    given[number].append((one["turn"], choice))
                    site.ask(f"{base}/answer", cookie, sent)  # as if the reply had been lost

        began = time.perf_counter()
        threads = [threading.Thread(target=work, args=(number,)) for number in range(people)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - began
        person = json.loads(site.ask(f"{names[0][1]}/next", names[0][0])[2])
        assert person["done"] == person["whole"] == images
    lost, doubled = _kept(folder / "studio.sqlite", [one for some in given for one in some])
    alone = _alone(folder)
    rate = 60 * images / seconds
    return [
        Row(f"{people} people at once, each", rate, 200, "the bar", rate / 200, 1.0, "labels/min"),
        at_most("answers lost", lost, 0.5, ""),
        at_most("answers doubled", doubled, 0.5, ""),
        at_most("an answer is durable, one person, median", 1000 * median(alone), 50, "ms"),
        at_most("the same, 99 of 100", 1000 * quantiles(alone, n=100)[98], 50, "ms"),
    ]


def _kept(file: Path, given: list[tuple[str, int]]) -> tuple[int, int]:
    """How many answers are missing, or other than given; and how many turns have several."""
    store = Store(file)
    kept = [tuple(row) for row in store.all("SELECT turns.key, choice FROM answers JOIN turns ON turns.id = turn")]
    store.close()
    return len({*given} - {*kept}), sum(count - 1 for count in Counter(turn for turn, _ in kept).values())


def _alone(folder: Path, images: int = 200) -> list[float]:
    """Seconds from an answer to the reply that it is on disk, of one person."""
    run = made_up(folder / "alone", images)
    times = []
    with program("label", str(run), "--store", "alone.sqlite", folder=folder) as site:
        reply = site.ask(urlsplit(next(iter(site.said["links"].values()))).path, "")[1]["set-cookie"].split(";")
        cookie, base = reply[0], next(part.split("=")[1] for part in reply if "path" in part.lower())
        while turns := json.loads(site.ask(f"{base}/next", cookie)[2])["turns"]:
            for one in turns:
                sent = {"turn": one["turn"], "choice": 1, "seconds": 1, "key": f"key-{one['turn']}"}
                times.append(site.ask(f"{base}/answer", cookie, sent)[3])
    return times


def browsers(folder: Path, people: int = 20, images: int = 20) -> list[Row]:
    """One browser, then so many at once, labelling by keys as fast as the images come."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no chromium here: the browser's rows are left out")
        return []
    from playwright.sync_api import sync_playwright

    made = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for count, many in ((1, 100), (people, images)):
            run = made_up(folder / f"browsed-{count}", many)
            options = ("--annotators", str(count), "--votes", str(count), "--store", f"browsed-{count}.sqlite")
            with program("label", str(run), *options, folder=folder) as site:
                pages = []
                for link in site.said["links"].values():
                    page = browser.new_context(viewport={"width": 800, "height": 700}).new_page()
                    page.goto(link)
                    page.get_by_role("button", name="Begin").click()
                    page.locator("[data-stage][data-ready=yes]").wait_for()
                    pages.append(page)
                began, left = time.perf_counter(), list(pages)
                look = "[work.querySelector('[data-stage]').dataset.ready, !finished.hidden]"
                while left:
                    for page in list(left):
                        ready, finished = page.evaluate(look)
                        if finished:
                            left.remove(page)
                        elif ready == "yes":
                            page.keyboard.press("7")
                seconds = time.perf_counter() - began
                for page in pages:
                    page.get_by_text("all saved").wait_for()
            store = Store(folder / f"browsed-{count}.sqlite")
            kept = Counter(row["key"] for row in store.rows(store.tasks()[0]))
            store.close()
            rate = 60 * many * count / seconds
            name = "one browser" if count == 1 else f"{count} browsers at once, together"
            made += [
                Row(name, rate, 200, "the bar", rate / 200, 1.0, "labels/min"),
                at_most(f"{name}: lost or doubled", abs(len(kept) - count * many), 0.5, ""),
            ]
        browser.close()
    return made


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the large run")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="foible-studio-") as folder:
        here = Path(folder)
        report([*grids(here, given.rows), *labelling(here), *browsers(here)], given.json)


if __name__ == "__main__":
    main()
