package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// The events of the tools below.
type quote struct {
	Cents int64 `json:"cents"`
}

var (
	offer = tool.Must(tool.NewEvent[quote]("offer"))
	done  = tool.Must(tool.NewEvent[string]("done"))
	note  = tool.MailboxEvent{Name: "note"} // takes every value
)

// buying is a tool that pauses as the awaits say, one after the other, and then
// ends with what each entry was shown.
func buying(effect tool.Effect, n *counter, awaits ...tool.Await) tool.Tool {
	spec := tool.Spec{
		Name: "buy", Description: "b", Effect: effect, MayPause: true,
		Mailbox: []tool.MailboxEvent{offer.Spec(), done.Spec(), note},
	}
	return tool.Must(tool.Func(spec,
		func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
			call := tool.CallFrom(ctx)
			n.add("buy")
			if call.Pauses < len(awaits) {
				a := awaits[call.Pauses]
				a.Data = text(entryOf(call))
				return tool.Pending[textOut](a), nil
			}
			return tool.Done(textOut{entryOf(call)}), nil
		}))
}

// entryOf is what an entry was shown: what the one before it was, and then the
// events, a new one with a star.
func entryOf(c tool.Call) string {
	var before struct{ Text string }
	if c.Answer == nil {
		return ""
	}
	if err := json.Unmarshal(c.Answer.Data, &before); err != nil {
		return err.Error()
	}
	var seen []string
	for _, m := range c.Mail {
		star := ""
		if m.New {
			star = "*"
		}
		seen = append(seen, m.Name+" "+m.ID+star)
	}
	return before.Text + "(" + strings.Join(seen, ", ") + ")"
}

// bought is a rig whose one call waits for the first of the awaits.
func bought(t *testing.T, o *rigOptions, n *counter, awaits ...tool.Await) (*rig, tool.Pause) {
	t.Helper()
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{buying(tool.Idempotent, n, awaits...)},
		Model: messages(calls("buy", `{"text":"a"}`), says("I see.")),
	}, o)
	return r, r.say("Buy.").finished(event.FinishPaused).pause("buy")
}

// sends is an event of the tools above, with a payload that fits.
func sends(call, name, id string) runner.Mail {
	m := runner.Mail{Call: call, Name: name, ID: id, Actor: "shop"}
	m.Payload = map[string]json.RawMessage{
		"offer": json.RawMessage(`{"cents":9007199254740993}`), "done": json.RawMessage(`"yes"`),
		"note": json.RawMessage(`null`),
	}[name]
	return m
}

// sent delivers events of which all are accepted, and drives on.
func (r *rig) sent(mail ...runner.Mail) *seen {
	r.t.Helper()
	res, err := r.Deliver(r.t.Context(), chat, mail...)
	must(r.t, err)
	for _, rc := range res.Receipts {
		if rc.Err != nil || rc.Duplicate {
			r.t.Fatalf("the receipt is %+v", rc)
		}
	}
	return watch(r.t, res.Events(r.t.Context()))
}

// shown is the result of the call: what its entries were shown.
func (r *rig) shown(call string) string {
	r.t.Helper()
	var out textOut
	must(r.t, json.Unmarshal(r.result(call).Output, &out))
	return out.Text
}

// redelivered fails the test unless an event is a duplicate of that number.
func (r *rig) redelivered(m runner.Mail, number int) session.Receipt {
	r.t.Helper()
	res, err := r.Deliver(r.t.Context(), chat, m)
	must(r.t, err)
	rc := res.Receipts[0]
	if !rc.Duplicate || rc.Event != (session.EventID{Name: m.Name, ID: m.ID, Number: number}) {
		r.t.Errorf("redelivered: %+v", rc)
	}
	return rc
}
