package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// cable is an engine that several processes share, and from which one of them
// may be cut off.
type cable struct {
	kvstore.Store
	cut atomic.Bool
}

var errCut = errors.New("the cable is cut")

func (c *cable) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if c.cut.Load() {
		return kvstore.Entry{}, errCut
	}
	return c.Store.Get(ctx, key)
}

func (c *cable) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	if c.cut.Load() {
		return kvstore.Page{}, errCut
	}
	return c.Store.Scan(ctx, r)
}

func (c *cable) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	if c.cut.Load() {
		return 0, errCut
	}
	return c.Store.Apply(ctx, b)
}

// stubbornPrograms is a tool whose handles are programs that end by force alone, with
// all that they have started, and that may take an hour.
func stubbornPrograms(t *testing.T) tool.Tool {
	t.Helper()
	l, err := handle.OpenLauncher(&handle.LauncherOptions{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	c, err := handle.NewCommand(l, tool.Spec{Name: "sh"},
		func(context.Context, struct{}) (handle.Program, error) {
			return handle.Program{Path: "sh", Args: []string{"-c",
				`trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo pids $$ $! .; wait; wait`}}, nil
		}, nil)
	must(t, err)
	live, err := handle.Live(c, &handle.LiveOptions{
		Grace: func(error) time.Duration { return time.Hour }})
	must(t, err)
	made, err := handle.Stateful(live, nil)
	must(t, err)
	return made
}

// pids waits until the program of a handle tells its processes.
func (r *rig) pids(name string) (all []int) {
	r.t.Helper()
	for {
		h, err := r.Fetch(r.t.Context(), chat, name, user)
		must(r.t, err)
		if text := h.Content.Head + h.Content.Tail; strings.HasSuffix(text, " .\n") {
			for _, field := range strings.Fields(text)[1:3] {
				pid, err := strconv.Atoi(field)
				must(r.t, err)
				all = append(all, pid)
			}
			return all
		}
	}
}

// alive returns those of the processes that have not ended. One that has ended
// may still wait for the system to reap it.
func alive(pids []int) (there []int) {
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			there = append(there, pid)
		}
	}
	return there
}

// A program gets no grace when its call's lease is lost, nor beyond what Close
// waits for: when Close has returned, or another process has taken the handle
// over, all that it had started is gone.
func TestAProgramDoesNotOutliveItsLease(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	begin := func(t *testing.T, o *runner.Options) (r *rig, cut *cable, pids []int) {
		t.Helper()
		cut = &cable{}
		o.Logger = quiet
		r = newRig(t, agent.Config{Tools: []tool.Tool{stubbornPrograms(t)}, Model: messages(says("Hi."))},
			&rigOptions{memory: true, runner: o,
				session: &public.Options{Lease: 2 * time.Second, MaxSkew: time.Millisecond},
				wrap: func(kv kvstore.Store) kvstore.Store {
					cut.Store = kv
					return cut
				}})
		r.say("Hello.").finished(event.FinishStop)
		r.spawned("a", "sh", `{}`)
		return r, cut, r.pids("a")
	}
	t.Run("lease", func(t *testing.T) {
		r, cut, pids := begin(t, &runner.Options{})
		cut.cut.Store(true)
		ag, err := agent.New(r.config)
		must(t, err)
		other, err := runner.New(ag, public.NewStore(hidden(cut.Store), r.o.session),
			&runner.Options{Logger: quiet})
		must(t, err)
		defer other.Close()
		all, err := other.Await(t.Context(), chat, tool.HandleWait{All: []string{"a"}}, user)
		must(t, err)
		if there := alive(pids); len(there) > 0 {
			t.Errorf("of %v there are %v, and the handle is %+v", pids, there, all)
		}
		if !strings.Contains(string(all[0].Output), "unknown") {
			t.Errorf("it comes to %s", all[0].Output)
		}
		cut.cut.Store(false)
	})
	t.Run("close", func(t *testing.T) {
		r, _, pids := begin(t, &runner.Options{CloseTimeout: 4 * time.Second})
		must(t, r.Close())
		if there := alive(pids); len(there) > 0 {
			t.Errorf("of %v there are %v", pids, there)
		}
	})
	t.Run("abort", func(t *testing.T) {
		r, _, pids := begin(t, &runner.Options{CancelGrace: 3 * time.Second})
		must(t, r.Abort(t.Context(), chat, "a", user, ""))
		h := r.awaited("a")
		if there := alive(pids); len(there) > 0 {
			t.Errorf("of %v there are %v, and the handle is %+v", pids, there, h)
		}
	})
}
