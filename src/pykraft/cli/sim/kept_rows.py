"""What `pykraft sim run` keeps of its results: the rows in the file of ``--out``, and the page of ``--report``.

`pykraft.campaign` has the formats of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from pykraft.campaign.page import RunPace, campaign_page
from pykraft.campaign.replays import Replays
from pykraft.campaign.row_file import RowFile
from pykraft.campaign.summary import CampaignSummary
from pykraft.errors import UsageError
from pykraft.sim.run.campaign import Row


@contextmanager
def kept_rows(
    out: Path | None, seeds: range, summary: CampaignSummary
) -> Iterator[tuple[Sequence[int], Callable[[Row], None]]]:
    """The seeds still to run, and a function that keeps a result; results of earlier runs are counted at once.

    Errors: UsageError for rows of another campaign, while another run writes, or if the file cannot be opened.
    """
    if out is None:
        yield seeds, _keep_nothing
        return

    def count(row: Row) -> None:
        if row["seed"] in seeds:
            summary.add(row)

    try:
        opened = RowFile(out, summary.identity, tell=count)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from error
    with closing(opened) as rows:
        yield rows.left_of(seeds), rows.add


def write_report(page: Path, summary: CampaignSummary, words: tuple[str, ...], *, ran: int, took_s: float) -> None:
    """Write the page of a run: ``words`` chose its scenario, ``ran`` seeds took ``took_s``. Errors: OSError."""
    replays = Replays(words=words, is_this_code=True)
    page.write_text(campaign_page([summary], [replays], RunPace(seeds=ran, seconds=took_s)), encoding="utf-8")


def _keep_nothing(row: Row) -> None:
    del row
