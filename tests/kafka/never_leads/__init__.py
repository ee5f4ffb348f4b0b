"""Kafka controllers with a pykraft voter that never leads; ``python -m tests.kafka.never_leads`` kills many of them."""
