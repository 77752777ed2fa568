package kvtest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
)

// linearizable has many read, write, compare-and-set and delete few keys, and
// asks porcupine whether some order of these operations, each at a moment
// between its call and its return, explains all answers.
func linearizable(t *testing.T, c Config) {
	s := open(t, c)
	h := newHistory(t, s.kv)
	h.run(8, 60)
	h.check(false)
}

// linearizableUnderFaults is the same when writes fail, are held back, and lose
// their answers.
func linearizableUnderFaults(t *testing.T, c Config) {
	s := open(t, c)
	f := faultkv.New(s.kv)
	f.SetChaos(faultkv.Chaos{Seed: 1, Fail: .1, Lose: .1, Conflict: .1, Overtaken: .3,
		Delay: time.Millisecond})
	h := newHistory(t, f.Store)
	h.run(6, 40)
	h.check(true)
	if f.Struck() == 0 {
		t.Error("no fault struck")
	}
}

// lostAcknowledgement makes sure that a writer who wasn't told can find out,
// and that a second try does no harm.
func lostAcknowledgement(t *testing.T, c Config) {
	s := open(t, c)
	r := s.put("head", "1")
	f := faultkv.New(s.kv, faultkv.LoseAt(1))
	b := kvstore.Batch{
		Preconditions: []kvstore.Precondition{at("head", r)},
		Puts:          []kvstore.Put{put("head", "2"), put("message", "x")},
	}
	if _, err := f.Store.Apply(t.Context(), b); !errors.Is(err, kvstore.ErrUncertain) {
		t.Fatalf("Apply: %v, want ErrUncertain", err)
	}
	if _, err := f.Store.Apply(t.Context(), b); !errors.Is(err, kvstore.ErrConflict) {
		t.Fatalf("Apply again: %v, want ErrConflict", err)
	}
	e, err := s.kv.Get(t.Context(), []byte("head"))
	if err != nil || e.Revision <= r {
		t.Fatalf("Get: revision %d after %d, %v", e.Revision, r, err)
	}
	s.has("head", "2", e.Revision)
	s.has("message", "x", e.Revision)
}

// history records what many clients do to a store. A key's state is the number
// that it holds; zero is absent.
type history struct {
	t     *testing.T
	kv    kvstore.Store
	start time.Time

	mu         sync.Mutex
	operations []porcupine.Operation
	values     map[kvstore.Revision]int // what a revision has been seen to stand for
	next       int
}

const anything = -1 // no precondition

type input struct {
	key    string
	write  bool
	expect int // a write's precondition
	value  int // that a write leaves
}

type output struct {
	value    int // that a read found
	conflict bool
	unknown  bool // ErrUncertain: perhaps now, perhaps later, perhaps never
}

func newHistory(t *testing.T, kv kvstore.Store) *history {
	return &history{t: t, kv: kv, start: time.Now(), values: map[kvstore.Revision]int{0: 0}}
}

// run has each client do so many operations.
func (h *history) run(clients, operations int) {
	var all sync.WaitGroup
	for id := range clients {
		all.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(id)))
			known := map[string]kvstore.Revision{} // what this client believes to be there
			for range operations {
				key := string(rune('a' + r.IntN(3)))
				if r.IntN(2) == 0 {
					h.get(id, key, known)
				} else {
					h.set(id, key, known, r.IntN(4) == 0, r.IntN(5) == 0)
				}
			}
		})
	}
	all.Wait()
}

func (h *history) get(client int, key string, known map[string]kvstore.Revision) {
	called := time.Since(h.start)
	e, err := h.kv.Get(h.t.Context(), []byte(key))
	if err != nil && !errors.Is(err, kvstore.ErrNotFound) {
		h.t.Errorf("Get: %v", err)
		return
	}
	value, _ := strconv.Atoi(string(e.Value))
	known[key] = e.Revision
	h.stands(e.Revision, value)
	h.record(client, called, input{key: key}, output{value: value})
}

func (h *history) set(client int, key string, known map[string]kvstore.Revision, blind,
	remove bool) {
	in := h.intend(key, known[key], blind, remove)
	var b kvstore.Batch
	if !blind {
		b.Preconditions = []kvstore.Precondition{at(key, known[key])}
	}
	if remove {
		b.Deletes = [][]byte{[]byte(key)}
	} else {
		b.Puts = []kvstore.Put{put(key, strconv.Itoa(in.value))}
	}
	called := time.Since(h.start)
	revision, err := h.kv.Apply(h.t.Context(), b)
	switch {
	case err == nil:
		known[key] = revision
		h.stands(revision, in.value)
		h.record(client, called, in, output{})
	case errors.Is(err, kvstore.ErrUncertain):
		h.record(client, called, in, output{unknown: true})
	case errors.Is(err, kvstore.ErrConflict):
		h.record(client, called, in, output{conflict: true})
	case !errors.Is(err, faultkv.ErrFault):
		h.t.Errorf("Apply: %v", err)
	}
}

func (h *history) intend(key string, known kvstore.Revision, blind, remove bool) input {
	h.mu.Lock()
	defer h.mu.Unlock()
	in := input{key: key, write: true, expect: h.values[known]}
	if blind {
		in.expect = anything
	}
	if !remove {
		h.next++
		in.value = h.next
	}
	return in
}

// stands makes sure that a revision never means two things.
func (h *history) stands(r kvstore.Revision, value int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if was, seen := h.values[r]; seen && was != value {
		h.t.Errorf("revision %d has the values %d and %d", r, was, value)
	}
	h.values[r] = value
}

func (h *history) record(client int, called time.Duration, in input, out output) {
	returned := int64(time.Since(h.start))
	if out.unknown {
		returned = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{
		ClientId: client, Input: in, Output: out, Call: int64(called), Return: returned,
	})
}

func (h *history) check(spurious bool) {
	h.t.Helper()
	model := porcupine.NondeterministicModel{
		Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[string][]porcupine.Operation{}
			for _, o := range all {
				byKey[o.Input.(input).key] = append(byKey[o.Input.(input).key], o)
			}
			var parts [][]porcupine.Operation
			for _, part := range byKey {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() []any { return []any{0} },
		Step: func(state, in, out any) []any {
			return step(state.(int), in.(input), out.(output),
				spurious)
		},
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%+v: %+v", in, out)
		},
	}
	switch porcupine.CheckOperationsTimeout(model.ToModel(), h.operations, 20*time.Second) {
	case porcupine.Illegal:
		h.t.Error("the history is not linearizable")
	case porcupine.Unknown:
		h.t.Error("the history takes too long to check")
	}
}

// step returns what a key may hold after an operation. A spurious conflict is
// one that the store needn't explain.
func step(state int, in input, out output, spurious bool) []any {
	holds := in.expect == anything || in.expect == state
	switch {
	case !in.write && out.value == state:
		return []any{state}
	case in.write && out.unknown && holds:
		return []any{state, in.value}
	case in.write && out.unknown:
		return []any{state}
	case in.write && out.conflict && (spurious || !holds):
		return []any{state}
	case in.write && !out.conflict && holds:
		return []any{in.value}
	}
	return nil
}
