package kvstore

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Signaler is implemented by an engine that carries signals between the
// processes that share it. A signal has no content and may be lost: who watches
// asks the store all the same, only less often.
type Signaler interface {
	Store
	// Signal wakes those who watch topic in other processes, and perhaps in this
	// one. It never waits; several signals may become one. A batch that was
	// applied before Signal was called is seen by those who are woken.
	Signal(topic string)
	// Watch has wake called after each Signal of topic, and whenever signals may
	// have been lost. Wake must not wait. It may be called once more while stop,
	// which ends the watch, returns.
	Watch(topic string, wake func()) (stop func())
}

// MaxTopic is the length of a topic at most, in bytes.
const MaxTopic = 64

// Signals is for those who write a [Signaler]: it holds who watches, and the
// topics that are to be sent. Any goroutine may use it.
type Signals struct {
	send    func(ctx context.Context, topics []string)
	sending sync.WaitGroup // the goroutine that sends, while something is to be sent

	mu       sync.Mutex // guards the rest; held over no call
	watchers map[string]map[*func()]struct{}
	waiting  map[string]struct{} // topics that are to be sent
	stop     context.CancelFunc  // ends what is being sent; nil: nothing is
	closed   bool
}

// NewSignals returns Signals without watchers. Send sends signals of topics, in
// order and each named once. There is one call of it at a time; what is
// signalled meanwhile goes with the next one. What it can't send is lost.
func NewSignals(send func(ctx context.Context, topics []string)) *Signals {
	return &Signals{send: send, watchers: map[string]map[*func()]struct{}{},
		waiting: map[string]struct{}{}}
}

// Signal is that of a [Signaler].
func (s *Signals) Signal(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.waiting[topic] = struct{}{}
	if s.stop == nil {
		var ctx context.Context
		ctx, s.stop = context.WithCancel(context.Background())
		s.sending.Go(func() { s.sendAll(ctx) })
	}
}

// sendAll sends until nothing waits.
func (s *Signals) sendAll(ctx context.Context) {
	for {
		s.mu.Lock()
		topics := slices.Sorted(maps.Keys(s.waiting))
		clear(s.waiting)
		if len(topics) == 0 || s.closed {
			s.stop()
			s.stop = nil
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		s.send(ctx, topics)
	}
}

// Watch is that of a [Signaler].
func (s *Signals) Watch(topic string, wake func()) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers[topic] == nil {
		s.watchers[topic] = map[*func()]struct{}{}
	}
	s.watchers[topic][&wake] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers[topic], &wake)
		if len(s.watchers[topic]) == 0 {
			delete(s.watchers, topic)
		}
	}
}

// Wake wakes those who watch topic.
func (s *Signals) Wake(topic string) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.watchers[topic]))
	s.mu.Unlock()
	for _, wake := range all {
		(*wake)()
	}
}

// WakeAll wakes all who watch: signals may have been lost, since the connection
// is a new one.
func (s *Signals) WakeAll() {
	s.mu.Lock()
	topics := slices.Collect(maps.Keys(s.watchers))
	s.mu.Unlock()
	for _, topic := range topics {
		s.Wake(topic)
	}
}

// Close drops what is to be sent, and waits for send to return, whose context
// ends. What is signalled later is dropped.
func (s *Signals) Close() {
	s.mu.Lock()
	s.closed = true
	if s.stop != nil {
		s.stop()
	}
	s.mu.Unlock()
	s.sending.Wait()
}
