"""The filters of a query that Spark hands to the source, as bounds of what is read.

A bound never leaves out a wanted row, and Spark still evaluates every filter. So a filter that no bound expresses costs
nothing but time. Timestamps only bound from below: a header has the largest timestamp of a batch, not the smallest.

Invariant: the bounds are those of all filters together, so they only ever get narrower.

Source: PySpark's ``DataSourceReader.pushFilters`` and ``Filter`` (4.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from math import floor

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from pykraft.spark.data_source.bounds import EVERYTHING, Bounds
from pykraft.types import Epoch, Offset


def bounds_of(filters: Iterable[Filter]) -> Bounds:
    """The bounds that all of these filters together allow."""
    bounds = EVERYTHING
    for one in filters:
        match one:
            case In(attribute=(str() as column,), value=values) if values:
                bounds = _within(bounds, column, values)
            case EqualTo(attribute=(str() as column,), value=value):
                bounds = _within(bounds, column, [value])
            case GreaterThan(attribute=(str() as column,), value=value):
                # A timestamp has microseconds, so "after" is the same bound as "at or after".
                least = value + 1 if type(value) is int else value
                bounds = _from(bounds, column, least)
            case GreaterThanOrEqual(attribute=(str() as column,), value=value):
                bounds = _from(bounds, column, value)
            case LessThan(attribute=(str() as column,), value=value) if type(value) is int:
                bounds = _up_to(bounds, column, value - 1)
            case LessThanOrEqual(attribute=(str() as column,), value=value):
                bounds = _up_to(bounds, column, value)
    return bounds


def _within(bounds: Bounds, column: str, values: Iterable[object]) -> Bounds:
    listed = list(values)
    texts = [each for each in listed if isinstance(each, str)]
    if column == "replica" and len(texts) == len(listed):
        known = frozenset(texts)
        return replace(bounds, replicas=known if bounds.replicas is None else bounds.replicas & known)
    numbers = [each for each in listed if type(each) is int]
    if numbers and len(numbers) == len(listed):
        return _up_to(_from(bounds, column, min(numbers)), column, max(numbers))
    times = [each for each in listed if isinstance(each, datetime)]
    return _from(bounds, column, min(times)) if times and len(times) == len(listed) else bounds


def _from(bounds: Bounds, column: str, least: object) -> Bounds:
    match column, least:
        case "offset", int():
            return replace(bounds, offset_min=Offset(max(bounds.offset_min, least)))
        case "epoch", int():
            return replace(bounds, epoch_min=Epoch(max(bounds.epoch_min, least)))
        case "timestamp", datetime() if least.tzinfo is not None:
            least_ms = floor(least.timestamp() * 1_000)
            return replace(bounds, timestamp_ms_min=max(bounds.timestamp_ms_min, least_ms))
    return bounds


def _up_to(bounds: Bounds, column: str, most: object) -> Bounds:
    match column, most:
        case "offset", int():
            return replace(bounds, offset_end=Offset(min(bounds.offset_end, most + 1)))
        case "epoch", int():
            return replace(bounds, epoch_max=Epoch(min(bounds.epoch_max, most)))
    return bounds
