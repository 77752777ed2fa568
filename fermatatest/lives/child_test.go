package lives

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// The child is the program whose lives are ended: a runner with a worker on the one file, a webhook, and a handler that takes users'
// messages. It tells its parent, in lines on standard output, where it listens, and when a body or a commit begins and ends.
func child(dir string) error {
	db, err := bolt.Open(filepath.Join(dir, "store.db"), nil)
	if err != nil {
		return err
	}
	defer db.Close()
	rn, err := newRunner(session.NewStore(told{db}, nil), dir)
	if err != nil {
		return err
	}
	defer rn.Close()
	hooks, err := webhook.New(rn, webhook.Config{})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/hooks/", hooks)
	mux.HandleFunc("/say", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(webhook.Status(say(rn, r.FormValue("session"))))
	})
	mux.HandleFunc("/finish", func(w http.ResponseWriter, r *http.Request) {
		t, err := rn.Show(r.Context(), r.FormValue("session"))
		w.WriteHeader(webhook.Status(err))
		fmt.Fprint(w, t.Finish)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tell("at %s", l.Addr()) // which is the first that it tells
	go func() { _ = rn.Work(ctx, &runner.WorkOptions{Poll: 20 * time.Millisecond}) }()
	go func() { _ = server.Serve(l) }()
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent lets it end, or is gone
	return server.Close()
}

// say takes the session's one message, which may have come before.
func say(rn *runner.Runner, id string) error {
	for _, err := range rn.Run(context.Background(), "ada", id, llm.UserText("Go."), &runner.RunOptions{MessageID: "first", Detached: true}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// tell writes a line to the parent: in one piece, and before what it tells of goes on.
func tell(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }

// told is an engine that tells when a commit begins and ends.
type told struct{ kvstore.Exclusive }

func (t told) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	tell("commit+")
	defer tell("commit-")
	return t.Exclusive.Apply(ctx, b)
}

// effect is an entry of a body, as the outside world has it.
type effect struct {
	Tool, Session, Call, Key, Token string
	Effect                          tool.Effect
}

const effectsFile = "effects"

type in struct{}

type out struct {
	N int `json:"n"`
}

// newRunner makes the agent: four calls at once, two of which wait, and then one more that waits.
func newRunner(store *session.Store, dir string) (*runner.Runner, error) {
	effects, err := os.OpenFile(filepath.Join(dir, effectsFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	body := func(name string, e tool.Effect, waits bool) tool.Tool {
		return tool.Must(tool.Func(tool.Spec{Name: name, Effect: e, MayPause: waits}, func(ctx context.Context, _ in) (tool.Result[out], error) {
			tell("body+")
			defer tell("body-")
			call := tool.CallFrom(ctx)
			entry := effect{Tool: name, Session: call.Session, Call: call.ID, Key: call.IdempotencyKey(), Effect: e}
			if waits {
				entry.Token = call.Token()
			}
			line, err := json.Marshal(entry)
			if err != nil {
				return nil, err
			}
			if _, err := effects.Write(append(line, '\n')); err != nil {
				return nil, err
			}
			time.Sleep(rand.N(2 * time.Millisecond)) // what it does out there takes a while
			if waits {
				return tool.Pending[out](tool.Await{}), nil
			}
			return tool.Done(out{1}), nil
		}))
	}
	ag, err := agent.New(agent.Config{
		Name: "lives", Tools: []tool.Tool{
			body("pay", tool.Once, false), body("look", tool.Idempotent, false), body("ship", tool.Once, true), body("batch", tool.Idempotent, true),
		},
		Model: fakellm.New(
			fakellm.Calls("pay", `{}`).And("look", `{}`).And("ship", `{}`).And("batch", `{}`),
			fakellm.Calls("ship", `{}`), fakellm.Says("Done.")),
	})
	if err != nil {
		return nil, err
	}
	return runner.New(ag, store, &runner.Options{Logger: slog.New(slog.DiscardHandler)})
}

var atRest = string(event.FinishStop)
