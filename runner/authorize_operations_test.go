package runner_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// operations lists each exported method of a Runner, and what it asks the
// Authorizer for. Those that ask for nothing are no actor's operation: the
// program itself calls Close, Work, HasAuthorizer, Agents, Logger and Now, and all
// that ReadToken tells stands in the token.
var operations = map[string]runner.OperationKind{
	"Run": runner.OpRun, "Continue": runner.OpContinue, "Drive": runner.OpContinue, "Resume": runner.OpResume,
	"ResumeByKey": runner.OpResume, "ResumeIn": runner.OpResume, "Deliver": runner.OpDeliver,
	"Send": runner.OpSend, "Sent": runner.OpShow,
	"Progress": runner.OpProgress, "Heartbeat": runner.OpProgress,
	"Cancel": runner.OpCancel, "CancelSession": runner.OpCancelSession, "Extend": runner.OpExtend,
	"Delete": runner.OpDelete,
	"Find":   runner.OpFind, "Ended": runner.OpFind, "Pending": runner.OpPending, "Sessions": runner.OpList,
	"Show": runner.OpShow, "Session": runner.OpShow, "Call": runner.OpShow, "Received": runner.OpShow,
	"Follow": runner.OpFollow, "MayFollow": runner.OpFollow, "TellEnd": runner.OpFollow,
	"MintToken": runner.OpMint, "RotateTokenKeys": runner.OpRotate,
	"Spawn": runner.OpSpawn, "Fetch": runner.OpFetch, "Handles": runner.OpHandles,
	"Apply": runner.OpApply, "Abort": runner.OpAbort, "Await": runner.OpAwait,
	"CreateWait": runner.OpCreateWait, "Wait": runner.OpWait, "CompleteWait": runner.OpCompleteWait,
	"ReportWait": runner.OpReportWait, "Waits": runner.OpWaits, "CountWaits": runner.OpWaits,
	"FollowWaits": runner.OpWaits, "WaitsNow": runner.OpWaits,
	"Undos": runner.OpUndos, "RetryUndo": runner.OpRetryUndo, "DismissUndo": runner.OpDismissUndo,
	"Close": "", "Work": "", "ReadToken": "", "HasAuthorizer": "", "Agents": "", "Logger": "",
	"Now": "",
}

// Every exported operation asks the Authorizer, with its actor: each method is
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
		runner.Actor("mallory"), []runner.Resumption{runner.Approve(p.ID, "mallory", "")},
		runner.Complete("", "mallory", nil), []runner.Mail{{Call: p.ID, Name: "offer", ID: "1", Actor: "mallory"}},
		runner.Ref{Pause: p.ID}, runner.Spawning{Handle: "a", Tool: "refund", Actor: "mallory"},
		runner.Input{Handle: "a", Actor: "mallory"},
		llm.UserText("Hi."), session.PauseFilter{Session: chat},
		session.UndoFilter{Session: chat}, session.Filter{User: user},
		time.Now().Add(time.Hour), runner.WaitName{Scope: tool.UserScope, User: user, ID: "a"},
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
		err := called(t, rn.Method(i), values, map[bool][]string{
			false: {chat, p.ID}, true: {"mallory", chat},
		}[name == "Run" || name == "Send"])
		if !errors.Is(err, no) || !errors.Is(err, runner.ErrNotAllowed) {
			t.Errorf("%s is not refused: %v", name, err)
		}
		if len(asked) != 1 || asked[0].Kind != kind || asked[0].Actor != "mallory" {
			t.Errorf("%s asks for %+v, and not once for %s, by mallory", name, asked, kind)
		}
		ofASession := kind != runner.OpRotate && name != "ResumeByKey" // perhaps no call has the key
		if len(asked) == 1 && ofASession && asked[0].User != user {
			t.Errorf("%s doesn't say whose session it is about: %+v", name, asked[0])
		}
		if len(asked) == 1 && asked[0].Call != "" && (asked[0].Tool != "refund" ||
			asked[0].Pause != p.ID && kind != runner.OpShow) {
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
func called(t *testing.T, method reflect.Value, values map[reflect.Type]reflect.Value,
	names []string) error {
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
		Tools:        []tool.Tool{instant("refund", tool.Once, &n)},
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
		Model:        messages(calls("refund", `{"text":"10"}`), says("Done.")),
	}, &rigOptions{runner: &runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
		if last = op; op.Kind == runner.OpResume || op.Kind == runner.OpMint {
			return errors.New("no")
		}
		return nil
	}}})
	p := r.say("Go.").finished(event.FinishPaused).pause("refund")
	for want, in := range map[runner.AnswerKind]runner.Resumption{
		runner.AnswerApprove:  runner.Approve(p.ID, "eve", ""),
		runner.AnswerDeny:     runner.Deny(p.ID, "eve", ""),
		runner.AnswerEdit:     runner.ApproveEdited(p.ID, "eve", "", textIn{"5"}),
		runner.AnswerComplete: runner.Complete(p.ID, "eve", text("v")),
		runner.AnswerFail:     runner.Fail(p.ID, "eve", "", false),
		runner.AnswerRunAgain: runner.RunAgain(p.ID, "eve", ""),
	} {
		if _, err := r.Resume(t.Context(), chat, in); !errors.Is(err, runner.ErrNotAllowed) {
			t.Errorf("%s: %v", want, err)
		}
		if last.Answer != want || last.Own() {
			t.Errorf("%s is asked for as %+v", want, last)
		}
		decides := want != runner.AnswerComplete && want != runner.AnswerFail &&
			want != runner.AnswerRunAgain
		if last.Decides() != decides {
			t.Errorf("%s decides: %v", want, last.Decides())
		}
	}
	_, err := r.MintToken(t.Context(), runner.Grant{Session: chat, Pause: p.ID,
		Permits: []tool.Permit{tool.PermitDeny}, Holder: "grace"}, user)
	if !errors.Is(err, runner.ErrNotAllowed) || len(last.Permits) != 1 ||
		last.Permits[0] != tool.PermitDeny || last.Holder != "grace" || !last.Own() ||
		!last.Decides() {
		t.Errorf("a token is asked for as %+v, %v", last, err)
	}
	drained(t, r.Pending(t.Context(), session.PauseFilter{
		User: user, Tool: "refund", Limit: 3,
	}, user))
	if last.Pauses != (session.PauseFilter{User: user, Tool: "refund", Limit: 3}) || !last.Own() {
		t.Errorf("an inbox is asked for as %+v", last)
	}
	drained(t, r.Sessions(t.Context(), session.Filter{Agent: "ops"}, user))
	if last.Sessions != (session.Filter{Agent: "ops"}) || last.Own() {
		t.Errorf("a list of all is asked for as %+v", last)
	}
}

func drained[V any](t *testing.T, all iter.Seq2[V, error]) {
	for _, err := range all {
		must(t, err)
	}
}

func TestAuthorizerSeesEveryOperation(t *testing.T) {
	var n counter
	denied := errors.New("not allowed")
	asked := map[runner.OperationKind]int{}
	allow := true
	config := agent.Config{
		Tools: []tool.Tool{messageTool(&n)},
		Model: messages(calls("ask", `{"text":"q"}`), says("Done.")),
	}
	r := newRig(t, config,
		&rigOptions{runner: &runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
			asked[op.Kind]++
			if !allow {
				return denied
			}
			return nil
		}}})
	p := r.say("Go.").finished(event.FinishPaused).pause("ask")
	before := printed(r.transcript())
	allow = false
	ctx := t.Context()
	_, resume := r.Resume(ctx, chat, runner.Complete(p.ID, user, text("x")))
	_, cancel := r.Cancel(ctx, chat, p.Call, user, "")
	_, find := r.Find(ctx, runner.Ref{Pause: p.ID}, user)
	_, findNone := r.Find(ctx, runner.Ref{Pause: "call_nosuch.1"}, user)
	_, show := r.Show(ctx, chat, user)
	_, call := r.Call(ctx, chat, p.Call, user)
	var pending, list error
	for _, err := range r.Pending(ctx, session.PauseFilter{}, user) {
		pending = err
	}
	for _, err := range r.Sessions(ctx, session.Filter{}, user) {
		list = err
	}
	for what, err := range map[string]error{
		"run": r.say("Hi.").err, "continue": r.carryOn().err, "resume": resume, "cancel": cancel,
		"find": find, "find nothing": findNone, "rotate": r.RotateTokenKeys(ctx, user, nil),
		"show": show, "call": call,
		"pending": pending, "list": list, "follow": watch(t, r.Follow(ctx, chat, user, nil)).err,
		"progress":       r.Progress(ctx, chat, p.Call, user, tool.Progress{}),
		"extend":         r.Extend(ctx, chat, p.ID, user, time.Time{}),
		"cancel session": r.CancelSession(ctx, chat, user, ""), "delete": r.Delete(ctx, chat, user),
	} {
		if !errors.Is(err, denied) {
			t.Errorf("%s: %v", what, err)
		}
	}
	allow = true
	if after := printed(r.transcript()); after != before {
		t.Errorf("what was not allowed left a trace: %s", after)
	}
	// A message that would answer is asked for as an answer, too.
	clear(asked)
	r.say("Blue.").finished(event.FinishStop)
	if asked[runner.OpRun] != 1 || asked[runner.OpResume] != 1 {
		t.Errorf("asked for %v", slices.Collect(maps.Keys(asked)))
	}
}
