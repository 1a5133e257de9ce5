"""Network profiles: read, written, and refused in one sentence."""

from __future__ import annotations

import json

import pytest

from steplab.core.errors import InputError
from steplab.planning.network.profile import Collective, Point, Profile, parse_profile

LINK = {"bandwidth": "25 Gbit/s", "latency": "10 µs", "nodes": 8, "ranks_per_node": 4}
SIZES = [{"bytes": 1024, "seconds": 1e-3}, {"bytes": 4096, "seconds": 2e-3}]


def text(**fields: object) -> str:
    return json.dumps({"name": "x", **fields})


def test_a_hand_written_link_has_its_units() -> None:
    link = parse_profile(text(link=LINK), "x.json").link
    assert link is not None
    assert (link.bytes_per_s, link.latency_s) == (25e9 / 8, 1e-5)


def test_what_is_written_can_be_read_again() -> None:
    points = [Point(bytes=1024, seconds=1e-3, low=5e-4, high=2e-3, cpu_seconds=1e-4)]
    profile = Profile(name="x", framework="torch", one_machine=True, ranks=[Collective(ranks=2, nodes=2, sizes=points)])
    assert parse_profile(profile.text(), "x.json") == profile


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ("nonsense", "is not JSON"),
        ("[]", "is no network profile"),
        (text(), "neither measured sizes"),
        (text(ranks=[{"ranks": 2, "sizes": []}]), "ranks.0.sizes is empty"),
        (text(ranks=[{"ranks": 2}]), "ranks.0.sizes is missing"),
        (text(ranks=[{"ranks": 1, "sizes": SIZES}]), "ranks.0.ranks"),
        (text(ranks=[{"ranks": 2, "sizes": [{"bytes": 1024, "seconds": -1e-3}]}]), "ranks.0.sizes.0.seconds"),
        (text(ranks=[{"ranks": 2, "sizes": [{"bytes": -1, "seconds": 1e-3}]}]), "ranks.0.sizes.0.bytes"),
        (text(ranks=[{"ranks": 2, "sizes": SIZES[::-1]}]), "bytes must rise"),
        (text(ranks=[{"ranks": 2, "sizes": [{"bytes": 1, "seconds": 1.0, "low": 2.0}]}]), "between low and high"),
        (text(ranks=[{"ranks": 2, "sizes": SIZES}] * 2), "two entries"),
        (text(link=LINK | {"bandwidth": 25}), "link.bandwidth: must be a number above 0 with its unit"),
        (text(link=LINK | {"latency": "10"}), "link.latency: must be a number above 0 with its unit"),
        (text(link=LINK | {"latency": "-10 µs"}), "link.latency"),
        (text(link=LINK | {"bandwidth": "0 Gbit/s"}), "must be above 0"),
        (text(link=LINK | {"colour": "red"}), "link.colour is not a field of a network profile"),
        (text(link=LINK, speed=3), "speed is not a field of a network profile"),
        (text(link=LINK, format=2), "format"),
        (text(link=LINK | {"latency": "1e308 s"}), "link.latency: must be between"),
        (text(link=LINK | {"bandwidth": "1e-320 bit/s"}), "link.bandwidth: must be between"),
        (text(link=LINK | {"bandwidth": True}), "link.bandwidth: must be a number above 0 with its unit"),
        (text(ranks=[{"ranks": 2, "sizes": [{"bytes": 1, "seconds": 5e-324}]}]), "ranks.0.sizes.0.seconds"),
        (text(ranks=[{"ranks": 2, "nodes": 5, "sizes": SIZES}]), "2 ranks cannot be on 5 nodes"),
        (text(link=LINK, pairs=[{"sizes": SIZES}] * 2), "pairs: two entries"),
        ('{"name": "x", "name": "y"}', "'name' is given twice"),
    ],
)
def test_nonsense_is_one_sentence_that_names_file_and_field(document: str, told: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_profile(document, "x.json")
    assert told in str(refused.value)
    assert str(refused.value).startswith("x.json: ")
    assert "\n" not in str(refused.value)
