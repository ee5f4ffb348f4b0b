"""A pykraft voter that never leads, beside two Java controllers: topics are created again after each kill.

Both are killed, one after the other, so that only our voter has the newest records when the shorter log comes back: it
must campaign, lead for a moment, and hand over. `python -m tests.kafka.never_leads` kills many more.
"""

from pathlib import Path

import pytest

from lab.kafka.java import Kafka
from pykraft.local.child import Children
from tests.kafka.never_leads.cluster import OURS, Cluster, Topics
from tests.kafka.never_leads.course import BOTH, Course, compare_logs, led_by


@pytest.mark.kafka
@pytest.mark.timeout(240)
def test_topics_are_created_again_after_each_kill(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    cluster = Cluster(kafka, children, tmp_path)
    cluster.start()
    topics = Topics(cluster.broker_port)
    course = Course(cluster, topics)
    with topics.running():
        course.wait_for_topics(1)
        course.play(BOTH)
    assert led_by(OURS, compare_logs(cluster)) >= 1
    assert cluster.processes[OURS].stop() == 0
