"""The source `pykraft` beside Spark's Kafka connector: `python -m lab.benchmarks.spark_source`."""
