package lives

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/webhook"
)

// The child is the program whose lives are ended: a runner with a worker on the
// one file, a webhook, and a handler that takes users' messages. It tells its
// parent, in lines on standard output, where it listens, and when a body or a
// commit begins and ends.
func child(dir string) error {
	db, err := bolt.Open(filepath.Join(dir, "store.db"), nil)
	if err != nil {
		return err
	}
	defer db.Close()
	outside, err := newOutside(dir)
	if err != nil {
		return err
	}
	rn, err := newRunner(session.NewStore(told{db}, nil), outside)
	if err != nil {
		return err
	}
	defer rn.Close()
	mux, err := handlers(rn, outside)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tell("at " + l.Addr().String()) // which is the first that it tells
	go func() {
		_ = rn.Work(ctx, &runner.WorkOptions{
			Poll:    20 * time.Millisecond,
			OnEvent: func(id string, ev event.Event, _ error) { outside.show(id, ev) },
		})
	}()
	go func() { _ = server.Serve(l) }()
	obey() // until the parent lets it end, or is gone
	return server.Close()
}

func handlers(rn *runner.Runner, outside *outside) (http.Handler, error) {
	hooks, err := webhook.New(rn, webhook.Config{})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/hooks/", hooks)
	mux.HandleFunc("/say", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(webhook.Status(say(rn, outside, r.FormValue("session"))))
	})
	mux.HandleFunc("/finish", func(w http.ResponseWriter, r *http.Request) {
		t, err := rn.Show(r.Context(), r.FormValue("session"), "test")
		w.WriteHeader(webhook.Status(err))
		fmt.Fprint(w, t.Finish)
	})
	return mux, nil
}

// say takes the session's one message, which may have come before.
func say(rn *runner.Runner, outside *outside, id string) error {
	o := &runner.RunOptions{MessageID: "first", Detached: true}
	for ev, err := range rn.Run(context.Background(), id, id, llm.UserText("Go."), o) {
		if err != nil {
			return err
		}
		outside.show(id, ev)
	}
	return nil
}

// teller writes lines to the parent, each in one piece. A body or a commit goes
// on when its line is written.
type teller struct {
	// mu guards flying and awaited, and standard output. Hold keeps it for
	// ever: so no other goroutine tells, and goes on, after the awaited moment.
	mu      sync.Mutex
	flying  inFlight
	awaited moment // at which nothing goes on any more; empty: none
}

var parent = teller{flying: inFlight{}}

func tell(line string) {
	parent.mu.Lock()
	defer parent.mu.Unlock()
	fmt.Println(line)
	parent.flying.note(line)
	parent.hold()
}

// nowHeld is the last that is told.
const nowHeld = "held"

// hold never returns at the awaited moment, and lets no body and no commit
// begin or end. Those in flight go on meanwhile.
func (t *teller) hold() {
	if t.awaited == t.flying.moment() {
		fmt.Println(nowHeld)
		select {} // until the kill
	}
}

// obey awaits the moments that the parent orders, until it orders no more.
func obey() {
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		// It may never return, nor hear that the parent is gone.
		go parent.await(moment(orders.Text()))
	}
}

func (t *teller) await(m moment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.awaited = m
	t.hold()
}

// told is an engine that tells the parent when a commit begins and ends.
type told struct{ kvstore.Exclusive }

func (t told) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	tell("commit+")
	defer tell("commit-")
	return t.Exclusive.Apply(ctx, b)
}
