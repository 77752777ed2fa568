package runner

import (
	"context"
	"errors"
	"slices"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// screen is the display of a drive. It reads what it shows off the drive's
// head, whichever process committed it. The outcomes of this drive's own
// attempts it reads off the crew, so that they cost no read of the store. What
// was shown is noted in the head for the next drive.
//
// The goroutine that drives owns it.
type screen struct {
	display
	*subject
	*committer
	read     *reading
	crew     *crew
	results  map[string]known      // of the open turn, those that were read from the store
	progress <-chan event.Progress // of the session, as it is reported in this process
	ear      *ear                  // for what happens below the session; may be nil
}

// showNews emits what is new of the open turn. An error is marked for the loop
// if the session has moved on: a result that rode may be dropped while the news
// is shown, and then has no record.
func (s *screen) showNews() error {
	var news []fresh
	s.lease.View(func(st *session.State) {
		if s.refuted(st) {
			s.restage()
		}
		news = s.news(st)
	})
	if len(news) > 0 {
		s.catchUp()
	}
	return decided(s.show(s.waiting, news))
}

// catchUp emits which bodies have begun, and the progress that is there: it was
// reported before what is shown next.
func (s *screen) catchUp() {
	s.crew.showBegun(s.emit)
	for range len(s.progress) {
		s.emit(<-s.progress)
	}
}

// pause returns a pause as the drive's head has it.
func (s *screen) pause(ctx context.Context, c *session.Call) (p tool.Pause, err error) {
	if err := s.read.loadTurn(); err != nil {
		return p, err
	}
	return s.rn.store.Pause(ctx, s.lease.State(), c, session.Arguments(s.read.asked, c.ID))
}

// result returns how a settled call ended: as an attempt of this drive saw it,
// or as it is stored, also where that rides and is not stored yet.
func (s *screen) result(ctx context.Context, c *session.Call) (known, error) {
	if k := s.crew.came(c.ID); k.tells(c) {
		return k, nil
	}
	if k := s.results[c.ID]; k.tells(c) {
		return k, nil
	}
	r, err := s.lease.Record(ctx, c.ID)
	if err != nil {
		return known{}, err
	}
	k, err := s.rn.known(ctx, s.session, c, &r)
	if err != nil {
		return known{}, err
	}
	if s.results == nil {
		s.results = map[string]known{}
	}
	s.results[c.ID] = k
	return k, nil
}

func (s *screen) made(call string) []tool.Action { return s.crew.made(call) }

// forget drops the results that were read, since others may have committed
// other ones.
func (s *screen) forget() {
	clear(s.results)
	s.restage()
}

// marks is listener.marks by the drive's head.
func (s *screen) marks() (shown, unseen []string) {
	s.lease.View(func(st *session.State) { shown, unseen = s.listener.marks(st) })
	return shown, unseen
}

// noteShown notes in the head which results were shown that no drive could show
// before. They matter only while the turn is open.
func (s *screen) noteShown() error {
	shown, _ := s.marks()
	if len(shown) == 0 {
		return nil
	}
	return s.ride(func(tx *session.Tx) error { return tx.Seen(shown, nil) })
}

// noteSeen returns what a drive notes that ends before it has shown everything:
// what the next drive is to show, and what not.
func (s *screen) noteSeen() []session.Transition {
	shown, unseen := s.marks()
	if len(shown)+len(unseen) == 0 {
		return nil
	}
	return []session.Transition{func(tx *session.Tx) error { return tx.Seen(shown, unseen) }}
}

// noteSeenAlone is noteSeen for a drive whose message was refused before
// anything was committed. It notes only which results were shown that no drive
// could show before.
func (s *screen) noteSeenAlone(ctx context.Context) []session.Transition {
	shown, _ := s.marks()
	if len(shown) == 0 || s.lease.Drop(ctx) != nil {
		return nil
	}
	return []session.Transition{func(tx *session.Tx) error { return tx.Seen(shown, nil) }}
}

// placeOf returns the place of a call's result among those of its turn.
func placeOf(results llm.Message, call string) int {
	return max(0, slices.IndexFunc(results.Parts, func(p llm.Part) bool {
		r, ok := p.(llm.ToolResult)
		return ok && r.Call == call
	}))
}

// showUnseen shows the results of a turn that was closed by a drive without a
// listener.
func (s *screen) showUnseen() error {
	var unseen *session.Unseen
	s.lease.View(func(st *session.State) { unseen = st.Unseen })
	if unseen == nil || s.heard != nil {
		return nil
	}
	if err := s.read.loadHistory(); err != nil {
		return err
	}
	var results llm.Message
	if history := s.read.history; unseen.Message < len(history) {
		results = history[unseen.Message].Clone()
	}
	for _, id := range unseen.Calls {
		r, err := s.lease.Record(s.waiting, id)
		if errors.Is(err, session.ErrUnknownCall) { // swept, by an older version
			continue
		}
		if err != nil {
			return err
		}
		c := session.Call{ID: id, Tool: r.Tool, Status: session.Settled, Settled: r.Status,
			Background: r.Background}
		if err := s.showCall(s.waiting, placeOf(results, id), &c); err != nil || s.left {
			return err
		}
	}
	if len(results.Parts) > 0 {
		s.emit(event.Message{Number: unseen.Message, Message: results})
	}
	if s.left {
		return nil
	}
	if err := s.ride((*session.Tx).SeenBefore); err != nil {
		return err
	}
	// Stored at once, since the message that the drive is for may be refused.
	// If that fails, the note rides on, and the next commit fails as well.
	_ = s.flush()
	return nil
}
