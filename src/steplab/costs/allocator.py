"""What the C library's allocator keeps of freed arrays: a small heap as glibc has it, array by array.

Arrays from a threshold on are pages of their own, which go back to the system when they are freed; the threshold begins
at 128 KiB and follows the largest such array that was freed, up to 32 MiB (glibc's manual, "Memory Allocation Tunables"
and mallopt(3), M_MMAP_THRESHOLD). Smaller arrays lie in one heap: the smallest hole that is large enough, or else its
end. Holes that touch are one. Only free space at the end goes back, once it is twice the threshold. What stays is
resident though nothing is in it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable
from dataclasses import dataclass, field

FIRST_THRESHOLD, LAST_THRESHOLD = 128 << 10, 32 << 20  # bytes
# Small objects lie between the arrays (what describes them, the graph of operations) and outlive them: places that
# arrays left do not become one, and are too narrow for another of their size, until those objects go, too.
BETWEEN = 256


@dataclass
class Heap:
    """Where arrays lie; `resident` is what the process has of the system for them, `held` what is in it."""

    threshold: int = FIRST_THRESHOLD
    held: int = 0
    end: int = 0
    pages: int = 0  # bytes of arrays that have pages of their own
    most: int = 0  # the most that was held
    peak: int = 0  # the most that was resident
    # Begin (-1: own pages), bytes, and those of the small object behind it.
    places: dict[Hashable, tuple[int, int, int]] = field(default_factory=dict)
    holes: list[tuple[int, int]] = field(default_factory=list)  # begin and end, in order
    sizes: list[tuple[int, int]] = field(default_factory=list)  # of the same holes: bytes and begin, in order
    left: list[tuple[int, int]] = field(default_factory=list)  # small objects whose array is gone

    @property
    def resident(self) -> int:
        """Bytes that the process has of the system."""
        return self.end + self.pages

    def allocate(self, array: Hashable, bytes_: int, between: int = BETWEEN) -> None:
        """Give an array its place, and a small object beside it that outlives it, unless that has 0 bytes."""
        self.held += bytes_
        if bytes_ > self.threshold:
            self.places[array] = -1, bytes_, 0
            self.pages += bytes_
        else:
            self.places[array] = self._place(bytes_ + between), bytes_, between
        self.most, self.peak = max(self.most, self.held), max(self.peak, self.resident)

    def forget_peaks(self) -> None:
        """Begin to look for the most anew."""
        self.most, self.peak = self.held, self.resident

    def free(self, array: Hashable) -> None:
        """Take the place back."""
        begin, bytes_, between = self.places.pop(array)
        self.held -= bytes_
        if begin < 0:
            self.pages -= bytes_
            if bytes_ <= LAST_THRESHOLD:
                self.threshold = max(self.threshold, bytes_)
            return
        self._merge(begin, begin + bytes_)
        if between:
            self.left.append((begin + bytes_, begin + bytes_ + between))
        self._trim()

    def free_small(self, since: int = 0) -> None:
        """The small objects go whose arrays have gone, but for so many that were left first."""
        for begin, end in self.left[since:]:
            self._merge(begin, end)
        del self.left[since:]
        self._trim()

    def _trim(self) -> None:
        """The end goes back if it is worth it."""
        if self.holes and self.holes[-1][1] == self.end and self.end - self.holes[-1][0] >= 2 * self.threshold:
            self.end, _ = self._take(-1)

    def _place(self, room: int) -> int:
        """The smallest hole that is large enough; or the end, of which free space is used first."""
        fitting = bisect_left(self.sizes, (room,))
        if fitting < len(self.sizes):
            _, begin = self.sizes[fitting]
            begin, end = self._take(bisect_left(self.holes, (begin,)))
            if end - begin > room:
                self._put(begin + room, end)
            return begin
        begin = self.end
        if self.holes and self.holes[-1][1] == self.end:
            begin, _ = self._take(-1)
        self.end = begin + room
        return begin

    def _put(self, begin: int, end: int) -> None:
        insort(self.holes, (begin, end))
        insort(self.sizes, (end - begin, begin))

    def _take(self, at: int) -> tuple[int, int]:
        begin, end = self.holes.pop(at)
        del self.sizes[bisect_left(self.sizes, (end - begin, begin))]
        return begin, end

    def _merge(self, begin: int, end: int) -> None:
        """A hole more, one with those that it touches."""
        at = bisect_left(self.holes, (begin, end))
        if at < len(self.holes) and self.holes[at][0] == end:
            _, end = self._take(at)
        if at and self.holes[at - 1][1] == begin:
            begin, _ = self._take(at - 1)
        self._put(begin, end)
