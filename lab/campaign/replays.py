"""The command that replays a failing seed: a row names its scenario by a digest, and this finds the options for it.

Invariant: options are only named if they give the very scenario of the row, by this code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pykraft.errors import UsageError
from pykraft.sim.run.campaign import Identity
from pykraft.sim.run.simulation import replay_command
from pykraft.sim.run.totals import CampaignSummary
from pykraft.sim.scenario.file import load, shipped_names
from pykraft.sim.scenario.scenario import Scenario

LIKELY: Final = "all"
"""The shipped scenario of most campaigns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replays:
    """How the seeds of one summary are replayed."""

    words: tuple[str, ...] | None
    """The options that choose the scenario; None if they are not known."""
    is_this_code: bool
    """Whether the code that is running now is the one that ran the seeds."""

    def command(self, seed: int) -> str | None:
        """The command; None if the options are not known."""
        return None if self.words is None else replay_command(seed, self.words)


def find_replays(
    summaries: Sequence[CampaignSummary], given: tuple[Scenario, tuple[str, ...]] | None = None
) -> list[Replays]:
    """For each summary, how its seeds are replayed; ``given`` is a scenario with its options, tried first.

    Errors: UsageError if no summary is of the given scenario.
    """
    words_of: dict[str, tuple[str, ...]] = {}
    known = {each.identity.scenario for each in summaries}
    wanted = {each.identity.scenario for each in summaries if each.failed}
    here = ""
    for scenario, words in _candidates(given, is_asked=bool(wanted)):
        identity = Identity.of(scenario)  # it reads all of the code, so the search ends as soon as it can
        if given is not None and scenario is given[0] and identity.scenario not in known:
            raise UsageError(f"{' '.join(words)}: none of the rows is of this scenario")
        here = identity.source
        words_of.setdefault(identity.scenario, words)
        if words_of.keys() >= wanted:
            break
    return [
        Replays(words=words_of.get(each.identity.scenario), is_this_code=each.identity.source == here)
        for each in summaries
    ]


def _candidates(
    given: tuple[Scenario, tuple[str, ...]] | None, *, is_asked: bool
) -> Iterator[tuple[Scenario, tuple[str, ...]]]:
    if given is not None:
        yield given
    if is_asked:
        yield load([LIKELY]), ("--faults", LIKELY)
        yield load(), ()
        yield from ((load([name]), ("--faults", name)) for name in shipped_names() if name != LIKELY)
