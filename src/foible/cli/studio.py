"""`foible studio` and `foible label`: the local page, to look and to label."""

from __future__ import annotations

import json as json_module
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from foible.studio.base import Task
    from foible.studio.store import Store

STORE = Path("studio.sqlite")
PASSWORD = "FOIBLE_STUDIO_PASSWORD"
PORT = 8765

KeptIn = Annotated[Path, typer.Option("--store", help="File that tasks and answers are kept in.")]
Host = Annotated[str, typer.Option(help="Address to listen at; any but this machine's own asks for a password.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 for any that is free.")]
PublicUrl = Annotated[
    str | None,
    typer.Option(help="Address that people type, where a reverse proxy hands on to this one: https://host/path."),
]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def studio(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Runs, files of findings, or folders of runs. Default: runs.", show_default=False),
    ] = None,
    store: KeptIn = STORE,
    host: Host = "127.0.0.1",
    port: Port = PORT,
    public_url: PublicUrl = None,
    json: Json = False,
) -> None:
    """Look through findings in the browser: runs, galleries, one finding in full; and let people label them.

    Only this machine can reach the page, and only with the link that is printed, which works once.

    Example: foible studio runs
    """
    _serve(runs or [Path("runs")], store, host, port, public_url, json)


def label(
    source: Annotated[
        str, typer.Argument(help="What to label: a run, or any data spec such as folder:photos.", show_default=False)
    ],
    annotators: Annotated[int, typer.Option(min=1, max=500, help="How many people; each gets a link.")] = 1,
    votes: Annotated[
        int | None,
        typer.Option(min=1, max=500, show_default=False,
                     help="Answers to each image, by different people (default: 1; of `foible boundary`, of all)."),
    ] = None,
    extra: Annotated[
        int | None,
        typer.Option(min=0, max=50, show_default=False,
                     help="Further answers, at most, where people disagree (default: 2; where everybody answers, 0)."),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option("--name", help="A person's name, instead of a code; repeat.", show_default=False)
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(help="What to choose from: names with commas, or a file with one a line.", show_default=False),
    ] = None,
    cannot_tell: Annotated[bool, typer.Option("--cannot-tell", help="Offer “cannot tell”.")] = False,
    none_of_these: Annotated[bool, typer.Option("--none-of-these", help="Offer “none of these”.")] = False,
    key: Annotated[
        list[str] | None, typer.Option("--key", help="A key for a class, as in cat=c; repeat.", show_default=False)
    ] = None,
    question: Annotated[str, typer.Option(help="What people are asked.")] = "What do you see?",
    guideline: Annotated[
        Path | None, typer.Option(help="A text file that is shown before the first image.", show_default=False)
    ] = None,
    examples: Annotated[int, typer.Option(min=0, max=20, help="Examples of each class beside the guideline.")] = 0,
    repeats: Annotated[float, typer.Option(min=0, max=0.5, help="Share of images that a person sees twice.")] = 0.0,
    checks: Annotated[int, typer.Option(min=0, max=1000, help="Attention checks: images whose class is known.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many images, drawn.", show_default=False)] = None,
    split: Annotated[str, typer.Option(help="Of a data set: train or test.")] = "test",
    seed: Annotated[int, typer.Option(min=0, help="For what is drawn, and for everybody's order.")] = 0,
    task: Annotated[
        str | None, typer.Option(help="What the task is called; the source's name without.", show_default=False)
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="Write the answers to this .csv, .parquet or .json (Label Studio), and stop.",
                     show_default=False),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="With --export: csv, parquet, label-studio or cleanlab.", show_default=False),
    ] = None,
    take_in: Annotated[
        Path | None,
        typer.Option("--import", help="Add the answers of such a file to the task, and stop.", show_default=False),
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Say how far people are and agree, and stop.")] = False,
    take: Annotated[
        str | None,
        typer.Option(help="Take the labels into the run, by majority or dawid-skene, and stop.", show_default=False),
    ] = None,
    drop: Annotated[bool, typer.Option("--drop", help="With --take: pass over what people do not confirm.")] = False,
    store: KeptIn = STORE,
    host: Host = "127.0.0.1",
    port: Port = PORT,
    public_url: PublicUrl = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Let people label what a run found, or any images, blind; the same command goes on with a task.

    Everybody gets a link and an order of their own, and sees images and choices, nothing else. Of a run of
    `foible boundary` everybody sees every image.

    Example: foible label runs/mnist --annotators 12 --votes 3
    """
    from foible.errors import UserError
    from foible.studio import tables
    from foible.studio.make import by_everybody, called, is_of, is_run
    from foible.studio.store import Store

    opened = Store(store)
    try:
        made = opened.task(task or called(source))
        if made is not None and not is_of(made, source):
            raise UserError(
                f"the task {made.name!r} in {str(store)!r} is of {made.source!r}, not of {source!r}: name this one "
                "with --task"
            )
        if made is None:
            many = max(annotators, len(name or []))
            votes = (many if by_everybody(source) else 1) if votes is None else votes
            extra = (0 if by_everybody(source) else 2) if extra is None else extra
            made = _made(
                opened, source, classes, guideline, key or [], name=task, split=split, limit=limit, checks=checks,
                examples=examples, annotators=many, names=name or [], seed=seed,
                votes=votes, extra=extra, repeats=repeats, question=question,
                other=[*([-1] if cannot_tell else []), *([-2] if none_of_these else [])],
            )  # fmt: skip
        if take_in is not None:
            count = tables.take_in(opened, made, take_in)
            print(json_module.dumps({"new": count}) if json else f"{count} new answers in {made.name}")
        elif export is not None:
            count = tables.write(opened, made, export, to)
            print(json_module.dumps({"written": count, "out": str(export)}) if json else f"{count} answers: {export}")
        elif take is not None:
            from foible.studio.outcome import join

            joined = join(opened, made, take, drop=drop)
            print(json_module.dumps(joined.told) if json else joined.words)
        elif status:
            _tell(opened, made, json)
        else:
            roots = [Path(source)] if is_run(source) else []
            _serve(roots, store, host, port, public_url, json, made)
    finally:
        opened.close()


def _made(store: Store, source: str, classes: str | None, guideline: Path | None, keys: list[str], **more: Any) -> Task:
    from foible.errors import UserError
    from foible.studio.make import make_task

    given = None
    if classes is not None:
        text = _read(Path(classes)) if Path(classes).is_file() else classes.replace(",", "\n")
        given = [line.strip() for line in text.splitlines() if line.strip()]
    chosen = {}
    for one in keys:
        what, sign, which = one.rpartition("=")
        if not sign or len(which) != 1:
            raise UserError(f"--key {one!r}: expected a class and one key, as in cat=c")
        chosen[what] = which
    text = "" if guideline is None else _read(guideline).strip()
    return make_task(store, source, classes=given, guideline=text, keys=chosen, **more)


def _read(file: Path) -> str:
    from foible.disk import ordinary
    from foible.errors import UserError

    try:
        return ordinary(file).read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        raise UserError(f"{str(file)!r} cannot be read as text ({error}): give a text file in UTF-8") from error


def _tell(store: Store, task: Task, json: bool) -> None:
    from foible.studio.outcome import summary

    told = summary(store, task)
    if json:
        print(json_module.dumps(told))
        return
    kappa, alpha = ("–" if one is None else f"{one:.2f}" for one in (told["fleiss_kappa"], told["krippendorff_alpha"]))
    print(f"{task.name}: {told['answers']} answers; {told['voted']} of {told['images']} images have all their votes")
    print(f"Fleiss' κ {kappa}, Krippendorff's α {alpha}; {told['disputed']} to be decided")
    for person in told["people"]:
        agrees = "–" if person["agreement"] is None else f"{person['agreement']:.2f}"
        print(f"  {person['name']}: {person['done']} of {person['turns']}, agrees with others {agrees}")


def _serve(
    roots: list[Path], store: Path, host: str, port: int, public_url: str | None, json: bool, task: Task | None = None
) -> None:
    from foible.errors import UserError
    from foible.studio.safety import LOOPBACK
    from foible.studio.server import serve
    from foible.studio.tables import apart
    from foible.studio.web import Studio

    for root in roots:
        if not root.exists() and root != Path("runs"):
            raise UserError(f"there is no {str(root)!r}: give a run, or a folder of runs")
    password = None
    if host not in LOOPBACK:
        said = f"foible: --host {host} lets everybody on the network try; what they send is not encrypted."
        print(f"{said} Behind a proxy with https, leave --host out and give --public-url.", flush=True)
        password = os.environ.get(PASSWORD) or typer.prompt("Password for the owner", hide_input=True)
        if len(password) < 8:
            raise UserError("the password has fewer than 8 characters: give a longer one")

    def ready(made: Studio) -> None:
        people = [] if task is None else made.store.people(task)
        names = apart({person.number: person.name for person in people})
        links = {names[one.number]: f"{made.site.url}/join/{one.token}" for one in people if one.token}
        gone = {names[one.number] for one in people if one.revoked}
        if task is not None:
            made.home = f"/task/{task.key}/"
        if json:
            print(json_module.dumps({"link": made.link, "links": links}), flush=True)
            return
        print(f"Studio: {made.link}", flush=True)
        for name, link in links.items():
            print(f"  {name}: {'revoked' if name in gone else link}", flush=True)
        print("Ctrl-C stops it; everything that was answered is kept.", flush=True)

    serve(roots, store, host=host, port=port, public_url=public_url, password=password, ready=ready)
