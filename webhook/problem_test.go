package webhook_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/misfit"
	"github.com/fermata-ai/fermata/webhook"
)

var update = flag.Bool("update", false, "write what is made into testdata")

// sentinels are those that callers of the runner may meet, by name.
var sentinels = map[string]error{
	"session.ErrUnknownSession": session.ErrUnknownSession, "session.ErrUnknownCall": session.ErrUnknownCall,
	"session.ErrUnknownPause": session.ErrUnknownPause, "session.ErrNotYetKnown": session.ErrNotYetKnown,
	"session.ErrNotKept": session.ErrNotKept, "session.ErrInvalidID": session.ErrInvalidID,
	"session.ErrChild": session.ErrChild, "session.ErrWrongUser": session.ErrWrongUser,
	"session.ErrDeleted": session.ErrDeleted, "session.ErrNotPaused": session.ErrNotPaused,
	"session.ErrOtherGate": session.ErrOtherGate, "session.ErrOtherSender": session.ErrOtherSender,
	"session.ErrNotApprover": session.ErrNotApprover, "session.ErrPauseRequired": session.ErrPauseRequired,
	"session.ErrAmbiguousKey": session.ErrAmbiguousKey, "session.ErrResumeConflict": session.ErrResumeConflict,
	"session.ErrInvalidResumePayload": session.ErrInvalidResumePayload, "session.ErrSettled": session.ErrSettled,
	"session.ErrCancelled": session.ErrCancelled, "session.ErrExpired": session.ErrExpired,
	"session.ErrMessageConflict": session.ErrMessageConflict, "session.ErrInvalidMessage": session.ErrInvalidMessage,
	"session.ErrUnknownEvent": session.ErrUnknownEvent, "session.ErrUnknownHandle": session.ErrUnknownHandle,
	"session.ErrNameTaken": session.ErrNameTaken, "session.ErrMailboxFull": session.ErrMailboxFull,
	"session.ErrQueueFull": session.ErrQueueFull, "session.ErrUnknownMessage": session.ErrUnknownMessage,
	"session.ErrInvalidDeadline": session.ErrInvalidDeadline, "session.ErrPending": session.ErrPending,
	"session.ErrNoUndo": session.ErrNoUndo, "session.ErrNoDeadLetter": session.ErrNoDeadLetter,
	"session.ErrBusy": session.ErrBusy, "session.ErrFenced": session.ErrFenced, "session.ErrStale": session.ErrStale,
	"session.ErrCorrupt": session.ErrCorrupt, "session.ErrNewerVersion": session.ErrNewerVersion,
	"session.ErrNotShared": session.ErrNotShared,
	"session.ErrNoAnswer":  session.ErrNoAnswer,
	"runner.ErrInvalidRef": runner.ErrInvalidRef, "runner.ErrBadToken": runner.ErrBadToken,
	"runner.ErrTokenExpired": runner.ErrTokenExpired, "runner.ErrInvalidGrant": runner.ErrInvalidGrant,
	"runner.ErrLongReason": runner.ErrLongReason, "runner.ErrInvalidSpawn": runner.ErrInvalidSpawn,
	"runner.ErrSpawnConflict": runner.ErrSpawnConflict, "runner.ErrHandleStopped": runner.ErrHandleStopped,
	"runner.ErrNotYours": runner.ErrNotYours, "runner.ErrNoInput": runner.ErrNoInput,
	"runner.ErrClosed": runner.ErrClosed, "runner.ErrUnknownAgent": runner.ErrUnknownAgent,
	"runner.ErrGivenKeys": runner.ErrGivenKeys, "runner.ErrNotAllowed": runner.ErrNotAllowed,
	"runner.ErrUndecided":       runner.ErrUndecided,
	"runner.ErrInvalidProgress": runner.ErrInvalidProgress,
	"runner.ErrInvalidWait":     runner.ErrInvalidWait, "runner.ErrUnknownWait": runner.ErrUnknownWait,
	"runner.ErrWaitTaken": runner.ErrWaitTaken, "runner.ErrWaitEnded": runner.ErrWaitEnded,
	"runner.ErrWaitCursor": runner.ErrWaitCursor, "runner.ErrWaitChangesGone": runner.ErrWaitChangesGone,
	"runner.ErrInvalidCursor": runner.ErrInvalidCursor,
	"kvstore.ErrUncertain":    kvstore.ErrUncertain, "webhook.ErrUnverified": webhook.ErrUnverified,
}

// A client finds the sentinel that the server had, and no other one.
func TestAProblemIsTheErrorThatItCameFrom(t *testing.T) {
	for name, sentinel := range sentinels {
		came := overTheWire(t, fmt.Errorf("wrapped: %w", sentinel))
		for other, err := range sentinels {
			if errors.Is(came, err) != (name == other) {
				t.Errorf("what came of %s is %s: %v", name, other, errors.Is(came, err))
			}
		}
		if webhook.Status(came) != webhook.Status(sentinel) ||
			!reflect.DeepEqual(webhook.ProblemOf(fmt.Errorf("wrapped: %w", came)), came) {
			t.Errorf("the problem of what came of %s is another one: %+v", name, webhook.ProblemOf(came))
		}
	}
	// All that there are.
	for dir, pkg := range map[string]string{"../session": "session", "../runner": "runner"} {
		for _, name := range errorsOf(t, dir) {
			if sentinels[pkg+"."+name] == nil {
				t.Errorf("%s.%s has no problem", pkg, name)
			}
		}
	}
}

// The errors with facts come back with them, as far as an outside system is
// told of them.
func TestProblemsHaveTheirFacts(t *testing.T) {
	made := []webhook.Problem{}
	types := map[string]bool{"*session.SenderError": true} // which tells nothing
	for _, f := range factual() {
		err, told := f[0], f[1]
		types[fmt.Sprintf("%T", err)] = true
		came := overTheWire(t, fmt.Errorf("wrapped: %w", err))
		got := reflect.New(reflect.TypeOf(err))
		if !errors.As(came, got.Interface()) {
			t.Errorf("what came of %T is none", err)
			continue
		}
		if diff := cmp.Diff(told, got.Elem().Interface(), sameText); diff != "" {
			t.Errorf("what came of %T (-want +got):\n%s", err, diff)
		}
		for name, sentinel := range sentinels {
			if errors.Is(came, sentinel) != errors.Is(err, sentinel) {
				t.Errorf("what came of %T is %s: %v", err, name, errors.Is(came, sentinel))
			}
		}
		made = append(made, came)
	}
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "mallory") || strings.Contains(string(text), "inside") {
		t.Errorf("a problem names a person, or what is inside:\n%s", text)
	}
	const golden = "testdata/problems.json"
	if *update {
		if err := os.WriteFile(golden, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)+"\n"); diff != "" {
		t.Errorf("the forms have changed (-want +got):\n%s", diff)
	}
	for _, name := range errorTypes(t) {
		if !types["*session."+name] {
			t.Errorf("session.%s isn't in this test", name)
		}
	}
}

// factual has errors with facts, each beside what is told of it.
func factual() [][2]error {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	fault := &misfit.Error{Faults: []misfit.Fault{{Path: "/a", Rule: "type", Message: "wrong"}}}
	event1 := session.EventID{Name: "offer", ID: "e1", Number: 1}
	first := tool.Pause{ID: "c1.1", Call: "c1", Session: "chat-7", Tool: "ask", Number: 1,
		Await: tool.Await{Reason: tool.ReasonInput}}
	whole := first
	whole.User, whole.Arguments, whole.Await.Prompt = "mallory", json.RawMessage("1"), "inside?"
	parked := []event.Parked{{Call: "c2", Tool: "gone", Since: at}}
	blocks := &session.Blocks{Session: "s", Agent: "a", Call: "c3", Tool: "job"}
	return [][2]error{
		{&session.ConflictError{Receipt: session.Receipt{Call: "c1", Pause: 1, Actor: "mallory",
			Kind: session.KindDecision, Decided: "denied", At: at, Delivery: "inside"}},
			&session.ConflictError{Receipt: session.Receipt{Call: "c1", Pause: 1,
				Kind: session.KindDecision, Decided: "denied", At: at}}},
		{&session.ConflictError{Receipt: session.Receipt{Call: "c1", Kind: session.KindEvent,
			Event: event1, At: at}},
			&session.ConflictError{Receipt: session.Receipt{Call: "c1", Kind: session.KindEvent,
				Event: event1, At: at}}},
		{&session.SettledError{Call: "c1", Status: event.Done, Actor: "mallory", At: at},
			&session.SettledError{Call: "c1", Status: event.Done, At: at}},
		{&session.SettledError{Call: "c1", Status: event.Cancelled, At: at},
			&session.SettledError{Call: "c1", Status: event.Cancelled, At: at}},
		{&session.SettledError{Call: "c1", Status: event.Expired, At: at},
			&session.SettledError{Call: "c1", Status: event.Expired, At: at}},
		{&session.PauseRequiredError{Call: "c1", Open: "c1.2"},
			&session.PauseRequiredError{Call: "c1", Open: "c1.2"}},
		{&session.GateError{Pause: "c1.1", Gate: "legal", For: "finance"},
			&session.GateError{Pause: "c1.1", Gate: "legal", For: "finance"}},
		{&session.ApproverError{Pause: "c1.1", Actor: "mallory"},
			&session.ApproverError{Pause: "c1.1"}},
		{&session.UnknownEventError{Call: "c1", Tool: "buy", Name: "x", Names: []string{"offer"}},
			&session.UnknownEventError{Call: "c1", Tool: "buy", Name: "x", Names: []string{"offer"}}},
		{&session.PayloadError{Pause: "c1.1", Err: fault},
			&session.PayloadError{Pause: "c1.1", Err: fault}},
		{&session.PayloadError{Event: event1.String(), Err: errors.New("too long")},
			&session.PayloadError{Event: event1.String(),
				Err: errors.New(`wrapped: session: the event offer "e1" does not fit: too long`)}},
		{&session.PendingError{Session: "chat-7", Pending: []tool.Pause{whole}, MorePending: true,
			Parked: parked, Blocks: blocks},
			&session.PendingError{Session: "chat-7", Pending: []tool.Pause{first},
				MorePending: true, Parked: parked, Blocks: blocks}},
		{&session.BusyError{Session: "chat-7", Until: at},
			&session.BusyError{Session: "chat-7", Until: at}},
		{&runner.HandleError{Err: runner.ErrNoInput, Text: "it takes none"},
			&runner.HandleError{Err: runner.ErrNoInput, Text: "wrapped: it takes none"}},
		{&llm.Error{Kind: llm.ErrInvalid, RequestID: "inside"}, &llm.Error{Kind: llm.ErrInvalid}},
		{&llm.Error{Kind: llm.ErrOverloaded, Err: errors.New("inside")},
			&llm.Error{Kind: llm.ErrOverloaded}},
	}
}

// A client survives what another server, or an older one, writes.
func TestProblemsOfOthers(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"about:blank","title":"Not Found","status":404}`:                  "Not Found",
		`{"type":"https://example.com/p#busy","detail":"no"}`:                      "no",
		`{"type":"` + webhook.ProblemBase + `newer","title":"New","status":409}`:   "New",
		`{"type":"` + webhook.ProblemBase + `pending","waits":{},"status":409}`:    "webhook: a problem without words",
		`{"type":"` + webhook.ProblemBase + `pending","waits":{"pending":[{}]}}`:   "webhook: a problem without words",
		`{"type":"` + webhook.ProblemBase + `conflict","status":0,"detail":"was"}`: "was",
	} {
		var p webhook.Problem
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		if p.Error() != want || webhook.Status(p) < 400 {
			t.Errorf("%s is %q, of the status %d", text, p.Error(), webhook.Status(p))
		}
		for _, err := range p.Unwrap() {
			if err.Error() == "" || errors.Is(p, session.ErrBusy) {
				t.Errorf("%s is %v", text, err)
			}
		}
	}
}

func overTheWire(t *testing.T, err error) (came webhook.Problem) {
	t.Helper()
	text, failed := json.Marshal(webhook.ProblemOf(err))
	if failed == nil {
		failed = json.Unmarshal(text, &came)
	}
	if failed != nil {
		t.Fatal(failed)
	}
	return came
}

var sameText = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Err" },
	cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) }))

// errorsOf returns the names of a package's sentinels.
func errorsOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	eachSpec(t, dir, func(s ast.Spec) {
		v, ok := s.(*ast.ValueSpec)
		if !ok {
			return
		}
		for _, id := range v.Names {
			if strings.HasPrefix(id.Name, "Err") {
				names = append(names, id.Name)
			}
		}
	})
	return names
}

// errorTypes returns the names of the types of errors that package session has.
func errorTypes(t *testing.T) (names []string) {
	t.Helper()
	eachSpec(t, "../session", func(s ast.Spec) {
		if typ, ok := s.(*ast.TypeSpec); ok && strings.HasSuffix(typ.Name.Name, "Error") {
			names = append(names, typ.Name.Name)
		}
	})
	return names
}

func eachSpec(t *testing.T, dir string, f func(ast.Spec)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(dir, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				for _, s := range g.Specs {
					f(s)
				}
			}
		}
	}
}
