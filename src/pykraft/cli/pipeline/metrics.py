"""The option ``--metrics-port`` of `pykraft pipeline run`, and the metrics that it serves while the command runs.

Invariant: an address that cannot be used is an error before Spark starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from pykraft.cli.parsing.listen_address import listen_address
from pykraft.types import Endpoint

if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from pykraft.spark.pipeline.stream_metrics import StreamMetrics

OPTION: Final = "--metrics-port"
HOST: Final = "localhost"


def _address(ctx: click.Context, param: click.Parameter, text: str | None) -> Endpoint | None:
    """Errors: UsageError."""
    del ctx, param
    return None if text is None else listen_address(OPTION, text, host=HOST)


metrics_option = click.option(
    OPTION,
    "metrics_at",
    callback=_address,
    metavar="[HOST:]PORT",
    help="Serve metrics for Prometheus at this port of localhost, or of HOST; port 0 is any free one.",
)


@contextmanager
def served_metrics(at: Endpoint | None) -> Iterator[StreamMetrics]:
    """The metrics of the pipeline's query; within this block they are served, if an address is given.

    Errors: ConfigError for an address that cannot be used; UsageError without the client library.
    """
    from pykraft.spark.pipeline.stream_metrics import StreamMetrics, metrics_thread
    from pykraft.spark.tables.names import QUERY

    metrics = StreamMetrics(QUERY)
    if at is None:
        yield metrics
        return
    from pykraft.server.binding import listening_sockets, not_bound, port_of
    from pykraft.server.prometheus import require_package

    require_package(OPTION)
    try:
        sockets = listening_sockets(at)
    except OSError as error:
        raise not_bound(OPTION, str(at), error) from error
    with metrics_thread(sockets, metrics.render):
        click.echo(f"metrics are at http://{Endpoint(at.host, port_of(sockets))}/metrics", err=True)
        yield metrics
