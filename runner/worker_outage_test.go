package runner_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
)

// TestAnOutageIsNotLoggedAtEachLook: a worker looks at its store each second.
// While that is away, it says so at once, and then once a minute.
func TestAnOutageIsNotLoggedAtEachLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer // a handler of package slog locks it
		var away atomic.Bool
		r := newRig(t, agent.Config{Model: messages(says("Hi."))}, &rigOptions{memory: true,
			runner: &runner.Options{Logger: slog.New(slog.NewTextHandler(&lines, nil))},
			wrap: func(kv kvstore.Store) kvstore.Store {
				fails := func() error {
					if away.Load() {
						return errAway
					}
					return nil
				}
				h := &hooked{get: func([]byte) error { return fails() }, scanFails: fails}
				return h.shared(kv)
			}})
		ctx, stop := context.WithCancel(t.Context())
		worked := make(chan error, 1)
		go func() { worked <- r.Work(ctx, nil) }()
		time.Sleep(time.Minute)
		away.Store(true)
		time.Sleep(3*time.Minute + 30*time.Second)
		away.Store(false)
		time.Sleep(time.Minute)
		stop()
		<-worked
		must(t, r.Close())
		for _, what := range []string{"a worker can't read what is due",
			"what is due of wait handles could not all be done"} {
			if n := strings.Count(lines.String(), `level=ERROR msg="`+what+`"`); n < 2 || n > 5 {
				t.Errorf("it is told %d times that %s", n, what)
			}
			if n := strings.Count(lines.String(), `level=INFO msg="`+what+`: that is over"`); n != 1 {
				t.Errorf("it is told %d times to be over that %s", n, what)
			}
		}
		if t.Failed() {
			t.Log(lines.String())
		}
	})
}
