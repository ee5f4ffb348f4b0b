"""The source `pykraft` beside Spark's Kafka connector: `python -m benchmarks.spark_source`."""
