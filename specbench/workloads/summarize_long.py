"""Long reports of an invented valley, generated from a seed, and the request to summarise them.

A report stays with its people, places and figures: every chapter tells what was found, what was
decided and what came of it, and ends with its finding in one sentence. A summary is asked to give
those findings, so that its words stand in the prompt, as they do in real summaries of real reports.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import attrs

from specbench.experiment.prompt import Message, Prompt
from specbench.workloads.documents import ESTIMATE

STRATUM = "summarize-long"
PLACES = (
    "Aldermoor", "Birkholm", "Cresswater", "Dunnock Hill", "Eastling", "Fennery", "Garrow", "Hathe",
    "Ilsford", "Jessamy", "Kelder", "Lowmarsh", "Mirren", "Netherby", "Oakstead", "Pellow",
)  # fmt: skip
FIRST = ("Agnes", "Bela", "Clara", "Dorian", "Edda", "Florian", "Greta", "Hugo", "Ines", "Jonas")
LAST = ("Ambler", "Brandt", "Coster", "Dellow", "Ekberg", "Farrow", "Gannet", "Hollis", "Ivey")
ROLES = ("surveyor", "keeper", "treasurer", "engineer", "clerk", "foreman", "archivist", "teacher")


@attrs.frozen
class Subject:
    """A thing that a valley has, what may be wrong with it, and what is then done."""

    name: str
    use: str
    fault: str
    remedy: str
    gain: str


SUBJECTS = (
    Subject("water mill", "grinding the corn of three parishes", "a cracked axle and a silted race",
            "a new oak axle and a week of dredging", "sacks ground in a day"),
    Subject("stone bridge", "the carts that go to market", "two loose arches and a leaning wall",
            "iron ties and fresh lime mortar", "carts crossing before noon"),
    Subject("village school", "the lessons of the upper farms", "a leaking roof over the far room",
            "slates from the closed chapel", "pupils present in winter"),
    Subject("ferry", "the crossing below the weir", "a worn cable and a landing under mud",
            "a steel cable and a landing of planks", "crossings made in a week"),
    Subject("orchard", "apples for the press and the table", "canker in the oldest rows",
            "grafts from the healthy trees on the slope", "baskets picked in autumn"),
    Subject("archive", "deeds, maps and letters", "damp shelves along the north wall",
            "raised shelves and a small stove", "papers copied for visitors"),
    Subject("deep well", "the houses that the pipe does not reach", "a falling level in August",
            "a shaft dug nine feet deeper", "buckets drawn before the level fell"),
    Subject("market hall", "the stalls of the first Saturday", "a floor that gave way",
            "brick laid on gravel", "stalls let for the season"),
    Subject("signal station", "warnings of flood", "lamps that failed in wet wind",
            "sealed lamps and a second watcher", "warnings passed in time"),
    Subject("seed store", "the grain kept back for sowing", "weevils in the west bins",
            "bins lined with tin and swept each month", "bushels kept sound until spring"),
    Subject("footpath", "the children and the post", "a slide of clay above the stream",
            "willow stakes and a drain of stones", "walkers counted in a month"),
    Subject("bell tower", "the hours and the alarm", "a split beam under the great bell",
            "a beam of larch set by two carpenters", "hours struck without a fault"),
)  # fmt: skip

HISTORY = (
    "The {subject} at {place} has stood since {year}, and serves {use}.",
    "Nobody in {place} remembers a time before the {subject}, which was begun in {year} for {use}.",
    "When the {subject} at {place} was opened in {year}, {use} had long been the valley's worry.",
    "In {year} the people of {place} paid for the {subject} themselves; it was meant for {use}.",
)
WITNESS = (
    "{person}, who has been its {role} for {years} years, walked over it with us twice.",
    "We were led by {person}, the {role}, whose notes go back {years} years.",
    "{person} kept us company as {role} and answered for the last {years} years of it.",
    "What we know of its daily use comes from {person}, {role} for {years} years.",
)
CONDITION = (
    "We found {fault}, and {person} showed us where it was worst.",
    "The trouble is {fault}; it was first written down in the spring of {later}.",
    "There was no doubt about {fault}, which two earlier visits had passed over.",
    "Since {later} people have spoken of {fault}, and each wet season has made it plainer.",
)
DISPUTE = (
    "At the meeting in {place} some wished to wait a year, since {cost} crowns is a great sum.",
    "A farmer from {other} asked why {cost} crowns should be spent here and not on his own road.",
    "The treasurer reckoned {cost} crowns, and was asked to reckon again; the sum stayed the same.",
    "{other} offered labour in place of money, and in the end gave a part of both.",
)
DECISION = (
    "It was decided by {votes} voices to pay for {remedy}, and {person} was to oversee it.",
    "The vote, {votes} in favour, was for {remedy}; work began within the month.",
    "After two evenings {votes} hands went up for {remedy}.",
    "They settled on {remedy}, with {votes} voices for it and few against.",
)
RESULT = (
    "A year later we counted {after} {gain}, where there had been {before}.",
    "The count before the work was {before} {gain}; after it the count was {after}.",
    "From {before} {gain} it went to {after}, and has not fallen since.",
    "{person} now writes down {after} {gain}; the old books say {before}.",
)
ASIDE = (
    "The weather kept fair while we measured, so that our figures can be trusted to a tenth.",
    "We compared our figures with the parish book and found one of them a year out.",
    "A drawing of it is among the plates at the end of this report.",
    "It rained on the second day, and we used the time to copy the accounts.",
    "Children followed us with questions, and one of them found the mark that we had missed.",
    "The same hand wrote the accounts for most of that time, and wrote them well.",
    "We slept at the inn, where the matter was talked over more freely than at the meeting.",
    "What is said here was read to those whom it concerns, and they changed two words.",
)
BACK = (
    "As chapter {number} found: {finding}",
    "This should be read beside chapter {number}: {finding}",
    "It reminded us of chapter {number}, where we wrote: {finding}",
)
FINDING = (
    "the {subject} at {place} needed {remedy}, cost {cost} crowns, and went from {before} to "
    "{after} {gain}."
)
REQUEST = (
    "Below is the report of a survey. Summarise it in about {words} words for somebody who has to "
    "decide what is repaired next. Name the chapters that you draw on, and give their findings in "
    "the report's own words.\n\n{report}"
)


def summarize_long(
    seed: int, least: int, most: int, count: int, max_tokens: int
) -> tuple[Prompt, ...]:
    """Give prompts whose lengths go evenly from `least` to `most` tokens, at 4 characters each."""
    step = (most - least) / max(count - 1, 1)
    return tuple(
        _prompt(seed, place, round(least + step * place), max_tokens) for place in range(count)
    )


def _prompt(seed: int, place: int, tokens: int, max_tokens: int) -> Prompt:
    words = max(max_tokens // 2, 20)
    report = ESTIMATE.beginning(_report(f"{seed}/{place}", tokens), tokens)
    # The last sentence is whole: the cut falls after it.
    report = report[: report.rfind(".") + 1]
    content = REQUEST.format(words=words, report=report)
    return Prompt(
        id=f"{STRATUM}-{seed}-{place + 1}",
        stratum=STRATUM,
        messages=(Message(role="user", content=content),),
        max_tokens=max_tokens,
        source=f"specbench {STRATUM} of seed {seed}",
        licence="Apache-2.0",
    )


def _report(seed: str, tokens: int) -> str:
    """Give whole chapters until there are enough tokens."""
    chance = random.Random(f"{STRATUM}/{seed}")  # noqa: S311 - no secret
    chapters: list[str] = []
    findings: list[str] = []
    length = 0
    while length <= tokens:
        chapters.append("\n\n".join(_chapter(chance, len(chapters) + 1, findings)))
        length += ESTIMATE.tokens(chapters[-1])
    return "\n\n".join(chapters)


def _chapter(chance: random.Random, number: int, findings: list[str]) -> Iterator[str]:
    """Give the paragraphs of a chapter, and add its finding to the earlier ones."""
    subject = chance.choice(SUBJECTS)
    place, other = chance.choice(PLACES), chance.choice(PLACES)
    year = chance.randint(1702, 1861)
    before = chance.randint(11, 90)
    facts = {
        **attrs.asdict(subject),
        "subject": subject.name,
        "place": place,
        "other": other,
        "person": f"{chance.choice(FIRST)} {chance.choice(LAST)}",
        "role": chance.choice(ROLES),
        "year": year,
        "later": year + chance.randint(20, 60),
        "years": chance.randint(4, 41),
        "cost": chance.randint(12, 480) * 10,
        "votes": chance.randint(14, 77),
        "before": before,
        "after": before + chance.randint(5, 120),
    }

    def said(*kinds: tuple[str, ...]) -> str:
        return " ".join(chance.choice(kind).format(**facts) for kind in kinds)

    yield f"Chapter {number}. The {subject.name} at {place}"
    yield said(HISTORY, WITNESS, ASIDE)
    yield said(CONDITION, ASIDE, DISPUTE)
    if findings:
        earlier = chance.randrange(len(findings))
        yield chance.choice(BACK).format(number=earlier + 1, finding=findings[earlier])
    yield said(DECISION, ASIDE, RESULT)
    finding = FINDING.format(**facts)
    findings.append(finding)
    yield f"Finding of chapter {number}: {finding}"
