package fakellm_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
)

// notified is a message of results, and of a notice after them.
func notified(parts ...llm.Part) llm.Message {
	return results(append(parts, llm.Notice{Handle: "build", State: "stopped"})...)
}

// Notices change no place in the script, nor which branch is taken, nor what
// counts as the same request again.
func TestNoticesTakeNoPlace(t *testing.T) {
	m := fakellm.New(
		fakellm.When(fakellm.UserSays("weather"), fakellm.Calls("get_weather", `{}`), fakellm.Says("Rain.")),
		fakellm.Calls("deploy", `{}`), fakellm.Says("Deployed."), fakellm.Says("Bye."),
	)
	plain := []llm.Message{user("go"), assistant(call("c1", "deploy")), results(result("c1", "deploy"))}
	told := []llm.Message{plain[0], plain[1], notified(result("c1", "deploy"))}
	for name, history := range map[string][]llm.Message{"without notices": plain, "with notices": told,
		"in a message of their own": append(plain[:3:3], notified(), notified())} {
		if got := said(m, request(history...)); got != "Deployed." {
			t.Errorf("%s, the model says %q", name, got)
		}
		history = append(history[:len(history):len(history)], assistant(llm.Text{Text: "Deployed."}), notified())
		if got := said(m, request(history...)); got != "Bye." {
			t.Errorf("%s, and then alone, the model says %q", name, got)
		}
		history = append(history[:len(history)-1:len(history)-1], user("the weather?"), assistant(call("c2", "get_weather")), notified(result("c2", "get_weather")))
		if got := said(m, request(history...)); got != "Rain." {
			t.Errorf("%s, in a branch, the model says %q", name, got)
		}
	}
}

func TestNoticesAreListed(t *testing.T) {
	first, second := llm.Notice{Handle: "a", State: "waiting"}, llm.Notice{Handle: "a", State: "stopped", Text: "ok"}
	req := request(user("go"), assistant(llm.Text{Text: "x"}), results(first, second), assistant(llm.Text{Text: "y"}), results(first))
	if d := cmp.Diff([]llm.Notice{first, second, first}, fakellm.Notices(req)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := fakellm.LastUserText(req); got != "go" {
		t.Errorf("the user said %q", got)
	}
	if got := req.Messages[2].Text(); got != "" {
		t.Errorf("notices are text: %q", got)
	}
}
