"""A program that writes with librdkafka over TLS, and reads with three libraries; it prints what each read.

python -m tests.kafka.clients.over_tls SERVERS CERTIFICATE AUTHORITY
"""

import json
import ssl
import sys

from confluent_kafka import KafkaException, Producer

from tests.kafka.clients.readers import VALUES, read_by_aiokafka, read_by_kafka_python, read_by_librdkafka, write


def main(servers: str, own: str, trusted: str) -> None:
    """Write and read; a client without a certificate gets nothing."""
    config = {"bootstrap.servers": servers, "security.protocol": "ssl", "ssl.ca.location": trusted}
    with_certificate = {**config, "ssl.certificate.location": own, "ssl.key.location": own}
    errors = write(with_certificate)
    context = ssl.create_default_context(cafile=trusted)
    context.load_cert_chain(own)
    read = {
        "librdkafka": read_by_librdkafka(with_certificate),
        "aiokafka": read_by_aiokafka(servers, security_protocol="SSL", ssl_context=context),
        "kafka-python": read_by_kafka_python(servers, security_protocol="SSL", ssl_context=context),
    }
    try:
        Producer(config).list_topics(timeout=2)
        stranger = "served"
    except KafkaException:
        stranger = "refused"
    print(
        json.dumps(
            {"errors": errors, "read": {name: values == VALUES for name, values in read.items()}, "stranger": stranger}
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
