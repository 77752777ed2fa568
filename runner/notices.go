package runner

import (
	"errors"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// telling is what the model is told of handles before it is asked.
type telling struct {
	*modelCaller
	all   []handles.Happening
	shown []session.HandleShown // of each of all
}

// tellOfHandles tells the model what has happened to handles, where no result
// has: by a message of notices, right before it is asked. That rides with the
// model's answer.
func (mc *modelCaller) tellOfHandles() error {
	var st session.State
	mc.lease.View(func(s *session.State) {
		st = session.State{ID: s.ID, Notices: s.Notices, NoticesTold: s.NoticesTold, Telling: s.Telling}
	})
	if st.Notices <= st.NoticesTold && st.Telling == 0 {
		return nil
	}
	t := &telling{modelCaller: mc}
	to, err := t.happened(&st)
	if err == nil && st.Telling > 0 {
		err = t.produced()
	}
	if err != nil {
		return err
	}
	return t.tell(&st, to)
}

// happened adds those that have stopped, or wait for an answer, and returns the
// last notice that this covers.
func (t *telling) happened(st *session.State) (to int, err error) {
	stored, to, err := t.rn.store.Untold(t.waiting, st, t.isDone)
	if err != nil {
		return to, err
	}
	var untold []session.Handle
	err = t.ride(func(tx *session.Tx) (err error) {
		untold, err = tx.Untold(stored)
		return err
	})
	if err != nil {
		return to, decided(err)
	}
	for i := range untold {
		h, err := t.rn.toldOf(t.waiting, &untold[i])
		if err != nil {
			return to, err
		}
		if h.State == tool.HandleRunning { // what it waited for has come
			continue
		}
		reply, _ := handles.Standing(&h, false, handles.MaxNotice)
		t.add(&h, reply, session.HandleShown{Told: h.State == tool.HandleStopped})
	}
	return to, nil
}

// isDone reports whether a settled call has a result of its own. It may be that
// it rides, and isn't stored yet.
func (t *telling) isDone(call string) (bool, error) {
	r, err := t.lease.Record(t.waiting, call)
	if errors.Is(err, session.ErrUnknownCall) {
		return false, nil
	}
	return r.Status == event.Done, err
}

// maxProducing is how many handles a message tells the content of. The others,
// in the order of their names, are told of once these have nothing new.
const maxProducing = 32

// produced adds what handles that run have produced since they were told of. The
// model isn't asked for that alone.
func (t *telling) produced() error {
	n := len(t.read.history)
	if len(t.all) == 0 && (n == 0 || t.read.history[n-1].Role == llm.RoleAssistant) {
		return nil
	}
	found := 0
	for rec, err := range t.rn.store.AllHandles(t.waiting, t.session) {
		if err != nil {
			return err
		}
		if !rec.Open() || !rec.Policy.NewContent {
			continue
		}
		h, err := t.rn.toldOf(t.waiting, &rec)
		if err != nil {
			return err
		}
		h.Shown = max(h.Shown, rec.Noticed, t.read.noticed[h.Session])
		if h.State != tool.HandleRunning || h.Content.Total <= h.Shown {
			continue
		}
		reply, upto := handles.Standing(&h, false, 0)
		if reply.Content == "" {
			continue // a character isn't there whole
		}
		t.add(&h, reply, session.HandleShown{Shown: upto})
		if found++; found == maxProducing {
			break
		}
	}
	return nil
}

func (t *telling) add(h *tool.Handle, r handles.Reply, s session.HandleShown) {
	s.Name, s.Child = h.Name, h.Session
	t.shown = append(t.shown, s)
	t.all = append(t.all, handles.Happening{Tool: h.Tool, Call: h.Call, Reply: r})
}

// tell appends the message of notices, and notes what it tells.
func (t *telling) tell(st *session.State, to int) (err error) {
	m := llm.Message{Role: llm.RoleTool}
	for i, n := range handles.Notices(t.all) {
		m.Parts = append(m.Parts, n)
		s := &t.shown[i]
		if s.Shown > 0 && n.Text != t.all[i].Content { // cut: fetch has it whole
			s.Shown, s.Noticed = 0, s.Shown
		}
	}
	var entry *session.Entry
	if len(m.Parts) > 0 {
		m = m.Clean()
		if entry, err = session.NewEntry(m); err != nil {
			return err
		}
	} else if to <= st.NoticesTold {
		return nil
	}
	err = t.ride(func(tx *session.Tx) error { return tx.Tell(entry, to, t.shown) })
	if err != nil {
		return decided(err)
	}
	if entry != nil {
		t.read.notices(t.shown)
		t.read.append(m, entry)
		t.out.emit(event.Message{Number: len(t.read.history) - 1, Message: m.Clone()})
	}
	return nil
}

// notices keeps what notices have told, until it is stored.
func (r *reading) notices(shown []session.HandleShown) {
	for _, s := range shown {
		if upto := max(s.Shown, s.Noticed); upto > 0 {
			if r.noticed == nil {
				r.noticed = map[string]int{}
			}
			r.noticed[s.Child] = upto
		}
	}
}
