package runner_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/runner"
)

// What is shown of a session and of a call has a JSON form without Go's names in it, and comes back from it as it was.
func TestShownAsJSON(t *testing.T) {
	var n counter
	r, p := deployed(t, &n)
	same(t, r.transcript(), `"id":"chat-1"`, `"user":`, `"finish":"paused"`, `"history":[{"role":"user"`, `"pending":[{"id":`)
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
	must(t, err)
	call := func() runner.CallDetails { return must2(r.Call(t.Context(), chat, p.Call, user)) }
	same(t, call(), `"tool":"deploy"`, `"status":"answered"`, `"pauses":1`, `"receipts":[{`)
	r.carryOn()
	same(t, call(), `"settled":"done"`, `"output":{"text":"v2"}`, `"at":`)
}

func same[T any](t *testing.T, v T, has ...string) {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	for _, s := range has {
		if !strings.Contains(string(b), s) {
			t.Errorf("no %s in %s", s, b)
		}
	}
	var again T
	must(t, json.Unmarshal(b, &again))
	if diff := cmp.Diff(v, again); diff != "" {
		t.Errorf("it comes back as another (-was +is):\n%s", diff)
	}
}
