"""Kill Java controllers beside a pykraft voter that never leads, again and again, while topics are created.

    python -m tests.kafka.never_leads --kills 30
    python -m tests.kafka.never_leads --kills 30 --kraft-version 1  # node 3 was added to a dynamic quorum
    python -m tests.kafka.never_leads --kills 30 --third java       # the same with a third controller of Kafka

Prints a line for each kill, and at the end how long the cluster stood still and what the logs say. ``--write`` puts
the run into docs/never-leads.json and the table of docs/kafka-releases.md.
"""

import argparse
import datetime
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import cycle
from pathlib import Path
from typing import Any

from lab.kafka.jars import KAFKA_VERSION
from pykraft.local.child import Children
from tests.kafka.archive import find_kafka
from tests.kafka.never_leads.cluster import OURS, Cluster, Topics
from tests.kafka.never_leads.course import BOTH, CYCLE, Course, Outage, compare_logs, led_by
from tests.kafka.never_leads.table import times_text, write


def main() -> int:
    """Run it; 0 when all topics and logs are as they should be."""
    options = _options()
    with _folder(options.folder) as folder, Children() as children:
        is_java, version = options.third == "java", options.kraft_version
        cluster = Cluster(find_kafka(), children, folder, third_is_java=is_java, kraft_version=version)
        cluster.start()
        run = _play(cluster, options.kills)
    document = run | {"third": options.third, "kraft_version": version, "kafka": KAFKA_VERSION}
    for kind in CYCLE:
        times_s = [outage["outage_s"] for outage in document["outages"] if outage["kind"] == kind]
        if times_s:
            print(f"{kind}, {len(times_s)} times: no topic for {times_text(times_s)}")
    served_s = [outage["outage_s"] - outage["start_s"] for outage in document["outages"] if outage["kind"] == BOTH]
    if served_s:
        print(f"{BOTH}, from the moment at which the restarted node listened: no topic for {times_text(served_s)}")
    print(f"{document['kills']} kills, {document['topics']} topics, attempts refused: {document['refused']}")
    led = f", node {OURS} led {document['led']} of them" if options.third == "pykraft" else ""
    print(f"the three logs are identical: {document['records']} records, {document['epochs']} epochs{led}")
    if options.write:
        write(document)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30, help="how many controllers are killed at least")
    parser.add_argument("--third", choices=("pykraft", "java"), default="pykraft", help="what node 3 is")
    parser.add_argument("--kraft-version", type=int, choices=(0, 1), default=0, help="static voters, or dynamic ones")
    parser.add_argument("--folder", type=Path, help="where the nodes' folders stay; it must not exist yet")
    parser.add_argument("--write", action="store_true", help="write docs/never-leads.json and the table of the page")
    return parser.parse_args()


@contextmanager
def _folder(named: Path | None) -> Iterator[Path]:
    if named is not None:
        named.mkdir(parents=True)
        yield named
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _play(cluster: Cluster, kills: int) -> dict[str, Any]:
    """Kill so many controllers at least; what happened."""
    outages: list[Outage] = []
    loads: list[float] = []
    topics = Topics(cluster.broker_port)
    course = Course(cluster, topics)
    with topics.running():
        course.wait_for_topics(1)
        for kind in cycle(CYCLE):
            last = course.play(kind)
            outages.append(last)
            loads.append(os.getloadavg()[0])
            started = f", of which {last.start_s:.1f} s for a start" if last.start_s else ""
            line = f"{kind}: no topic for {last.outage_s:.1f} s{started}, then epoch {last.epoch}"
            print(f"{line}; load {loads[-1]:.1f}, refused {len(topics.refused)}", flush=True)
            if sum(outage.kills for outage in outages) >= kills:
                break
    stream = compare_logs(cluster)
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "load": round(statistics.median(loads), 1),
        "kills": sum(outage.kills for outage in outages),
        "topics": len(topics.created),
        "refused": topics.refused,
        "records": stream.end_offset,
        "epochs": stream.last_epoch,
        "led": led_by(OURS, stream, never_leads=cluster.has_pykraft),
        "outages": [asdict(outage) for outage in outages],
    }


if __name__ == "__main__":
    sys.exit(main())
