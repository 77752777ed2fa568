package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// fixture is a store as some version of fermata left it, with one session in
// it, and how that session goes on.
type fixture struct {
	calls []llm.Part                   // that the model makes first
	data  json.RawMessage              // of the pauses
	body  func(f *fixtureRig) error    // while a body runs, before the process dies; nil: it lives on
	leave func(f *fixtureRig)          // what is done before the store is left; nil: the message is sent
	goOn  func(f *fixtureRig) *seen    // what is done when it is opened again
	want  func(f *fixtureRig, r *seen) // what comes of it
}

// fixtureRig is a rig whose clock stands, so that what is stored is always of
// the same time.
type fixtureRig struct {
	*rig
	clock  *clock
	call   string // the first
	token  string // of its next pause
	failed bool   // the model has failed once
	n      counter
	off    *callsOff // what the helper's tool is told
}

// fixtures are of one session each, and those of families beside it.
var fixtures = func() map[string]fixture {
	all := maps.Clone(ofFamilies)
	maps.Copy(all, ofSessions)
	return all
}()

var ofSessions = map[string]fixture{
	"paused": {
		calls: calls("deploy", `{"text":"job-1"}`, "look", `{"text":"a"}`),
		goOn: func(f *fixtureRig) *seen {
			p, err := f.Find(f.t.Context(), runner.Ref{Token: f.token}, user)
			must(f.t, err)
			byKey, err := f.Find(f.t.Context(), runner.Ref{Tool: "deploy", Key: "job-1"}, user)
			must(f.t, err)
			if p.ID != byKey.ID || p.Call != f.call || p.Deadline.IsZero() {
				f.t.Errorf("by its token it is %+v, by its key %+v", p, byKey)
			}
			return f.answer(runner.Complete(p.ID, "ci", text("live")))
		},
		want: func(f *fixtureRig, r *seen) { f.has(f.call, event.Done, string(text("live"))) },
	},
	"at a gate": {
		calls: calls("refund", `{"text":"100"}`),
		goOn: func(f *fixtureRig) *seen {
			p := f.transcript().Pending[0]
			if p.Await.Gate == "" || string(p.Arguments) != `{"text":"100"}` {
				f.t.Errorf("it waits for %+v", p)
			}
			return f.answer(runner.Approve(p.ID, "grace", "checked"))
		},
		want: func(f *fixtureRig, r *seen) {
			f.has(f.call, event.Done, string(text("100")))
			c, err := f.Call(f.t.Context(), chat, f.call, user)
			must(f.t, err)
			if len(c.Decisions) != 1 || c.Decisions[0].Actor != "grace" || f.n.get("refund") != 1 {
				f.t.Errorf("decided was %+v; it ran %d times", c.Decisions, f.n.get("refund"))
			}
		},
	},
	"answered": {
		calls: calls("deploy", `{"text":"job-1"}`),
		leave: func(f *fixtureRig) {
			p := f.say("Go.").finished(event.FinishPaused).pause("deploy")
			_, err := f.Resume(f.t.Context(), chat,
				runner.Complete(p.ID, "ci", text(strings.Repeat("long ", 14_000))))
			must(f.t, err)
		},
		goOn: (*fixtureRig).carryOn,
		want: func(f *fixtureRig, r *seen) {
			f.has(f.call, event.Done, string(text(strings.Repeat("long ", 14_000))))
		},
	},
	"a question with a state": {
		calls: calls("confirm", `{"text":"x"}`),
		goOn: func(f *fixtureRig) *seen {
			return f.answer(runner.Complete(f.transcript().Pending[0].ID, "ada", []byte("7")))
		},
		want: func(f *fixtureRig, r *seen) { f.has(f.call, event.Done, string(text("7state"))) },
	},
	"died in a body": {
		calls: calls("pay", `{"text":"5"}`),
		body:  func(*fixtureRig) error { return nil },
		goOn:  (*fixtureRig).carryOn,
		want: func(f *fixtureRig, r *seen) {
			f.has(f.call, event.Unknown, "")
			if f.n.get("pay") != 0 {
				f.t.Error("it was entered again")
			}
		},
	},
	"died while it was cancelled": {
		calls: calls("pay", `{"text":"5"}`),
		body: func(f *fixtureRig) error {
			_, err := f.Cancel(context.Background(), chat, f.call, "bob", "no")
			return err
		},
		goOn: (*fixtureRig).carryOn,
		want: func(f *fixtureRig, r *seen) { f.has(f.call, event.Unknown, "") },
	},
	"died with an early answer": {
		calls: calls("deploy", `{"text":"job-1"}`),
		body: func(f *fixtureRig) error {
			_, err := f.Resume(context.Background(), chat,
				runner.Complete(f.call, "ci", text("fast")))
			return err
		},
		goOn: (*fixtureRig).carryOn,
		want: func(f *fixtureRig, r *seen) { f.has(f.call, event.Done, string(text("fast"))) },
	},
	"to be tried again": {
		leave: func(f *fixtureRig) {
			ctx, cancel := context.WithCancel(f.t.Context())
			defer cancel()
			for ev := range f.Run(ctx, user, chat, llm.UserText("Go."),
				&runner.RunOptions{Detached: true}) {
				if _, ok := ev.(event.Retry); ok {
					cancel()
				}
			}
		},
		goOn: func(f *fixtureRig) *seen { f.clock.pass(time.Hour); return f.carryOn() },
		want: func(f *fixtureRig, r *seen) {
			if got := f.transcript().History; len(got) != 2 || got[1].Text() != "Done." {
				f.t.Errorf("the history is %v", got)
			}
		},
	},
	"half answered": {
		calls: calls("deploy", `{"text":"job-1"}`, "refund", `{"text":"100"}`,
			"refund", `{"text":"7"}`),
		leave: func(f *fixtureRig) {
			ctx := f.t.Context()
			watch(f.t,
				f.Run(ctx, user, "deleted", llm.UserText("Go."), nil)).finished(event.FinishPaused)
			must(f.t, f.Delete(ctx, "deleted", "bob"))
			first := llm.UserText(strings.Repeat("Go. ", 17_000)) // more than one value holds
			p := watch(f.t, f.Run(ctx, user, chat, first,
				&runner.RunOptions{MessageID: "m-1"})).finished(event.FinishPaused).end.Pending
			must(f.t, f.Progress(ctx, chat, p[0].Call, user, tool.Progress{
				Message: "half of it", Fraction: 0.5,
			}))
			token := f.token
			must(f.t, f.RotateTokenKeys(ctx, user, nil))
			_, err := f.Resume(ctx, chat, runner.Deny(p[1].ID, "grace", "no"),
				runner.ApproveEdited(p[2].ID, "eve", "less", textIn{"6"}))
			must(f.t, err)
			f.carryOn().finished(event.FinishPaused)
			f.call, f.token = p[0].Call, token
		},
		goOn: func(f *fixtureRig) *seen {
			ctx := f.t.Context()
			if _, err := f.Show(ctx, "deleted", user); !errors.Is(err, session.ErrDeleted) {
				f.t.Errorf("the other session is shown, with %v", err)
			}
			p, err := f.Find(ctx, runner.Ref{Token: f.token}, user)
			must(f.t, err)
			if p.Progress == nil || p.Progress.Message != "half of it" {
				f.t.Errorf("its progress is %+v", p.Progress)
			}
			asked := f.transcript().History[1].ToolCalls()
			res, err := f.Resume(ctx, chat, runner.Deny(session.PauseID(asked[1].ID, 1), "ada", "no"))
			must(f.t, err)
			if !res.Receipts[0].Duplicate || res.Receipts[0].Actor != "grace" {
				f.t.Errorf("the denial, repeated, has the receipt %+v", res.Receipts[0])
			}
			_, err = f.Resume(ctx, chat, runner.Approve(session.PauseID(asked[1].ID, 1), "ada", "yes"))
			if !errors.Is(err, session.ErrResumeConflict) {
				f.t.Errorf("the denial is replaced, with %v", err)
			}
			f.answer(runner.Fail(p.ID, "ci", "red", false)).finished(event.FinishStop)
			again := llm.UserText(strings.Repeat("Go. ", 17_000))
			return watch(f.t, f.Run(ctx, user, chat, again, &runner.RunOptions{MessageID: "m-1"}))
		},
		want: func(f *fixtureRig, r *seen) {
			f.has(f.call, event.Failed, "")
			h := f.transcript().History
			f.has(h[1].ToolCalls()[1].ID, event.Denied, "")
			f.has(h[1].ToolCalls()[2].ID, event.Done, string(text("6")))
			if len(h) != 4 || f.n.get("refund") != 0 {
				f.t.Errorf("there are %d messages, and it was refunded %d times",
					len(h), f.n.get("refund"))
			}
		},
	},
	"odd JSON": {
		calls: []llm.Part{
			llm.Text{
				Text: "<é>", Native: &llm.Native{Provider: "odd", Data: json.RawMessage(oddJSON)},
			},
			llm.ToolCall{Name: "raw", Arguments: json.RawMessage(`{ "text" : "\u003c\/" }`)},
			llm.ToolCall{Name: "deploy", Arguments: json.RawMessage(`{"text": "job-1"}`)},
			llm.ToolCall{Name: "refund", Arguments: json.RawMessage(`{"text" :"\u003c"}`)},
		},
		data: json.RawMessage(oddJSON),
		leave: func(f *fixtureRig) {
			ctx := f.t.Context()
			p := f.say("Go.").finished(event.FinishPaused).end.Pending
			must(f.t, f.Progress(ctx, chat, p[0].Call, user,
				tool.Progress{Data: json.RawMessage(oddJSON)}))
			edited := json.RawMessage(`{ "text":"\/\u003c" }`)
			_, err := f.Resume(ctx, chat, runner.ApproveEdited(p[1].ID, "eve", "<", edited))
			must(f.t, err)
			f.call = p[0].Call
		},
		goOn: func(f *fixtureRig) *seen {
			ctx := f.t.Context()
			asked := f.transcript().History[1]
			if got, _ := asked.Parts[0].(llm.Text); got.Native == nil ||
				string(got.Native.Data) != oddJSON {
				f.t.Errorf("the native part is %+v", got)
			}
			calls := asked.ToolCalls()
			if string(calls[0].Arguments) != `{ "text" : "\u003c\/" }` ||
				string(calls[2].Arguments) != `{"text" :"\u003c"}` {
				f.t.Errorf("the calls are %s and %s", calls[0].Arguments, calls[2].Arguments)
			}
			f.has(calls[0].ID, event.Done, oddCompact)
			p, err := f.Find(ctx, runner.Ref{Tool: "deploy", Key: "job-1"}, user)
			must(f.t, err)
			if p.Progress == nil || string(p.Progress.Data) != oddCompact ||
				string(p.Await.Data) != oddCompact {
				f.t.Errorf("its progress is %+v, its data %s", p.Progress, p.Await.Data)
			}
			return f.answer(runner.Complete(p.ID, "ci", json.RawMessage(`{"text":"\u003c\/"}`)))
		},
		want: func(f *fixtureRig, r *seen) {
			h := f.transcript().History
			for i, want := range []string{oddCompact, `{"text":"\u003c\/"}`, `{"text":"/<"}`} {
				got, _ := h[2].Parts[i].(llm.ToolResult)
				if string(got.Output) != want {
					f.t.Errorf("result %d is %s", i, got.Output)
				}
				f.has(got.Call, event.Done, want)
			}
		},
	},
	"at rest": {
		calls: calls("look", `{"text":"a"}`),
		goOn:  func(f *fixtureRig) *seen { return f.say("And now?") },
		want: func(f *fixtureRig, r *seen) {
			if got := f.transcript().History; len(got) != 6 || got[5].Text() != "And that is it." {
				f.t.Errorf("the history is %v", got)
			}
		},
	},
}

// oddJSON is what a careless reader or writer of JSON doesn't leave as it is.
// A native part keeps it byte for byte, a payload but for its white space.
const (
	oddJSON    = `{ "a": 1.0e2, "a" : [ "\u003c\/" , -0 ] }`
	oddCompact = `{"a":1.0e2,"a":["\u003c\/",-0]}`
)

// has checks how a call ended.
func (f *fixtureRig) has(call string, want event.Status, output string) {
	f.t.Helper()
	c, err := f.Call(f.t.Context(), chat, call, user)
	must(f.t, err)
	if c.Settled != want || output != "" && string(c.Output) != output {
		f.t.Errorf("call %s ended as %s, with %.80s", call, c.Settled, c.Output)
	}
}

// newFixtureRig works on an engine that a version has left; nil is an empty
// one.
func newFixtureRig(t *testing.T, fx *fixture, left *kvstore.Memory) *fixtureRig {
	f := &fixtureRig{clock: newClock()}
	died := left != nil // only the process that leaves the store dies
	inBody := func(ctx context.Context, name string) {
		call := tool.CallFrom(ctx)
		f.call, f.token = call.ID, call.Token()
		if fx.body != nil && !died {
			died = true
			must(t, fx.body(f))
			f.faults.Kill()
			return
		}
		f.n.add(name)
	}
	act := func(name string, effect tool.Effect, waits bool) tool.Tool {
		return tool.Must(tool.Func(tool.Spec{Name: name, Effect: effect, MayPause: waits},
			func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
				if name != "look" {
					inBody(ctx, name)
				}
				if waits {
					return tool.Pending[textOut](tool.Await{Key: in.Text,
						Timeout: 24 * time.Hour, Data: fx.data}), nil
				}
				return tool.Done(textOut(in)), nil
			}))
	}
	raw := tool.Must(tool.Func(tool.Spec{Name: "raw", Effect: tool.ReadOnly},
		func(context.Context, textIn) (tool.Result[json.RawMessage], error) {
			return tool.Done(json.RawMessage(oddJSON)), nil
		}))
	turns := [][]llm.Part{fx.calls, says("Done."), says("And that is it.")}
	if fx.calls == nil {
		turns = turns[1:]
	}
	say := messages(turns...)
	f.failed = fx.calls != nil || left != nil
	f.rig = newRig(t, agent.Config{
		Tools: []tool.Tool{
			act("deploy", tool.Once, true), act("pay", tool.Once, false),
			act("refund", tool.Once, false), act("look", tool.ReadOnly, false),
			confirming(&f.n), raw, f.helper(t, left != nil),
			buying(tool.Idempotent, &f.n, tool.AllOf("offer", "done")),
		},
		Interceptors: interceptor.Chain{
			interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund"}}),
		},
		Model: streams(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
			if !f.failed {
				f.failed = true
				return func(yield func(llm.Event, error) bool) {
					yield(nil, &llm.Error{Kind: llm.ErrOverloaded})
				}
			}
			return say.Generate(ctx, req)
		}),
	}, &rigOptions{memory: true, session: &session.Options{Now: f.clock.now}})
	if left != nil {
		must(t, f.Close())
		f.engine = left
		f.open()
	}
	return f
}

// A store of every version since the first is checked, read, and its session
// carried on to its end. With -update the stores of this version that are
// missing are written; one that is there stays as it is, since some build has
// left it.
func TestStoresOfEveryVersion(t *testing.T) {
	if *update {
		dir := filepath.Join("testdata", "stores", fmt.Sprint("v", session.Version))
		for name, fx := range fixtures {
			file := filepath.Join(dir, strings.ReplaceAll(name, " ", "_")+".txt")
			if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
				writeFixture(t, file, &fx)
			}
		}
	}
	files, err := filepath.Glob("testdata/stores/v*/*.txt")
	must(t, err)
	if len(files) < len(fixtures) {
		t.Errorf("there are %d stores, of %d kinds", len(files), len(fixtures))
	}
	for _, file := range files {
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".txt"), "_", " ")
		t.Run(filepath.Base(filepath.Dir(file))+" "+name, func(t *testing.T) {
			fx, ok := fixtures[name]
			if !ok {
				t.Fatalf("nobody knows how %s goes on", file)
			}
			kv, call, token := readFixture(t, file)
			f := newFixtureRig(t, &fx, kv)
			f.call, f.token = call, token
			for p, err := range f.store.Check(t.Context()) {
				must(t, err)
				t.Errorf("it is not sound: %s", p)
			}
			f.transcript()
			r := fx.goOn(f).finished(event.FinishStop)
			fx.want(f, r)
			f.acceptable()
			for p, err := range f.store.Check(t.Context()) {
				must(t, err)
				t.Errorf("it is not sound any more: %s", p)
			}
		})
	}
}

// writeFixture leaves a store, and writes it down: a line with the first call
// and its token, and two for each entry, its key and its value.
func writeFixture(t *testing.T, file string, fx *fixture) {
	f := newFixtureRig(t, fx, nil)
	switch {
	case fx.leave != nil:
		fx.leave(f)
	default:
		f.say("Go.")
	}
	var b strings.Builder
	if f.call == "" {
		for _, m := range must2(f.Show(t.Context(), chat, user)).History {
			for _, c := range m.ToolCalls() {
				f.call = c.ID
			}
		}
	}
	fmt.Fprintln(&b, f.call, f.token)
	for r := (kvstore.Range{}); ; {
		page, err := f.engine.Scan(t.Context(), r)
		must(t, err)
		for _, e := range page.Entries {
			if bytes.ContainsRune(e.Value, '\n') {
				t.Fatalf("%q has a value of two lines", e.Key)
			}
			fmt.Fprintf(&b, "%s\n%s\n", strconv.Quote(string(e.Key)), e.Value)
			r.After = e.Key
		}
		if !page.More {
			break
		}
	}
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(b.String()), 0o644))
}

func readFixture(t testing.TB, file string) (kv *kvstore.Memory, call, token string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	call, token, _ = strings.Cut(lines[0], " ")
	kv = kvstore.NewMemory()
	for i := 1; i < len(lines); i += 2 {
		key, err := strconv.Unquote(lines[i])
		if err == nil {
			_, err = kv.Apply(context.Background(),
				kvstore.Batch{Puts: []kvstore.Put{{Key: []byte(key), Value: []byte(lines[i+1])}}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return kv, call, token
}

// An answer may be null, also in a head to which a later version has added
// something.
func TestNullAnswerAndALaterField(t *testing.T) {
	job := tool.Must(tool.Func(tool.Spec{Name: "job", MayPause: true},
		func(context.Context, textIn) (tool.Result[any], error) {
			return tool.Pending[any](tool.Await{}), nil
		}))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{job},
		Model: fakellm.New(fakellm.Calls("job", `{"text":"k"}`), fakellm.Says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", []byte(`null`)))
	must(t, err)
	key := kvstore.Key("h", chat)
	e, err := r.kv.Get(t.Context(), key)
	must(t, err)
	value := append(e.Value[:len(e.Value)-1:len(e.Value)-1], `,"new_field":1}`...)
	_, err = r.kv.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: key, Value: value}}})
	must(t, err)
	r.carryOn().finished(event.FinishStop)
}
