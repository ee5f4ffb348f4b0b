"""One connection without a network: what is passed on, when reading pauses, and how both loops write."""

import asyncio
import socket
import struct
import sys

import pytest

from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import frame
from pykraft.server.link import LAST_WORDS_TIMEOUT_S, PIECE_SIZE_BYTES_MAX, Link, unconfirmed_size_bytes, write_parts
from pykraft.server.sasl_server import SaslRefusal, SaslServer
from pykraft.types import Buffer
from tests.server.manual_loop import FakeTransport, ManualLoop

FRAME_SIZE_BYTES_MAX = 2 * 1024 * 1024


class Owner:
    """Notes what it is told; may answer each frame, or close the link at one."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.received: list[bytes] = []
        self.held_size_bytes = 0
        self.mutes_at: int | None = None
        self.closes_at: int | None = None
        self.takes_turns = False
        self.ready: list[Link] = []
        self.answers = True
        self.has_room = True

    def link_made(self, link: Link) -> None:
        self.told.append(f"made {link.connection}")

    def link_received(self, link: Link, frame: Buffer) -> None:
        self.received.append(bytes(frame))
        if len(self.received) == self.mutes_at:
            link.pause_writing()
        if len(self.received) == self.closes_at:
            link.close()
        elif self.answers:
            link.send([])

    def link_ready(self, link: Link) -> None:
        if self.takes_turns:
            self.ready.append(link)
        else:
            link.pass_on()

    def link_held(self, change_bytes: int) -> None:
        self.held_size_bytes += change_bytes

    def link_wants_room(self, link: Link, size_bytes: int) -> bool:
        self.told.append(f"wants {size_bytes}")
        return self.has_room

    def link_gives_room_back(self, link: Link) -> None:
        self.told.append(f"gives back {link.room_size_bytes}")

    def link_refused(self, link: Link, reason: str) -> None:
        assert not link.is_open
        self.told.append(reason)

    def link_lost(self, link: Link) -> None:
        self.told.append(f"lost {link.connection}")


class World:
    """A link with everything around it."""

    def __init__(self, *, listener: str | None = "PLAINTEXT") -> None:
        self.loop = ManualLoop()
        self.owner = Owner()
        self.owner.answers = listener is not None
        self.transport = FakeTransport()
        self.link = Link(
            self.owner,
            ConnectionId(1),
            listener=listener,
            loop=self.loop.as_loop,
            frame_size_bytes_max=FRAME_SIZE_BYTES_MAX,
            piece=bytearray(PIECE_SIZE_BYTES_MAX),
        )
        self.link.connection_made(self.transport)

    def feed(self, data: bytes) -> None:
        """Bytes arrive, in as many pieces as the link has room for."""
        while data:
            with memoryview(self.link.get_buffer()) as buffer:
                size_bytes = min(len(buffer), len(data))
                buffer[:size_bytes] = data[:size_bytes]
            self.link.buffer_updated(size_bytes)
            data = data[size_bytes:]

    def receive(self, *messages: bytes) -> None:
        self.feed(framed(*messages))

    def answer(self, message: bytes) -> None:
        """Send it, and let the loop turn: nothing comes of it within the call."""
        before = (len(self.owner.received), len(self.owner.told))
        self.link.send([message])
        assert (len(self.owner.received), len(self.owner.told)) == before
        self.loop.run_until(self.loop.time())


def framed(*messages: bytes) -> bytes:
    return b"".join(b"".join(frame([message])) for message in messages)


@pytest.fixture
def world() -> World:
    return World()


def test_frames_are_passed_on_in_order_however_they_are_cut(world: World) -> None:
    messages = [b"one", b"two" * 3_000, b"three"]
    stream = framed(*messages)
    for at in range(0, len(stream), 7):
        world.feed(stream[at : at + 7])
        assert world.owner.held_size_bytes == world.link.held_size_bytes
    assert world.owner.received == messages
    assert world.owner.held_size_bytes == 0
    assert world.owner.told == ["made 1"]


def test_what_is_sent_is_written(world: World) -> None:
    world.link.send([b"size", b"head", memoryview(b"records")])
    assert world.transport.written == [b"sizeheadrecords"]


def test_a_link_that_is_not_made_sends_nothing_and_closes() -> None:
    link = Link(
        Owner(), ConnectionId(2), listener=None, loop=ManualLoop().as_loop, frame_size_bytes_max=100, piece=bytearray(1)
    )
    link.send([b"x"])
    link.close()
    link.abort()
    assert not link.is_open


def test_a_frame_may_be_as_large_as_the_bound_and_no_larger(world: World) -> None:
    world.receive(b"x" * FRAME_SIZE_BYTES_MAX)
    assert [len(each) for each in world.owner.received] == [FRAME_SIZE_BYTES_MAX]
    world.feed(struct.pack(">i", FRAME_SIZE_BYTES_MAX + 1))
    assert not world.link.is_open


@pytest.mark.parametrize(
    ("garbage", "says"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", "TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (struct.pack(">i", -1), "-1 bytes"),
        (struct.pack(">i", 0), "0 bytes"),
        (b"\xff" * 100, "-1 bytes"),
    ],
)
def test_what_is_no_frame_is_refused_once(world: World, garbage: bytes, says: str) -> None:
    world.receive(b"good")
    world.feed(garbage[:2])
    world.feed(garbage[2:])
    world.feed(garbage)
    assert world.transport.is_closed
    refusals = [text for text in world.owner.told if says in text]
    assert len(refusals) == 1
    assert world.owner.held_size_bytes == world.link.held_size_bytes


def test_a_peer_that_does_not_read_is_not_listened_to(world: World) -> None:
    world.owner.mutes_at = 2
    world.receive(b"1", b"2", b"3", b"4")
    assert world.owner.received == [b"1", b"2"]
    assert world.transport.is_reading_paused
    world.owner.mutes_at = 3
    world.link.resume_writing()
    assert world.owner.received == [b"1", b"2", b"3"]
    assert world.transport.is_reading_paused
    world.link.resume_writing()
    assert world.owner.received == [b"1", b"2", b"3", b"4"]
    assert not world.transport.is_reading_paused


def test_a_client_has_one_request_under_way_and_is_not_read_from_while_another_waits(world: World) -> None:
    world.owner.answers = False
    world.receive(b"1")
    assert not world.transport.is_reading_paused, "so the end of the connection is heard while it waits"
    world.receive(b"2", b"3")
    assert world.owner.received == [b"1"]
    assert world.transport.is_reading_paused
    world.answer(b"answer 1")
    assert world.owner.received == [b"1", b"2"]
    assert world.transport.is_reading_paused
    world.answer(b"answer 2")
    assert not world.transport.is_reading_paused
    world.answer(b"answer 3")
    assert world.owner.received == [b"1", b"2", b"3"]
    assert world.transport.written == [b"answer 1", b"answer 2", b"answer 3"]


def test_a_client_waits_for_its_turn_once(world: World) -> None:
    world.owner.takes_turns = True
    world.receive(b"1", b"2")
    world.receive(b"3")
    world.link.resume_writing()
    assert world.owner.ready == [world.link]
    world.link.pass_on()
    assert world.owner.received == [b"1"]
    assert world.owner.ready == [world.link] * 2
    world.link.close()
    world.link.pass_on()
    assert world.owner.received == [b"1"]


def test_a_large_request_needs_room_until_it_is_answered(world: World) -> None:
    world.owner.answers = False
    world.feed(struct.pack(">i", 100_000) + b"x" * 70_000)
    assert world.owner.told[1:] == ["wants 100000"]
    world.feed(b"x" * 30_000 + struct.pack(">i", 200_000) + b"y" * 100)
    assert world.link.room_size_bytes == 100_000
    assert world.transport.is_reading_paused, "the next one waits until this one is answered"
    assert world.owner.told[2:] == []
    world.link.send([b"answer"])
    assert world.owner.told[2:] == ["gives back 100000"], "the next is asked for in a turn of its own"
    world.loop.run_until(world.loop.time())
    assert world.owner.told[3:] == ["wants 200000"]
    assert not world.transport.is_reading_paused


def test_a_link_without_room_does_not_read_on(world: World) -> None:
    world.owner.has_room = False
    world.feed(struct.pack(">i", 100_000) + b"x" * 10)
    assert world.transport.is_reading_paused
    world.link.has_room(100_000)
    assert not world.transport.is_reading_paused
    world.feed(b"x" * 99_990)
    assert world.owner.told[1:] == ["wants 100000", "gives back 100000"]


def test_answers_of_a_peer_are_passed_on_at_once() -> None:
    world = World(listener=None)
    world.receive(b"1", b"2")
    assert world.owner.received == [b"1", b"2"]


def test_since_when_a_peer_has_something_to_read(world: World) -> None:
    world.loop.run_until(1.0)
    world.link.send([b"x"])
    assert world.link.unsent_since_s == 1.0
    world.transport.unsent_size_bytes = 1
    world.loop.run_until(2.0)
    world.link.send([b"y"])
    assert world.link.unsent_since_s == 1.0
    assert world.link.buffered_size_bytes == 1


def test_nothing_is_passed_on_after_the_link_was_closed(world: World) -> None:
    world.owner.closes_at = 2
    world.receive(b"1", b"2", b"3")
    world.receive(b"4")
    world.link.send([b"x"])
    assert world.owner.received == [b"1", b"2"]
    assert world.transport.written == [b""], "the answer to the first"
    assert world.transport.is_closed
    world.link.pause_writing()
    world.link.resume_writing()
    assert not world.transport.is_reading_paused


def test_last_words_have_a_moment_to_leave(world: World) -> None:
    world.transport.unsent_size_bytes = 1
    world.link.close()
    assert not world.transport.is_aborted
    world.loop.run_until(LAST_WORDS_TIMEOUT_S)
    assert world.transport.is_aborted


def test_without_last_words_nothing_is_left_behind(world: World) -> None:
    world.link.close()
    assert world.transport.is_closed
    assert world.loop.is_idle


def test_an_abort_waits_for_nothing(world: World) -> None:
    world.transport.unsent_size_bytes = 1
    world.link.abort()
    assert world.transport.is_aborted
    assert not world.link.is_open


class Doubter(SaslServer):
    """Takes whatever comes for a wrong proof, and says so a second later."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    def receive(self, data: Buffer, now_s: float) -> list[Buffer] | None:
        """See `SaslServer.receive`."""
        self.received.append(bytes(data))
        raise SaslRefusal("a wrong proof", [b"no"], delay_s=1.0)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_wrong_second_proof_is_refused_late_unless_the_link_is_gone(world: World, is_lost: bool) -> None:
    world.link.sasl = doubter = Doubter()
    world.receive(b"guess", b"another")
    world.loop.run_until(0.9)
    assert (world.transport.written, world.transport.is_closed, doubter.received) == ([], False, [b"guess"])
    if is_lost:
        world.link.connection_lost()
    world.loop.run_until(1.0)
    assert world.transport.written == ([] if is_lost else [b"no"])
    assert world.owner.told[1:] == ["lost 1" if is_lost else "a wrong proof"]
    assert doubter.received == [b"guess"]


def test_the_end_is_told(world: World) -> None:
    world.owner.mutes_at = 1
    world.receive(b"1", b"2")
    world.link.connection_lost()
    world.link.resume_writing()
    assert world.owner.told == ["made 1", "lost 1"]
    assert world.owner.received == [b"1"]


def test_when_a_peer_was_heard_of_last(world: World) -> None:
    world.loop.run_until(5.0)
    world.feed(b"\0")
    assert world.link.heard_s == 5.0


def test_how_much_of_a_frame_has_come(world: World) -> None:
    assert world.link.received_size_bytes == (0, 0)
    stream = framed(b"x" * 5_000)
    world.feed(stream[:3])
    assert world.link.received_size_bytes == (0, 0)
    world.feed(stream[3:1_004])
    assert world.link.received_size_bytes == (1_000, 5_000)
    world.feed(stream[1_004:])
    assert world.link.received_size_bytes == (0, 0)


def test_how_much_was_not_confirmed(world: World) -> None:
    world.transport.unsent_size_bytes = 7
    assert world.link.unsent_size_bytes == 7
    world.transport.is_closed = True
    assert world.link.unsent_size_bytes == 0
    unmade = Link(
        world.owner, ConnectionId(2), listener=None, loop=world.loop.as_loop, frame_size_bytes_max=9, piece=bytearray(1)
    )
    assert unmade.unsent_size_bytes == 0


class Transport(asyncio.BaseTransport):
    """Has this socket."""

    def __init__(self, raw: socket.socket | None) -> None:
        super().__init__({"socket": raw})


def test_bytes_that_nobody_reads_stay_in_the_queue() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
        with near, far:
            near.setblocking(False)
            sent_bytes = 0
            try:
                while True:
                    sent_bytes += near.send(bytes(65_536))
            except BlockingIOError:
                pass
            left_bytes = unconfirmed_size_bytes(Transport(near))
            assert (0 < left_bytes <= sent_bytes) is sys.platform.startswith("linux")
        assert unconfirmed_size_bytes(Transport(near)) == 0, "closed meanwhile"


def test_where_there_is_no_socket_or_no_linux_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unconfirmed_size_bytes(Transport(None)) == 0
    with socket.socket() as raw:
        monkeypatch.setattr(sys, "platform", "darwin")
        assert unconfirmed_size_bytes(Transport(raw)) == 0


PIECE = bytes(64 * 1024)
TIMEOUT_S = 10.0


class Stream(asyncio.Protocol):
    """Notes what its transport tells."""

    def __init__(self) -> None:
        self.pauses = 0
        self.lost = asyncio.Event()

    def pause_writing(self) -> None:
        self.pauses += 1

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.lost.set()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    near.setblocking(False)
    return near, far


async def test_parts_arrive_in_order() -> None:
    near, far = tcp_pair()
    transport, stream = await asyncio.get_running_loop().create_connection(Stream, sock=near)
    write_parts(transport, [b"one", memoryview(b"two"), bytearray(b"three")])
    assert await asyncio.to_thread(far.recv, 100) == b"onetwothree"
    far.close()
    transport.close()
    await asyncio.wait_for(stream.lost.wait(), TIMEOUT_S)


async def test_a_peer_that_does_not_read_pauses_the_writer() -> None:
    near, far = tcp_pair()
    transport, stream = await asyncio.get_running_loop().create_connection(Stream, sock=near)
    for _ in range(1_000):
        if stream.pauses:
            break
        write_parts(transport, [PIECE, PIECE])
    assert stream.pauses == 1
    transport.abort()
    await asyncio.wait_for(stream.lost.wait(), TIMEOUT_S)
    far.close()


async def test_a_broken_connection_keeps_nothing_of_what_is_written() -> None:
    """1. The peer resets the connection; 2. frames are written before the loop has told that it is lost."""
    near, far = tcp_pair()
    transport, stream = await asyncio.get_running_loop().create_connection(Stream, sock=near)
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    far.close()
    for _ in range(10):
        write_parts(transport, [PIECE, PIECE])
    await asyncio.wait_for(stream.lost.wait(), TIMEOUT_S)
    assert transport.get_write_buffer_size() == 0
