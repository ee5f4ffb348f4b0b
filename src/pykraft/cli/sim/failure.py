"""Reports, shrinks and draws a failing world, for `run` and `replay`.

Writes FILE.html, the page, and FILE.toml, the scenario of the shrunk run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from pykraft.sim.machine.trace import Recorder
from pykraft.sim.page.render import render
from pykraft.sim.run.shrink import Shrinking, Small
from pykraft.sim.run.simulation import Failure, replay_command, simulate
from pykraft.sim.run.world import Outcome
from pykraft.sim.scenario.file import scenario_text
from pykraft.sim.scenario.scenario import Scenario
from pykraft.text.words import counted

TRIES_A_LINE = 20


def tell_failure(failure: Failure, words: Sequence[str], *, is_short: bool) -> None:
    """Print the end of the trace and the traceback, unless ``is_short``, and the command that replays the seed."""
    if not is_short:
        click.echo("\n".join(failure.trace))
        click.echo(failure.story)
    click.echo(f"seed {failure.seed} failed: {failure.reason}\nreplay it: {replay_command(failure.seed, words)}")


def shrink(failure: Failure, scenario: Scenario, *, say: Callable[[str], None]) -> Small:
    """The smallest failing run that the search finds; prints progress now and then."""

    def tell(tries: int, best: Small) -> None:
        if tries % TRIES_A_LINE == 0:
            say(f"shrinking: {counted(tries, 'try', 'tries')}, {_size(best.failure)}")

    say(f"shrinking: {_size(failure)}")
    search = Shrinking(failure, scenario, tell=tell)
    best = search.search()
    say(f"shrunk in {counted(search.tries, 'try', 'tries')}: {_size(best.failure)}")
    return best


def shrink_and_draw(failure: Failure, scenario: Scenario, page: Path, *, say: Callable[[str], None]) -> None:
    """Write the page of the shrunk run, and its scenario beside it."""
    best = shrink(failure, scenario, say=say)
    path = page.with_suffix(".toml")
    path.write_text(scenario_text(best.scenario))
    words = ("--scenario", str(path))
    draw(failure.seed, best.scenario, page, words)
    say(f"replay the shrunk run: {replay_command(failure.seed, words)}\npage: {page}")


def draw(
    seed: int, scenario: Scenario, page: Path, words: Sequence[str], *, tell: Callable[[str], None] | None = None
) -> Outcome | Failure:
    """Run a world and write its page."""
    recorder = Recorder()
    result = simulate(seed, scenario=scenario, tell=tell, recorder=recorder)
    reason = result.reason if isinstance(result, Failure) else None
    title = f"pykraft sim, seed {seed}"
    text = render(recorder, title=title, replay=replay_command(seed, words), reason=reason)
    page.write_text(text)
    return result


def _size(failure: Failure) -> str:
    nodes, harm = failure.voters + failure.observers, len(failure.harm)
    kinds = len({kind for _, kind in failure.harm})
    faults = f"{counted(harm, 'fault')} of {counted(kinds, 'kind')}"
    return f"{counted(nodes, 'node')}, {faults}, {failure.at_us / 1e6:.3f} s"
