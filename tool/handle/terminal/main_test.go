package terminal

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// session is a command in a terminal, as a test drives it.
type session struct {
	t      *testing.T
	inputs chan json.RawMessage
	shown  chan handle.Update
	last   handle.Update
	cancel context.CancelFunc
	ended  chan struct{}
	exit   handle.Exit
	err    error
}

type run struct {
	Program string   `json:"program"`
	Args    []string `json:"args"`
}

// begin starts a program in a terminal of 24 rows of 80 columns.
func begin(t *testing.T, program string, args ...string) *session {
	t.Helper()
	l, err := handle.OpenLauncher(&handle.LauncherOptions{Dir: t.TempDir()})
	must(t, err)
	c, err := handle.NewCommand(l, tool.Spec{Name: "run"},
		func(_ context.Context, in run) (handle.Program, error) {
			return handle.Program{Path: in.Program, Args: in.Args}, nil
		}, &handle.CommandOptions{Terminal: New(nil)})
	must(t, err)
	live, err := handle.Live(c, &handle.LiveOptions{
		Grace: func(error) time.Duration { return 200 * time.Millisecond },
	})
	must(t, err)
	arguments, err := json.Marshal(run{program, args})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	s := &session{t: t, inputs: make(chan json.RawMessage), shown: make(chan handle.Update, 10000),
		cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		var e tool.Execution
		e, s.err = live.Execute(ctx, tool.Call{Arguments: arguments, Host: s})
		if s.err == nil {
			s.err = json.Unmarshal(e.Output, &s.exit)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-s.ended
		must(t, l.Close())
	})
	return s
}

// Update and NextInput are those of handle.Host.
func (s *session) Update(_ context.Context, _ tool.Call, u handle.Update) error {
	s.shown <- u
	return nil
}

func (s *session) NextInput(ctx context.Context, _ tool.Call) (handle.Input, error) {
	select {
	case in := <-s.inputs:
		return handle.Input{Value: in}, nil
	case <-ctx.Done():
		return handle.Input{}, context.Cause(ctx)
	}
}

// The methods of every Host.
func (s *session) Token(tool.Call, ...tool.Permit) string                    { return "" }
func (s *session) MailToken(tool.Call, ...string) string                     { return "" }
func (s *session) Report(context.Context, tool.Call, tool.Progress) error    { return nil }
func (s *session) History(context.Context, tool.Call) ([]llm.Message, error) { return nil, nil }

// shows waits for a screen with a text.
func (s *session) shows(text string) {
	s.t.Helper()
	bound := time.After(20 * time.Second)
	for !strings.Contains(s.last.Content, text) {
		select {
		case s.last = <-s.shown:
		case <-bound:
			s.t.Fatalf("%q is not shown within 20 s; the screen is\n%s", text, s.last.Content)
		}
	}
}

// presses gives keys.
func (s *session) presses(keys ...string) {
	s.t.Helper()
	in, err := json.Marshal(map[string][]string{"keys": keys})
	must(s.t, err)
	select {
	case s.inputs <- in:
	case <-time.After(20 * time.Second):
		s.t.Fatalf("the keys %q are not asked for", keys)
	}
}

// exits waits for the program's end.
func (s *session) exits() handle.Exit {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		s.t.Fatalf("it doesn't exit within 20 s; the screen is\n%s", s.last.Content)
	}
	must(s.t, s.err)
	return s.exit
}

var _ io.Writer = (*outbox)(nil)
