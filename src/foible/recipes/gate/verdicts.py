"""A gate's answer for machines and for a pull request: JUnit XML and Markdown.

Names of classes, tags and networks are data: neither file lets them become markup.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as xml

from foible.recipes.gate.checks import Check, Gated
from foible.text import shown

SIGNS = {"pass": "✅", "fail": "❌", "inconclusive": "⚠️"}
MOST_LISTED = 10


def sentence(check: Check) -> str:
    """What was measured, in one line."""
    points, interval = figures(check)
    measured = f"{points} points ({interval}) over " if points else ""
    said = f"{measured}{check.n} {check.unit}: {check.broken} broken, {check.fixed} fixed"
    return said if check.tolerance is None else f"{said}; tolerance {check.tolerance:g}"


def figures(check: Check) -> tuple[str, str]:
    """How much worse, and the interval, as text; nothing where the images were chosen by OLD or NEW."""
    if check.points is None or check.low is None or check.high is None:
        return "", ""
    return f"{check.points:+.1f}", f"{check.low:+.1f} to {check.high:+.1f}"


def junit(gated: Gated, *, strict: bool = False) -> bytes:
    """JUnit XML: a test case for each check. A class that cannot be decided is skipped; a tag, which nothing is asked
    of, passes with its figures as output."""
    suite = xml.Element("testsuite", name=f"foible gate ({gated.tier})", errors="0", time="0")
    counts = {"tests": 0, "failures": 0, "skipped": 0}
    for check in gated.checks:
        case = xml.SubElement(
            suite, "testcase", classname=f"foible.gate.{check.kind}", name=shown(check.name), time="0"
        )
        counts["tests"] += 1
        # Under --strict an undecided gate fails; an undecided class does not undecide the gate.
        fails = check.verdict == "fail" or (strict and check.verdict == "inconclusive" and check.kind == "overall")
        if fails:
            counts["failures"] += 1
            xml.SubElement(case, "failure", message=sentence(check), type=str(check.verdict)).text = sentence(check)
        elif check.verdict == "inconclusive":
            counts["skipped"] += 1
            xml.SubElement(case, "skipped", message=f"inconclusive: {sentence(check)}")
        else:
            xml.SubElement(case, "system-out").text = sentence(check)
    if strict and gated.verdict == "inconclusive" and not counts["failures"]:  # images were left out
        case = xml.SubElement(suite, "testcase", classname="foible.gate.overall", name="all images judged", time="0")
        why = shown(" ".join(gated.notes))
        xml.SubElement(case, "failure", message=why, type="inconclusive").text = why
        counts["tests"] += 1
        counts["failures"] += 1
    for key, value in counts.items():
        suite.set(key, str(value))
    said = [
        f"{gated.verdict}: new against {gated.against}.",
        *([f"{gated.named}."] if gated.networks else []),
        *gated.notes,
    ]
    xml.SubElement(suite, "system-out").text = shown(" ".join(said))
    root = xml.Element("testsuites")
    root.append(suite)
    xml.indent(root)
    return bytes(xml.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def quoted(name: str) -> str:
    """A name for Markdown, tables included: every sign that could mean something is written as its number, inside
    <code>, where sites link no mentions, issues or addresses."""
    plain = re.sub(r"[^\w -]|_", lambda sign: f"&#{ord(sign[0])};", shown(name))
    return f"<code>{plain}</code>"


def markdown(gated: Gated, *, strict: bool = False) -> str:
    """A summary for a pull request: the verdict, the table, the worst classes, the first broken images."""
    found = f"{gated.verdict}{' (a failure under --strict)' if strict and gated.verdict == 'inconclusive' else ''}"
    lines = [f"## {SIGNS[gated.verdict]} foible gate: {found}", "", f"NEW against {quoted(gated.against)}.", ""]
    lines += [f"- {quoted(name)} is {quoted(spec)}" for name, spec in gated.networks.items()]
    lines += [""] if gated.networks else []
    lines += _table([*gated.of("overall"), *gated.of("tag")])
    classes = gated.of("class")
    worst = gated.worst(MOST_LISTED)
    if classes:
        failed = sum(check.verdict == "fail" for check in classes)
        open_ = sum(check.verdict == "inconclusive" for check in classes)
        lines += [
            "",
            f"**Classes:** {failed} of {len(classes)} fail, {open_} undecided (intervals widened for "
            f"{len(classes)} comparisons).{' The worst:' if worst else ''}",
            "",
        ]
        lines += _table(worst) if worst else []
    if gated.broken:
        listed = ", ".join(quoted(id) for id in gated.broken[:MOST_LISTED])
        more = len(gated.broken) - MOST_LISTED
        lines += ["", f"**Broken:** {listed}{f' and {more} more' if more > 0 else ''}"]
    if gated.notes:
        lines += ["", *(f"- {quoted(note)}" for note in gated.notes)]
    return "\n".join(lines) + "\n"


def _table(checks: list[Check]) -> list[str]:
    lines = [
        "| | what | n | broken | fixed | worse by (points) | interval | tolerance |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for check in checks:
        sign = SIGNS[check.verdict] if check.verdict else ""
        limit = "" if check.tolerance is None else f"{check.tolerance:g}"
        kind = "" if check.kind == "overall" else f"{check.kind} "
        points, interval = figures(check)
        counts = f"{check.n} | {check.broken} | {check.fixed}"
        lines.append(f"| {sign} | {kind}{quoted(check.name)} | {counts} | {points} | {interval} | {limit} |")
    return lines
