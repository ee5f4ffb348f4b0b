"""Spark on a quorum that is SSL and wants a certificate: sink, query, stream and pipeline; secrets are hidden."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pykraft.cli.pipeline.command import connection_options
from pykraft.client.remote.leader_search import Patience
from pykraft.errors import PykraftError
from pykraft.security.authority import Authority
from pykraft.security.settings import Security
from pykraft.spark.data_source import live
from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
from pykraft.spark.source import PykraftDataSource
from pykraft.spark.tables.names import RECORDS
from tests.security.credentials import encrypted, properties, security, write
from tests.server.nodes import LISTENER
from tests.spark.quorum_of_one import OneNode, logged_values

pytestmark = pytest.mark.spark

SECRET = "nobody-may-see-this"  # noqa: S105 - a test's


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[tuple[OneNode, dict[str, str]]]:
    """A quorum, and the options that name and reach it."""
    served = properties(tmp_path / "certificates")
    node = OneNode(tmp_path / "quorum", serves_clients=True, security=((LISTENER, security(served)),))
    location = Path(served["ssl.keystore.location"])
    location.write_bytes(encrypted(location.read_bytes(), SECRET))
    yield (
        node,
        {
            "bootstrap.controllers": str(node.endpoint),
            "kafka.security.protocol": "SSL",
            "kafka.ssl.keystore.location": str(location),
            "kafka.ssl.key.password": SECRET,
            "kafka.ssl.truststore.location": served["ssl.truststore.location"],
        },
    )
    node.stop()


def client(options: dict[str, str]) -> dict[str, str]:
    """The same as properties of a client."""
    return {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}


def test_sink_query_and_stream_reach_a_secured_quorum_and_show_no_secret(
    spark: SparkSession, quorum: tuple[OneNode, dict[str, str]], tmp_path: Path
) -> None:
    node, options = quorum
    frame = spark.range(0, 100, numPartitions=2).selectExpr("cast(concat('v', id) as binary) as value")
    frame.write.format("pykraft").mode("append").options(**options).save()
    wanted = [f"v{number}".encode() for number in range(100)]
    assert logged_values([node.endpoint], Security.of_client(client(options))) == wanted

    read = spark.read.format("pykraft").options(**options).load().where("not is_control")
    assert [row.value for row in read.orderBy("offset").collect()] == wanted
    shown = io.StringIO()
    with redirect_stdout(shown):
        read.explain(extended=True)
    stream = spark.readStream.format("pykraft").options(**options).load()
    writer = stream.writeStream.format("pykraft").options(**options)
    with pytest.raises(PySparkException) as caught:
        writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()
    shown.write(str(caught.value))  # the sink has no such columns
    counted = stream.writeStream.format("memory").queryName("secured").trigger(availableNow=True).start()
    assert counted.awaitTermination(60)
    assert spark.table("secured").where("not is_control").count() == 100
    shown.write(json.dumps([str(progress) for progress in counted.recentProgress]))
    with redirect_stdout(shown):
        counted.explain(extended=True)
    assert "pykraft" in shown.getvalue()
    assert SECRET not in shown.getvalue()


def test_pipeline_reads_a_secured_quorum_by_the_file_of_kafkas_tools(
    spark: SparkSession, quorum: tuple[OneNode, dict[str, str]], tmp_path: Path
) -> None:
    node, options = quorum
    node.append(b"a", b"b")
    (tmp_path / "word.properties").write_text(f"word={SECRET}\n")
    values = client(options) | {
        "ssl.key.password": f"${{file:{tmp_path}/word.properties:word}}",
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "request.timeout.ms": "1000",
    }
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    given = connection_options(file)
    assert SECRET not in str(given)
    assert "kafka.request.timeout.ms" not in given
    source = {"bootstrap.controllers": options["bootstrap.controllers"], **given}
    pipeline = PipelineOptions(source=source, root=tmp_path / "tables")
    start_pipeline(spark, pipeline).awaitTermination()
    rows = pipeline.tables().read(spark, RECORDS).select("value").collect()
    assert {b"a", b"b"} <= {row.value for row in rows}


def test_wrong_password_and_unknown_authority_are_one_line_without_the_secret(
    quorum: tuple[OneNode, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, options = quorum
    foreign = write(tmp_path / "foreign.pem", Authority.create().certificate_pem)
    monkeypatch.setattr(live, "QUERY_PATIENCE", Patience(timeout_ms=1_000))
    for changed, words in (
        ({"kafka.ssl.key.password": f"{SECRET}!"}, "ssl.key.password is wrong"),
        ({"kafka.ssl.truststore.location": foreign}, "certificate is refused"),
    ):
        source = PykraftDataSource(options | changed)
        with pytest.raises(PykraftError, match=words) as caught:
            source.reader(source.schema()).partitions()
        assert SECRET not in str(caught.value)
