"""PySpark's classes for data sources, with stand-ins for those that an older PySpark lacks.

Spark 3.5 has no data sources in Python; 4.0 has no filters and no writer of Arrow streams, and 4.1 no limits of a
micro-batch. There the source works without. Invariant: a class from here is PySpark's own wherever PySpark has it; a
stand-in is only a name to inherit from, or to compare with.

Source: PySpark's ``sql.datasource`` and ``sql.streaming.datasource``, versions 3.5, 4.0, 4.1, 4.2.
"""

from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

if TYPE_CHECKING:  # the newest ones, of which the others have a part
    pass


def _module(name: str) -> object:
    try:
        return import_module(name)
    except ImportError:
        return None


_SOURCES: Final = _module("pyspark.sql.datasource")
_LIMITS: Final = _module("pyspark.sql.streaming.datasource")
HAS_SOURCES: Final = _SOURCES is not None
"""From 4.0 on."""
HAS_STREAM_SINK: Final = hasattr(_SOURCES, "DataSourceStreamArrowWriter")
"""From 4.1 on."""
HAS_LIMITS: Final = _LIMITS is not None
"""From 4.2 on: Spark says where a micro-batch starts, and how large it may be."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class of PySpark's
    found = getattr(_SOURCES, name, None) or getattr(_LIMITS, name, None) or type(name, (), {"__module__": __name__})
    globals()[name] = found
    return found


def arrow_schema_of(columns: StructType) -> pa.Schema:
    """These columns in Arrow, with times in UTC."""
    parameters = signature(to_arrow_schema).parameters
    return to_arrow_schema(columns, timezone="UTC") if "timezone" in parameters else to_arrow_schema(columns)
