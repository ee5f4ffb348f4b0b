"""The records of ``__cluster_metadata``, which Kafka's controllers write: topics, brokers, credentials and so on."""
