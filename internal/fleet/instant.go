package fleet

import "time"

// instant is a time by the machine's monotonic clock, in nanoseconds, which all
// processes of the machine have in common. No wall clock and no store has a
// part in it.
type instant int64

// never is later than all that happens.
const never instant = 1<<63 - 1

func (i instant) sub(other instant) time.Duration { return time.Duration(i - other) }

func (i instant) add(d time.Duration) instant { return i + instant(d) }
