package runner

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// What becomes of handles that are open when the model would end its turn.

const (
	maxInquiries = 3  // of a run; afterwards what would be asked about is aborted
	maxInquired  = 50 // handles of one inquiry; the others are waited for
	// endWait is how long a run that has waited for handles, and has aborted
	// them, waits for their ends.
	endWait = 30 * time.Second
)

// sorting decides the fates of a session's handles. The goroutine that drives
// owns it.
type sorting struct {
	*modelCaller
	session.Fates
	now  time.Time
	asks []session.Handle // what the model is to be asked about
	late bool             // something is aborted that was waited for
}

// linger decides what becomes of the handles that are open, and stores it: first
// of those that are aborted, then of those that are waited for. The model is
// asked about the others once that is over.
func (mc *modelCaller) linger(ctx context.Context) error {
	s := &sorting{modelCaller: mc, now: mc.rn.store.Now()}
	inquiries := 0
	mc.lease.View(func(st *session.State) {
		s.Turn, inquiries = st.Linger.Turn, st.Run.Inquiries
	})
	for h, err := range mc.rn.store.AllHandles(mc.waiting, mc.session) {
		if err != nil {
			return err
		}
		if h.Open() && !h.Kept {
			s.sort(&h, inquiries < maxInquiries)
		}
	}
	if s.Until.IsZero() && s.late {
		s.Until = s.now.Add(endWait)
	}
	if len(s.asks) == 0 || !s.Until.IsZero() {
		s.Left = len(s.asks) > 0 // asked about once nothing is waited for
		return s.store(true)
	}
	if err := s.store(false); err != nil {
		return err
	}
	if asked, err := s.ask(ctx); !asked || err != nil {
		return err // if the drive is to stop, the model is asked another time
	}
	return s.store(true)
}

// sort decides the fate of one handle by its policy, or notes that the model is
// to be asked.
func (s *sorting) sort(h *session.Handle, asks bool) {
	switch p := h.Policy; {
	case h.Linger == s.Turn && h.Until.After(s.now):
		s.look(h.Until) // that is decided
	case h.Linger == s.Turn:
		s.late = true
		s.abort(h)
	case p.AtEnd == tool.AwaitAtEnd:
		s.await(h)
	case p.AtEnd == tool.AbortAtEnd || !asks:
		s.abort(h)
	default:
		s.asks = append(s.asks, *h)
	}
}

func (s *sorting) abort(h *session.Handle) {
	s.List = append(s.List, session.HandleFate{Name: h.Name, Child: h.Child})
}

func (s *sorting) await(h *session.Handle) {
	until := s.now.Add(h.Patience())
	s.List = append(s.List, session.HandleFate{Name: h.Name, Child: h.Child, Until: until})
	s.look(until)
}

// look has the fates decided anew at that time, if not before.
func (s *sorting) look(at time.Time) {
	if s.Until.IsZero() || at.Before(s.Until) {
		s.Until = at
	}
}

// store stores the fates so far, some at a time. Until the last of all is stored,
// the step is the same.
func (s *sorting) store(last bool) error {
	for len(s.List) > 0 || last && !s.Last {
		page := s.Fates
		page.List = s.List[:min(len(s.List), session.MaxFates)]
		s.List = s.List[len(page.List):]
		s.Last = last && len(s.List) == 0
		page.Last = s.Last
		err := s.commit(func(tx *session.Tx) error { return tx.Decide(&page) })
		if err != nil {
			return decided(err)
		}
		s.Inquired, s.Usage = false, llm.Usage{} // that counts once
	}
	return nil
}

// ask asks the model what is to become of handles. Without an answer that fits,
// they are waited for. Without asked, the drive is to stop.
func (s *sorting) ask(ctx context.Context) (asked bool, err error) {
	text, ids, err := s.inquiry()
	if err != nil {
		return false, err
	}
	var fates map[string]handles.Fate
	q := &aside{about: "its handles", text: text, schema: handles.InquirySchema(),
		take: func(answer json.RawMessage, _ llm.Usage) (misfit, _ error) {
			fates, misfit = handles.Fates(answer, ids)
			return misfit, nil
		}}
	answered, misfit, used, err := s.askBeside(ctx, q)
	if err != nil || !answered && misfit == nil {
		return false, err
	}
	s.Inquired, s.Usage = true, used
	for i := range s.asks { // those that weren't asked about are waited for
		if h := &s.asks[i]; fates[h.Name] == handles.ToAbort {
			s.abort(h)
		} else {
			s.await(h)
		}
	}
	return true, nil
}

// inquiry returns what the model is asked, and the handles that it is about. Of
// the history it quotes what the user and the model have said last.
func (s *sorting) inquiry() (text string, ids []string, err error) {
	if err := s.read.loadHistory(); err != nil {
		return "", nil, err
	}
	var open []handles.Open
	for i := range s.asks[:min(len(s.asks), maxInquired)] {
		h, err := s.rn.handle(s.waiting, &s.asks[i])
		if unreadable(err) {
			h, err = byRecord(&s.asks[i]), nil
		}
		if err != nil {
			return "", nil, err
		}
		reply, _ := handles.Standing(&h, true, 0)
		ids = append(ids, h.Name)
		open = append(open, handles.Open{ID: h.Name, Tool: h.Tool, State: reply.State,
			Elapsed: int64(s.now.Sub(h.Since).Seconds()), Preview: reply.Content})
	}
	if text, err = handles.Inquiry(open); err != nil {
		return "", nil, err
	}
	for _, role := range []llm.Role{llm.RoleAssistant, llm.RoleUser} {
		if said := s.lastSaid(role); said != "" {
			text = "The " + string(role) + " said last: " + quote(said) + "\n\n" + text
		}
	}
	return text, ids, nil
}

// lastSaid returns the last text of a role in the history.
func (s *sorting) lastSaid(role llm.Role) string {
	for _, m := range slices.Backward(s.read.history) {
		if text := m.Text(); m.Role == role && text != "" {
			return text
		}
	}
	return ""
}
