"""A heap as glibc has it: what goes back to the system, and what stays resident though it is free."""

from hypothesis import given
from hypothesis import strategies as st

from steplab.costs.allocator import BETWEEN, FIRST_THRESHOLD, LAST_THRESHOLD, Heap

SMALL, LARGE = 10_000, LAST_THRESHOLD + 1


def filled(*sizes):
    heap = Heap()
    for number, size in enumerate(sizes):
        heap.allocate(number, size)
    return heap


def test_large_arrays_go_back_at_once():
    heap = filled(LARGE, SMALL)
    heap.free(0)
    assert (heap.resident, heap.held, heap.peak) == (SMALL + BETWEEN, SMALL, LARGE + SMALL + BETWEEN)
    assert heap.threshold == FIRST_THRESHOLD


def test_an_array_that_was_freed_moves_the_threshold_so_that_its_like_lies_in_the_heap():
    heap = filled(1_000_000)
    heap.free(0)
    assert heap.resident == 0
    heap.allocate("again", 1_000_000)
    heap.allocate("last", SMALL)
    heap.free("again")
    assert heap.resident == 1_000_000 + SMALL + 2 * BETWEEN  # nothing is in most of it


def test_a_hole_is_for_smaller_arrays_and_the_smallest_that_fits_is_taken():
    heap = filled(50_000, SMALL, 30_000, SMALL)
    heap.free(0)
    heap.free(2)
    heap.allocate("same", 30_000)  # into the larger one: its own place is narrower by what has stayed beside it
    assert heap.places["same"][0] == 0
    heap.allocate("less", 30_000 - BETWEEN)
    assert heap.places["less"][0] == 50_000 + SMALL + 2 * BETWEEN


def test_holes_become_one_when_what_lay_between_them_goes():
    heap = filled(20_000, 20_000, 20_000, SMALL)
    for number in (0, 2, 1):
        heap.free(number)
    assert len(heap.holes) == 3
    heap.free_small()
    assert heap.holes == [(0, 60_000 + 3 * BETWEEN)]


def test_only_the_end_goes_back_and_only_when_it_is_worth_it():
    heap = filled(*[100_000] * 4)
    for number in (3, 2):
        heap.free(number)
        heap.free_small()
    assert heap.resident == 4 * (100_000 + BETWEEN)
    heap.free(1)
    heap.free_small()  # 300,000 at the end are more than twice the threshold
    assert heap.resident == 100_000 + BETWEEN


def test_an_array_without_a_small_object_leaves_a_place_for_its_like():
    heap = filled(50_000, SMALL)
    heap.free(0)
    heap.allocate("moment", 50_000, between=0)
    assert heap.places["moment"][0] == 0


@given(st.lists(st.tuples(st.integers(1, 1 << 20), st.integers(0, 30)), max_size=60))
def test_arrays_never_overlap_and_everything_held_is_resident(steps):
    heap = Heap()
    for number, (size, free) in enumerate(steps):
        heap.allocate(number, size, BETWEEN * (size % 2))
        if free in heap.places:
            heap.free(free)
        if size % 3 == 0:
            heap.free_small()
        assert heap.held <= heap.resident <= heap.peak
        taken = [(begin, begin + bytes_ + more) for begin, bytes_, more in heap.places.values() if begin >= 0]
        spans = sorted([*taken, *heap.holes, *heap.left])
        assert all(before[1] == after[0] for before, after in zip([(0, 0), *spans], spans, strict=False))
        assert not spans or spans[-1][1] == heap.end
