package tool

import (
	"strings"
	"testing"
)

func TestAnAnswerThatCanNotBeReadIsAskedForAgain(t *testing.T) {
	made := booking(t)
	c := call(`{"To":"Oslo"}`)
	c.Answer = &Answer{Pause: 1, Payload: raw(`{"offer":-1}`), Data: raw(`[{"id":1}]`), Prompt: "Which flight?"}
	for n := 1; n <= 3; n++ {
		exec, err := made.Execute(t.Context(), c)
		if err != nil || exec.Await == nil {
			t.Fatal(exec, err)
		}
		a := *exec.Await
		want := "Which flight? (Asked again: the answer does not fit the question; probably the tool was changed since it asked: " +
			"/offer: must be at least 0, got -1.)"
		same(t, a.Prompt, want)
		if strings.Contains(string(a.Data), "Asked again") {
			t.Errorf("the prompt grows: %s", a.Data)
		}
		c.Answer = &Answer{Pause: n + 1, Payload: raw(`{"offer":-1}`), Data: a.Data, Prompt: a.Prompt}
	}
	if exec, err := made.Execute(t.Context(), c); err == nil {
		t.Errorf("it is asked a fourth time: %+v", exec.Await)
	}
	c.Answer.Payload = raw(`{"offer":0}`)
	if exec, err := made.Execute(t.Context(), c); err != nil || exec.Await != nil {
		t.Error(exec, err)
	}
}
