package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

func TestAnIdempotencyKeyNamesAnEntryAndAnEffect(t *testing.T) {
	c := Call{ID: "c1", Attempt: 1}
	again, next := c, c
	again.Attempt = 2
	next.Answer = &Answer{Pause: 1}
	same(t, c.IdempotencyKey(), again.IdempotencyKey())
	seen := map[string]bool{}
	for _, key := range []string{
		c.IdempotencyKey(), next.IdempotencyKey(), Call{ID: "c2"}.IdempotencyKey(),
		c.IdempotencyKey("a"), c.IdempotencyKey("b"), c.IdempotencyKey("a", "b"),
		c.IdempotencyKey("ab"), c.IdempotencyKey("a1:b"), c.IdempotencyKey(""),
		next.IdempotencyKey("a"),
	} {
		if seen[key] {
			t.Errorf("%s names two things", key)
		}
		seen[key] = true
	}
	same(t, c.IdempotencyKey("a", "b"), again.IdempotencyKey("a", "b"))
}

func TestADecisionIsFoundByItsGate(t *testing.T) {
	c := Call{Decisions: []Decision{{Gate: "a"}, {Gate: "b", Approved: true}}}
	if d, ok := c.Decided("b"); !ok || !d.Approved {
		t.Error(d, ok)
	}
	if _, ok := c.Decided("c"); ok {
		t.Error("a decision was found that no actor made")
	}
}

func TestArgumentsAreNamedByTheirBytes(t *testing.T) {
	if HashArguments(raw(`{"a":1}`)) == HashArguments(raw(`{"a": 1}`)) {
		t.Error("other bytes have the same name")
	}
	same(t, HashArguments(raw(`{"a":1}`)), HashArguments(raw(`{"a":1}`)))
}

type host struct{ reported string }

func (h *host) Token(c Call, permits ...Permit) string {
	return fmt.Sprintf("secret of %s to %v", c.ID, permits)
}
func (h *host) MailToken(c Call, names ...string) string {
	return fmt.Sprintf("secret of %s to send %v", c.ID, names)
}
func (h *host) History(context.Context, Call) ([]llm.Message, error) { return nil, nil }

func (h *host) Report(_ context.Context, c Call, p Progress) error {
	h.reported = c.ID + " " + p.Message
	return nil
}

func TestACallReachesItsHost(t *testing.T) {
	h := &host{}
	c := Call{ID: "c1", Host: h}
	same(t, c.Token(), "secret of c1 to [complete fail]")
	same(t, c.Token(PermitFail, PermitProgress), "secret of c1 to [fail progress]")
	if err := c.Report(t.Context(), Progress{Message: "half"}); err != nil ||
		h.reported != "c1 half" {
		t.Error(h.reported, err)
	}
	alone := Call{ID: "c1"}
	same(t, alone.Token(), "token-of-c1")
	same(t, alone.MailToken("offer"), "mail-token-of-c1")
	same(t, c.MailToken("offer"), "secret of c1 to send [offer]")
	if err := alone.Report(t.Context(), Progress{}); err != nil {
		t.Error(err)
	}
	same(t, CallFrom(t.Context()).ID, "")
}

// A token of a link is made for what a pause shows, once it is open.
func TestTokenOfALinkInABody(t *testing.T) {
	for _, p := range []Permit{PermitLinkApprove, PermitLinkDeny, PermitLinkAnswer} {
		func() {
			defer func() {
				if why := fmt.Sprint(recover()); !strings.Contains(why, "made by Runner.MintToken") {
					t.Errorf("%s: %s", p, why)
				}
			}()
			Call{ID: "c1", Host: &host{}}.Token(p)
		}()
	}
}

// A misspelt permit shows in the first test of a tool, with a Host or without.
func TestTokenWithAPermitThatIsNone(t *testing.T) {
	for _, c := range []Call{{ID: "c1"}, {ID: "c1", Host: &host{}}} {
		func() {
			defer func() {
				same(t, recover(),
					any(`tool: Call.Token: "aprove" is no permit; use the constants Permit...`))
			}()
			c.Token(PermitDeny, "aprove")
		}()
	}
}

func TestFatalIsFoundThroughWrapping(t *testing.T) {
	boom := errors.New("boom")
	err := errors.Join(errors.New("x"), Fatal(boom))
	if !IsFatal(err) || !errors.Is(err, boom) || IsFatal(boom) || IsDenied(boom) {
		t.Error(err)
	}
	if !Once.NeedsClaim() || ReadOnly.NeedsClaim() || Idempotent.NeedsClaim() {
		t.Error("the wrong effects need a claim")
	}
}

func TestAnAwaitGetsItsNormalForm(t *testing.T) {
	for name, c := range map[string]struct{ in, want Await }{
		"nothing": {Await{}, Await{Reason: ReasonExternal, Mode: ModeOutput}},
		"a prompt": {Await{Prompt: "?"},
			Await{Reason: ReasonInput, Mode: ModeOutput, Prompt: "?"}},
		"a gate": {Await{Gate: "g"},
			Await{Gate: "g", Reason: ReasonApproval, Mode: ModeReenter,
				Timeout: DefaultApprovalTimeout}},
		"a gate with a time": {Await{Gate: "g", Timeout: 1},
			Await{Gate: "g", Reason: ReasonApproval, Mode: ModeReenter, Timeout: 1}},
		"a gate that asks": {Await{Gate: "g", Reason: ReasonInput},
			Await{Gate: "g", Reason: ReasonInput, Mode: ModeReenter}},
		"a timer": {Await{Reason: ReasonTimer, Timeout: -1},
			Await{Reason: ReasonTimer, Mode: ModeReenter, Timeout: -1}},
		"an agent": {Await{Reason: ReasonAgent},
			Await{Reason: ReasonAgent, Mode: ModeOutput}},
		"a lost call": {Await{Reason: ReasonUnknown},
			Await{Reason: ReasonUnknown, Mode: ModeOutput}},
		"a message": {Await{Reason: ReasonInput, Mode: ModeMessage},
			Await{Reason: ReasonInput, Mode: ModeMessage}},
		"a job re-entered": {Await{Mode: ModeReenter, Data: raw("1")},
			Await{Reason: ReasonExternal, Mode: ModeReenter, Data: raw("1")}},
	} {
		got, err := c.in.Normalize()
		if err != nil || got.Reason != c.want.Reason || got.Mode != c.want.Mode ||
			got.Timeout != c.want.Timeout {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if again, err := got.Normalize(); err != nil || again.Mode != got.Mode ||
			again.Timeout != got.Timeout {
			t.Errorf("%s: %+v, %v", name, again, err)
		}
	}
	for want, a := range map[string]Await{
		"unknown reason":           {Reason: "x"},
		`goes with mode`:           {Reason: ReasonAgent, Mode: ModeReenter},
		`goes with reason "input"`: {Mode: ModeMessage},
		"always re-enters":         {Gate: "g", Mode: ModeOutput},
		`is for layers`:            {Reason: ReasonApproval},
		"timeout -1s is negative":  {Timeout: -time.Second},
		"key of 201 bytes":         {Key: strings.Repeat("k", 201)},
		"schema is not JSON":       {Schema: raw("{")},
		"data is not JSON":         {Data: raw("{")},
	} {
		if _, err := a.Normalize(); err == nil {
			t.Errorf("%s: no error", want)
		} else {
			contains(t, err.Error(), want)
		}
	}
}
