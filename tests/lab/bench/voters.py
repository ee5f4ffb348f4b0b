"""A node that answers Fetch as a test says, on a real socket."""

import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pykraft.protocol.api import decode_request_body, decode_request_header, encode_response, frame
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body

Answer = Callable[[Body], Body | None]
"""From the partition that was asked about to the one that answers; None hangs up."""


def partition(*, high_watermark: int = -1, error: int = 0, leader: int = -1, epoch: int = -1) -> Body:
    return {
        "partition_index": 0,
        "error_code": error,
        "high_watermark": high_watermark,
        "current_leader": {"leader_id": leader, "leader_epoch": epoch},
        "aborted_transactions": None,
        "records": None,
    }


@contextmanager
def voter(answer: Answer, *, correlation_shift: int = 0, partitions: int = 1) -> Iterator[int]:
    """The port of a node that answers so."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                data = self.rfile.read(struct.unpack(">i", size)[0])
                header = decode_request_header(data)
                body = decode_request_body(header, data)
                answered = answer(body["topics"][0]["partitions"][0])
                if answered is None:
                    return
                topic = {"topic_id": body["topics"][0]["topic_id"], "partitions": [answered] * partitions}
                response = {"throttle_time_ms": 0, "error_code": 0, "session_id": 0, "responses": [topic]}
                correlation_id = header.correlation_id + correlation_shift
                parts = encode_response(ApiKey.FETCH, header.api_version, correlation_id, response)
                self.wfile.write(b"".join(frame(parts)))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
