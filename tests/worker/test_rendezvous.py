import socket
import threading

import pytest

from steplab_worker import rendezvous


def test_ranks_get_each_others_words_in_order(tmp_path):
    words = {}

    def rank(number):
        words[number] = rendezvous.meet(str(tmp_path), "topic", number, 3, {"of": number})

    threads = [threading.Thread(target=rank, args=(number,)) for number in (2, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(words[number] == [{"of": 0}, {"of": 1}, {"of": 2}] for number in range(3))


def test_a_rank_that_waits_in_vain_says_for_whom(tmp_path):
    with pytest.raises(rendezvous.NobodyCame, match="rank 0 waited 0 s for the address of rank 1"):
        rendezvous.meet(str(tmp_path), "topic", 0, 2, "here", patience_s=0.0)


def test_a_held_port_is_nobody_elses_but_can_be_served():
    with rendezvous.hold_port() as holder:
        port = holder.getsockname()[1]
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with socket.socket() as server, socket.socket() as client:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind(("127.0.0.1", port))
            server.listen()
            client.connect(("127.0.0.1", port))


def test_ranks_of_one_place_meet_on_the_loopback_interface(tmp_path):
    found, holder = rendezvous.addresses(str(tmp_path), "ports", 0, 1)
    with holder:
        assert found == [f"127.0.0.1:{holder.getsockname()[1]}"]


def test_ranks_of_several_places_meet_at_their_hosts(tmp_path):
    (tmp_path / "ports.1").write_text('{"place": "elsewhere", "host": "10.0.0.9", "port": 7}')
    found, holder = rendezvous.addresses(str(tmp_path), "ports", 0, 2)
    with holder:
        assert found[1] == "10.0.0.9:7"
        assert not found[0].startswith("10.0.0.9")
