package runner

import (
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// tellOfHandles tells the model what has happened to handles, where no result
// has: by a message of notices, right before it is asked. That rides with the
// model's answer.
func (mc *modelCaller) tellOfHandles() error {
	var st session.State
	mc.lease.View(func(s *session.State) {
		st = session.State{ID: s.ID, Notices: s.Notices, NoticesTold: s.NoticesTold}
	})
	if st.Notices <= st.NoticesTold {
		return nil
	}
	untold, to, err := mc.rn.store.Untold(mc.waiting, &st)
	if err != nil {
		return err
	}
	var all []handles.Happening
	var shown []session.HandleShown
	for i := range untold {
		h, err := mc.rn.handle(mc.waiting, mc.session, untold[i].Name)
		if err != nil {
			return err
		}
		if h.State == tool.HandleRunning { // what it waited for has come
			continue
		}
		reply, _ := handles.Standing(&h, false, handles.MaxNotice)
		shown = append(shown, session.HandleShown{Name: h.Name, Child: h.Session,
			Told: h.State == tool.HandleStopped})
		all = append(all, handles.Happening{Tool: h.Tool, Call: h.Call, Reply: reply})
	}
	m := llm.Message{Role: llm.RoleTool}
	for _, n := range handles.Notices(all) {
		m.Parts = append(m.Parts, n)
	}
	var entry *session.Entry
	if len(m.Parts) > 0 {
		m = m.Clean()
		if entry, err = session.NewEntry(m); err != nil {
			return err
		}
	}
	err = mc.ride(func(tx *session.Tx) error { return tx.Tell(entry, to, shown) })
	if err != nil {
		return decided(err)
	}
	if entry != nil {
		mc.read.history = append(mc.read.history, m)
		mc.out.emit(event.Message{Number: len(mc.read.history) - 1, Message: m.Clone()})
	}
	return nil
}
