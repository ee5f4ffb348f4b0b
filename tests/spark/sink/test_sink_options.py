"""The sink's options: defaults, aliases of Kafka's sink that are refused with a hint, and nothing ignored."""

from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.object_storage.uris import located
from pykraft.spark.sink.sink_options import SinkOptions, parse_sink_options
from pykraft.types import Endpoint

SERVERS = {"bootstrap.controllers": "a:1, [::1]:2"}


def parsed(options: dict[str, str] | None = None, *, is_stream: bool = False) -> SinkOptions:
    return parse_sink_options({**SERVERS, **(options or {})}, is_stream=is_stream)


def test_defaults() -> None:
    found = parsed()
    assert found == SinkOptions(controllers=(Endpoint("a", 1), Endpoint("::1", 2)), staging=None, continues=False)
    assert parsed({"stagingLocation": "/s", "jobId": "x"}).continues
    assert parsed({"stagingLocation": "/s"}, is_stream=True).continues
    assert (found.batch_size_bytes_max, found.timeout_ms, found.job_id) == (2**20, 120_000, None)


def test_case_does_not_matter() -> None:
    found = parsed({"STAGINGLOCATION": " /a ", "maxbatchbytes": "2048", "DeliveryTimeout": "3S", "jobid": "x-1_2.b"})
    assert found == SinkOptions(
        controllers=found.controllers,
        staging=Path("/a"),
        job_id="x-1_2.b",
        batch_size_bytes_max=2_048,
        timeout_ms=3_000,
    )


@pytest.mark.parametrize(
    ("options", "staging"),
    [
        ({"checkpointLocation": "/c"}, "/c/pykraft-sink"),
        ({"checkpointLocation": "file:///c/with%20space"}, "/c/with space/pykraft-sink"),
        ({"checkpointLocation": "s3://bucket/c", "stagingLocation": "file:/s"}, "/s"),
        ({"stagingLocation": "/s"}, "/s"),
        ({"checkpointLocation": "s3a://bucket/c"}, "s3a://bucket/c/pykraft-sink"),
        ({"checkpointLocation": "dbfs:/c", "stagingLocation": "abfss://c@a/s"}, "abfss://c@a/s"),
    ],
)
def test_a_stream_stages_in_its_checkpoint_unless_told_where(options: dict[str, str], staging: str) -> None:
    assert parsed(options, is_stream=True).staging == located(staging)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "give the stream the option checkpointLocation, or stagingLocation"),
        (
            {"checkpointLocation": "hdfs://host/c"},
            "such as /shared/folder, or a URI of s3.*abfss://; for another file system give stagingLocation",
        ),
        ({"stagingLocation": "hdfs:///s"}, "the option stagingLocation = 'hdfs:///s': it must be a folder"),
        ({"stagingLocation": "/s", "jobId": "x"}, "a stream has its own id"),
    ],
)
def test_a_stream_without_a_place_is_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parsed(options, is_stream=True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"checkpointLocation": "/c"}, "a batch query has no checkpoint: give stagingLocation and jobId"),
        ({"jobId": "x"}, "with the option jobId give stagingLocation"),
        ({"jobId": "../x", "stagingLocation": "/s"}, "the option jobId = '../x': it must be up to 100 letters"),
        ({"stagingLocation": ""}, "the option stagingLocation = ''"),
        ({"maxBatchBytes": "1000"}, "the option maxBatchBytes = '1000': it must be bytes, from 1024 to 67108864"),
        ({"maxBatchBytes": "1 MiB"}, "it must be bytes"),
        ({"deliveryTimeout": "0s"}, "the option deliveryTimeout = '0s': it must be a time such as 500ms"),
        ({"deliveryTimeout": "soon"}, "it must be a time"),
        ({"bootstrap.controllers": "a"}, "the option bootstrap.controllers = 'a': it must be host:port"),
        ({"bootstrap.controllers": " "}, "the sink pykraft needs"),
        ({"topic": "x"}, "has no option topic: a quorum has one log"),
        ({"kafka.bootstrap.servers": "a:1"}, "name nodes of the quorum with bootstrap.controllers"),
        ({"kafka.delivery.timeout.ms": "1"}, "it is called deliveryTimeout here"),
        ({"kafka.linger.ms": "1"}, "has no option kafka.linger.ms: the sink has no Kafka producer inside"),
        ({"path": "/x"}, "directories are only read"),
        ({"kafka.ssl.provider": "x"}, "property kafka.ssl.provider = 'x': it cannot be honoured"),
        ({"maxBatchByte": "2000"}, "did you mean maxBatchBytes"),
        ({"x": "y"}, "has no option x: it has bootstrap.controllers, stagingLocation"),
    ],
)
def test_wrong_options_are_refused_with_what_to_do(options: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parsed(options)
