package fakellm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
)

func TestPlaceIsReadOffTheRequest(t *testing.T) {
	script := func() *fakellm.Model {
		return fakellm.New(
			fakellm.Calls("deploy", `{}`).And("get_weather", `{"city":"Oslo"}`),
			fakellm.Says("Deployed."),
			fakellm.Says("Anything else?"),
		)
	}
	m := script()
	req := request(user("go"))
	for range 3 { // asked again, it says the same again
		if got := said(m, req); got != `deploy{}get_weather{"city":"Oslo"}` {
			t.Fatal(got)
		}
	}
	req = answered(t, m, req)
	if got := said(script(), req); got != "Deployed." { // another process
		t.Fatal(got)
	}
	req = answered(t, m, req)
	req.Messages = append(req.Messages, user("thanks"), user("really"))
	if got := said(m, req); got != "Anything else?" {
		t.Fatal(got)
	}
	// Another session.
	if got := said(m, request(user("go"))); got != `deploy{}get_weather{"city":"Oslo"}` {
		t.Fatal(got)
	}
}

func TestUsedUpScriptNamesThePlace(t *testing.T) {
	m := fakellm.New(
		fakellm.Says("one"),
		fakellm.When(fakellm.UserSays("weather"), fakellm.Calls("get_weather", `{}`)),
	)
	req := answered(t, m, request(user("hi")))
	req.Messages = append(req.Messages, user("more"))
	_, _, err := llm.Collect(m.Generate(context.Background(), req))
	var e *llm.Error
	if !errors.Is(err, fakellm.ErrUsedUp) || !errors.As(err, &e) || e.Retryable() {
		t.Fatal(err)
	}
	want := "fakellm: invalid_request: the script is used up: turn 1 of the script is asked for, counted from 0, and it has 1 in all (assistant messages in the history that are no branch's: 1)\n" +
		"  messages[1] assistant\n      [0] {\"type\":\"text\",\"text\":\"one\"}\n> messages[2] user\n      [0] {\"type\":\"text\",\"text\":\"more\"}"
	if err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
	req = answered(t, m, request(user("the weather?")))
	if got := said(m, req); !strings.Contains(got, "turn 1 of branch 0 of the script is asked for, counted from 0, and it has 1 in all (assistant messages of its own since the user's last message: 1)") {
		t.Error(got)
	}
	if got := said(fakellm.New(), request(user("hi"))); !strings.Contains(got, "turn 0 of the script is asked for, counted from 0, and it has 0 in all (assistant messages in the history: 0)") {
		t.Error(got)
	}
	m = fakellm.New(fakellm.When(fakellm.UserSays("weather"), fakellm.Says("Sunny.")))
	if got := said(m, request(user("hi"))); !strings.Contains(got, "no When of the script matches the request, and there are no turns beside them") {
		t.Error(got)
	}
	if got := said(fakellm.New(fakellm.When(nil)), request(user("hi"))); !strings.Contains(got, "turn 0 of branch 0 of the script is asked for") {
		t.Error(got)
	}
}

func TestBranches(t *testing.T) {
	lastFailed := func(req llm.Request) bool {
		last := req.Messages[len(req.Messages)-1]
		r, ok := last.Parts[0].(llm.ToolResult)
		return ok && r.Error
	}
	m := fakellm.New(
		fakellm.Says("first"),
		fakellm.When(lastFailed, fakellm.Says("Sorry.")),
		fakellm.When(fakellm.UserSays("weather"),
			fakellm.Calls("get_weather", `{}`),
			fakellm.When(fakellm.UserSays("Oslo"), fakellm.Says("Rain."), fakellm.Says("Still rain.")),
			fakellm.Says("Sun."),
		),
		fakellm.Says("second"),
	)
	req := request()
	say := func(text, want string) {
		t.Helper()
		if text != "" {
			req.Messages = append(req.Messages, user(text))
		}
		if got := said(m, req); got != want {
			t.Fatalf("to %q: %s, want %s", text, got, want)
		}
		req = answered(t, m, req)
	}
	say("hi", "first")
	say("the weather?", "get_weather{}")
	say("", "Sun.")
	say("the weather in Oslo?", "Rain.")
	say("the weather?", "get_weather{}") // a branch begins again with each message of the user
	last := &req.Messages[len(req.Messages)-1]
	failed := last.Parts[0].(llm.ToolResult)
	failed.Error = true
	last.Parts[0] = failed
	say("", "Sorry.") // this branch's first, although the other has spoken since the user did
	say("bye", "second")
}

func TestTurnsRepeat(t *testing.T) {
	m := fakellm.New(
		fakellm.Says("never").Times(0),
		fakellm.Says("a").Times(2),
		fakellm.From(func(req llm.Request) fakellm.Turn {
			return fakellm.Says(fmt.Sprint(len(req.Messages), " messages"))
		}).Times(2),
		fakellm.Calls("deploy", `{}`).Forever(),
		fakellm.Says("unreachable"),
	)
	req := request(user("x"))
	for i, want := range []string{"a", "a", "5 messages", "7 messages", "deploy{}", "deploy{}", "deploy{}"} {
		if got := said(m, req); got != want {
			t.Fatalf("%d: %s, want %s", i, got, want)
		}
		req = answered(t, m, req)
		if i < 4 {
			req.Messages = append(req.Messages, user("x"))
		}
	}
}

func TestFailuresTakeNoNumber(t *testing.T) {
	busy := &llm.Error{Kind: llm.ErrOverloaded, Err: errors.New("busy")}
	m := fakellm.New(
		fakellm.Fails(busy).Times(2),
		fakellm.Says("cut off").Chunks(1).Cut(3),
		fakellm.Says("one"),
		fakellm.Says("two").Chunks(1).Breaks(1, busy),
		fakellm.Says("two").Times(2),
		fakellm.Fails(busy),
	)
	const failed, truncated = "error: overloaded: busy", "error: truncated: the stream ended without its end marker"
	req := request(user("x"))
	for round, wants := range [][]string{
		{failed, failed, truncated, "one", "one"},
		{failed, "two", "two"},
		{"two", "two"}, // the second repetition is not spoiled
	} {
		for i, want := range wants {
			if got := said(m, req); got != want {
				t.Fatalf("round %d, request %d: %s, want %s", round, i, got, want)
			}
		}
		req = answered(t, m, req)
		req.Messages = append(req.Messages, user("x"))
	}
	if got := said(m, req); got != failed {
		t.Fatal(got)
	}
	if got := said(m, req); !strings.Contains(got, "used up") {
		t.Fatal(got)
	}
	req = answered(t, fakellm.Echo(), req)
	req.Messages = append(req.Messages, user("x"))
	// Not the failure, which stands before turn 3.
	if got := said(m, req); !strings.Contains(got, "turn 4 of the script is asked for") {
		t.Fatal(got)
	}
}

func TestGivenEventsTakeANumberIfTheyEnd(t *testing.T) {
	text, end := llm.TextDelta{Text: "given"}, llm.Finish{Reason: llm.StopEnd}
	for _, c := range []struct {
		turn          fakellm.Turn
		first, second string
	}{
		{fakellm.Events(text, end), "given", "given"},
		{fakellm.Events(text), "error: truncated: the stream ended without its end marker", "next"},
	} {
		m := fakellm.New(c.turn, fakellm.Says("next"))
		if got := said(m, request(user("x"))); got != c.first {
			t.Errorf("%s, want %s", got, c.first)
		}
		if got := said(m, request(user("x"))); got != c.second {
			t.Errorf("again: %s, want %s", got, c.second)
		}
	}
}

func TestFailuresAreCountedPerRequest(t *testing.T) {
	busy := errors.New("busy")
	m := fakellm.New(fakellm.Fails(busy), fakellm.Says("ok"))
	ask := func(session, text string) string {
		req := request(user(text))
		req.Metadata = map[string]string{"session": session}
		return said(m, req)
	}
	for _, c := range []struct{ session, text, want string }{
		{"a", "x", "error: busy"}, {"b", "x", "error: busy"}, {"a", "y", "error: busy"},
		{"a", "x", "ok"}, {"b", "x", "ok"}, {"a", "y", "ok"}, {"a", "x", "ok"},
	} {
		if got := ask(c.session, c.text); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	always := fakellm.New(fakellm.Fails(busy).Forever(), fakellm.Says("unreachable"))
	for range 3 {
		if got := said(always, request(user("x"))); got != "error: busy" {
			t.Error(got)
		}
	}
}

func TestComputedTurnsAreNoBranches(t *testing.T) {
	for _, inner := range []fakellm.Turn{fakellm.When(nil), fakellm.From(func(llm.Request) fakellm.Turn { return fakellm.Turn{} })} {
		m := fakellm.New(fakellm.From(func(llm.Request) fakellm.Turn { return inner }))
		if got := said(m, request(user("x"))); !strings.Contains(got, "turn 0 of the script is computed") {
			t.Error(got)
		}
	}
}

func TestTurnsAreValues(t *testing.T) {
	base := fakellm.Calls("a", `{}`).And("b", `{}`)
	one, two := base.And("c", `{}`), base.And("d", `{}`)
	for want, turn := range map[string]fakellm.Turn{"a{}b{}": base, "a{}b{}c{}": one, "a{}b{}d{}": two} {
		if got := said(fakellm.New(turn), request(user("x"))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestAnswerIsNotAskedFor(t *testing.T) {
	m := fakellm.Echo()
	req := answered(t, m, request(user("hi")))
	if err := fakellm.Check(req); err != nil {
		t.Error(err)
	}
	if got := said(m, req); !strings.HasPrefix(got, "error: fakellm: invalid_request: messages[1] (assistant): the assistant spoke last: there is nothing to answer\n") {
		t.Error(got)
	}
}

func TestEcho(t *testing.T) {
	m := fakellm.Echo()
	req := request(user("hi"))
	req = answered(t, m, req)
	req.Messages = append(req.Messages, user("there"), llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Media{MediaType: "image/png", URL: "u"}}})
	if got := req.Messages[1].Text(); got != "hi" {
		t.Error(got)
	}
	if got := said(m, req); got != "(no text)" {
		t.Error(got)
	}
	if got := fakellm.LastUserText(request(assistant(llm.Text{Text: "x"}))); got != "" {
		t.Error(got)
	}
}
