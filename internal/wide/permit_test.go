package wide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/wide"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
)

func claim(call string, priority int) wide.Claim {
	return wide.Claim{Session: "s", Call: call, Pause: 1, Priority: priority}
}

// holders returns the calls that have a permit.
func (r *rig) holders(name string) string {
	r.t.Helper()
	prefix := kvstore.Key("W", "h", scope, name)
	page, err := r.kv.Scan(r.t.Context(), kvstore.Range{Prefix: prefix})
	must(r.t, err)
	var all []string
	for _, e := range page.Entries {
		if strings.Contains(string(e.Value), `"given":true`) {
			parts, err := kvstore.Parts(e.Key)
			must(r.t, err)
			all = append(all, strings.TrimSuffix(strings.TrimPrefix(parts[4], "s "), ".1"))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Permits are given by priority, and among equals in order; each is given back
// once.
func TestPermitsGoByPriority(t *testing.T) {
	r := newRig(t, kvstore.NewMemory(), nil)
	ctx := t.Context()
	for n, c := range []wide.Claim{claim("a", 0), claim("b", 0), claim("low", -5), claim("c", 0),
		claim("d", 0), claim("high", 7), claim("a", 0)} {
		held, err := r.Acquire(ctx, id("gpu"), c, 2)
		must(t, err)
		if held != (n < 2 || c.Call == "a") {
			t.Errorf("%s: held: %v", c.Call, held)
		}
	}
	is(t, "at first", r.holders("gpu"), "a b")
	must(t, r.Release(ctx, id("gpu"), claim("d", 0))) // it waits no more
	for _, step := range []struct{ back, holders string }{
		{"a", "b high"}, {"a", "b high"}, {"high", "b c"}, {"b", "c low"}, {"c", "low"}, {"low", ""},
	} {
		must(t, r.Release(ctx, id("gpu"), claim(step.back, 0)))
		is(t, "after "+step.back, r.holders("gpu"), step.holders)
		r.sound()
	}
	held, err := r.Acquire(ctx, id("gpu"), claim("e", 0), 2)
	if must(t, err); !held {
		t.Error("a permit that was given back isn't given again")
	}
}

// A claim that is damaged keeps no other one waiting, and goes with its handle.
func TestADamagedClaimLosesItsPlace(t *testing.T) {
	r := newRig(t, kvstore.NewMemory(), nil)
	ctx := t.Context()
	for _, call := range []string{"a", "b", "c"} {
		_, err := r.Acquire(ctx, id("gpu"), claim(call, 0), 1)
		must(t, err)
	}
	page, err := r.kv.Scan(ctx, kvstore.Range{Prefix: kvstore.Key("W", "h", scope, "gpu")})
	must(t, err)
	for _, e := range page.Entries {
		if strings.Contains(string(e.Value), `"call":"b"`) {
			_, err := r.kv.Apply(ctx, kvstore.Batch{Puts: []kvstore.Put{{Key: e.Key, Value: []byte("{")}}})
			must(t, err)
		}
	}
	must(t, r.Release(ctx, id("gpu"), claim("a", 0)))
	is(t, "held", r.holders("gpu"), "c")
	must(t, r.Release(ctx, id("gpu"), claim("c", 0)))
	if held, err := r.Acquire(ctx, id("gpu"), claim("d", 0), 1); err != nil || !held {
		t.Errorf("a permit that is free: %v, %v", held, err)
	}
	r.complete("gpu", `1`)
	r.attend()
	r.now = r.now.Add(40 * 24 * time.Hour)
	r.attend()
	if page, err = r.kv.Scan(ctx, kvstore.Range{Prefix: kvstore.Key("W", "h")}); len(page.Entries) > 0 {
		t.Errorf("claims are left: %v, %v", page.Entries, err)
	}
}

// A permit whose call is gone is given back as soon as the call is told of it.
func TestAPermitOfNoCallIsGivenBack(t *testing.T) {
	r := newRig(t, kvstore.NewMemory(), nil)
	for _, call := range []string{"a", "b", "c"} {
		_, err := r.Acquire(t.Context(), id("gpu"), claim(call, 0), 1)
		must(t, err)
	}
	r.attend()
	is(t, "held", r.holders("gpu"), "")
	r.sound()
}

// Killed before and after each write, and with each acknowledgement lost, a
// repeat of what was begun leads to the same records.
func TestWideHandlesSurviveKills(t *testing.T) {
	story := func(r *rig) (err error) {
		ctx := t.Context()
		step := func(f func() error) {
			if err == nil {
				err = f()
			}
		}
		for n := range 3 {
			name := fmt.Sprint("h", n)
			step(func() error {
				_, _, err := r.Create(ctx, id(name), wide.NewHandle{Type: "custom",
					Maker: wide.Maker{Call: "call_" + name}})
				return err
			})
			step(func() error {
				_, _, err := r.Complete(ctx, id(name), wide.Outcome{Error: "no"})
				return err
			})
		}
		for _, call := range []string{"a", "b", "c"} {
			step(func() error {
				_, err := r.Acquire(ctx, id("gpu"), claim(call, 0), 1)
				return err
			})
		}
		for _, call := range []string{"a", "b"} {
			step(func() error { return r.Release(ctx, id("gpu"), claim(call, 0)) })
		}
		return err
	}
	ends := func(name string, r *rig) {
		r.sound()
		is(t, name, r.counts(), "custom failed 3/3 0s, custom pending 1/4 0s")
		is(t, name, r.holders("gpu"), "c")
	}
	faults := faultkv.New(kvstore.NewMemory())
	whole := newRig(t, faults.Store, nil)
	must(t, story(whole))
	ends("without a fault", whole)
	for _, cut := range faultkv.Cuts(faults.Applies()) {
		memory := kvstore.NewMemory()
		_ = story(newRig(t, faultkv.New(memory, cut).Store, nil))
		again := newRig(t, memory.Reopen(), nil)
		must(t, story(again))
		ends(cut.String(), again)
	}
	for n := range faults.Applies() {
		for _, fault := range []faultkv.Fault{faultkv.LoseAt(n + 1), faultkv.ConflictAt(n + 1)} {
			r := newRig(t, faultkv.New(kvstore.NewMemory(), fault).Store, nil)
			must(t, story(r))
			ends(fault.String(), r)
		}
	}
}
