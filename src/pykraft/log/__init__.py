"""The durable log: Kafka's files, what is synced when, and recovery after any kind of stop."""
