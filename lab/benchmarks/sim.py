"""How much faster than real time the simulator is: a quiet cluster, and worlds with every fault.

    python lab/benchmarks/sim.py [SCENARIO…]

runs a few worlds of each scenario in one process (quiet and all, if none is named), oracles included, and prints
virtual seconds per second of processor time, best and median, and the number of frames that arrived.
"""

import sys
import time
from statistics import median

from pykraft.sim.machine.trace import Arrived, Recorder
from pykraft.sim.run.simulation import Failure, simulate
from pykraft.sim.scenario.file import load
from pykraft.sim.scenario.scenario import Scenario

SEEDS = range(5)


def speed(seed: int, scenario: Scenario) -> float:
    """Virtual seconds per second of processor time for one world."""
    start_s = time.process_time()
    outcome = simulate(seed, scenario=scenario)
    took_s = time.process_time() - start_s
    assert not isinstance(outcome, Failure), outcome.reason
    return outcome.virtual_ms / 1_000 / took_s


def frames_a_second(seed: int, scenario: Scenario) -> float:
    """Frames that arrive per virtual second."""
    recorder = Recorder(events_max=10**7)
    simulate(seed, scenario=scenario, recorder=recorder)
    arrived = sum(isinstance(event, Arrived) for event in recorder.events)
    return arrived * 1e6 / recorder.events[-1].at_us


def main(names: list[str]) -> None:
    """Measure, and print a line for each scenario."""
    for name in names:
        scenario = load([name])
        speeds = [speed(seed, scenario) for seed in SEEDS]
        frames = frames_a_second(SEEDS[0], scenario)
        print(f"{name:<10} best {max(speeds):5.0f} times as fast, median {median(speeds):5.0f}, {frames:5.0f} frames/s")


if __name__ == "__main__":
    main(sys.argv[1:] or ["quiet", "all"])
