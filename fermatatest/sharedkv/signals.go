package sharedkv

import (
	"context"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// SignalClient is a Client that also has what an engine may offer beside its
// store: signals to the other clients of this kind, and the server's clock.
// Signals are lost as answers to an Apply are, and while there is no
// connection.
type SignalClient struct {
	*Client
	signals *kvstore.Signals
	time    kvstore.Timekeeper
}

var (
	_ kvstore.Signaler = (*SignalClient)(nil)
	_ kvstore.Clock    = (*SignalClient)(nil)
)

// OpenSignals is Open for a SignalClient. It asks the server for its time, so
// that it is known. Without an answer it is learned later.
func OpenSignals(ctx context.Context, addr string, o *Options) *SignalClient {
	s := &SignalClient{Client: Open(addr, o)}
	s.signals = kvstore.NewSignals(s.send)
	s.heard, s.renewed = s.hear, s.signals.WakeAll
	_, _, _ = s.call(ctx, request{Signal: []string{}})
	return s
}

// send sends signals, each once, and returns when the server has them.
func (s *SignalClient) send(ctx context.Context, topics []string) {
	_, _, _ = s.call(ctx, request{Signal: topics})
}

// hear takes in a frame of the server; asked is when its request was sent.
func (s *SignalClient) hear(asked time.Time, r response) {
	if r.ID != 0 {
		s.time.Observe(asked, r.Time)
	}
	for _, topic := range r.Signal {
		s.signals.Wake(topic)
	}
}

// Signal implements [kvstore.Signaler].
func (s *SignalClient) Signal(topic string) { s.signals.Signal(topic) }

// Watch implements [kvstore.Signaler].
func (s *SignalClient) Watch(topic string, wake func()) (stop func()) {
	return s.signals.Watch(topic, wake)
}

// Now implements [kvstore.Clock].
func (s *SignalClient) Now() (t time.Time, within time.Duration) { return s.time.Now() }

// Close implements [kvstore.Store].
func (s *SignalClient) Close() error {
	s.signals.Close()
	return s.Client.Close()
}

// SetClock sets the server's clock, which is that of its SignalClients, so much
// ahead of this process's.
func (s *Server) SetClock(ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = ahead
}

func (s *Server) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.ahead)
}

// broadcast sends signals to all clients but the one that they come from.
func (s *Server) broadcast(from *peer, topics []string) {
	if len(topics) == 0 {
		return
	}
	s.mu.Lock()
	var peers []*peer
	for p := range s.peers {
		if p != from {
			peers = append(peers, p)
		}
	}
	s.mu.Unlock()
	for _, p := range peers {
		p.send(response{Signal: topics})
	}
}
