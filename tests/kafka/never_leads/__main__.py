"""Kill Java controllers beside a pykraft voter that never leads, again and again, while topics are created.

    python -m tests.kafka.never_leads --kills 30
    python -m tests.kafka.never_leads --kills 12 --third java    # the same with a third controller of Kafka

Prints a line for each kill, and at the end how long the cluster stood still and what the logs say.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from itertools import cycle
from pathlib import Path

from pykraft.local.child import Children
from tests.kafka.archive import find_kafka
from tests.kafka.never_leads.cluster import OURS, Cluster, Topics
from tests.kafka.never_leads.course import BOTH, CYCLE, Course, Outage, compare_logs, led_by


def main() -> int:
    """Run it; 0 when all topics and logs are as they should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30, help="how many controllers are killed at least")
    parser.add_argument("--third", choices=("pykraft", "java"), default="pykraft", help="what node 3 is")
    options = parser.parse_args()
    outages: list[Outage] = []
    with tempfile.TemporaryDirectory() as folder, Children() as children:
        cluster = Cluster(find_kafka(), children, Path(folder), third_is_java=options.third == "java")
        cluster.start()
        topics = Topics(cluster.broker_port)
        course = Course(cluster, topics)
        with topics.running():
            course.wait_for_topics(1)
            for kind in cycle(CYCLE):
                outages.append(course.play(kind))
                last = outages[-1]
                started = f", of which {last.start_s:.1f} s for a start" if last.start_s else ""
                print(f"{kind}: no topic for {last.outage_s:.1f} s{started}, then epoch {last.epoch}", flush=True)
                if sum(outage.kills for outage in outages) >= options.kills:
                    break
        stream = compare_logs(cluster)
        for kind in CYCLE:
            of_kind = [outage for outage in outages if outage.kind == kind]
            if of_kind:
                print(f"{kind}, {len(of_kind)} times: {_told([outage.outage_s for outage in of_kind])}")
        served = [outage.outage_s - outage.start_s for outage in outages if outage.start_s]
        if served:
            print(f"{BOTH}, from the moment at which the restarted node listened: {_told(served)}")
        kills = sum(outage.kills for outage in outages)
        print(f"{kills} kills, {len(topics.created)} topics, {len(topics.refused)} attempts refused: {topics.refused}")
        led = f", node {OURS} led {led_by(OURS, stream)} of them" if options.third == "pykraft" else ""
        print(f"the three logs are identical: {stream.end_offset} records, {stream.last_epoch} epochs{led}")
    return 0


def _told(times_s: list[float]) -> str:
    return f"no topic for {statistics.median(times_s):.1f} s in the median, {max(times_s):.1f} s at most"


if __name__ == "__main__":
    sys.exit(main())
