package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/histories"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// What the processes record for the histories of calls.

// hook is the actor of what comes by the webhook.
const hook = "webhook"

// Headers by which senders say what a delivery is of: the webhook alone reads
// tokens.
const (
	sessionHeader = "Fermata-Session"
	callHeader    = "Fermata-Call"
)

// recordHooks records what the webhook takes.
func (o *outside) recordHooks(hooks http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		began, answer := now(), &answered{ResponseWriter: w, status: http.StatusOK}
		op, ok := delivered(r, body)
		end := func(came) {}
		if ok {
			end = o.journal.begin(op)
		}
		hooks.ServeHTTP(answer, r)
		end(answer.came(op.Name))
		o.failed("the webhook", op.Session, answer.problem(), began)
	})
}

// delivered is what a request to the webhook asks for.
func delivered(r *http.Request, body []byte) (op operation, ok bool) {
	op.Session, op.Call, op.By = r.Header.Get(sessionHeader), r.Header.Get(callHeader), hook
	what := strings.Split(strings.TrimPrefix(r.URL.Path, "/hooks/"), "/")
	if op.Call == "" || len(what) > 2 {
		return op, false
	}
	switch strings.Join(what[1:], "") {
	case "":
		op.Name, op.Pause, op.Content = "resume", 1, content(body)
	case "fail":
		op.Name, op.Pause, op.Content = "resume", 1, histories.Failure
	case "cancel":
		op.Name = "cancel"
	case "progress":
		op.Name, op.By = "progress", ""
	case "event":
		var e struct{ ID, Payload string }
		if json.Unmarshal(body, &e) != nil {
			return op, false
		}
		op.Name, op.Event, op.Content = "send", e.ID, e.Payload
	default:
		return op, false
	}
	return op, true
}

// content is an output of a tool that waits, in the words of the model.
func content(output []byte) string {
	var text string
	if json.Unmarshal(output, &text) == nil {
		return text
	}
	var o out
	if json.Unmarshal(output, &o) != nil {
		return string(output)
	}
	return fmt.Sprint("n", o.N)
}

// answered is what the webhook answers.
type answered struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answered) Write(b []byte) (int, error) {
	a.body.Write(b)
	return a.ResponseWriter.Write(b)
}

// came is what the answer to a delivery tells it has come to.
func (a *answered) came(name string) came {
	if a.status == http.StatusOK {
		var r reply
		switch err := json.Unmarshal(a.body.Bytes(), &r); {
		case err != nil:
			return came{Text: err.Error()}
		case name == "progress":
			return came{Text: "ok"}
		case r.Duplicate:
			return came{Text: "duplicate of " + hook, Begins: true}
		}
		return came{Text: "accepted"}
	}
	code := codeOf(a.problem())
	if text := refusals[code]; text != "" {
		return came{Text: text, Begins: true}
	}
	if a.status == http.StatusServiceUnavailable {
		// Whatever the code: a try before may have been uncertain.
		return came{Text: code, Nothing: code == "not_yet_known", Uncertain: true}
	}
	return came{Text: fmt.Sprint(a.status, " ", a.body.String())}
}

// problem is what the webhook answers if it takes nothing.
func (a *answered) problem() (p webhook.Problem) {
	if a.status != http.StatusOK {
		_ = json.Unmarshal(a.body.Bytes(), &p)
	}
	return p
}

func codeOf(p webhook.Problem) string { return p.Type[strings.LastIndexAny(p.Type, "/#")+1:] }

// passing are the problems that pass, and that no fault has to be behind.
var passing = []string{"not_yet_known", "not_kept", "busy", "stale", "newer_version"}

// failed notes that a request failed by a fault, and not by what it asks for.
func (o *outside) failed(what, session string, p webhook.Problem, began instant) {
	if p.Status >= http.StatusInternalServerError && !slices.Contains(passing, codeOf(p)) {
		o.write(note{What: failed, Process: o.process, Life: o.life, At: now(), From: began,
			Session: session, Tool: what, Output: fmt.Sprintf("%s: %.300s", codeOf(p), p.Detail)})
	}
}

// refusals are the beginnings of what the model has for problems.
var refusals = map[string]string{"settled": "settled", "cancelled": "settled", "expired": "settled",
	"conflict": "conflict with", "not_paused": "not paused", "unknown_call": "unknown"}

// resumed is what a Resume of one answer came to.
func resumed(r session.Receipt, err error) came {
	var settled *session.SettledError
	var conflict *session.ConflictError
	switch {
	case err == nil && r.Duplicate:
		return came{Text: "duplicate of " + r.Actor, Begins: true}
	case err == nil:
		return came{Text: "accepted"}
	case errors.As(err, &settled):
		return came{Text: fmt.Sprint("settled ", settled.Status)}
	case errors.As(err, &conflict):
		return came{Text: "conflict with " + conflict.Receipt.Actor}
	case errors.Is(err, session.ErrNotPaused):
		return came{Text: "not paused"}
	case webhook.Status(err) == http.StatusServiceUnavailable:
		unsure := errors.Is(err, kvstore.ErrUncertain) || errors.Is(err, session.ErrNoAnswer)
		return came{Text: err.Error(), Nothing: !unsure, Uncertain: unsure}
	}
	return came{Text: err.Error()}
}

// said is what a message that is an answer came to.
func said(err error) came {
	switch {
	case err == nil:
		return came{Text: "taken"}
	case errors.Is(err, session.ErrPending), errors.Is(err, session.ErrBusy),
		errors.Is(err, session.ErrInvalidResumePayload):
		return came{Nothing: true}
	}
	return came{Text: err.Error(), Uncertain: true}
}

// sees records what an event shows of a call.
func (o *outside) sees(session string, ev event.Event) {
	op := operation{Session: session}
	switch ev := ev.(type) {
	case event.Pause:
		if kinds[ev.Pause.Tool].anyTime() {
			return
		}
		op.Name, op.Call, op.Came = "waits", ev.Pause.Call, histories.Waits(ev.Pause.Number)
	case event.Result:
		op.Name, op.Call = "result", ev.Result.Call
		op.Came = histories.Result(ev.Status, ended(ev.Result.Name, ev.Result.Output))
	default:
		return
	}
	o.journal.saw(0, op)
}

// ended is the output of a call that is done, in the words of the model.
func ended(name string, output json.RawMessage) string {
	switch kinds[name].wait {
	case byToken, byKey, byMessage:
		return content(output)
	case byEvents:
		var o out
		_ = json.Unmarshal(output, &o)
		return o.Shown
	}
	return ""
}

// looks records what a look at a session, which began then, shows of its calls.
func (o *outside) looks(began instant, session string, history []llm.Message, pending []tool.Pause) {
	open := map[string]int{}
	for _, p := range pending {
		open[p.Call] = p.Number
	}
	for _, m := range history {
		for _, c := range m.ToolCalls() {
			if kinds[c.Name].anyTime() && open[c.ID] > 0 {
				continue
			}
			op := operation{Session: session, Call: c.ID}
			op.Name, op.Came = "waits", histories.Waits(open[c.ID])
			o.journal.saw(began, op)
		}
	}
}
