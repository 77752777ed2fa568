package wide_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/wide"
	"github.com/fermata-ai/fermata/kvstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rig is a store of wait handles whose clock the test sets.
type rig struct {
	*wide.Store
	t        *testing.T
	kv       kvstore.Store
	sessions *session.Store
	now      time.Time
}

func newRig(t *testing.T, kv kvstore.Store, o *wide.Options) *rig {
	t.Helper()
	r := &rig{t: t, kv: kv, now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	r.sessions = session.NewStore(kv, &session.Options{Now: func() time.Time { return r.now }})
	r.Store = wide.New(r.sessions, o)
	return r
}

const scope = "store"

func id(name string) wide.ID { return wide.ID{Scope: scope, Name: name} }

// create makes a handle of a type.
func (r *rig) create(name, kind string, timeout time.Duration) *wide.Handle {
	r.t.Helper()
	h, _, err := r.Create(r.t.Context(), id(name), wide.NewHandle{Type: kind, Timeout: timeout})
	must(r.t, err)
	return h
}

func (r *rig) complete(name, result string) {
	r.t.Helper()
	_, _, err := r.Complete(r.t.Context(), id(name), wide.Outcome{Result: json.RawMessage(result)})
	must(r.t, err)
}

// awaited has a call of the session "s" wait for a handle.
func (r *rig) awaited(name string) {
	r.t.Helper()
	_, err := r.Register(r.t.Context(), id(name), "s", wide.WaitingCall{Call: "c", Pause: 1})
	must(r.t, err)
}

// owes ends a handle for which a call of a session waits.
func (r *rig) owes() {
	r.t.Helper()
	d, err := r.sessions.Acquire(r.t.Context(), "s", &session.New{User: "ada"})
	must(r.t, err)
	must(r.t, d.Update(r.t.Context()))
	d.Release()
	r.create("h", "custom", 0)
	r.awaited("h")
	r.complete("h", "2")
}

// attend does all that is due, and then removes what is to be removed.
func (r *rig) attend() {
	r.t.Helper()
	for {
		p, err := r.Due(r.t.Context(), nil)
		must(r.t, err)
		if len(p.Due) == 0 {
			break
		}
		for _, d := range p.Due {
			_, err := r.Attend(r.t.Context(), d)
			must(r.t, err)
		}
	}
	for _, d := range r.outlived() {
		must(r.t, r.Remove(r.t.Context(), d))
	}
}

// outlived lists what is to be removed.
func (r *rig) outlived() []wide.Due {
	r.t.Helper()
	p, err := r.Outlived(r.t.Context(), nil)
	must(r.t, err)
	return p.Due
}

// sound fails the test if Check finds anything.
func (r *rig) sound() {
	r.t.Helper()
	wrong, err := r.Check(r.t.Context())
	must(r.t, err)
	if len(wrong) > 0 {
		r.t.Errorf("Check:\n%s", strings.Join(wrong, "\n"))
	}
}

// names lists the handles that a filter selects, a page at a time.
func (r *rig) names(f wide.Filter) string {
	r.t.Helper()
	var all []string
	for {
		p, err := r.List(r.t.Context(), scope, f)
		must(r.t, err)
		for _, h := range p.Handles {
			all = append(all, h.Name)
		}
		if f.Cursor = p.Next; f.Cursor == "" {
			return strings.Join(all, " ")
		}
	}
}

func (r *rig) counts() string {
	r.t.Helper()
	counts, err := r.Counts(r.t.Context(), scope)
	must(r.t, err)
	var all []string
	for _, c := range counts {
		all = append(all, fmt.Sprintf("%s %s %d/%d %v", c.Type, c.Status, c.Now, c.Ever,
			time.Duration(c.WaitedMS)*time.Millisecond))
	}
	return strings.Join(all, ", ")
}

func is(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s\nwant %s", what, got, want)
	}
}
