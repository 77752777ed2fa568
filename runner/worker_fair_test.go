package runner_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
)

// One session of a user doesn't wait for the thousands of another one, whether
// it is due before the worker comes or after, and wherever it stands among
// them.
func TestUsersTakeTurns(t *testing.T) {
	const places, late = 2, 10
	for name, engine := range engineKinds {
		many := 5000 // more than a round reads
		if engine != nil {
			many = 500 // more than the line has of a user
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bodies, models gauge
				r := slowRig(t, &bodies, &models, takesASecond)
				r.o.wrap = engine
				r.restart()
				for i := range many {
					r.sends("many", fmt.Sprintf("m-%04d", i), "just m")
				}
				r.sends("one", "z-one", "just z") // in the order of the index it is the last
				e, stop := r.serves(runner.WorkOptions{Concurrency: places})
				time.Sleep(late*time.Second + time.Second/2)
				r.sends("two", "a-two", "just a")
				r.sends("three", "z-three", "just z")
				time.Sleep(late * time.Second)
				synctest.Wait()
				stop()
				order := e.all()
				for id, after := range map[string]int{"z-one": 0, "a-two": late, "z-three": late} {
					at := slices.Index(order, id)
					if first := after * places; at < 0 || at > first+3*places {
						t.Errorf("%s came as number %d, and was due when %d had come", id, at, first)
					}
				}
				if len(order) < (2*late-1)*places {
					t.Errorf("%d were carried on", len(order))
				}
			})
		})
	}
}

func takesASecond(llm.Request) <-chan time.Time { return time.After(time.Second) }

// Drives that come back from tools take turns, too, and so do they with
// sessions that are due.
func TestUsersTakeTurnsBehindTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 60
		var bodies, models gauge
		r := slowRig(t, &bodies, &models, takesASecond)
		for i := range many {
			r.sends("many", fmt.Sprint("m-", i), "slow m")
		}
		e, stop := r.serves(runner.WorkOptions{Concurrency: 4, Held: many})
		time.Sleep(many / 4 * time.Second) // by then they are all held
		time.Sleep(time.Second / 2)
		r.sends("one", "one", "slow one")
		begun := time.Now()
		// Its model, its tool, its model once more: and each time a place that
		// another one has.
		for {
			if _, ended := e.of("one"); ended || time.Since(begun) > time.Minute {
				break
			}
			time.Sleep(time.Second / 10)
		}
		stop()
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A session that is due isn't behind all drives that come back from tools, and
// none of those is behind all that is due.
func TestDrivesAndDueSessionsTakeTurns(t *testing.T) {
	within := func(t *testing.T, e *ends, id string, most time.Duration) {
		t.Helper()
		begun := time.Now()
		for time.Since(begun) < most {
			time.Sleep(time.Second / 10)
			if _, ended := e.of(id); ended {
				return
			}
		}
		t.Errorf("after %v, %q goes on", most, id)
	}
	t.Run("one is due", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var bodies, models gauge
			r := slowRig(t, &bodies, &models, takesASecond)
			for i := range 30 { // whose models would take seven places
				r.sends(user, fmt.Sprint("m-", i), "slow 50")
			}
			e, stop := r.serves(runner.WorkOptions{Concurrency: 4})
			time.Sleep(time.Minute + time.Second/2)
			r.sends(user, "one", "just one")
			within(t, e, "one", 3*time.Second)
			stop()
		})
	})
	t.Run("one comes back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var bodies, models gauge
			r := slowRig(t, &bodies, &models, takesASecond)
			r.sends(user, "one", "slow one")
			e, stop := r.serves(runner.WorkOptions{Concurrency: 4})
			time.Sleep(2 * time.Second)
			for i := range 200 {
				r.sends(user, fmt.Sprint("m-", i), "just m")
			}
			within(t, e, "one", 5*time.Second)
			stop()
		})
	})
}

// entriesRead counts what is read of the wake index.
type entriesRead struct {
	kvstore.Exclusive
	n atomic.Int64
}

func (r *entriesRead) Scan(ctx context.Context, g kvstore.Range) (kvstore.Page, error) {
	page, err := r.Exclusive.Scan(ctx, g)
	if bytes.HasPrefix(g.Prefix, kvstore.Key("w")) {
		r.n.Add(int64(len(page.Entries)))
	}
	return page, err
}

// What a worker reads of the index for each session that it carries on is
// bounded, however many are due.
func TestTheLineSavesReads(t *testing.T) {
	const most = 40 // of the index, for a session; one page has 256
	for _, many := range []int{200, testlength.Part(2, 1200)} {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bodies, models gauge
				r := slowRig(t, &bodies, &models, takesASecond)
				var read *entriesRead
				r.o.wrap = func(kv kvstore.Store) kvstore.Store {
					read = &entriesRead{Exclusive: kv.(kvstore.Exclusive)}
					return read
				}
				r.restart()
				for i := range many {
					r.sends(user, fmt.Sprint("s-", i), "just s")
				}
				read.n.Store(0)
				e, stop := r.serves(runner.WorkOptions{Concurrency: 8, Poll: time.Hour})
				time.Sleep(time.Duration(many/8+2) * time.Second)
				stop()
				if got := len(e.all()); got != many {
					t.Errorf("%d were carried on", got)
				}
				if got := read.n.Load() / int64(many); got > most {
					t.Errorf("%d entries were read for a session", got)
				}
			})
		})
	}
}
