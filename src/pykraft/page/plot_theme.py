"""The look of plots on our pages: SVG whose colors are CSS variables of the page.

So the same drawing fits a light and a dark screen. Invariant: matplotlib draws with stand-in colors, `to_svg` replaces
them with the page's variables, and no identifier of one drawing occurs in another. A figure that is no part of a page,
as in a notebook, gets the colors themselves, for the scheme that the caller names.

Charts that several pages have are drawn here, too, from plain numbers; every axis has a unit.

Source: CSS custom properties; matplotlib's SVG backend, which can write text as text.
"""

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from html import escape
from pathlib import Path
from typing import Any, Final, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

PlotScheme = Literal["light", "dark"]
STYLE: Final = Path(__file__).with_name("common.css")
PAPER: Final = "paper"
WIDE_INCHES = 9.4
NARROW_INCHES = 4.3
NODES_MAX = 9
THOUSANDS: Final = FuncFormatter(lambda value, _: f"{value:,.0f}")
PLAIN: Final = FuncFormatter(lambda value, _: f"{value:,g}")
LINE_STYLES: Final = ("-", "--", ":", "-.")
Series = tuple[Sequence[float], Sequence[float]]
"""Times and values."""
NAMES = (
    *("ink", "soft", "grid", "good", "bad", "accent", "tables", "on-node", "p50", "p90", "p99", "max"),
    *(f"node-{number}" for number in range(NODES_MAX)),
)
"""CSS variables of the page: ``--ink`` and so on."""
STAND_INS = {name: f"#0000{number:02x}" for number, name in enumerate(NAMES, start=1)}
_NAME_OF = {"#000000": "ink"} | {color: name for name, color in STAND_INS.items()}
"""Black, matplotlib's default, is ink."""
_STAND_IN = re.compile(r"#0000[0-9a-f]{2}\b")
_VARIABLE = re.compile(r"--([a-z0-9-]+): (#[0-9a-f]{6});")
_BLOCK = re.compile(r":root \{(.*?)\}", re.DOTALL)
_PROLOGUE = re.compile(r"\A.*?(?=<svg)", re.DOTALL)
_SIZE = re.compile(r' (?:width|height)="[\d.]+pt"')
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)


_palette: ContextVar[Mapping[str, str]] = ContextVar("palette", default=STAND_INS)


def color(name: str) -> str:
    """The color for matplotlib of a color of the page: its stand-in, or within `drawing` for a scheme itself."""
    return _palette.get()[name]


def node_color(node_id: int) -> str:
    """The color of a node, the same in all plots."""
    return color(f"node-{(node_id - 1) % NODES_MAX}")


def scheme_colors(scheme: PlotScheme) -> dict[str, str]:
    """The colors of our pages on a light or a dark screen, by name."""
    light, dark = _BLOCK.findall(STYLE.read_text(encoding="utf-8"))
    return dict(_VARIABLE.findall(light if scheme == "light" else dark))


@contextmanager
def drawing(
    name: str, *, height_inches: float, is_narrow: bool = False, scheme: PlotScheme | None = None
) -> Iterator[Figure]:
    """A figure in our style; ``name`` distinguishes it from all others on the page.

    With a ``scheme`` it is no part of a page, and has the colors of this scheme.
    """
    token = _palette.set(STAND_INS if scheme is None else scheme_colors(scheme))
    try:
        with mpl.rc_context(_settings(name, None if scheme is None else color(PAPER))):
            if is_narrow:  # The legend has more rows there.
                yield Figure(figsize=(NARROW_INCHES, 1.15 * height_inches), layout="constrained")
            else:
                yield Figure(figsize=(WIDE_INCHES, height_inches), layout="constrained")
    finally:
        _palette.reset(token)


def _settings(name: str, paper: str | None) -> dict[str, Any]:
    ink, soft, grid = color("ink"), color("soft"), color("grid")
    papers = {} if paper is None else dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), paper)
    return {
        **papers,
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.size": 10.0,
        "text.color": ink,
        "axes.edgecolor": soft,
        "axes.labelcolor": soft,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.xmargin": 0.0,
        "grid.color": grid,
        "grid.linewidth": 0.7,
        "xtick.color": soft,
        "ytick.color": soft,
        "lines.linewidth": 1.4,
        "hatch.linewidth": 0.8,
        "legend.frameon": False,
        "legend.borderaxespad": 0.0,
        "legend.handlelength": 1.3,
        "legend.columnspacing": 1.2,
    }


def to_svg(figure: Figure, *, label: str) -> str:
    """The figure as an SVG element; screen readers read ``label``. Call it within `drawing`."""
    written = io.StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = _METADATA.sub("", _PROLOGUE.sub("", written.getvalue()))
    text = _SIZE.sub("", text, count=2).replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)
    return _STAND_IN.sub(lambda match: f"var(--{_NAME_OF[match[0]]})", text)


def figure_html(name: str, *, title: str, reading: str, drawn: Callable[..., AbstractContextManager[Figure]]) -> str:
    """A figure of a page with its explanation, drawn for wide and for narrow screens (``is_narrow``)."""
    svgs = []
    for is_narrow in (False, True):
        with drawn(is_narrow=is_narrow) as figure:
            svgs.append(to_svg(figure, label=title))
    wide, narrow = svgs
    return (
        f'<figure id="{escape(name)}">\n<h2>{escape(title)}</h2>\n<figcaption>{escape(reading)}</figcaption>\n'
        f'<div class="plot wide">{wide}</div>\n<div class="plot narrow">{narrow}</div>\n</figure>'
    )


def draw_rates(
    axes: Axes, edges: Sequence[float], values: Sequence[float], *, name: str, unit: str, label: str | None = None
) -> None:
    """Values that hold from each edge to the next one, in the color ``name``."""
    axes.stairs(values, edges, fill=True, color=color(name), alpha=0.25)
    axes.stairs(values, edges, color=color(name), label=label, linewidth=1.4, baseline=None)
    axes.set_ylabel(unit)


def number_axis(axes: Axes, label: str, *, ticks: int) -> None:
    """A horizontal axis of plain numbers with at most so many ticks."""
    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=ticks, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(PLAIN)
