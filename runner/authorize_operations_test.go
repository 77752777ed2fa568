package runner_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"log/slog"
	"reflect"
	"strconv"
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

// operations is each exported method of a Runner, and what it asks the
// Authorizer for. Those that ask for nothing are no actor's operation: Close
// and Work are the program's own, and what ReadToken tells stands in the token.
var operations = map[string]runner.OperationKind{
	"Run": runner.OpRun, "Continue": runner.OpContinue, "Resume": runner.OpResume, "Progress": runner.OpProgress,
	"Cancel": runner.OpCancel, "CancelSession": runner.OpCancelSession, "Extend": runner.OpExtend, "Delete": runner.OpDelete,
	"Find": runner.OpFind, "Pending": runner.OpPending, "Sessions": runner.OpList, "Show": runner.OpShow, "Call": runner.OpShow,
	"Follow": runner.OpFollow, "MintToken": runner.OpMint, "RotateTokenKeys": runner.OpRotate,
	"Close": "", "Work": "", "ReadToken": "",
}

// No exported operation forgets the Authorizer, or who asks: each method is
// called, by reflection, where nothing is allowed.
func TestEveryExportedOperationIsAuthorized(t *testing.T) {
	var mu sync.Mutex
	var asked []runner.Operation
	no := errors.New("no")
	forbid := false
	gate := interceptor.Chain{interceptor.Approval(nil)}
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{instant("refund", tool.Once, &n)}, Interceptors: gate,
		Model: messages(calls("refund", `{"text":"10"}`), says("Done.")),
	}, &rigOptions{runner: &runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, op)
		if forbid {
			return no
		}
		return nil
	}}})
	p := r.say("Go.").finished(event.FinishPaused).pause("refund")
	before := printed(r.transcript())
	values := map[reflect.Type]reflect.Value{}
	for _, v := range []any{
		runner.Actor("mallory"), []runner.Resumption{runner.Approve(p.ID, "mallory", "")}, runner.Ref{Pause: p.ID},
		llm.UserText("Hi."), session.PauseFilter{Session: chat}, session.Filter{User: user}, time.Now().Add(time.Hour),
		runner.Grant{Session: chat, Pause: p.ID, Permits: []tool.Permit{tool.PermitApprove}},
	} {
		values[reflect.TypeOf(v)] = reflect.ValueOf(v)
	}
	forbid = true
	rn := reflect.ValueOf(r.Runner)
	for i := range rn.NumMethod() {
		name := rn.Type().Method(i).Name
		kind, known := operations[name]
		if !known {
			t.Errorf("%s is in no table: what does it ask the Authorizer for?", name)
		}
		if kind == "" {
			continue
		}
		asked = nil
		err := called(t, rn.Method(i), values, map[bool][]string{false: {chat, p.ID}, true: {"mallory", chat}}[name == "Run"])
		if !errors.Is(err, no) || !errors.Is(err, runner.ErrNotAllowed) {
			t.Errorf("%s is not refused: %v", name, err)
		}
		if len(asked) != 1 || asked[0].Kind != kind || asked[0].Actor != "mallory" {
			t.Errorf("%s asks for %+v, and not once for %s, by mallory", name, asked, kind)
		}
		if len(asked) == 1 && kind != runner.OpRotate && asked[0].User != user {
			t.Errorf("%s doesn't say whose session it is about: %+v", name, asked[0])
		}
		if len(asked) == 1 && asked[0].Call != "" && (asked[0].Tool != "refund" || asked[0].Pause != p.ID && kind != runner.OpShow) {
			t.Errorf("%s doesn't say which tool and pause it is about: %+v", name, asked[0])
		}
	}
	forbid = false
	if after := printed(r.transcript()); after != before {
		t.Errorf("what was not allowed left a trace: %s", after)
	}
	kinds := map[string]bool{}
	for _, k := range operations {
		kinds[string(k)] = true
	}
	for _, k := range operationKinds(t) {
		if !kinds[k] {
			t.Errorf("no method asks for the operation %q", k)
		}
	}
}

// called calls a method and returns its error, or the one that ends what it
// yields. Strings are taken from names, in order; what is not among values is
// the zero value.
func called(t *testing.T, method reflect.Value, values map[reflect.Type]reflect.Value, names []string) error {
	t.Helper()
	args := []reflect.Value{reflect.ValueOf(t.Context())}
	for i := 1; i < method.Type().NumIn(); i++ {
		in := method.Type().In(i)
		v, known := values[in]
		switch {
		case in.Kind() == reflect.String && !known:
			v = reflect.ValueOf("")
			if len(names) > 0 {
				v, names = reflect.ValueOf(names[0]), names[1:]
			}
		case !known:
			v = reflect.Zero(in)
		}
		args = append(args, v)
	}
	call := method.Call
	if method.Type().IsVariadic() {
		call = method.CallSlice
	}
	out := call(args)
	last := out[len(out)-1]
	if last.Kind() != reflect.Func {
		err, _ := last.Interface().(error)
		return err
	}
	var err error
	for _, v := range last.Seq2() {
		if e, _ := v.Interface().(error); e != nil {
			err = e
		}
	}
	return err
}

// operationKinds are the constants of authorize.go.
func operationKinds(t *testing.T) (kinds []string) {
	file, err := parser.ParseFile(token.NewFileSet(), "authorize.go", nil, 0)
	must(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == "OperationKind" {
			k, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			must(t, err)
			kinds = append(kinds, k)
		}
		return true
	})
	if len(kinds) < 10 {
		t.Fatalf("authorize.go has the operations %v", kinds)
	}
	return kinds
}

// What an actor answers with is told apart, and a listing shows what it
// selects.
func TestOperationsSayWhatARuleNeeds(t *testing.T) {
	var last runner.Operation
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{instant("refund", tool.Once, &n)}, Interceptors: interceptor.Chain{interceptor.Approval(nil)},
		Model: messages(calls("refund", `{"text":"10"}`), says("Done.")),
	}, &rigOptions{runner: &runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
		if last = op; op.Kind == runner.OpResume || op.Kind == runner.OpMint {
			return errors.New("no")
		}
		return nil
	}}})
	p := r.say("Go.").finished(event.FinishPaused).pause("refund")
	for want, in := range map[runner.AnswerKind]runner.Resumption{
		runner.AnswerApprove: runner.Approve(p.ID, "eve", ""), runner.AnswerDeny: runner.Deny(p.ID, "eve", ""),
		runner.AnswerEdit: runner.ApproveEdited(p.ID, "eve", "", textIn{"5"}), runner.AnswerComplete: runner.Complete(p.ID, "eve", text("v")),
		runner.AnswerFail: runner.Fail(p.ID, "eve", "", false),
	} {
		if _, err := r.Resume(t.Context(), chat, in); !errors.Is(err, runner.ErrNotAllowed) {
			t.Errorf("%s: %v", want, err)
		}
		if last.Answer != want || last.Own() {
			t.Errorf("%s is asked for as %+v", want, last)
		}
	}
	_, err := r.MintToken(t.Context(), runner.Grant{Session: chat, Pause: p.ID, Permits: []tool.Permit{tool.PermitDeny}, Holder: "grace"}, user)
	if !errors.Is(err, runner.ErrNotAllowed) || len(last.Permits) != 1 || last.Permits[0] != tool.PermitDeny || last.Holder != "grace" || !last.Own() {
		t.Errorf("a token is asked for as %+v, %v", last, err)
	}
	drained(t, r.Pending(t.Context(), session.PauseFilter{User: user, Tool: "refund", Limit: 3}, user))
	if last.Pauses != (session.PauseFilter{User: user, Tool: "refund", Limit: 3}) || !last.Own() {
		t.Errorf("an inbox is asked for as %+v", last)
	}
	drained(t, r.Sessions(t.Context(), session.Filter{Agent: "ops"}, user))
	if last.Sessions != (session.Filter{Agent: "ops"}) || last.Own() {
		t.Errorf("a list of all is asked for as %+v", last)
	}
}

// TestOwnSessionsBeginWithTheirUser: a rule that lets users act on their own
// sessions lets them begin one, and none takes another's.
func TestOwnSessionsBeginWithTheirUser(t *testing.T) {
	var asked []runner.Operation
	r := newRig(t, agent.Config{Model: messages(says("Hi."), says("Again."))}, &rigOptions{memory: true, runner: &runner.Options{
		Authorizer: func(_ context.Context, op runner.Operation) error {
			asked = append(asked, op)
			if op.Own() {
				return nil
			}
			return errors.New("it is not yours")
		}}})
	run := func(who string) error {
		return watch(t, r.Run(t.Context(), who, chat, llm.UserText("Hello"), nil)).err
	}
	must(t, run("ada"))
	must(t, run("ada"))
	if err := run("eve"); !errors.Is(err, runner.ErrNotAllowed) {
		t.Errorf("eve is told %v", err)
	}
	if len(asked) != 3 || !asked[0].New || asked[1].New || asked[2].New || asked[2].User != "ada" {
		t.Errorf("it was asked about %+v", asked)
	}
}

func drained[V any](t *testing.T, all iter.Seq2[V, error]) {
	for _, err := range all {
		must(t, err)
	}
}

// A message that supersedes is a denial of each pause, and is authorized as
// one, before anything is denied.
func TestSupersedingAsksForEachDenial(t *testing.T) {
	var asked []runner.Operation
	forbidden := "pay"
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{instant("refund", tool.Once, &n), instant("pay", tool.Once, &n)}, Interceptors: interceptor.Chain{interceptor.Approval(nil)},
		Model: fakellm.New(fakellm.Calls("refund", `{"text":"10"}`).And("pay", `{"text":"9"}`), fakellm.Says("I see.")),
	}, &rigOptions{runner: &runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
		if op.Kind != runner.OpResume {
			return nil
		}
		asked = append(asked, op)
		if op.Tool == forbidden {
			return errors.New("only a manager denies a payment")
		}
		return nil
	}}})
	waiting := r.say("Go.").finished(event.FinishPaused).end.Pending
	before := printed(r.transcript())
	supersede := &runner.RunOptions{Supersede: true}
	s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Forget it."), supersede))
	if !errors.Is(s.err, runner.ErrNotAllowed) || s.end.Finish != event.FinishPaused {
		t.Errorf("the message ended the run as %q, with %v", s.end.Finish, s.err)
	}
	if after := printed(r.transcript()); after != before {
		t.Errorf("what was not allowed left a trace: %s", after)
	}
	asked, forbidden = nil, ""
	watch(t, r.Run(t.Context(), user, chat, llm.UserText("Forget it."), supersede)).finished(event.FinishStop)
	if len(asked) != 2 {
		t.Fatalf("two denials were asked for as %+v", asked)
	}
	for i, op := range asked {
		want := runner.Operation{Kind: runner.OpResume, Actor: user, Session: chat, User: user, Call: waiting[i].Call, Tool: waiting[i].Tool,
			Pause: waiting[i].ID, Answer: runner.AnswerDeny}
		if printed(op) != printed(want) {
			t.Errorf("a denial is asked for as %+v, not %+v", op, want)
		}
	}
}

// So is one of a call that waits for its tool, and not for a person: it has no
// pause.
func TestSupersedingAParkedCallIsADenial(t *testing.T) {
	var n counter
	var denials []runner.Operation
	r, p, _, _ := parkedRig(t, &n, &rigOptions{memory: true, runner: &runner.Options{
		Logger: slog.New(slog.DiscardHandler),
		Authorizer: func(_ context.Context, op runner.Operation) error {
			if op.Answer != runner.AnswerDeny {
				return nil
			}
			denials = append(denials, op)
			return errors.New("only a manager denies a refund")
		},
	}})
	r.answer(runner.Approve(p.ID, "bob", "")).finished(event.FinishPaused)
	s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Forget it."), &runner.RunOptions{Supersede: true}))
	if !errors.Is(s.err, runner.ErrNotAllowed) || s.end.Finish != event.FinishPaused || len(r.transcript().Parked) != 1 {
		t.Errorf("the message ended the run as %q, with %v", s.end.Finish, s.err)
	}
	if len(denials) != 1 || denials[0].Call != p.Call || denials[0].Tool != "refund" || denials[0].Pause != "" || denials[0].Actor != user {
		t.Errorf("it is asked for as %+v", denials)
	}
}
