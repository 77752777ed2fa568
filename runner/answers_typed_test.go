package runner_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestTypedDecisions(t *testing.T) {
	type decided = tool.Decision
	yes, no := &decided{Approved: true}, &decided{}
	edited := &decided{Approved: true, Arguments: json.RawMessage(`{"text": "<5>"}`)}
	for text, want := range map[string]*decided{
		"y": yes, "Y": yes, "yes": yes, " YES\n": yes,
		`yes {"text": "<5>"}`: edited, "y\n" + `{"text": "<5>"}`: edited,
		"n": no, "No": no, "no.": no, "no:": no,
		"no, too late": {Reason: "too late"}, "n: too late": {Reason: "too late"},
		"NO too late":     {Reason: "too late"},
		"no problem, yes": {Reason: "problem, yes"}, "n y": {Reason: "y"},

		"": nil, " ": nil, "ok": nil, "sure": nil, "true": nil, "1": nil, "yess": nil, "ye": nil,
		"yeſ": nil, "yes!": nil, "yes.": nil,
		"y?": nil, "'yes'": nil, `"yes"`: nil, "approve": nil, "yes no": nil, "yes, but half": nil,
		"yes please": nil, "y y": nil,
		`{"text":"5"}`: nil, `yes {"text":`: nil, `yes {"text":"5"} or so`: nil, `yes "5"`: nil,
		"yes null": nil, "yes []": nil, "maybe": nil,
		"none": nil, "nope": nil, "not yet": nil, "oui": nil, "yes\x00": nil,
	} {
		for _, a := range []tool.Await{
			{Reason: tool.ReasonApproval, Mode: tool.ModeReenter, Gate: "approval"},
			{
				Reason: tool.ReasonExternal, Mode: tool.ModeReenter, Gate: "another layer",
			}, // a layer takes decisions, whatever its reason
		} {
			got, err := runner.FromText(tool.Pause{ID: "call_x.1", Await: a}, "ada", text)
			var misfit *session.PayloadError
			if want == nil && !errors.As(err, &misfit) || want != nil && err != nil {
				t.Errorf("%q: %+v, %v", text, got.Decision, err)
			}
			if diff := cmp.Diff(want, got.Decision); diff != "" {
				t.Errorf("%q (-want +got):\n%s", text, diff)
			}
			if got.Payload != nil {
				t.Errorf("%q has the payload %s", text, got.Payload)
			}
		}
	}
}

func TestTypedAnswers(t *testing.T) {
	const refused = "refused"
	long := strings.Repeat("long ", 4000) + "text"
	for _, test := range []struct {
		schema string
		mode   tool.Mode
		answer map[string]string
	}{
		{`{"type":"string"}`, "", map[string]string{
			"late": `"late"`, " 5 ": `"5"`, "true": `"true"`, `"late"`: `"\"late\""`,
			`{"a":1}`: `"{\"a\":1}"`, "<a>": `"<a>"`, "": refused, long: `"` + long + `"`,
		}},
		{`{"enum":["late","5"]}`, "", map[string]string{"late": `"late"`, "5": `"5"`,
			`"late"`: `"late"`, "Late": refused, "4": refused}},
		{`{"type":"integer","minimum":1}`, "", map[string]string{
			"5": "5", "9007199254740993": "9007199254740993", "0": refused, "five": refused,
			`"5"`: refused, "5 6": refused,
		}},
		{
			`{"type":"boolean"}`, "", map[string]string{"true": "true",
				"yes": refused, "True": refused},
		},
		{`{"type":["string","null"]}`, "", map[string]string{"null": "null", "nil": `"nil"`}},
		{
			`{"type":["string","integer"]}`, "", map[string]string{"5": "5",
				`"5"`: `"\"5\""`, "x": `"x"`},
		},
		{`{"$defs":{"s":{"type":"object","required":["row"]}},"$ref":"#/$defs/s"}`, "",
			map[string]string{
				`{"row":1}`: `{"row":1}`, `{"row":1,"row":2}`: refused,
				"{}": refused, "row 1": refused,
			}},
		{"", "", map[string]string{"x": `"x"`, "5": "5", `{"a": 1}`: `{"a": 1}`, `"x"`: `"\"x\""`}},
		{`{"type":"string"}`, tool.ModeMessage, map[string]string{"5": `"5"`, "x": `"x"`}},
	} {
		for text, want := range test.answer {
			p := tool.Pause{ID: "call_x.1", Await: tool.Await{Reason: tool.ReasonInput,
				Mode: test.mode, Schema: json.RawMessage(test.schema)}}
			r, err := runner.FromText(p, "ada", text)
			got := string(r.Payload)
			if err != nil {
				got = refused
				if !errors.Is(err, session.ErrInvalidResumePayload) {
					t.Errorf("%s: %q is refused with %v", test.schema, text, err)
				}
			}
			if got != want || r.Decision != nil {
				t.Errorf("%s: of %.40q comes %.60s, %v; want %.60s", test.schema, text, got,
					err, want)
			}
		}
	}
	if _, err := runner.FromText(tool.Pause{ID: "call_x.1"},
		"ada", "yes"); !errors.Is(err, session.ErrNotPaused) {
		t.Errorf("one that isn't open: %v", err)
	}
}

// What is typed at a gate, and then at a question, brings the call to its end.
func TestTypedToTheEnd(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools:        []tool.Tool{waiting("deploy", tool.Once, &n)},
		Model:        messages(calls("deploy", `{"text":"job-1"}`), says("Done.")),
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
	typed := func(text string) *seen {
		t.Helper()
		in, err := runner.FromText(p, "ada", text)
		must(t, err)
		return r.answer(in)
	}
	p = typed(`yes {"text":"job-2"}`).finished(event.FinishPaused).pause("deploy")
	if p.Await.Key != "job-2" {
		t.Errorf("it runs with %+v", p.Await)
	}
	typed(`{"text":"live"}`).finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != `{"text":"live"}` {
		t.Errorf("its result is %s", got)
	}
}
