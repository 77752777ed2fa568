package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// A request that has no place asks the server so often whether its keys are
// free: more and more seldom.
const (
	askFirst = 10 * time.Millisecond
	askLast  = time.Second
)

// commitAlone carries out a request whose keys another transaction holds, or
// held a moment ago. If there is a place, the server waits for them. If the
// places are taken, by requests that wait for other keys, it is asked again.
func (s *Store) commitAlone(r *request) {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
	defer cancel()
	for ask := askFirst; ; ask = min(2*ask, askLast) {
		patient, lock := s.place(min(ask, s.left(r))), time.Millisecond
		if patient {
			lock = s.left(r)
		}
		answers, err := s.commitOnce(ctx, []*request{r}, patient, lock)
		if patient {
			<-s.patient
		}
		if err == nil && answers[0] == answerLocked {
			err = fmt.Errorf("%w, for %v and longer", ErrLocked, s.o.LockTimeout)
		}
		again := IsRetryable(err) && !errors.Is(err, kvstore.ErrUncertain) ||
			errors.Is(err, ErrLocked) && !patient && s.waits(r)
		switch {
		case again && ctx.Err() == nil:
		case err != nil:
			r.answer(0, err)
			return
		default:
			s.answer(r, answers[0])
			return
		}
	}
}

// place takes a place among the requests for which the server waits, and reports
// whether there was one in time.
func (s *Store) place(within time.Duration) bool {
	select {
	case s.patient <- struct{}{}:
		return true
	case <-time.After(within):
		return false
	}
}

// left returns how long a request may still wait for other transactions. It
// counts from when the request came, so what waited behind another one of this
// process, for the same key, doesn't wait as long once more. To the server, zero
// is for ever.
func (s *Store) left(r *request) time.Duration {
	return max(s.o.LockTimeout-time.Since(r.came), time.Millisecond)
}

// waits reports whether a request may still wait.
func (s *Store) waits(r *request) bool { return time.Since(r.came) < s.o.LockTimeout }
