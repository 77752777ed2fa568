package webhook_test

import (
	"net/http"
	"testing"

	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// The token of a hook of everyone on the store ends it, once, and tells its
// progress before; it is good for nothing else.
func TestTheTokenOfAWideHook(t *testing.T) {
	s := newSite(t, siteOptions{})
	hook := func(id string) (runner.WaitName, string) {
		name := runner.WaitName{Scope: tool.StoreScope, ID: id}
		w, err := s.rn.CreateWait(t.Context(), name, runner.NewWait{Type: tool.HookWait}, "ops")
		must(t, err)
		return name, w.Token
	}
	gate, token := hook("gate")
	s.post(token+"/progress", `{"fraction":0.5}`).accepted(t, false)
	for _, path := range []string{"/approve", "/deny", "/cancel", "/event/offer"} {
		s.post(token+path, `{}`).is(t, http.StatusForbidden, "not_allowed")
	}
	s.post(token, `{"paid":`).is(t, http.StatusUnprocessableEntity, "invalid_wait")
	s.post(token, `{"paid":true}`).accepted(t, false)
	s.post(token, `{"paid": true}`).accepted(t, false)
	s.post(token, `{"paid":false}`).is(t, http.StatusConflict, "wait_ended")
	s.post(token+"/fail", `{"message":"no"}`).is(t, http.StatusConflict, "wait_ended")
	s.post(token+"/progress", `{"fraction":1}`).is(t, http.StatusConflict, "wait_ended")
	w, err := s.rn.Wait(t.Context(), gate, "ops")
	must(t, err)
	if string(w.Result) != `{"paid":true}` || string(w.Progress) != `{"fraction":0.5}` {
		t.Errorf("it came to %+v", w)
	}
	other, token := hook("other")
	s.post(token+"/fail", `{"message":"too late"}`).accepted(t, false)
	if w, err = s.rn.Wait(t.Context(), other, "ops"); err != nil || w.Error != "too late" {
		t.Errorf("it came to %+v, %v", w, err)
	}
}
