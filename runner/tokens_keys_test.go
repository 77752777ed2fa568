package runner_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

var ringKey = kvstore.Key("x", "token-keys")

// A call's token is good, whatever its tool declares: in a layer, in a prompt,
// in a body that only reports how far it is.
func TestEveryCallHasATokenThatIsGood(t *testing.T) {
	var tokens []string
	note := func(c tool.Call) { tokens = append(tokens, c.Token()) }
	act := tool.Must(tool.Func(tool.Spec{Name: "act", Description: "a"},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			note(tool.CallFrom(ctx))
			return tool.Done(textOut(in)), nil
		}))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{act}, Concurrency: 1,
		Interceptors: interceptor.Chain{
			{Name: "layer", Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
				return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
					note(c)
					return next(ctx, c)
				}
			}},
			interceptor.Approval(&interceptor.ApprovalOptions{Prompt: func(c tool.Call) string {
				note(c)
				return "Run it?"
			}}),
		},
		Model: messages(calls("act", `{"text":"a"}`), says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("act")
	r.answer(runner.Approve(p.ID, "grace", "")).finished(event.FinishStop)
	if len(tokens) != 4 { // the layer and the prompt; the layer again, and the body
		t.Fatalf("%d tokens were made", len(tokens))
	}
	for i, token := range tokens {
		tok, err := r.ReadToken(t.Context(), token)
		must(t, err)
		if want := 1 + i/2; tok.Call != p.Call || tok.Pause != want {
			t.Errorf("token %d is for pause %d of %s, not %d", i, tok.Pause, tok.Call, want)
		}
	}
}

// A head of before there were keys for every turn notes none; its calls get the
// oldest that isn't retired.
func TestHeadWithoutAKeyGetsTheOldest(t *testing.T) {
	var tokens []string
	r := newRig(t, agent.Config{
		Tools:        []tool.Tool{tokenTool(tool.Idempotent, &tokens)},
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
		Model:        messages(calls("job", `{}`), says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	must(t, r.store.Update(t.Context(), chat, func(tx *session.Tx) error {
		tx.TokenKey = 0
		return tx.Extend(p.ID, time.Time{})
	}))
	for range 3 {
		must(t, r.RotateTokenKeys(t.Context(), user, nil))
	}
	// all but the newest go
	ring, err := r.store.RotateTokenKeys(t.Context(), r.store.Now().Add(time.Hour))
	must(t, err)
	r.restart()
	r.answer(runner.Approve(p.ID, "grace", "")).finished(event.FinishPaused)
	tok, err := r.ReadToken(t.Context(), tokens[0])
	if err != nil || len(ring) != 1 || tok.Key != ring[0].ID {
		t.Errorf("the token is %+v, with %v; the ring has %v", tok, err, ring)
	}
}

// A key that retires while a body runs signs no more.
func TestKeyRetiresWhileABodyRuns(t *testing.T) {
	var r *rig
	var tokens []string
	act := tool.Must(tool.Func(tool.Spec{Name: "act", Description: "a"},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			c := tool.CallFrom(ctx)
			tokens = append(tokens, c.Token())
			must(t, r.RotateTokenKeys(ctx, user,
				&runner.RotateOptions{Retire: time.Now().Add(time.Hour)}))
			tokens = append(tokens, c.Token())
			return tool.Done(textOut(in)), nil
		}))
	r = newRig(t, agent.Config{
		Tools: []tool.Tool{act}, Model: messages(calls("act", `{"text":"a"}`), says("Done.")),
	}, nil)
	r.say("Go.").finished(event.FinishStop)
	for i, want := range []error{runner.ErrBadToken, nil} {
		if _, err := r.ReadToken(t.Context(), tokens[i]); !errors.Is(err, want) {
			t.Errorf("token %d: %v", i, err)
		}
	}
}

// Where no key can be had, no code of others runs: neither layers nor the body.
// What the model said is kept, and goes on when there is a key again.
func TestNoKeyNoCall(t *testing.T) {
	var entered atomic.Int32
	act := tool.Must(tool.Func(tool.Spec{Name: "act", Description: "a"},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			entered.Add(1)
			if tool.CallFrom(ctx).Token() == "" {
				t.Error("a body has no token")
			}
			return tool.Done(textOut(in)), nil
		}))
	asked := 0
	script := messages(calls("act", `{"text":"a"}`), says("Done."))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{act}, Model: modelFunc(func(in llm.Request) []llm.Event {
			asked++
			return script(in)
		}),
		Interceptors: interceptor.Chain{{Name: "layer", Pure: true,
			Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
				return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
					entered.Add(1)
					return next(ctx, c)
				}
			}}},
	}, nil)
	for _, ring := range []string{
		`{"v":1,"keys":[{"id":1,"secret":"","created":"2026-01-01T00:00:00Z"}]}`,
		`{"v":1,"keys":[{"id":1,"secret":"AAAA"}]}`,
	} {
		_, err := r.kv.Apply(t.Context(),
			kvstore.Batch{Puts: []kvstore.Put{{Key: ringKey, Value: []byte(ring)}}})
		must(t, err)
		if s := r.say("Go."); !errors.Is(s.err, session.ErrCorrupt) {
			t.Errorf("the run ended with %v", s.err)
		}
	}
	if entered.Load() > 0 || asked != 1 {
		t.Errorf("%d times code of others was entered, and the model was asked %d times",
			entered.Load(), asked)
	}
	_, err := r.kv.Apply(t.Context(), kvstore.Batch{Deletes: [][]byte{ringKey}})
	must(t, err)
	r.carryOn().finished(event.FinishStop)
	if entered.Load() != 2 {
		t.Errorf("code of others was entered %d times", entered.Load())
	}
}

// Where the program gives the keys, none are in the store.
func TestKeysFromTheProgram(t *testing.T) {
	var tokens []string
	secret := bytes.Repeat([]byte("k"), 32)
	given := []session.TokenKey{
		{ID: 7, Secret: secret}, {ID: 3, Secret: bytes.Repeat([]byte("n"), 40)},
	}
	config := agent.Config{
		Tools: []tool.Tool{tokenTool(tool.Idempotent, &tokens)},
		Model: messages(calls("job", `{}`), says("Done.")),
	}
	r := newRig(t, config, &rigOptions{runner: &runner.Options{TokenKeys: given}})
	given[1].ID = 9
	given[1].Secret[0] = 'x' // the ring was copied
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	tok, err := r.ReadToken(t.Context(), tokens[0])
	if err != nil || tok.Key != 3 {
		t.Errorf("the token is %+v, with %v", tok, err)
	}
	if _, err := r.kv.Get(t.Context(), ringKey); !errors.Is(err, kvstore.ErrNotFound) {
		t.Errorf("the store has a ring: %v", err)
	}
	if err := r.RotateTokenKeys(t.Context(), user, nil); !errors.Is(err, runner.ErrGivenKeys) {
		t.Errorf("the program's keys are rotated in the store, with %v", err)
	}
	// The other key verifies; of one that is taken away no token is good.
	r.o.runner.TokenKeys = []session.TokenKey{
		{ID: 3, Secret: bytes.Repeat([]byte("n"), 40)}, {ID: 8, Secret: secret},
	}
	r.restart()
	_, err = r.ReadToken(t.Context(), tokens[0])
	must(t, err)
	r.o.runner.TokenKeys = r.o.runner.TokenKeys[1:]
	r.restart()
	if _, err = r.ReadToken(t.Context(), tokens[0]); !errors.Is(err, runner.ErrBadToken) {
		t.Errorf("of a key that was taken away: %v", err)
	}
	r.answer(runner.Complete(p.ID, "ci", text("v"))).finished(event.FinishStop)

	for name, keys := range map[string][]session.TokenKey{
		"none": {}, "no id": {{Secret: secret}}, "a short secret": {{ID: 1, Secret: secret[:31]}},
		"no secret":    {{ID: 1}},
		"one id twice": {{ID: 1, Secret: secret}, {ID: 1, Secret: secret}},
	} {
		if _, err := runner.New(nil, r.public, &runner.Options{TokenKeys: keys}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
