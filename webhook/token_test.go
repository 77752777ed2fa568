package webhook_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A token whose tool asked for nothing completes and fails, and no more.
func TestTokenOfAToolThatAsksForNothing(t *testing.T) {
	s := newSite(t, siteOptions{permits: []tool.Permit{}})
	token := s.paused()
	for _, path := range []string{"/progress", "/cancel", "/approve", "/deny"} {
		s.post(token+path, `{}`).is(t, http.StatusForbidden, "not_allowed")
	}
	s.post(token, `{"url":"a"}`).accepted(t, false)
	s.post(token+"/fail", `{}`).is(t, http.StatusConflict, "conflict")
}

// twice returns a tool that asks two times, and notes the token of each.
func twice(tokens *[]string) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "twice", Effect: tool.Idempotent, MayPause: true},
		func(ctx context.Context, _ struct{}) (tool.Result[string], error) {
			if len(*tokens) == 2 {
				return tool.Done("done"), nil
			}
			*tokens = append(*tokens,
				tool.CallFrom(ctx).Token(tool.PermitComplete, tool.PermitProgress,
					tool.PermitCancel))
			return tool.Pending[string](tool.Await{Mode: tool.ModeReenter}), nil
		}))
}

// The token of a pause that was answered does nothing more, while the call goes
// on, while it waits again, and when it is over.
func TestTokenOfAnAnsweredPause(t *testing.T) {
	var tokens []string
	s := newSite(t,
		siteOptions{tools: []tool.Tool{twice(&tokens)},
			model: fakellm.New(fakellm.Calls("twice", `{}`), fakellm.Says("Done."))})
	s.run()
	s.post(tokens[0], `"one"`).accepted(t, false)
	nothing := func() {
		t.Helper()
		s.post(tokens[0]+"/cancel", `{}`).is(t, http.StatusConflict, "not_paused")
		s.post(tokens[0]+"/progress", `{"fraction":0.5}`).is(t, http.StatusConflict, "not_paused")
	}
	nothing()
	s.carryOn()
	nothing()
	s.post(tokens[0], `"one"`).accepted(t, true)
	s.post(tokens[1]+"/progress", `{"fraction":0.5}`).accepted(t, false)
	s.post(tokens[1], `"two"`).accepted(t, false)
	if end := s.carryOn(); end.Finish != event.FinishStop {
		t.Errorf("the run ended as %s", end.Finish)
	}
	s.post(tokens[0]+"/cancel", `{}`).is(t, http.StatusGone, "settled")
	s.post(tokens[1]+"/cancel", `{}`).is(t, http.StatusGone, "settled")
}

// A token of the form before this one completes, fails and reports, and cancels
// its call whichever pause is open, until it expires. It decides nothing.
func TestTokenOfTheOldForm(t *testing.T) {
	var tokens []string
	s := newSite(t,
		siteOptions{tools: []tool.Tool{twice(&tokens)},
			model: fakellm.New(fakellm.Calls("twice", `{}`), fakellm.Says("Done."))})
	s.run()
	tok, err := s.rn.ReadToken(t.Context(), tokens[0])
	must(t, err)
	claims := map[string]any{"k": tok.Key, "s": tok.Session, "c": tok.Call, "p": 1,
		"o": []string{"resume", "progress", "cancel"}, "e": tok.Expires}
	old := s.signed("f1.", claims)
	s.post(old+"/progress", `{"fraction":0.5}`).accepted(t, false)
	s.post(old+"/approve", `{}`).is(t, http.StatusForbidden, "not_allowed")
	s.post(old, `"one"`).accepted(t, false)
	s.post(old+"/fail", `{}`).is(t, http.StatusConflict, "conflict")
	s.carryOn()
	s.post(old+"/cancel", `{}`).accepted(t, false)
	claims["e"] = time.Now().Add(-time.Second).Unix()
	s.post(s.signed("f1.", claims), `"one"`).is(t, http.StatusGone, "token_expired")
	claims["o"], claims["e"] = []string{"progress"}, tok.Expires
	s.post(s.signed("f1.", claims), `"one"`).is(t, http.StatusForbidden, "not_allowed")
	// Words of the new form mean nothing in the old one.
	claims["o"] = []string{"complete", "approve"}
	s.post(s.signed("f1.", claims), `"one"`).is(t, http.StatusForbidden, "not_allowed")
}

// gated returns a site whose job waits for a decision, and that pause.
func gated(t *testing.T) (s *site, p tool.Pause) {
	s = newSite(t, siteOptions{layers: interceptor.Chain{interceptor.Approval(nil)}})
	if end := s.run(); end.Finish != event.FinishPaused {
		t.Fatalf("the run ended as %s", end.Finish)
	} else {
		p = end.Pending[0]
	}
	return s, p
}

func (s *site) mint(p tool.Pause, holder runner.Actor, permits ...tool.Permit) string {
	s.t.Helper()
	token, err := s.rn.MintToken(s.t.Context(),
		runner.Grant{Session: p.Session, Pause: p.ID, Permits: permits, Holder: holder}, "chat-bot")
	must(s.t, err)
	return token
}

// A person decides by a link that was made for that decision, and is its actor.
func TestDecisionOverHTTP(t *testing.T) {
	t.Run("approved", func(t *testing.T) {
		s, p := gated(t)
		yes, no := s.mint(p, "grace", tool.PermitApprove), s.mint(p, "", tool.PermitDeny)
		// A preview.
		s.send(s.request(http.MethodGet, yes+"/approve", nil)).is(t,
			http.StatusMethodNotAllowed, "method")
		s.post(no+"/approve", `{}`).is(t, http.StatusForbidden, "not_allowed")
		s.post(yes+"/deny", `{}`).is(t, http.StatusForbidden, "not_allowed")
		s.post(yes, `{"url":"a"}`).is(t, http.StatusForbidden, "not_allowed")
		s.post(yes+"/approve", `{"why":"x"}`).is(t, http.StatusUnprocessableEntity, "invalid")
		s.post(yes+"/approve", `{"reason":"checked"}`).accepted(t, false)
		s.post(yes+"/approve", `{"reason":"checked"}`).accepted(t, true)
		s.post(no+"/deny", ``).is(t, http.StatusConflict, "conflict")
		s.carryOn()
		if len(s.tokens) != 1 {
			t.Errorf("the body was entered %d times", len(s.tokens))
		}
		if d := s.call().Decisions; len(d) != 1 || !d[0].Approved || d[0].Actor != "grace" ||
			d[0].Reason != "checked" {
			t.Errorf("the decisions are %+v", d)
		}
		s.post(s.tokens[0]+"/progress", `{"fraction":0.5}`).accepted(t, false)
	})
	t.Run("denied", func(t *testing.T) {
		s, p := gated(t)
		s.post(s.mint(p, "", tool.PermitApprove, tool.PermitDeny)+"/deny", ``).accepted(t, false)
		s.carryOn()
		if c := s.call(); c.Settled != event.Denied || c.Actor != "webhook" || len(s.tokens) != 0 {
			t.Errorf("the call is settled as %q by %q, after %d entries",
				c.Settled, c.Actor, len(s.tokens))
		}
	})
	t.Run("by a token for another layer", func(t *testing.T) {
		s, p := gated(t)
		tok, err := s.rn.ReadToken(t.Context(), s.mint(p, "", tool.PermitApprove, tool.PermitDeny))
		must(t, err)
		tok.Gate = "" // as tokens were before they named a layer
		before := s.sign(tok)
		tok.Gate = "clerk"
		clerks := s.sign(tok)
		s.post(clerks+"/deny", ``).is(t, http.StatusConflict, "other_gate")
		s.post(clerks+"/approve", ``).is(t, http.StatusConflict, "other_gate")
		s.post(before+"/approve", ``).accepted(t, false)
		s.post(clerks+"/approve", ``).is(t, http.StatusConflict, "other_gate")
	})
	t.Run("completed", func(t *testing.T) {
		s, p := gated(t)
		tok, err := s.rn.ReadToken(t.Context(), s.mint(p, "", tool.PermitApprove))
		must(t, err)
		// As Call.Token makes it in the gate's prompt.
		tok.Permits = []tool.Permit{tool.PermitComplete, tool.PermitFail}
		for path, body := range map[string]string{"": `{"url":"a"}`, "/fail": `{"message":"no"}`} {
			r := s.post(s.sign(tok)+path, body)
			r.is(t, http.StatusUnprocessableEntity, "invalid")
			if !strings.Contains(r.Detail, "waits for a decision") ||
				!strings.Contains(r.Detail, "approve or deny it") {
				t.Errorf("it is refused as %q", r.Detail)
			}
		}
	})
}

// A token's holder reads no name, in no answer: neither of a person nor of a
// program.
func TestTokenHoldersReadNoNames(t *testing.T) {
	const name = "Grace Hopper"
	never := func(t *testing.T, r response) {
		t.Helper()
		if strings.Contains(r.text, name) || strings.Contains(r.text, "Grace") {
			t.Errorf("a token's holder reads %s", r.text)
		}
		if r.status == http.StatusOK && !r.Duplicate {
			t.Errorf("it is accepted: %s", r.text)
		}
	}
	all := func(t *testing.T, s *site, token string) {
		t.Helper()
		for _, path := range []string{"", "/fail", "/progress", "/cancel"} {
			never(t, s.post(token+path, `{}`))
			never(t, s.post(token+path, `{"url":"other"}`))
		}
	}
	for what, do := range map[string]func(s *site, p tool.Pause) error{
		"completed": func(s *site, p tool.Pause) error {
			_, err := s.rn.Resume(s.t.Context(), chat,
				runner.Complete(p.ID, name, []byte(`{"url":"a"}`)))
			return err
		},
		"failed": func(s *site, p tool.Pause) error {
			_, err := s.rn.Resume(s.t.Context(), chat, runner.Fail(p.ID, name, "no", false))
			return err
		},
		"cancelled": func(s *site, p tool.Pause) error {
			_, err := s.rn.Cancel(s.t.Context(), chat, p.Call, name, "no")
			return err
		},
		"the session cancelled": func(s *site, p tool.Pause) error {
			return s.rn.CancelSession(s.t.Context(), chat, name, "no")
		},
		"the session deleted": func(s *site, p tool.Pause) error {
			return s.rn.Delete(s.t.Context(), chat, name)
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newSite(t, siteOptions{})
			token := s.paused()
			p, err := s.rn.Find(t.Context(), runner.Ref{Token: token}, name)
			must(t, err)
			must(t, do(s, p))
			all(t, s, token)
			if what == "the session deleted" {
				return
			}
			s.carryOn()
			all(t, s, token)
		})
	}
	t.Run("decided", func(t *testing.T) {
		s, p := gated(t)
		yes, no := s.mint(p, name, tool.PermitApprove), s.mint(p, "", tool.PermitDeny)
		s.post(yes+"/approve", ``).accepted(t, false)
		never(t, s.post(no+"/deny", ``))
		never(t, s.post(yes+"/approve", ``))
		_, err := s.rn.Resume(t.Context(), chat, runner.Deny(p.ID, "bob", ""))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a Go caller isn't told who decided: %v", err)
		}
	})
}
