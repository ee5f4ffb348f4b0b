"""A Kafka node and a pykraft node get the same requests and answers; each difference is a finding."""
