package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/histories"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/webhook"
)

// directoryVariable is the environment variable that makes this program a
// child: the ledger's directory. orderVariable has the rest, as JSON.
const (
	directoryVariable = "FERMATA_FLEET_DIRECTORY"
	orderVariable     = "FERMATA_FLEET_ORDER"
)

// order is what the parent gives a child.
type order struct {
	Place
	Role
	Life  int
	Later bool          // it is of a later version
	Clock clock         // the zero one: the engine's
	Ahead time.Duration // of the engine's clock, if it is that
}

// Place is what a process is told of the engine.
type Place struct {
	URL     string
	Process string // its name
	Lease   time.Duration
	Deaf    bool // it hears no signals, where that is for it to choose
}

// Opener opens the engine that a process shares with others. One that isn't
// there is opened again until it is.
type Opener func(context.Context, Place) (kvstore.Store, error)

// Child is the program of a process, if this is one, and returns when that has
// ended. A TestMain calls it first.
func Child(open Opener) (was bool, err error) {
	dir := os.Getenv(directoryVariable)
	if dir == "" {
		return false, nil
	}
	return true, child(dir, open)
}

// openWithin is how long an engine may be away when a process starts.
const openWithin = time.Minute

func (open Opener) patiently(p Place) (kv kvstore.Store, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), openWithin)
	defer cancel()
	for ctx.Err() == nil {
		if kv, err = open(ctx, p); err == nil {
			return kv, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, err
}

// child is the program: a runner with a worker on the shared engine, a webhook,
// and handlers for users. It tells its parent where it listens, and ends when
// its input does: that is, with its parent at the latest.
func child(dir string, open Opener) error {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(orderVariable)), &o); err != nil {
		return err
	}
	l, err := openLedger(dir)
	if err != nil {
		return err
	}
	journal, err := openJournal(dir, o.Process, o.Life)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, o.Process+".log"),
		os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	out := &outside{ledger: l, journal: journal, log: log, process: o.Process,
		life: o.Life, lease: o.Lease, isLater: o.Later, ahead: o.Ahead,
		left: map[string]instant{}}
	kv, err := open.patiently(o.Place)
	if err != nil {
		return err
	}
	options := &session.Options{Lease: o.Lease}
	if len(o.Clock.Offsets) > 0 {
		options.Now = o.Clock.now
	}
	seen := watch(kv, out)
	if o.Later {
		seen = out.offering(out.later(seen), kv)
	}
	rn, err := newRunner(session.NewStore(seen, options), out)
	if err != nil {
		return err
	}
	mux, err := handlers(rn, out, o.Works)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go out.pulse(ctx)
	go func() {
		if !o.Works {
			return
		}
		err := rn.Work(ctx, &runner.WorkOptions{
			Poll: 20 * time.Millisecond, SweepEvery: -1,
			OnEvent: func(id string, ev event.Event, _ error) { out.show(id, ev) },
		})
		fmt.Fprintln(log, "the work has ended:", err)
	}()
	go func() { _ = server.Serve(listener) }()
	fmt.Println("at " + listener.Addr().String())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = server.Close()
	return errors.Join(rn.Close(), kv.Close())
}

// reply is the handlers' response, as the webhook's is.
type reply struct {
	Duplicate bool
	At        time.Time
}

func handlers(rn *runner.Runner, o *outside, works bool) (http.Handler, error) {
	hooks, err := webhook.New(rn, webhook.Config{})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/hooks/", o.recordHooks(hooks))
	handle := func(path string, f func(r *http.Request, id string) (any, error)) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			began := now()
			v, err := f(r, r.FormValue("session"))
			w.WriteHeader(webhook.Status(err))
			if err != nil && r.FormValue("leave") == "" { // a user who leaves is told nothing
				o.failed(path, r.FormValue("session"), webhook.ProblemOf(err), began)
			}
			if err != nil {
				fmt.Fprint(w, err)
			} else {
				_ = json.NewEncoder(w).Encode(v)
			}
		})
	}
	handle("/say", func(r *http.Request, id string) (any, error) {
		message, text, leave := r.FormValue("id"), r.FormValue("text"), r.FormValue("leave")
		end := func(came) {}
		if message == answering {
			op := operation{Session: id}
			op.Name, op.Content, op.By = "say", text, id
			end = o.journal.begin(op)
		}
		if works || leave != "" {
			err := o.say(rn, id, message, text, leave)
			end(said(err))
			return nil, err
		}
		// Others carry the run on.
		sent, err := rn.Send(r.Context(), id, id, llm.UserText(text),
			&runner.SendOptions{MessageID: message})
		if err == nil && !sent.Taken {
			end(came{Text: "queued", Uncertain: true})
		} else {
			end(said(err))
		}
		return nil, err
	})
	handle("/continue", func(r *http.Request, id string) (any, error) {
		return nil, o.watch(id, rn.Continue(context.WithoutCancel(r.Context()), id, "worker"))
	})
	handle("/show", func(r *http.Request, id string) (any, error) {
		began := now()
		t, err := rn.Show(r.Context(), id, "parent")
		if err == nil {
			o.looks(began, id, t.History, t.Pending)
		}
		return t, err
	})
	handle("/below", func(r *http.Request, id string) (any, error) {
		open := 0
		for s, err := range rn.Sessions(r.Context(), session.Filter{Root: id}, "parent") {
			if err != nil {
				return nil, err
			}
			if !isOver(s) {
				open++
			}
		}
		return open, nil
	})
	handle("/cancelsession", func(r *http.Request, id string) (any, error) {
		op := operation{Session: id}
		op.Name = "end"
		end := o.journal.begin(op)
		err := rn.CancelSession(r.Context(), id, "ada", "no longer")
		end(came{Text: "ok", Nothing: errors.Is(err, session.ErrUnknownSession), Uncertain: err != nil})
		return nil, err
	})
	handle("/decide", func(r *http.Request, id string) (any, error) {
		return o.answer(r, rn, id, histories.Approval, runner.Approve(r.FormValue("pause"), "bob", ""))
	})
	handle("/find", func(r *http.Request, _ string) (any, error) {
		return rn.Find(r.Context(), runner.Ref{Tool: "batch", Key: r.FormValue("key")}, "ci")
	})
	handle("/key", func(r *http.Request, id string) (any, error) {
		p, err := rn.Find(r.Context(), runner.Ref{Tool: "batch", Key: r.FormValue("key")}, "ci")
		if err != nil {
			return nil, err
		}
		text := r.FormValue("text")
		return o.answer(r, rn, p.Session, content([]byte(text)),
			runner.Complete(p.ID, "the batch system", json.RawMessage(text)))
	})
	handleWaits(rn, handle)
	handleTicks(rn, handle)
	return mux, nil
}

// handleFunc adds a door: what it does for a session, or a user.
type handleFunc func(path string, f func(r *http.Request, id string) (any, error))

// answering is the id of the message that answers a question.
const answering = "second"

// answer delivers an answer to a pause, whose content the model knows as what.
func (o *outside) answer(
	r *http.Request, rn *runner.Runner, id, what string, a runner.Resumption,
) (any, error) {
	op := operation{Session: id}
	call, number, _ := strings.Cut(a.Pause, ".")
	op.Call, op.Name, op.Content, op.By = call, "resume", what, string(a.Actor)
	op.Pause, _ = strconv.Atoi(number)
	end := o.journal.begin(op)
	done, err := rn.Resume(r.Context(), id, a)
	if err != nil {
		end(resumed(session.Receipt{}, err))
		return nil, err
	}
	end(resumed(done.Receipts[0], nil))
	return reply{done.Receipts[0].Duplicate, done.Receipts[0].At}, nil
}

// say takes a message, which may have come before. With leave, a duration, the
// caller leaves after it, and no caller carries the run on.
func (o *outside) say(rn *runner.Runner, id, message, text, leave string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	options := &runner.RunOptions{MessageID: message, Detached: leave == ""}
	if d, err := time.ParseDuration(leave); err == nil {
		timer := time.AfterFunc(d, func() {
			o.mu.Lock()
			o.left[id] = now()
			o.mu.Unlock()
			cancel()
		})
		defer timer.Stop()
	}
	return o.watch(id, rn.Run(ctx, id, id, llm.UserText(text), options))
}

func (o *outside) watch(id string, events func(func(event.Event, error) bool)) (failed error) {
	for ev, err := range events {
		if err != nil {
			failed = err
			continue
		}
		o.show(id, ev)
	}
	return failed
}
