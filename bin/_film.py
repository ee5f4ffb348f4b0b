"""Films a fail-over: the work of bin/film, which says how to call it.

It starts three nodes under load, runs `pykraft quorum describe --watch` beside them, kills the leader with kill -9,
restarts it, and draws what the command printed as one SVG that moves: no script, no font and no address, so a README
can show it. Readers who prefer reduced motion see its last picture.

Invariant: each line below the prompt is one that the command printed, at the time at which it was printed; the lines
with a clock are measured.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from lab.nodes.cluster import Cluster, PykraftNode
from pykraft.client.remote.quorum import Health
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import SOURCES

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images" / "fail-over.svg"
WATCH_S = 0.2
HOLD_S = 2.0
END_S = 2.5
"""The last picture stays for so long before the film begins anew."""
THROUGHPUT = 1_000
VERDICTS = tuple(f"{each.value}:" for each in (Health.HEALTHY, Health.AT_RISK, Health.NO_LEADER))
ARGUMENTS = ("describe", "--watch", str(WATCH_S))
COLUMNS, LETTER_PX, LINE_PX, MARGIN_PX = 84, 7.8, 19, 16
STYLE = """
svg { color-scheme: light dark; --paper: #ffffff; --line: #d1d9e0; --ink: #1f2328; --soft: #59636e; }
svg { --good: #1a7f37; --warn: #8a5c00; --bad: #c81e2b; --event: #0550ae; }
@media (prefers-color-scheme: dark) {
  svg { --paper: #0d1117; --line: #3d444d; --ink: #e6edf3; --soft: #9198a1; }
  svg { --good: #3fb950; --warn: #e3b341; --bad: #ff7b72; --event: #79c0ff; }
}
rect { fill: var(--paper); stroke: var(--line); }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: var(--ink); }
text { white-space: pre; }
.soft { fill: var(--soft); } .good { fill: var(--good); } .warn { fill: var(--warn); } .bad { fill: var(--bad); }
.event { fill: var(--event); } .strong { font-weight: bold; }
.run { visibility: hidden; } .run.last { visibility: visible; }
@media (prefers-reduced-motion: reduce) { .run { animation: none !important; } }
"""


@dataclass(frozen=True, slots=True)
class Picture:
    """What the command showed from ``at_s`` on, in seconds since the film began."""

    at_s: float
    lines: tuple[str, ...]


@dataclass(slots=True)
class Film:
    """The command, its pictures, and what was done to the quorum meanwhile: times in seconds, and texts."""

    prompt: str
    pictures: list[Picture] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)


class Watch:
    """Reads what the command prints, picture by picture, while it is running."""

    def __init__(self, stream: Iterator[str]) -> None:
        self.pictures: list[Picture] = []
        self._begun_s = time.monotonic()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def now_s(self) -> float:
        """Seconds since the film began."""
        return time.monotonic() - self._begun_s

    def leader(self) -> str | None:
        """Who leads in the newest whole picture."""
        lines = self.pictures[-1].lines if self.pictures else ()
        return next((line.split()[-1] for line in lines if line.startswith("LeaderId:")), None)

    def is_healthy(self) -> bool:
        """Whether the newest whole picture has the best verdict."""
        return bool(self.pictures) and self.pictures[-1].lines[0].startswith(VERDICTS[0])

    def join(self) -> None:
        """Wait until the command has ended."""
        self._thread.join()

    def _read(self, stream: Iterator[str]) -> None:
        """A picture is whole when the next one begins, and was shown from its first line on."""
        begun_s = 0.0
        lines: list[str] = []
        for line in stream:
            if line.startswith(VERDICTS) and lines:
                self.pictures.append(Picture(begun_s, _without_end(lines)))
                lines = []
            if not lines:
                begun_s = self.now_s()
            lines.append(line.rstrip())


def _without_end(lines: Sequence[str]) -> tuple[str, ...]:
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    return tuple(lines[:end])


def record(folder: Path, *, hold_s: float) -> Film:
    """The film of a quorum in this folder. Errors: LocalQuorumError."""
    with Children() as children:
        cluster = Cluster(children, folder, throughput=THROUGHPUT)
        led = cluster.start()
        first = f"{cluster.endpoints[0]},…"  # all three have no room in one line
        film = Film(" ".join(["$ pykraft quorum --bootstrap-controller", first, *ARGUMENTS]))
        bootstrap = ",".join(map(str, cluster.endpoints))
        command = [sys.executable, "-m", "pykraft", "quorum", "--bootstrap-controller", bootstrap, *ARGUMENTS]
        environment = os.environ | {"PYTHONPATH": str(SOURCES), "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as watching:
            assert watching.stdout is not None
            try:
                watch = Watch(watching.stdout)
                wait_until(watch.is_healthy, "a healthy quorum")
                _play(film, watch, cluster.nodes[led.node], hold_s=hold_s)
            finally:
                watching.terminate()
            watch.join()
    begin_s = film.events[0][0] - hold_s
    film.events = [(at_s - begin_s, text) for at_s, text in film.events]
    shown = [Picture(max(0.0, each.at_s - begin_s), each.lines) for each in watch.pictures]
    begin = max(place for place, each in enumerate(shown) if each.at_s == 0.0)
    film.pictures = shown[begin:]
    return film


def _play(film: Film, watch: Watch, victim: PykraftNode, *, hold_s: float) -> None:
    _hold(watch, hold_s)
    former = watch.leader()
    killed_s = watch.now_s()
    victim.process.kill()
    film.events.append((killed_s, f"$ kill -9 {victim.process.pid}   # node {former}, the leader"))
    wait_until(lambda: watch.leader() not in {None, former}, "another leader")
    led_s = watch.now_s()
    film.events.append((led_s, f"node {watch.leader()} leads, seen {led_s - killed_s:.1f} s after the kill"))
    _hold(watch, hold_s)
    victim.start()
    film.events.append((watch.now_s(), f"node {former} is started again"))
    wait_until(watch.is_healthy, "all voters caught up")
    film.events.append((watch.now_s(), f"node {former} has caught up"))
    _hold(watch, hold_s)


def _hold(watch: Watch, hold_s: float) -> None:
    end_s = watch.now_s() + hold_s
    wait_until(lambda: watch.now_s() >= end_s, "the next scene")


def draw(film: Film) -> str:
    """The film as an SVG."""
    length_s = max(film.pictures[-1].at_s, film.events[-1][0]) + END_S
    screens = [(each.at_s, _folded(each.lines)) for each in film.pictures]
    height = max(len(lines) for _, lines in screens)
    below = 2 + height + 1
    runs = list(_runs(screens, height, length_s))
    width_px = 2 * MARGIN_PX + COLUMNS * LETTER_PX
    height_px = 2 * MARGIN_PX + LINE_PX * (below + len(film.events))
    texts = [_text(0, film.prompt, "soft")]
    steps: list[str] = []
    for row, begin_s, end_s, line, css_class in runs:
        texts.append(_moving(steps, _text(2 + row, line, css_class), begin_s, end_s, length_s))
    for place, (at_s, event) in enumerate(film.events):
        line = f"{at_s:5.1f} s  {event}"
        texts.append(_moving(steps, _text(below + place, line, "event strong"), at_s, length_s, length_s))
    frame = f'<rect x="0.5" y="0.5" width="{width_px - 1:.0f}" height="{height_px - 1}" rx="8"/>'
    label = "A terminal shows a quorum of three. Its leader is killed, another node leads, the killed one catches up."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width_px:.0f} {height_px}" role="img" '
        f'aria-label="{label}">\n<style>{STYLE}.run {{ animation: {length_s:.2f}s step-end infinite; }}\n'
        + "\n".join([*dict.fromkeys(steps), "</style>", frame, *texts, "</svg>", ""])
    )


def _folded(lines: Sequence[str]) -> list[str]:
    """As on a terminal of this width, where the command leaves the last column of its table out."""
    header = next((place for place, line in enumerate(lines) if line.startswith("NodeId ")), len(lines))
    cut = lines[header].find("  DirectoryId") if header < len(lines) else None
    lines = [*lines[:header], *(line[:cut].rstrip() for line in lines[header:])]
    return [part for line in lines for part in (textwrap.wrap(line, COLUMNS, subsequent_indent="  ") or [""])]


def _runs(
    screens: Sequence[tuple[float, list[str]]], height: int, length_s: float
) -> Iterator[tuple[int, float, float, str, str]]:
    """For each row the times in which it says the same: row, begin, end, text, css_class."""
    for row in range(height):
        begin_s, shown, css_class = 0.0, "", ""
        for at_s, lines in screens:
            line = lines[row] if row < len(lines) else ""
            if line != shown:
                if shown:
                    yield row, begin_s, at_s, shown, css_class
                begin_s, shown, css_class = at_s, line, _css_class(row, line)
        if shown:
            yield row, begin_s, length_s, shown, css_class


def _css_class(row: int, line: str) -> str:
    if row == 0:
        return f"strong {dict(zip(VERDICTS, ('good', 'warn', 'bad'), strict=True))[_verdict(line)]}"
    if line.startswith("NodeId "):
        return "soft"
    return "strong" if " Leader " in line else ""


def _verdict(line: str) -> str:
    return next(each for each in VERDICTS if line.startswith(each))


def _text(row: int, line: str, css_class: str) -> str:
    y_px = MARGIN_PX + LINE_PX * row + 13
    # Every letter has its width, whichever monospaced font a reader has.
    wide = f' textLength="{len(line) * LETTER_PX:.1f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{MARGIN_PX}" y="{y_px}" class="{css_class}"{wide}>{escape(line)}</text>'


def _moving(steps: list[str], text: str, begin_s: float, end_s: float, length_s: float) -> str:
    """The text, visible from begin to end; whatever lasts until the end is what is seen without motion."""
    begin, end = (f"{100 * at_s / length_s:.2f}" for at_s in (begin_s, end_s))
    name = f"t{begin}-{end}".replace(".", "_")
    hidden = "" if begin == "0.00" else "0%{visibility:hidden}"
    gone = "" if end_s >= length_s else f"{end}%{{visibility:hidden}}"
    steps.append(f"@keyframes {name}{{{hidden}{begin}%{{visibility:visible}}{gone}}}")
    return f'<g class="run{"" if gone else " last"}" style="animation-name:{name}">{text}</g>'


def main(words: Sequence[str] | None = None) -> None:
    """Record, and write the film."""
    reader = argparse.ArgumentParser(prog="bin/film", description="Film a fail-over of a real quorum.")
    reader.add_argument("target", nargs="?", type=Path, default=TARGET, help="the SVG to write (%(default)s)")
    reader.add_argument("--hold", type=float, default=HOLD_S, help="seconds between the scenes (%(default)s)")
    options = reader.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="pykraft-film-") as folder:
        film = record(Path(folder) / "quorum", hold_s=options.hold)
    options.target.write_text(draw(film), encoding="utf-8")
    print(f"{options.target}: {film.pictures[-1].at_s:.0f} seconds, {options.target.stat().st_size / 1_000:,.0f} kB")


if __name__ == "__main__":
    main()
