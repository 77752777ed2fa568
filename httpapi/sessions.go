package httpapi

import (
	"errors"
	"net/http"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// sessions is a page of a list.
type sessions struct {
	Sessions []runner.Session `json:"sessions"`
	// Next is what "after" is for the next page; empty: this is the last one.
	Next string `json:"next,omitempty"`
}

// list lists sessions of the user's.
func (v *visit) list() error {
	p := v.parameters()
	limit := p.number("limit", 50, 1, 200)
	// Without a Limit: one that can't be read would count towards it, and the page
	// would look like the last one.
	f := session.Filter{User: v.whose(p), Agent: p.text("agent"), After: p.text("after")}
	if p.err != nil {
		return p.err
	}
	page := sessions{Sessions: []runner.Session{}}
	for s, err := range v.h.rn.Sessions(v.r.Context(), f, v.user) {
		switch {
		case err != nil && s.ID == "" && len(page.Sessions) == 0 && !damaged(err):
			return err
		case err != nil: // the list goes on after it
			v.h.config.Logger.ErrorContext(v.r.Context(), "a session could not be listed",
				"error", err)
		case len(page.Sessions) == limit:
			page.Next = page.Sessions[limit-1].ID
			return v.answer(http.StatusOK, page)
		default:
			page.Sessions = append(page.Sessions, s)
		}
	}
	return v.answer(http.StatusOK, page)
}

// damaged reports whether an error is about one record, and not the store.
func damaged(err error) bool {
	return errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNewerVersion)
}

// whose returns whose sessions a list is about: the user's. With Config.Others
// it may be another user's, or all.
func (v *visit) whose(p *parameters) string {
	switch {
	case !v.h.config.Others:
		return string(v.user)
	case p.flag("all", false):
		return ""
	case p.text("user") != "":
		return p.text("user")
	}
	return string(v.user)
}

// show shows a session with its messages.
func (v *visit) show() error {
	t, err := v.h.rn.Show(v.r.Context(), v.session(), v.user)
	if err != nil {
		return err
	}
	if t.History == nil {
		t.History = []llm.Message{}
	}
	for i := range t.Calls {
		v.linked(v.session(), &t.Calls[i])
	}
	return v.answer(http.StatusOK, t)
}

// delete deletes a session.
func (v *visit) delete() error {
	if err := v.h.rn.Delete(v.r.Context(), v.session(), v.user); err != nil {
		return err
	}
	return v.done()
}

// reason is why something is ended.
type reason struct {
	Reason string `json:"reason,omitempty"`
}

// cancel cancels what a session does.
func (v *visit) cancel() error {
	var why reason
	if err := v.receive(&why); err != nil {
		return err
	}
	err := v.h.rn.CancelSession(v.r.Context(), v.session(), v.user, why.Reason)
	if err != nil {
		return err
	}
	return v.overview(http.StatusOK)
}

// overview answers with how the session stands.
func (v *visit) overview(status int) error {
	s, err := v.reach(v.r.Context(), v.session())
	if err != nil {
		return err
	}
	return v.answer(status, s)
}
