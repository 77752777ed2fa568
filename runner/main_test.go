package runner_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Where the tests are: a file's first word is its family. In brackets stand the
// lines of the contract, at the end of docs/design.md, that most of its tests
// are about; the contract names the test of each line.
//
//   - life: one call, from its body to its result; its pauses; calls whose tool
//     is gone, which are parked [L]
//   - layer: layers around a call, and around a turn [L]
//   - answers: Resume, Progress, Fail: what is accepted, refused, a duplicate,
//     early (its fate); which pause or key an answer names; by which tool and
//     schema it is judged [R]
//   - mail: Deliver: events for calls; pauses that wait for them [R]
//   - message: the user's next message: it answers, supersedes, is refused
//     [R, P]
//   - authorize: what each actor may do [R]
//   - approval: gates and policies; what was approved is what runs [A]
//   - cancel: of a call, of a session, and against everything else [L, E, P]
//   - effects: a body is entered as often as its effect allows; lost calls [E]
//   - lease: which drive holds a session; takeovers [E, S]
//   - worker: Work: what is due, and which worker takes it [E, D]
//   - children: sessions below sessions: nested agents, what they ask, how they
//     end, what they cost; who follows them [K]
//   - handles: calls that run beside their session: begun, awaited, ended [H]
//   - waits: wait handles, which are ended from outside; sleep [V]
//   - widewaits: wait handles of a user, or of everyone on the store [V]
//   - copies: what is handed out, and what is taken [C]
//   - transcript: what is stored, and what the model reads [T]
//   - parallel: the calls of one turn [P]
//   - run: one run: its limits, its events, its end; callers that leave [P, R]
//   - follow: watching a session that others drive [R]
//   - models: streams, delays, long messages, media, reasons to stop [M]
//   - time: clocks, deadlines, timers [D]
//   - store: damage, old versions, outages, sweeps, sizes [S, E]
//   - process: Close, panics, code of others that calls back [S]
//   - tokens: what a token may do; the ring of keys [S, R]
//   - play: whole behaviours, as testdata/*.txtar
//   - example: what the documentation of the package shows
//   - rig: what tests share: the rig, tools, models, engines, and rigs whose
//     calls wait (scenes)
//   - main: this file
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
