package session_test

import (
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// TestTextsDoNotContradictThemselves: what the model reads of a call never says
// both that it was not run and that it had begun, nor speaks of effects of a
// tool that has none.
func TestTextsDoNotContradictThemselves(t *testing.T) {
	open := &session.Pause{Reason: tool.ReasonExternal}
	gate := &session.Pause{Reason: tool.ReasonApproval, Gate: "approval"}
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent, tool.ReadOnly} {
		for name, c := range map[string]session.Call{
			"requested":             {Status: session.Requested},
			"at a gate":             {Status: session.Pending, Pause: gate},
			"paused by itself":      {Status: session.Pending, Pause: open},
			"claimed":               {Status: session.Running, Attempt: 1},
			"answered":              {Status: session.Answered, Answer: &session.Answer{}},
			"at a gate after it":    {Status: session.Pending, Pause: gate, Answer: &session.Answer{}},
			"approved, not entered": {Status: session.Answered, Decisions: []session.Decision{{}}},
		} {
			c.Effect, c.Tool = effect, "pay"
			texts := map[string]string{"denied": session.DeniedText(&c, "no")}
			for what, o := range map[string]*session.Outcome{
				"cancelled":            session.CancelledOutcome(&c, "ada", "no", false),
				"cancelled, certainly": session.CancelledOutcome(&c, "ada", "no", true),
				"given up":             session.GivenUpOutcome(&c, "ada", "no"),
			} {
				texts[what] = string(o.Output.JSON())
			}
			if c.Begun() {
				texts["outdated"] = session.OutdatedText(&c,
					&tool.Refusal{Kind: tool.InvalidArguments})
				texts["begun"] = session.BegunText(&c, "a layer failed")
			}
			for what, text := range texts {
				notRun, begun := strings.Contains(text, "not run"), strings.Contains(text, "egun")
				if notRun && begun || !notRun && !begun && !strings.Contains(text, "unknown") {
					t.Errorf("%q %s, %s: %s", effect, name, what, text)
				}
				if effect == tool.ReadOnly && strings.Contains(text, "effect") {
					t.Errorf("%q %s, %s speaks of effects: %s", effect, name, what, text)
				}
			}
		}
	}
}
