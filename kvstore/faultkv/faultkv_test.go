package faultkv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestNoFault: without a fault, nothing shows that there is an Injector.
func TestNoFault(t *testing.T) {
	engines := map[kvstore.Store]*kvstore.Memory{}
	over := func(m *kvstore.Memory) kvstore.Store {
		f := faultkv.New(m)
		engines[f.Store] = m
		return f.Store
	}
	kvtest.Run(t, kvtest.Config{
		Open:   func(*testing.T) kvstore.Store { return over(kvstore.NewMemory()) },
		Reopen: func(_ *testing.T, s kvstore.Store) kvstore.Store { return over(engines[s].Reopen()) },
	})
}

func TestExclusivePassesThrough(t *testing.T) {
	m := kvstore.NewMemory()
	e, ok := faultkv.New(m).Store.(kvstore.Exclusive)
	if !ok || e.Incarnation() != m.Incarnation() || e.Local() != m.Local() {
		t.Error("an exclusive engine isn't one any more")
	}
	if _, ok := faultkv.New(kvtest.Shared(m)).Store.(kvstore.Exclusive); ok {
		t.Error("an engine that isn't exclusive has become so")
	}
}

func put(key, value string) kvstore.Batch {
	return kvstore.Batch{Puts: []kvstore.Put{{Key: []byte(key), Value: []byte(value)}}}
}

// write puts key 1, key 2 and so on, and returns how each went and which are
// there.
func write(t *testing.T, f *faultkv.Injector, m kvstore.Store, n int) (answers []error, there []string) {
	t.Helper()
	for i := range n {
		_, err := f.Store.Apply(t.Context(), put(fmt.Sprint(i+1), "v"))
		answers = append(answers, err)
	}
	p, err := m.Scan(t.Context(), kvstore.Range{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Entries {
		there = append(there, string(e.Key))
	}
	return answers, there
}

func TestFaults(t *testing.T) {
	dead := []error{faultkv.ErrDead, faultkv.ErrDead}
	for _, test := range []struct {
		fault   faultkv.Fault
		name    string
		answers []error
		there   []string
	}{
		{faultkv.Fault{}, "nothing", []error{nil, nil, nil, nil}, []string{"1", "2", "3", "4"}},
		{faultkv.FailAt(2), "fail at 2", []error{nil, faultkv.ErrFault, nil, nil}, []string{"1", "3", "4"}},
		{faultkv.LoseAt(2), "lose at 2", []error{nil, kvstore.ErrUncertain, nil, nil}, []string{"1", "2", "3", "4"}},
		{faultkv.DeferAt(2), "defer at 2", []error{nil, kvstore.ErrUncertain, nil, nil}, []string{"1", "3", "4"}},
		{faultkv.ConflictAt(2), "conflict at 2", []error{nil, kvstore.ErrConflict, nil, nil}, []string{"1", "3", "4"}},
		{faultkv.FullFrom(3), "full from 3", []error{nil, nil, faultkv.ErrFull, faultkv.ErrFull}, []string{"1", "2"}},
		{faultkv.FailAt(2).AndDie(), "fail at 2 and die", append([]error{nil, faultkv.ErrFault}, dead...), []string{"1"}},
		{faultkv.LoseAt(2).AndDie(), "lose at 2 and die", append([]error{nil, kvstore.ErrUncertain}, dead...), []string{"1", "2"}},
		{faultkv.FailAt(5), "fail at 5", []error{nil, nil, nil, nil}, []string{"1", "2", "3", "4"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.fault.String(); got != test.name {
				t.Errorf("it is called %q", got)
			}
			m := kvstore.NewMemory()
			f := faultkv.New(m, test.fault)
			answers, there := write(t, f, m, 4)
			struck, commits := 0, 0
			for i, want := range test.answers {
				if !errors.Is(answers[i], want) || want == nil && answers[i] != nil {
					t.Errorf("Apply %d: %v, want %v", i+1, answers[i], want)
				}
				if want == nil {
					commits++
				} else if want != faultkv.ErrDead {
					struck++
				}
			}
			if !slices.Equal(there, test.there) {
				t.Errorf("there is %q, want %q", there, test.there)
			}
			if f.Struck() != struck || f.Applies() != 4 || f.Commits() != commits {
				t.Errorf("%d struck, %d Applies, %d commits; want %d, 4, %d", f.Struck(), f.Applies(), f.Commits(), struck, commits)
			}
		})
	}
}

// TestDeferred: what is deferred comes between two reads, with what its caller
// had in it then, unless another batch was faster.
func TestDeferred(t *testing.T) {
	for _, faster := range []bool{false, true} {
		f := faultkv.New(kvstore.NewMemory(), faultkv.DeferAt(2))
		first := put("a", "1")
		r, err := f.Store.Apply(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		second := put("a", "2")
		second.Preconditions = []kvstore.Precondition{{Key: []byte("a"), Revision: r}}
		if _, err := f.Store.Apply(t.Context(), second); !errors.Is(err, kvstore.ErrUncertain) {
			t.Fatal(err)
		}
		second.Puts[0].Value[0] = 'x'
		want := []string{"1", "2"}
		if faster {
			if _, err := f.Store.Apply(t.Context(), put("a", "3")); err != nil {
				t.Fatal(err)
			}
			want = []string{"3", "3"}
		}
		for _, want := range want {
			if e, err := f.Store.Get(t.Context(), []byte("a")); string(e.Value) != want || err != nil {
				t.Errorf("read is %q, %v, want %q; another was faster: %v", e.Value, err, want, faster)
			}
		}
	}
}

func TestDead(t *testing.T) {
	m := kvstore.NewMemory()
	f := faultkv.New(m)
	ctx := t.Context()
	if _, err := f.Store.Apply(ctx, put("a", "1")); err != nil {
		t.Fatal(err)
	}
	f.Kill()
	f.Heal() // is no cure
	if _, err := f.Store.Get(ctx, []byte("a")); !errors.Is(err, faultkv.ErrDead) {
		t.Errorf("Get: %v", err)
	}
	if _, err := f.Store.Scan(ctx, kvstore.Range{}); !errors.Is(err, faultkv.ErrDead) {
		t.Errorf("Scan: %v", err)
	}
	if _, err := f.Store.Apply(ctx, put("a", "2")); !errors.Is(err, faultkv.ErrDead) || errors.Is(err, kvstore.ErrUncertain) {
		t.Errorf("Apply: %v", err)
	}
	if !f.Dead() || f.Store.Close() != nil {
		t.Error("the dead store's engine can't be closed")
	}
	if _, err := m.Get(ctx, []byte("a")); !errors.Is(err, kvstore.ErrClosed) {
		t.Errorf("the engine isn't closed: %v", err)
	}
	if e, err := m.Reopen().Get(ctx, []byte("a")); err != nil || string(e.Value) != "1" {
		t.Errorf("after a restart: %q, %v", e.Value, err)
	}
}

// TestDiesUnderOthers: a write that the engine is busy with when the store dies
// may have been carried out.
func TestDiesUnderOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: kvstore.NewMemory(), goOn: make(chan struct{})}
		f := faultkv.New(s)
		var err error
		go func() { _, err = f.Store.Apply(t.Context(), put("a", "1")) }()
		synctest.Wait()
		f.Kill()
		close(s.goOn)
		synctest.Wait()
		if !errors.Is(err, kvstore.ErrUncertain) || !errors.Is(err, faultkv.ErrDead) {
			t.Errorf("Apply: %v", err)
		}
	})
}

// TestDiesWhenItIsDone: a lost write is carried out first, and then the store
// dies.
func TestDiesWhenItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: kvstore.NewMemory(), goOn: make(chan struct{})}
		f := faultkv.New(s, faultkv.LoseAt(1).AndDie())
		go f.Store.Apply(t.Context(), put("a", "1"))
		synctest.Wait()
		if f.Dead() {
			t.Error("dead while the engine is busy")
		}
		close(s.goOn)
		synctest.Wait()
		if _, err := s.Get(t.Context(), []byte("a")); err != nil || !f.Dead() {
			t.Errorf("written: %v, dead: %v", err, f.Dead())
		}
	})
}

// slow is an engine whose Applies wait.
type slow struct {
	kvstore.Store
	goOn chan struct{}
}

func (s *slow) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	<-s.goOn
	return s.Store.Apply(ctx, b)
}

func TestAddAndHeal(t *testing.T) {
	m := kvstore.NewMemory()
	f := faultkv.New(m, faultkv.FullFrom(1))
	if _, err := f.Store.Apply(t.Context(), kvstore.Batch{Preconditions: []kvstore.Precondition{{Key: []byte("a")}}}); err != nil {
		t.Errorf("a batch that writes nothing, on a full disk: %v", err)
	}
	if _, err := f.Store.Apply(t.Context(), put("a", "1")); !errors.Is(err, faultkv.ErrFull) {
		t.Errorf("full: %v", err)
	}
	f.Heal()
	if _, err := f.Store.Apply(t.Context(), put("a", "1")); err != nil {
		t.Errorf("healed: %v", err)
	}
	f.Add(faultkv.FailAt(f.Applies() + 2))
	answers, _ := write(t, f, m, 3)
	if answers[0] != nil || !errors.Is(answers[1], faultkv.ErrFault) || answers[2] != nil {
		t.Errorf("the one after the next was to fail: %v", answers)
	}
}

// TestMistakesAreNoFaults: what no engine would take is refused as ever, and no
// fault is spent on it; it counts all the same.
func TestMistakesAreNoFaults(t *testing.T) {
	f := faultkv.New(kvstore.NewMemory(), faultkv.LoseAt(1))
	if _, err := f.Store.Apply(t.Context(), put("", "1")); !errors.Is(err, kvstore.ErrInvalid) || errors.Is(err, kvstore.ErrUncertain) {
		t.Errorf("Apply: %v", err)
	}
	if f.Struck() != 0 || f.Applies() != 1 {
		t.Errorf("%d struck, %d Applies", f.Struck(), f.Applies())
	}
}

func TestHooks(t *testing.T) {
	m := kvstore.NewMemory()
	f := faultkv.New(m, faultkv.FailAt(3))
	var log []string
	f.Before(func(c faultkv.Call) {
		log = append(log, fmt.Sprint("before ", c.Number))
		if c.Number == 1 { // a hook may use the store
			if _, err := f.Store.Apply(t.Context(), put("inner", "1")); err != nil {
				t.Error(err)
			}
		}
	})
	f.After(func(c faultkv.Call) {
		log = append(log, fmt.Sprintf("after %d: %d bytes, %v", c.Number, c.Bytes, c.Err == nil))
	})
	write(t, f, m, 2)
	want := []string{"before 1", "before 2", "after 2: 6 bytes, true", "after 1: 2 bytes, true", "before 3", "after 3: 2 bytes, false"}
	if !slices.Equal(log, want) {
		t.Errorf("got %q, want %q", log, want)
	}
	var calls []string
	for _, c := range f.Calls() {
		calls = append(calls, fmt.Sprint(c.Number, c.Operations, c.Bytes, c.Writes, c.Done, c.Err == nil))
	}
	if got, want := strings.Join(calls, "; "), "1 1 2 true true true; 2 1 6 true true true; 3 1 2 true true false"; got != want {
		t.Errorf("Calls: %s, want %s", got, want)
	}
}

func TestCuts(t *testing.T) {
	got := fmt.Sprint(faultkv.Cuts(2))
	if want := "[fail at 1 and die lose at 1 and die fail at 2 and die lose at 2 and die]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestChaosIsRepeatable: one seed, one story; another seed, another one.
func TestChaosIsRepeatable(t *testing.T) {
	story := func(seed uint64) string {
		m := kvstore.NewMemory()
		f := faultkv.New(m)
		f.SetChaos(faultkv.Chaos{Seed: seed, Fail: .2, Lose: .2, Conflict: .2})
		answers, there := write(t, f, m, 100)
		kinds := map[error]int{}
		for _, err := range answers {
			for _, kind := range []error{faultkv.ErrFault, kvstore.ErrUncertain, kvstore.ErrConflict} {
				if errors.Is(err, kind) {
					kinds[kind]++
				}
			}
		}
		for kind, n := range kinds {
			if n < 5 || n > 40 {
				t.Errorf("%d of 100 are %v, want about 20", n, kind)
			}
		}
		if len(kinds) != 3 || f.Struck() != kinds[faultkv.ErrFault]+kinds[kvstore.ErrUncertain]+kinds[kvstore.ErrConflict] {
			t.Errorf("%d kinds of faults; %d struck", len(kinds), f.Struck())
		}
		return fmt.Sprint(answers, there)
	}
	first := story(1)
	if again := story(1); again != first {
		t.Error("one seed has two stories")
	}
	if story(2) == first {
		t.Error("two seeds have one story")
	}
}

// TestOvertaken: an Apply that is held back goes on when a later one is
// through; alone, when its time is up.
func TestOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := kvstore.NewMemory()
		f := faultkv.New(m)
		f.SetChaos(faultkv.Chaos{Overtaken: 1, Delay: time.Hour})
		start := time.Now()
		var all sync.WaitGroup
		all.Go(func() { f.Store.Apply(t.Context(), put("a", "first")) })
		synctest.Wait()
		f.SetChaos(faultkv.Chaos{})
		if _, err := f.Store.Apply(t.Context(), put("a", "second")); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		if e, err := m.Get(t.Context(), []byte("a")); err != nil || string(e.Value) != "first" {
			t.Errorf("%q came last, %v", e.Value, err)
		}
		if time.Since(start) != 0 {
			t.Errorf("it took %v", time.Since(start))
		}
		f.SetChaos(faultkv.Chaos{Overtaken: 1, Delay: time.Hour})
		if _, err := f.Store.Apply(t.Context(), put("a", "alone")); err != nil || time.Since(start) != time.Hour {
			t.Errorf("alone: %v, after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := f.Store.Apply(ctx, put("a", "never")); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kvstore.ErrUncertain) {
			t.Errorf("impatient: %v", err)
		}
	})
}

// TestDelay: at most so long.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := kvstore.NewMemory()
		f := faultkv.New(m)
		f.SetChaos(faultkv.Chaos{Delay: time.Second})
		start := time.Now()
		write(t, f, m, 100)
		if took := time.Since(start); took < 30*time.Second || took > 70*time.Second {
			t.Errorf("100 delays of a second at most took %v", took)
		}
	})
}
