package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/usererr"
)

// FanOut carries what happens in sessions from one process to the others, ahead
// of the store: over a message broker, say. Without one, the followers of other
// processes see what a model says once it is committed.
//
// It need not be reliable: if data is lost, comes twice or out of order, no
// follower is shown anything wrong. What is published holds content of the
// session: at most all that the model has said of one message so far, in JSON,
// which takes up to six bytes for one. It is published again each second while
// the model speaks. All methods may be called from any goroutine.
type FanOut interface {
	// Publish hands data to all who subscribe to the session, in all processes.
	// It may take its time: no drive waits for it.
	Publish(ctx context.Context, session string, data []byte) error
	// Subscribe has receive called with what is published of the session, by
	// this process too or not, until stop is called.
	Subscribe(
		ctx context.Context, session string, receive func(data []byte),
	) (stop func(), err error)
}

// packet is what is published.
type packet struct {
	Changed bool            `json:"changed,omitempty"` // there was a commit
	Speech  *spoken         `json:"speech,omitempty"`
	Retry   json.RawMessage `json:"retry,omitempty"` // an event.Retry, of the end of that speech
}

// spoken is a part of a speech: of a call of the model by a drive.
type spoken struct {
	Fence  int64   `json:"fence"`
	Call   int     `json:"call"`
	Number int     `json:"number"`
	From   int     `json:"from"` // the byte with which it begins
	Said   []words `json:"said,omitempty"`
	GoesOn bool    `json:"goes_on,omitempty"`
	Kept   bool    `json:"kept,omitempty"`
}

type words struct {
	Text      string `json:"text"`
	Reasoning bool   `json:"reasoning,omitempty"`
}

// wholeEvery is how often the whole of a speech is published, for those who came
// later or lost something.
const wholeEvery = time.Second

// pump publishes what a drive's model says, while the drive takes its steps. It
// keeps up with the drive by saying more at once. The feed's lock guards it, but
// for wake and done.
type pump struct {
	feed    *feed
	wake    chan struct{} // gets a value when there is something to say
	done    chan struct{} // closed when the drive is over
	retries []retried
	call    int  // of the speech
	at      int  // how far it was published
	over    bool // its end was published
}

// retried is a try of the model that failed.
type retried struct {
	speech *spoken
	event  event.Retry
}

// part returns what is published of a speech, but for its words.
func (s *speech) part() *spoken {
	return &spoken{Fence: s.fence, Call: s.call, Number: s.number, GoesOn: s.goesOn, Kept: s.kept}
}

// pumps publishes a feed until stop.
func (rn *Runner) pumps(session string, f *feed) (stop func()) {
	if !rn.fansOut() {
		return func() {}
	}
	p := &pump{feed: f, wake: make(chan struct{}, 1), done: make(chan struct{}), over: true}
	f.mu.Lock()
	f.pump, p.call = p, f.said.call
	f.mu.Unlock()
	go p.run(rn, session)
	return func() {
		f.mu.Lock()
		if f.pump == p {
			f.pump = nil
		}
		f.mu.Unlock()
		close(p.done)
	}
}

func (p *pump) run(rn *Runner, session string) {
	whole := time.NewTicker(wholeEvery)
	defer whole.Stop()
	for ended := false; !ended; {
		again := false
		select {
		case <-p.wake:
		case <-whole.C:
			again = true
		case <-p.done:
			ended = true
		}
		for _, one := range p.take(again) {
			rn.publish(session, one)
		}
	}
}

// publish hands a packet to the fan-out. What can't be published is lost: the
// store has what counts.
func (rn *Runner) publish(session string, p packet) {
	data, err := json.Marshal(p)
	if err == nil {
		err = fanningOut(func() error {
			return rn.options.FanOut.Publish(rn.closing, session, data)
		})
	}
	if err != nil && rn.closing.Err() == nil {
		rn.options.Logger.Warn("what happens in a session could not be published",
			"session", session, "error", err)
	}
}

// take returns what is to be published: what is new, or all once more.
func (p *pump) take(whole bool) (all []packet) {
	p.feed.mu.Lock()
	defer p.feed.mu.Unlock()
	for _, r := range p.retries {
		if text, err := event.Marshal(r.event); err == nil {
			all = append(all, packet{Speech: r.speech, Retry: text})
		}
	}
	p.retries = nil
	s := &p.feed.said
	switch {
	case p.call != s.call:
		p.call, p.at, p.over = s.call, 0, false
	case p.over:
		return all
	case s.goesOn && !whole && p.at == len(s.text):
		return all
	}
	if whole {
		p.at = 0
	}
	part := s.part()
	part.From = p.at
	for said, reasoning := range s.from(p.at) {
		part.Said = append(part.Said, words{said, reasoning})
	}
	p.at, p.over = len(s.text), !s.goesOn
	return append(all, packet{Speech: part})
}

// receives takes what was published of the session. What is no news is passed
// over: it was this process that published it, or it comes late.
func (l *look) receives(data []byte) {
	var p packet
	if json.Unmarshal(data, &p) != nil {
		return
	}
	if p.Changed {
		l.poll()
	}
	if p.Speech == nil {
		return
	}
	var retry event.Event
	if len(p.Retry) > 0 {
		retry, _ = event.Unmarshal(p.Retry)
	}
	l.feed.relay(p.Speech, retry)
}

// relay takes a part of what the model of another process says. Of a speech
// whose beginning is missing nothing is shown until the whole comes. Retry may be
// nil.
func (f *feed) relay(part *spoken, retry event.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.said
	if f.drives > 0 || part.From < 0 || part.Fence < s.fence ||
		part.Fence == s.fence && part.Call < s.call {
		return
	}
	if part.Fence != s.fence || part.Call != s.call {
		f.said = speech{fence: part.Fence, call: part.Call, number: part.Number, goesOn: true}
	}
	if !s.goesOn {
		return
	}
	at := part.From
	for _, w := range part.Said {
		if skip := len(s.text) - at; skip >= 0 && skip < len(w.Text) {
			s.add(w.Reasoning, w.Text[skip:])
		}
		at += len(w.Text)
	}
	if !part.GoesOn {
		s.end(part.Kept)
	}
	if _, is := retry.(event.Retry); is {
		f.queue(retry)
	}
	f.signal()
}

// nudges tells other processes of commits, so that those who follow there need
// not wait for their next look. All methods may be called from any goroutine.
type nudges struct {
	wake chan struct{}

	mu      sync.Mutex // guards changed; held over no call
	changed map[string]bool
}

// maxNudges is how many sessions wait to be told of. Of more the polls tell.
const maxNudges = 10_000

// nudge notes a commit.
func (n *nudges) nudge(session string) {
	n.mu.Lock()
	if len(n.changed) < maxNudges {
		n.changed[session] = true
	}
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *nudges) take() map[string]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed := n.changed
	n.changed = map[string]bool{}
	return changed
}

// fansOut reports whether there is a fan-out, and may be others to tell: where
// one process has the engine, there are none.
func (rn *Runner) fansOut() bool { return rn.options.FanOut != nil && !rn.store.Exclusive() }

// nudge tells of commits until the runner closes.
func (rn *Runner) nudge() (unhook func()) {
	if !rn.fansOut() {
		return func() {}
	}
	n := &nudges{wake: make(chan struct{}, 1), changed: map[string]bool{}}
	go func() {
		for {
			select {
			case <-n.wake:
			case <-rn.closing.Done():
				return
			}
			for session := range n.take() {
				rn.publish(session, packet{Changed: true})
			}
		}
	}()
	return rn.store.OnChange(n.nudge)
}

// subscribes has the look receive what other processes publish, until ctx ends.
func (l *look) subscribes(ctx context.Context) {
	err := fanningOut(func() error {
		stop, err := l.rn.options.FanOut.Subscribe(ctx, l.session, l.receives)
		if err == nil {
			<-ctx.Done()
			stop()
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		l.rn.options.Logger.Warn("a session's fan-out can't be subscribed to",
			"session", l.session, "error", err)
	}
}

// fanningOut calls the fan-out. If that panics, that is its error: it is not to
// end the process.
func fanningOut(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the fan-out panicked: %v", p)
		}
	}()
	return usererr.Use(f())
}
