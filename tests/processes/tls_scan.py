"""What an independent scanner says of a node's TLS: sslyze, against Mozilla's intermediate configuration.

    pip install sslyze            # in an environment of its own
    python -m tests.processes.tls_scan [--scanner PATH] [--config intermediate]

It scans the HTTPS address of a node's metrics, which is made by the same code as its other listeners: there a client
needs no certificate, which two checks of sslyze cannot show, and gets an answer, which one of them waits for. Exit
status 0 when the scanner finds nothing but two curves that Mozilla leaves out and that are no weaker than the others:
Python can restrict them from 3.15 on.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab.nodes.cluster import Cluster
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, LISTENER
from tests.processes.commands import run
from tests.security.credentials import properties

CHECKS = ("tlsv1_2", "tlsv1_3", "tlsv1_1", "tlsv1", "sslv3", "sslv2", "compression", "reneg", "heartbleed")
MORE = ("openssl_ccs", "robot", "fallback", "elliptic_curves", "ems", "early_data", "certinfo")
STRONG_CURVES = {"X448", "secp521r1"}


def scanned(children: Children, folder: Path, scanner: str, config: str) -> subprocess.CompletedProcess[str]:
    values = properties(folder / "certificates")
    given = {
        **values,
        "listener.security.protocol.map": f"{LISTENER}:SSL,PROMETHEUS:SSL",
        "listener.name.prometheus.ssl.client.auth": "none",
        "pykraft.prometheus.listener": f"{HOST}:0",
    }
    cluster = Cluster(children, folder, size=1, properties=given)
    cluster.start()
    node = cluster.nodes[1]
    found = wait_until(lambda: re.search(r"metrics are at https://(\S+)/metrics", node.process.log()), "metrics")
    client = folder / "client.properties"
    client.write_text("security.protocol=SSL\n" + "".join(f"{key}={values[key]}\n" for key in values))
    # From now on this address is known, so that a rate for strangers does not end the scan.
    asked = ("--bootstrap-controller", f"{HOST}:{node.port}", "--command-config", str(client))
    assert run("quorum", *asked, "describe", "--status").returncode == 0
    options = [f"--{check}" for check in (*CHECKS, *MORE)]
    trusted = ("--certinfo_ca_file", values["ssl.truststore.location"])
    words = [scanner, *options, *trusted, f"--mozilla_config={config}", found[1].replace(HOST, "localhost")]
    return subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="What a scanner says of a node's TLS.")
    parser.add_argument("--scanner", default="sslyze")
    parser.add_argument("--config", choices=("modern", "intermediate", "old"), default="intermediate")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, Children() as children:
        done = scanned(children, Path(folder), given.scanner, given.config)
    print(done.stdout, done.stderr)
    if done.returncode == 0:
        return 0
    findings = re.findall(r"^ +\* (tls_\w+|\w+_\w+): (.*)$", done.stdout.partition("Not compliant.")[2], re.MULTILINE)
    others = [name for name, _ in findings if name != "tls_curves"]
    return 0 if findings and not others and set(re.findall("'(\\w+)'", findings[0][1])) <= STRONG_CURVES else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
