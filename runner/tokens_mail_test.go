package runner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A token for events is its call's: the same in each entry, for the events that
// it was made for, and for nothing else.
func TestTokenForEvents(t *testing.T) {
	var tokens []string
	buy := does(tool.Spec{Name: "buy", MayPause: true, Mailbox: []tool.MailboxEvent{note, done.Spec()}},
		func(ctx context.Context, _ string) (tool.Result[textOut], error) {
			call := tool.CallFrom(ctx)
			tokens = append(tokens, call.MailToken("note"))
			if call.Pauses == 2 {
				return tool.Done(textOut{call.MailToken()}), nil
			}
			return tool.Pending[textOut](tool.AnyOf("note")), nil
		})
	r := newRig(t, oneCall(buy), nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("buy")
	for i := range 2 {
		tok, err := r.ReadToken(t.Context(), tokens[i])
		must(t, err)
		if tok.Call != p.Call || tok.Scope() != p.Call || !tok.Sends("note") || tok.Sends("done") ||
			!slices.Equal(tok.Permits, []tool.Permit{tool.PermitEvent}) {
			t.Errorf("the token says %+v", tok)
		}
		found, err := r.Find(t.Context(), runner.Ref{Token: tokens[i]}, user)
		must(t, err)
		if found.Call != p.Call || found.Await.Mail == nil || found.Number != i+1 {
			t.Errorf("the token finds %+v", found)
		}
		id := []string{"1", "2"}[i]
		want := []event.Finish{event.FinishPaused, event.FinishStop}[i]
		r.sent(sends(tok.Call, "note", id)).finished(want)
	}
	if len(tokens) != 3 || tokens[0] != tokens[1] || tokens[1] != tokens[2] {
		t.Errorf("the tokens differ: %d", len(tokens))
	}
	all, err := r.ReadToken(t.Context(), r.shown(p.Call))
	must(t, err)
	if !all.Sends("note") || !all.Sends("done") || all.Allows(tool.PermitComplete) {
		t.Errorf("the token says %+v", all)
	}
}

func TestTokensForEventsThatMakeNoSense(t *testing.T) {
	for name, make := range map[string]func(tool.Call) string{
		"an event that isn't taken": func(c tool.Call) string { return c.MailToken("ofer") },
		"a permit among others": func(c tool.Call) string {
			return c.Token(tool.PermitComplete, tool.PermitEvent)
		},
	} {
		t.Run(name, func(t *testing.T) {
			buy := does(tool.Spec{Name: "buy", MayPause: true, Mailbox: []tool.MailboxEvent{note}},
				func(ctx context.Context, _ string) (tool.Result[textOut], error) {
					return tool.Done(textOut{make(tool.CallFrom(ctx))}), nil
				})
			r := newRig(t, oneCall(buy), nil)
			r.say("Go.").finished(event.FinishStop)
			if res := r.result(r.onlyCall()); !res.Error ||
				!strings.Contains(string(res.Output), "panicked") {
				t.Errorf("the call ends with %s", res.Output)
			}
		})
	}
	var n counter
	r, p := bought(t, nil, &n, tool.AnyOf("offer"))
	_, err := r.MintToken(t.Context(), runner.Grant{Session: chat, Pause: p.ID,
		Permits: []tool.Permit{tool.PermitEvent}}, user)
	if !errors.Is(err, runner.ErrInvalidGrant) {
		t.Errorf("a grant of events is told %v", err)
	}
}
