"""Each seed has one digest, whatever it is, and a million of them are small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lab.campaign.seed_digests import SEEDS_A_PAGE, SeedDigests

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.dictionaries(INT64, INT64), INT64, INT64)
def test_it_is_like_a_dict(known: dict[int, int], seed: int, digest: int) -> None:
    digests = SeedDigests()
    assert [digests.add(*each) for each in known.items()] == [True] * len(known)
    assert all(each in digests for each in known)
    assert (seed in digests) == (seed in known)
    expected = True if seed not in known else False if (known[seed] or 1) == (digest or 1) else None
    assert digests.add(seed, digest) is expected


def test_what_is_left_is_told_in_ranges() -> None:
    digests = SeedDigests()
    for seed in (3, 4, 8):
        digests.add(seed, seed)
    assert digests.left_of(range(10)).ranges == (range(3), range(5, 8), range(9, 10))


def test_consecutive_seeds_share_pages() -> None:
    digests = SeedDigests()
    for seed in range(3 * SEEDS_A_PAGE):
        digests.add(seed, 7)
    assert len(digests._pages) == 3
