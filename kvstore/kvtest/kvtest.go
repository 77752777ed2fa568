// Package kvtest is the suite that every engine passes: what package kvstore
// says of a Store, as tests.
//
//	func TestEngine(t *testing.T) {
//		kvtest.Run(t, kvtest.Config{
//			Open:   func(t *testing.T) kvstore.Store { … },
//			Reopen: func(t *testing.T, s kvstore.Store) kvstore.Store { … },
//		})
//	}
//
// It tells nothing of what is an engine's own: crashes, damaged files, speed.
package kvtest

import (
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
)

// Config says how to get at an engine.
type Config struct {
	// Open returns a new, empty store, which the suite closes. Required.
	Open func(t *testing.T) kvstore.Store
	// Reopen returns a store over what s holds, as after a restart. The suite
	// may have closed s, or not. Nil if the engine keeps nothing, or can't;
	// then the suite doesn't test that.
	Reopen func(t *testing.T, s kvstore.Store) kvstore.Store
}

// Run runs the suite, one subtest for each claim.
func Run(t *testing.T, c Config) {
	tests := []struct {
		name string
		run  func(*testing.T, Config)
	}{
		{"write and read", writeAndRead},
		{"empty batch", emptyBatch},
		{"copies", copies},
		{"preconditions", preconditions},
		{"conflict leaves nothing", conflictLeavesNothing},
		{"revisions", revisions},
		{"batch limits", batchLimits},
		{"malformed batches", malformedBatches},
		{"order", order},
		{"ranges", ranges},
		{"pages", pages},
		{"page bytes", pageBytes},
		{"page is one moment", pageIsOneMoment},
		{"stable key is seen once", stableKeyIsSeenOnce},
		{"counter", counter},
		{"linearizable", linearizable},
		{"linearizable under faults", linearizableUnderFaults},
		{"lost acknowledgement", lostAcknowledgement},
		{"no revision falls", noRevisionFalls},
		{"ended context", endedContext},
		{"cancelled amid others", cancelledAmidOthers},
		{"close", closing},
		{"close amid writes", closeAmidWrites},
		{"reopen", reopen},
		{"exclusive", exclusive},
		{"leases", leases},
		{"lists", lists},
		{"signals", signals},
		{"signals between processes", signalsBetween},
		{"clock", clock},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
}

// Shared returns s without what makes it a [kvstore.Exclusive], so that code
// which treats exclusive engines in another way can be tested on the same
// engine in both.
func Shared(s kvstore.Store) kvstore.Store { return shared{s} }

type shared struct{ kvstore.Store }
