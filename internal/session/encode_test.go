package session

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// fill gives every exported field below v a value, or, by chance, none.
func fill(v reflect.Value, r *rand.Rand, depth int) {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.UnixMilli(r.Int64N(1 << 41)).UTC()))
		return
	case reflect.TypeFor[json.RawMessage]():
		v.Set(reflect.ValueOf(json.RawMessage(`{"a":[1,"<&>é"]}`)))
		return
	}
	if r.IntN(3) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), r, depth+1)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), r, depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(2), 2))
		for i := range v.Len() {
			fill(v.Index(i), r, depth+1)
		}
	case reflect.String:
		v.SetString([]string{"plain", `quo"ted\`, "<&>", "é\u2028", "tab\t"}[r.IntN(5)])
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64N(1 << 40))
	case reflect.Uint64:
		v.SetUint(r.Uint64N(1 << 40))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(0.25)
	}
}

// What is encoded by hand has the form that the struct tags say.
func TestHandEncodingFollowsTheTags(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var st State
		var rec Record
		fill(reflect.ValueOf(&st).Elem(), r, 0)
		fill(reflect.ValueOf(&rec).Elem(), r, 0)
		byHand, err := st.appendJSON(nil)
		same(t, byHand, err, st.plain())
		byHand, err = rec.appendJSON(nil)
		same(t, byHand, err, rec)
	})
}

func TestTimesAreWrittenAsAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(rapid.Int64Range(-1<<47, 1<<48).Draw(t, "milliseconds")).UTC()
		if rapid.Bool().Draw(t, "whole") {
			at = at.Truncate(100 * time.Millisecond)
		}
		if rapid.Bool().Draw(t, "finer") {
			at = at.Add(time.Duration(rapid.IntRange(0, 999_999).Draw(t, "nanoseconds")))
		}
		if rapid.Bool().Draw(t, "elsewhere") {
			at = at.In(time.FixedZone("", rapid.IntRange(-50_000, 50_000).Draw(t, "seconds")))
		}
		if got, want := string(appendTime(nil, at)), at.Format(time.RFC3339Nano); got != want {
			t.Fatalf("%s, not %s", got, want)
		}
	})
}

// A head that is read is what was written, to the byte: decodeState goes the long way over any other.
func TestHeadsAreReadExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		var st, again State
		fill(reflect.ValueOf(&st).Elem(), r, 0)
		written, err := st.appendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatalf("%v: %s", err, written)
		}
		if got, err := again.appendJSON(nil); err != nil || string(got) != string(written) {
			t.Fatalf("it was written as %s, and would be as %s, %v", written, got, err)
		}
		if q := quickState(written); q != nil && q.exactly(written) && !reflect.DeepEqual(*q, again) {
			t.Fatalf("read quickly, %s is\n%+v, and by the tags\n%+v", written, *q, again)
		}
	})
}

// The quick way is the usual one: it gives up only on strings with escapes, and on what a later version wrote.
func TestHeadsAreReadQuickly(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	blob := &Blob{Inline: json.RawMessage(`{"a":"\"}]"}`)}
	st := State{
		Version: 1, ID: "s", User: "ada", Agent: "ops", Created: at, Messages: 2, Turn: 1, Asked: at, TokenKey: 1, Epoch: 3, Held: true,
		Run: Run{Turns: 1, Calls: 2, Usage: llm.Usage{Input: 5, Output: 7}, Detached: true}, Retry: &Retry{Failures: 1, At: at, Why: "x"},
		Halt: &Halt{Finish: "failed", Why: `"`, At: at}, Takeovers: 1, Wake: at, Commits: commits("abcdefgh"), Incarnation: 7,
		Calls: []Call{
			{ID: "c", Tool: "pay", Status: Pending, Effect: tool.Once, MayPause: true, Attempt: 1, Pauses: 1,
				Pause: &Pause{Reason: tool.ReasonExternal, Mode: tool.ModeOutput, Prompt: blob, Since: at}},
			{ID: "d", Tool: "job", Status: Answered, Pauses: 2, Answer: &Answer{Pause: 2, Kind: KindComplete, Payload: blob, At: at},
				Decisions: []Decision{{Decision: tool.Decision{Approved: true, By: "bob", At: at}, Pause: 1}}, Actions: []*Blob{blob}, Media: true},
		},
	}
	written, err := st.appendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	q := quickState(written)
	if q == nil || !q.exactly(written) {
		t.Fatalf("it gives up on %s", written)
	}
	if d := cmp.Diff(st, *q, cmp.AllowUnexported(State{}, Run{}, Call{}, Blob{}, Pause{}, Answer{}, Decision{}, Retry{}, Halt{}, later{})); d != "" {
		t.Error(d)
	}
}

// plain is the head without its own decoder, for reflection.
func (s State) plain() any {
	type call Call
	type state State
	calls := make([]call, len(s.Calls))
	for i, c := range s.Calls {
		calls[i] = call(c)
	}
	return struct {
		state
		Calls []call `json:"calls,omitempty"`
	}{state(s), calls}
}

func same(t *rapid.T, byHand []byte, err error, v any) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	byTags, err := encode(v)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := json.Unmarshal(byHand, &a); err != nil {
		t.Fatalf("%v: %s", err, byHand)
	}
	if err := json.Unmarshal(byTags, &b); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(b, a); d != "" {
		t.Fatalf("by the tags (-), by hand (+):\n%s", d)
	}
}
