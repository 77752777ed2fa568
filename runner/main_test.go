package runner_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Where the tests are. A file's first word is its family; docs/design.md has
// the contract under the same headings, with the test of each line.
//
//   - life: one call, from its body to its result; its pauses; calls whose tool
//     is gone (parked)
//   - layer: layers around a call, and around a turn
//   - answers: Resume, Progress, Fail: what is accepted, refused, a duplicate,
//     early (its fate); which pause or key an answer names; by which tool and
//     schema it is judged
//   - message: the user's next message: it answers, is refused, or supersedes
//   - approval: gates and policies; what was approved is what runs
//   - cancel: of a call, of a session, and against everything else
//   - effects: a body is entered as often as its effect allows; lost calls
//   - lease: which drive holds a session; takeovers
//   - parallel: the calls of one turn
//   - run: one run: its limits, its events, its end; callers that leave
//   - follow: watching a session that others drive
//   - worker: Work: what is due, and which worker takes it
//   - models: streams, delays, long messages, media, reasons to stop
//   - transcript: what is stored, and what the model reads
//   - copies: what is handed out, and what is taken
//   - time: clocks, deadlines, timers
//   - store: damage, old versions, outages, sweeps, sizes
//   - process: Close, panics, code of others that calls back
//   - tokens: what a token may do; the ring of keys
//   - authorize: what each actor may do
//   - play: whole behaviours, as testdata/*.txtar
//   - example: what the documentation of the package shows
//   - rig: what tests share: the rig, and rigs with calls that wait (scenes), tools,
//     models, engines
//   - main: this file
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
