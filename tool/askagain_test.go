package tool

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestAnAnswerThatCanNotBeReadIsAskedForAgain(t *testing.T) {
	made := booking(t)
	c := call(`{"To":"Oslo"}`)
	c.Answer = &Answer{Pause: 1, Payload: raw(`{"offer":-1}`), Data: raw(`[{"id":1}]`),
		Prompt: "Which flight?"}
	for n := 1; n <= 3; n++ {
		exec, err := made.Execute(t.Context(), c)
		if err != nil || exec.Await == nil {
			t.Fatal(exec, err)
		}
		a := *exec.Await
		want := "Which flight? (Asked again: the answer does not fit the question; probably the " +
			"tool was changed since it asked: " +
			"/offer: must be at least 0, got -1.)"
		same(t, a.Prompt, want)
		if strings.Contains(string(a.Data), "Asked again") {
			t.Errorf("the prompt grows: %s", a.Data)
		}
		c.Answer = &Answer{Pause: n + 1, Payload: raw(`{"offer":-1}`), Data: a.Data,
			Prompt: a.Prompt}
	}
	if exec, err := made.Execute(t.Context(), c); err == nil {
		t.Errorf("it is asked a fourth time: %+v", exec.Await)
	}
	c.Answer.Payload = raw(`{"offer":0}`)
	if exec, err := made.Execute(t.Context(), c); err != nil || exec.Await != nil {
		t.Error(exec, err)
	}
}

// asksForAnAddress keeps a state with its question, and acts with none of the
// answers of these tests: a schema takes them, and the address can't be read.
func asksForAnAddress(t *testing.T, state string) Tool {
	type where struct {
		Addr netip.Addr `json:"addr"`
	}
	which := NewQuestion[int, string, where]("which")
	return Must(Resumable(Spec{Name: "ping", Effect: Once},
		func(_ context.Context, _ struct{}) (Result[int], error) {
			return which.Ask("Which address?", state), nil
		},
		On(which, func(context.Context, struct{}, Reply[string, where]) (Result[int], error) {
			t.Error("it acts")
			return Done(1), nil
		})))
}

// answered enters ping with an answer to what it asked.
func answered(t *testing.T, r testBox, asked *Await, answer string) (Execution, error) {
	t.Helper()
	p, err := r.Prepare(Call{Tool: "ping"})
	if err != nil {
		t.Fatal(err)
	}
	call := p.Call
	if asked != nil {
		call.Answer = &Answer{Payload: raw(answer), Data: asked.Data, Prompt: asked.Prompt}
	}
	return p.Enter(t.Context(), call)
}

func TestALongAnswerThatCanNotBeReadIsAskedForAgain(t *testing.T) {
	r := registry(t, asksForAnAddress(t, "kept"))
	exec, err := answered(t, r, nil, "")
	for _, n := range []int{1, 300 << 10} {
		if err != nil {
			t.Fatal(err)
		}
		exec, err = answered(t, r, exec.Await, `{"addr":"`+strings.Repeat("\x7f", n)+`"}`)
		if err != nil || !exec.Await.asksAgain() {
			t.Fatalf("an answer of %d bytes is not asked for again: %.300v", n, err)
		}
		contains(t, exec.Await.Prompt, "Which address? (Asked again: the answer can't be read",
			"unable to parse IP")
		if len(exec.Await.Prompt) > 1<<10 {
			t.Errorf("of an answer of %d bytes %d are asked", n, len(exec.Await.Prompt))
		}
	}
}

// TestAQuestionThatIsLargeIsAskedAgainInItsFirstWords: where there is no room
// to say why. The state is kept, and the times are counted.
func TestAQuestionThatIsLargeIsAskedAgainInItsFirstWords(t *testing.T) {
	exec, err := answered(t, registry(t, asksForAnAddress(t, strings.Repeat("s", 5000))), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	first := exec.Await
	count := len(`{"$times":1,"$state":}`)
	r, err := limited(Limits{Result: first.size() + count},
		asksForAnAddress(t, strings.Repeat("s", 5000)))
	if err != nil {
		t.Fatal(err)
	}
	const bad = `{"addr":"nowhere"}`
	for range mostTimes {
		if exec, err = answered(t, r, exec.Await, bad); err != nil || exec.Await == nil {
			t.Fatal(err)
		}
		same(t, exec.Await.Prompt, "Which address?")
		var kept repeated
		if err := json.Unmarshal(exec.Await.Data, &kept); err != nil ||
			string(kept.State) != string(first.Data) {
			t.Error("the state is another one", err)
		}
	}
	if exec, err = answered(t, r, exec.Await, bad); err == nil {
		t.Errorf("it is asked a fourth time: %s", exec.Await.Prompt)
	}

	full, err := limited(Limits{Result: first.size()},
		asksForAnAddress(t, strings.Repeat("s", 5000)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = answered(t, full, first, bad)
	var after *afterError
	if err == nil || errors.As(err, &after) ||
		!strings.Contains(err.Error(), "nothing was done with it") {
		t.Errorf("of a question that there is no room for the model reads: %v", err)
	}
}
