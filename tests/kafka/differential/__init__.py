"""One node of Kafka's and one of ours, given the same requests and answers: what differs is a finding."""
