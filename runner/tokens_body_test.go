package runner_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// tokenTool notes the token of each entry, and pauses.
func tokenTool(effect tool.Effect, tokens *[]string) tool.Tool {
	var mu sync.Mutex
	return tool.Must(tool.Func(tool.Spec{Name: "job", Description: "j",
		Effect: effect, MayPause: true},
		func(ctx context.Context, _ struct{}) (tool.Result[textOut], error) {
			mu.Lock()
			defer mu.Unlock()
			*tokens = append(*tokens, tool.CallFrom(ctx).Token())
			return tool.Pending[textOut](tool.Await{}), nil
		}))
}

func TestTokens(t *testing.T) {
	var tokens []string
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	at := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{tokenTool(tool.Idempotent, &tokens)},
		Model: messages(calls("job", `{}`), calls("job", `{}`), says("Done.")),
	}, &rigOptions{session: &session.Options{Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}}})
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	first := tokens[0]

	// In another process, and after the keys were rotated, it is good, and
	// names the pause.
	must(t, r.RotateTokenKeys(t.Context(), user, nil))
	r.restart()
	found, err := r.Find(t.Context(), runner.Ref{Token: first}, user)
	must(t, err)
	if found.ID != p.ID {
		t.Errorf("the token names %s, not %s", found.ID, p.ID)
	}
	r.answer(runner.Complete(found.ID, "ci", text("v"))).finished(event.FinishPaused)
	second := tokens[1]
	if key(t, first) == key(t, second) {
		t.Error("a call that was asked for after the rotation is signed with the old key")
	}

	// What was tampered with is refused, whatever it is.
	for i := range first {
		bad := []byte(first)
		bad[i] ^= 1
		if _, err := r.Find(t.Context(), runner.Ref{Token: string(bad)}, user); err == nil {
			t.Fatalf("a token with another byte %d is taken", i)
		} else if strings.Contains(err.Error(), first[10:]) {
			t.Errorf("the error quotes the token: %v", err)
		}
	}
	for _, bad := range []string{"x", "f1.", "f1..", "f1.e30.", first + "x",
		first[:len(first)-1], "." + first} {
		if _, err := r.Find(t.Context(),
			runner.Ref{Token: bad}, user); !errors.Is(err, runner.ErrBadToken) {
			t.Errorf("%q: %v", bad, err)
		}
	}

	at(364 * 24 * time.Hour)
	if _, err := r.Find(t.Context(), runner.Ref{Token: first}, user); err != nil {
		t.Errorf("within its year: %v", err)
	}
	at(2 * 24 * time.Hour)
	if _, err := r.Find(t.Context(),
		runner.Ref{Token: first}, user); !errors.Is(err, runner.ErrTokenExpired) {
		t.Errorf("after its year: %v", err)
	}
}

// key is the claims' key number, as text.
func key(t *testing.T, token string) string {
	t.Helper()
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	must(t, err)
	return string(claims[:bytes.IndexByte(claims, ',')])
}

// The same pause has the same token in each attempt, also where there is a
// newer key by then.
func TestTokenIsTheSameInEachAttempt(t *testing.T) {
	tokens := make(chan string, 2)
	hangs := make(chan struct{})
	job := tool.Must(tool.Func(tool.Spec{Name: "job", Description: "j",
		Effect: tool.Idempotent, MayPause: true},
		func(ctx context.Context, _ struct{}) (tool.Result[textOut], error) {
			tokens <- tool.CallFrom(ctx).Token()
			<-hangs
			return tool.Pending[textOut](tool.Await{}), nil
		}))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{job}, Model: messages(calls("job", `{}`), says("Done.")),
	},
		&rigOptions{runner: &runner.Options{Logger: slog.New(slog.DiscardHandler)}})
	first := r.Runner
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		watch(t, first.Run(context.Background(), user, chat, llm.UserText("Go."), nil))
	}()
	token := <-tokens
	must(t, r.RotateTokenKeys(t.Context(), user, nil))
	r.restart() // while the body of the first attempt runs
	close(hangs)
	r.carryOn().finished(event.FinishPaused)
	if again := <-tokens; again != token {
		t.Errorf("the first attempt's token is %s, the second's %s", token, again)
	}
	<-ran
}

func TestSecretsStaySecret(t *testing.T) {
	var tokens []string
	var log journal
	logger := log.logger()
	r := newRig(t, agent.Config{
		Tools:        []tool.Tool{tokenTool(tool.Once, &tokens)},
		Interceptors: interceptor.Chain{interceptor.Log(logger)},
		Model:        messages(calls("job", `{}`), says("Done.")),
	}, &rigOptions{runner: &runner.Options{Logger: logger}})
	run := r.say("Go.").finished(event.FinishPaused)
	rest := r.answer(runner.Complete(run.pause("job").ID,
		"ci", text("v"))).finished(event.FinishStop)
	_, err := r.Find(t.Context(), runner.Ref{Token: tokens[0] + "x"}, user)
	status, statusErr := r.Call(t.Context(), chat, session.CallID(run.pause("job").ID), user)
	must(t, statusErr)
	keys, keyErr := r.store.TokenKeys(t.Context())
	must(t, keyErr)
	shown := log.String() + err.Error() + printed(run.events) + printed(rest.events) +
		printed(status) + printed(r.transcript())
	for _, secret := range []string{tokens[0], tokens[0][strings.LastIndexByte(tokens[0], '.'):],
		base64.StdEncoding.EncodeToString(keys[0].Secret)} {
		if strings.Contains(shown, secret) {
			t.Errorf("%.12s... is shown in %s", secret, shown)
		}
	}
}

// A token that a body hands out is for the pause that it is about to ask for,
// in each entry and each attempt.
func TestTokenIsForTheNextPause(t *testing.T) {
	var r *rig
	r = newRig(t, agent.Config{
		Tools: []tool.Tool{stepping(2, func(step int, token string) {
			p, err := r.Find(t.Context(), runner.Ref{Token: token}, user)
			if err != nil || p.Number != step || p.Await.Reason != "" {
				t.Errorf("in the body, the token of step %d finds %+v, %v", step, p, err)
			}
			if step == 2 { // the outside system is faster
				if _, err := r.deliver(token, "fast"); err != nil {
					t.Error(err)
				}
			}
		})},
		Model: fakellm.New(fakellm.Calls("pipeline", `{"text":"a"}`), fakellm.Says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("pipeline")
	// The early answer is an output, and the pause takes one for the tool: it
	// is refused, and pause 2 is open.
	p = r.answer(runner.Complete(p.ID,
		"ci", []byte(`1`))).finished(event.FinishPaused).pause("pipeline")
	if rc := r.receipt(p.Call, 2); p.Number != 2 || rc.Fate != session.Refused {
		t.Errorf("pause %d is open; the receipt says %q", p.Number, rc.Fate)
	}
	// By the call's id the redelivery is known, too.
	if res, err := r.Resume(t.Context(), chat,
		runner.Complete(p.Call, "ci", text("fast"))); err != nil || !res.Receipts[0].Duplicate {
		t.Errorf("redelivered: %+v, %v", res, err)
	}
}
