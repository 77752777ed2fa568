package runner_test

import (
	"context"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// TestUnmappedReasonIsAFinishOfItsOwn: what a provider says of a message that
// it broke off for a reason of its own is told, by the run's last event and by
// all that lists the session, in this process and the next; and so is that a
// message had nothing in it.
func TestUnmappedReasonIsAFinishOfItsOwn(t *testing.T) {
	said := llm.TextDelta{Text: "I was going to"}
	for name, c := range map[string]struct {
		events []llm.Event
		finish event.Finish
		why    string
	}{
		"an unmapped reason": {
			[]llm.Event{said, llm.Finish{Reason: llm.StopOther, Word: "boredom"}},
			event.FinishOther, "boredom",
		},
		"an unmapped reason without a word": {
			[]llm.Event{said, llm.Finish{Reason: llm.StopOther}}, event.FinishOther, "other",
		},
		"a word that is no UTF-8": {
			[]llm.Event{said, llm.Finish{Reason: llm.StopOther, Word: "bored\xff"}},
			event.FinishOther, "bored\uFFFD",
		},
		"a long word": {
			[]llm.Event{said, llm.Finish{Reason: llm.StopOther, Word: strings.Repeat("a", 1001)}},
			event.FinishOther, strings.Repeat("a", 1000) + " ...",
		},
		"nothing at all": {
			[]llm.Event{llm.Finish{Reason: llm.StopEnd, Word: "stop"}}, event.FinishOther,
			"an empty message: stop",
		},
		"white space": {
			[]llm.Event{llm.TextDelta{Text: " \n"}, llm.Finish{Reason: llm.StopEnd}},
			event.FinishOther, "an empty message: end",
		},
		"nothing, and an unmapped reason": {
			[]llm.Event{llm.Finish{Reason: llm.StopOther, Word: "boredom"}}, event.FinishOther,
			"an empty message: boredom",
		},
		"nothing, before the limit of tokens": {
			[]llm.Event{llm.Finish{Reason: llm.StopLength, Word: "max_tokens"}},
			event.FinishLength, "",
		},
		"nothing, since it was declined": {
			[]llm.Event{llm.Finish{Reason: llm.StopRefusal, Word: "refusal"}},
			event.FinishRefusal, "",
		},
		"a message that is done": {
			[]llm.Event{said, llm.Finish{Reason: llm.StopEnd, Word: "end_turn"}},
			event.FinishStop, "",
		},
		"a model that says no more than it is": {[]llm.Event{said, llm.Finish{}},
			event.FinishStop, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, agent.Config{Model: script(c.events...)}, nil)
			if end := r.say("Go.").finished(c.finish).end; end.Why != c.why {
				t.Errorf("the last event says %q, want %q", end.Why, c.why)
			}
			told := func() {
				t.Helper()
				if tr := r.transcript(); tr.Finish != c.finish || tr.Why != c.why {
					t.Errorf("the session is shown as %q, %q", tr.Finish, tr.Why)
				}
				for s, err := range r.Sessions(t.Context(), session.Filter{}, user) {
					if must(t, err); s.Finish != c.finish || s.Why != c.why {
						t.Errorf("the session is listed as %q, %q", s.Finish, s.Why)
					}
				}
				if end := r.carryOn().finished(c.finish).end; end.Why != c.why {
					t.Errorf("with nothing to do, the last event says %q, want %q", end.Why, c.why)
				}
			}
			told()
			r.restart()
			told()
			if end := r.say("And now?").finished(event.FinishStop).end; end.Why != "" ||
				r.transcript().Why != "" {
				t.Errorf("the next run ends with %q, and is shown with %q",
					end.Why, r.transcript().Why)
			}
			r.acceptable()
		})
	}
}

// TestWhyARunFailedIsInItsLastEvent, as it is in what lists the session.
func TestWhyARunFailedIsInItsLastEvent(t *testing.T) {
	broken := []llm.Event{llm.ToolCallDelta{Arguments: "{"}}
	r := newRig(t, agent.Config{Model: script(broken...)}, nil)
	if run := r.say("Go."); run.end.Finish != event.FinishFailed || run.end.Why == "" ||
		run.end.Why != r.transcript().Why {
		t.Errorf("the last event says %q, %q; the session is shown with %q", run.end.Finish,
			run.end.Why, r.transcript().Why)
	}
	if end := r.carryOn().finished(event.FinishStop).end; end.Why != "" {
		t.Errorf("carried on, the run ends with %q", end.Why)
	}
}

// TestWholeCallsRunUnderAnUnmappedReason: a call that is there to its end is
// what the model wants, by whatever name its provider calls the end.
func TestWholeCallsRunUnderAnUnmappedReason(t *testing.T) {
	end := llm.Finish{Reason: llm.StopOther, Word: "boredom"}
	for name, c := range map[string]struct {
		events []llm.Event
		status event.Status
	}{
		"in pieces": {
			[]llm.Event{llm.ToolCallDelta{Name: "look", Arguments: `{"text":`},
				llm.ToolCallDelta{Arguments: `"a"}`}, end}, event.Done,
		},
		"at once": {
			[]llm.Event{
				llm.PartDone{Part: llm.ToolCall{Name: "look", Arguments: text("a")}}, end,
			}, event.Done,
		},
		"cut off in its arguments": {
			[]llm.Event{
				llm.ToolCallDelta{Name: "look", Arguments: `{"text":"a`}, end,
			}, event.Failed,
		},
		"cut off before them": {[]llm.Event{llm.ToolCallDelta{Name: "look"}, end}, event.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r := newRig(t, agent.Config{Model: script(c.events...),
				Tools: []tool.Tool{instant("look", tool.Once, &n)}}, nil)
			results := of[event.Result](r.say("Go.").finished(event.FinishStop))
			if len(results) != 1 || results[0].Status != c.status ||
				(n.get("look") == 1) != (c.status == event.Done) {
				t.Errorf("the results are %v, and the body was entered %d times",
					results, n.get("look"))
			}
		})
	}
}

// TestRefusedCallsAreNotRun: after a refusal, what the model asked for before
// is not what it, or the filter, means.
func TestRefusedCallsAreNotRun(t *testing.T) {
	ran := 0
	wipe := tool.Must(tool.Func(tool.Spec{Name: "wipe", Description: "Wipes the disk."},
		func(_ context.Context, in struct {
			Disk string `json:"disk"`
		}) (tool.Result[string], error) {
			ran++
			return tool.Done("wiped"), nil
		}))
	model := script(llm.TextDelta{Text: "I can't."},
		llm.ToolCallDelta{ProviderID: "c", Name: "wipe", Arguments: `{"disk":"/"}`},
		llm.Finish{Reason: llm.StopRefusal})
	r := newRig(t, agent.Config{Tools: []tool.Tool{wipe}, Model: model}, nil)
	results := of[event.Result](r.say("Wipe.").finished(event.FinishRefusal))
	if ran != 0 || len(results) != 1 || results[0].Status != event.Cancelled {
		t.Errorf("it ran %d times after a refusal, and came to %v", ran, results)
	}
	r.acceptable()
	r.say("Something else.").finished(event.FinishStop)
	r.acceptable()
}
