"""The bulk lane runs one task after the other, reports them in order, and ends with its process."""

from __future__ import annotations

from pykraft.sim.machine.node import Process
from tests.sim.worlds import led_world, run_for, run_until


def test_what_is_asked_for_is_done_and_told_in_order_and_the_doing_comes_first() -> None:
    world, leader = led_world()
    seen: list[str] = []
    for number in range(20):
        ask(leader, seen, number)
    assert not leader.is_idle
    run_until(world, lambda: len(seen) == 40)
    for what in ("did", "told"):
        assert [each for each in seen if each.startswith(what)] == [f"{what} {number}" for number in range(20)]
    assert all(seen.index(f"did {number}") < seen.index(f"told {number}") for number in range(20))


def test_a_disk_that_stalls_holds_it_up() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    node.disk.io_errors.stalled_until_us = world.clock.now_us + 300_000
    seen: list[str] = []
    for number in range(3):
        ask(leader, seen, number)
    run_for(world, 90_000)
    assert seen == []
    run_until(world, lambda: len(seen) == 6)


def test_a_process_may_end_in_the_middle_of_it() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    node.disk.interrupt_within(0, loses_power=True)
    path = node.config.log_dir / "new"
    told: list[object] = []
    leader.submit_read(lambda: node.disk.open(path, create=True), told.append)
    run_until(world, lambda: not leader.is_running)
    assert node.disk.exists(path) is False
    assert told == []


def ask(process: Process, seen: list[str], number: int) -> None:
    process.submit_read(lambda: seen.append(f"did {number}"), lambda _: seen.append(f"told {number}"))
