package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// quiz asks each time with a schema of its own, and takes the answer for its
// output.
func quiz(n *counter) tool.Tool {
	return rawTool{tool.Spec{Name: "quiz", MayPause: true, Effect: tool.ReadOnly},
		func(_ context.Context, c tool.Call) (tool.Execution, error) {
			if c.Answer != nil {
				return tool.Execution{Output: c.Answer.Payload}, nil
			}
			return tool.Execution{Await: &tool.Await{Reason: tool.ReasonInput,
				Mode: tool.ModeReenter, Prompt: "Which?",
				Schema: json.RawMessage(fmt.Sprintf(`{"type":"string","maxLength":%d}`,
					10+n.add("quiz")))}}, nil
		}}
}

// TestSchemasAreKeptAsLongAsTheyAreUsed: one that an open pause names stays,
// however old; one that none names goes when it was not used for long; and its
// use anew counts, also at the moment when a sweep is about to remove it.
func TestSchemasAreKeptAsLongAsTheyAreUsed(t *testing.T) {
	var n counter
	cl := newClock()
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("quiz", `{}`), fakellm.Says("I see.")),
		Tools: []tool.Tool{quiz(&n)},
	}, &rigOptions{memory: true, session: &session.Options{Now: cl.now}})
	stored := func(want int) {
		t.Helper()
		page, err := r.kv.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key("s")})
		must(t, err)
		uses, err := r.kv.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key("t")})
		must(t, err)
		if len(page.Entries) != want || len(uses.Entries) != want {
			t.Fatalf("%d schemas and %d uses are stored, not %d", len(page.Entries),
				len(uses.Entries), want)
		}
	}
	sweep := func(want int) {
		t.Helper()
		swept, err := r.store.Sweep(t.Context(), &session.Retention{Schemas: 48 * time.Hour})
		must(t, err)
		if swept.Schemas != want {
			t.Fatalf("%d schemas were swept, not %d", swept.Schemas, want)
		}
	}
	ask := func(chat string) tool.Pause {
		t.Helper()
		return watch(t, r.Run(t.Context(), user, chat,
			llm.UserText("Go."), nil)).finished(event.FinishPaused).pause("quiz")
	}
	answer := func(p tool.Pause) {
		t.Helper()
		_, err := r.Resume(t.Context(), p.Session,
			runner.Complete(p.ID, "ada", json.RawMessage(`"b"`)))
		must(t, err)
	}
	first, second := ask("one"), ask("two")
	stored(2)
	answer(first)
	cl.pass(49 * time.Hour)
	sweep(1)
	stored(1)
	sweep(0)
	cl.pass(1000 * time.Hour)
	sweep(0) // a pause names it
	r.restart()
	answer(second)
	cl.pass(time.Hour)
	sweep(1)
	stored(0)

	// The same schema again, by a process that remembers it from before.
	n = counter{}
	n.add("quiz")
	ask("three")
	stored(1)
}

// TestSchemaThatIsUsedWhileItIsSwept: the sweep gives way.
func TestSchemaThatIsUsedWhileItIsSwept(t *testing.T) {
	cl := newClock()
	kv, schema := kvstore.NewMemory(), json.RawMessage(`{"type":"string"}`)
	use := func(kv kvstore.Store) *session.Store {
		s := session.NewStore(kv, &session.Options{Now: cl.now})
		_, err := s.PutSchema(t.Context(), schema)
		must(t, err)
		return s
	}
	h := &hooked{Store: kv}
	s := use(h)
	h.apply = func(b kvstore.Batch) {
		if len(b.Deletes) > 0 && len(b.Puts) == 0 {
			use(kv)
		}
	}
	cl.pass(1000 * time.Hour)
	swept, err := s.Sweep(t.Context(), nil)
	must(t, err)
	page, err := kv.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key("s")})
	must(t, err)
	if swept.Schemas != 0 || len(page.Entries) != 1 {
		t.Errorf("swept were %+v; %d schemas are left", swept, len(page.Entries))
	}
}
