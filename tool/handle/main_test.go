package handle

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// fakeHost is the runtime of one call: it keeps what is shown, and hands over
// what a test types.
type fakeHost struct {
	inputs chan json.RawMessage // closed: none comes any more
	given  []Input              // before those

	mu      sync.Mutex
	updates []Update
	shown   string // all content
	changed chan struct{}
	fails   error // of Update
}

func newHost() *fakeHost {
	return &fakeHost{inputs: make(chan json.RawMessage), changed: make(chan struct{}, 1)}
}

func (h *fakeHost) Update(_ context.Context, _ tool.Call, u Update) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.updates = append(h.updates, u)
	if u.Screen != nil {
		h.shown = ""
	}
	h.shown += u.Content
	select {
	case h.changed <- struct{}{}:
	default:
	}
	return h.fails
}

func (h *fakeHost) NextInput(ctx context.Context, _ tool.Call) (Input, error) {
	if len(h.given) > 0 {
		in := h.given[0]
		h.given = h.given[1:]
		return in, nil
	}
	select {
	case in, ok := <-h.inputs:
		if !ok {
			return Input{}, io.EOF
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		given := Input{Value: in, Person: true}
		if n := len(h.updates); n > 0 && h.updates[n-1].Question != nil { // as who gives it sees it
			given.Question = h.updates[n-1].Question.ID
		}
		return given, nil
	case <-ctx.Done():
		return Input{}, context.Cause(ctx)
	}
}

// The methods of every Host, which live bodies don't use.
func (h *fakeHost) Token(tool.Call, ...tool.Permit) string { return "" }
func (h *fakeHost) MailToken(tool.Call, ...string) string  { return "" }
func (h *fakeHost) Report(context.Context, tool.Call, tool.Progress) error {
	return nil
}
func (h *fakeHost) History(context.Context, tool.Call) ([]llm.Message, error) {
	return nil, nil
}

// await waits until what was shown satisfies a condition.
func (h *fakeHost) await(t *testing.T, holds func(shown string, last Update) bool) {
	t.Helper()
	bound := time.After(20 * time.Second)
	for {
		h.mu.Lock()
		shown, last := h.shown, Update{}
		if n := len(h.updates); n > 0 {
			last = h.updates[n-1]
		}
		h.mu.Unlock()
		if holds(shown, last) {
			return
		}
		select {
		case <-h.changed:
		case <-bound:
			t.Fatalf("not within 20 s; shown is %q, the last of them %+v", shown, last)
		}
	}
}

// shows waits until a text is shown.
func (h *fakeHost) shows(t *testing.T, text string) {
	t.Helper()
	h.await(t, func(shown string, _ Update) bool { return strings.Contains(shown, text) })
}

// type1 hands over an input.
func (h *fakeHost) type1(t *testing.T, in string) {
	t.Helper()
	select {
	case h.inputs <- raw(in):
	case <-time.After(20 * time.Second):
		t.Fatalf("the input %s is not asked for", in)
	}
}

// ending is what a call came to.
type ending struct {
	execution tool.Execution
	err       error
}

// execute begins a call, and returns what it comes to.
func execute(t *testing.T, ctx context.Context, l tool.Tool, call tool.Call) func() ending {
	t.Helper()
	end := make(chan ending, 1)
	go func() {
		execution, err := l.Execute(ctx, call)
		end <- ending{execution, err}
	}()
	return func() ending {
		t.Helper()
		select {
		case e := <-end:
			return e
		case <-time.After(20 * time.Second):
			t.Fatal("the call didn't end within 20 s")
			panic("unreachable")
		}
	}
}
