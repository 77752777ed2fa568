package session

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// ErrNotShared refuses a transaction of the user's own on an engine that one
// process has: nothing else could commit to what it stores.
var ErrNotShared = errors.New("session: the storage engine belongs to one process, and takes part in no transaction")

// Within returns the store as it is inside a transaction of its user's, which kv
// reads and writes. What its commits make known is kept back, and told by
// committed: for when the transaction is committed. Without that call, polls find
// it. The value is good for as long as the transaction is open.
func (s *Store) Within(kv kvstore.Store) (inside *Store, committed func(), err error) {
	if s.exclusive {
		return nil, nil, ErrNotShared
	}
	inside = &Store{local: kvstore.NewLocal(), now: s.now, wall: s.wall, newID: s.newID,
		lease: s.lease, maxSkew: s.maxSkew, steady: s.steady, notify: s.notify, bell: newBell()}
	inside.seen.lease = s.lease
	inside.kv = newEngine(kv, s.lease/3)
	inside.kv.whole.Store(s.kv.whole.Load())
	kept := &withheld{Store: kv, begun: time.Now()}
	inside.signals = kept
	inside.OnChange(kept.change)
	inside.OnErrands(kept.errand)
	return inside, func() { kept.tell(s) }, nil
}

// withheld is what the commits inside a transaction make known. Any goroutine
// may use it.
type withheld struct {
	kvstore.Store
	begun time.Time // monotonic: when the store inside was made

	mu       sync.Mutex // guards the rest; held over no call
	topics   []string
	sessions []string
	owing    []Owing
}

// Signal implements [kvstore.Signaler].
func (w *withheld) Signal(topic string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.topics, topic) {
		w.topics = append(w.topics, topic)
	}
}

// Watch implements [kvstore.Signaler]: no caller waits inside.
func (w *withheld) Watch(string, func()) (stop func()) { return func() {} }

func (w *withheld) change(session string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.sessions, session) {
		w.sessions = append(w.sessions, session)
	}
}

func (w *withheld) errand(o Owing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owing = append(w.owing, o)
}

// tell tells all of it once, to those who watch a store and its engine.
func (w *withheld) tell(s *Store) {
	w.mu.Lock()
	topics, sessions, owing := w.topics, w.sessions, w.owing
	w.topics, w.sessions, w.owing = nil, nil, nil
	w.mu.Unlock()
	for _, id := range sessions {
		s.local.Signal(topic(id))
		s.changed(id)
	}
	for _, t := range topics {
		s.signal(t)
	}
	if len(sessions) > 0 && time.Since(w.begun) > late/2 {
		s.signal(lateTopic)
	}
	for _, o := range owing {
		s.couriers.Tell(o)
	}
}
