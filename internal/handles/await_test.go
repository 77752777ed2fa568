package handles

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/misfit"
)

func TestParseAwait(t *testing.T) {
	for args, want := range map[string]Await{
		`{"any":["a","b"]}`:                 {Any: []string{"a", "b"}},
		`{"all":["a"],"any":[]}`:            {All: []string{"a"}},
		`{"all":["a"],"any":null}`:          {All: []string{"a"}},
		`{"all":["a"],"any":["b"]}`:         {All: []string{"a"}, Any: []string{"b"}},
		`{"all":["a"],"timeout_secs":null}`: {All: []string{"a"}},
		`{"all":["a"],"timeout_secs":0}`:    {All: []string{"a"}, Bounded: true},
		`{"all":["a"],"timeout_secs":1.5}`: {
			All: []string{"a"}, Bounded: true, Timeout: 1500 * time.Millisecond},
		`{"all":["a"],"timeout_secs":31622400.0}`: {
			All: []string{"a"}, Bounded: true, Timeout: MaxWait},
	} {
		got, err := ParseAwait(raw(args))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", args, err, diff)
		}
	}
	a, err := ParseAwait(raw(`{"any":["b"],"all":` + many(MaxAwaited-1) + `}`))
	if err != nil || len(a.IDs()) != MaxAwaited || a.IDs()[MaxAwaited-1] != "b" {
		t.Errorf("%d, %v", len(a.IDs()), err)
	}
}

// many returns a list of ids.
func many(n int) string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf(`"h%d"`, i)
	}
	return "[" + strings.Join(ids, ",") + "]"
}

func TestParseAwaitRefuses(t *testing.T) {
	for args, want := range map[string]string{
		``: `At least one handle ID required: give ids ` +
			`in any, or in all`,
		`{"any":[],"all":[],"timeout_secs":1}`: `At least one handle ID required`,
		`{"any":null}`:                         `At least one handle ID required`,
		`["a"]`:                                `the arguments must be an object`,
		`{"any":["a"],"any":["b"]}`:            `it is no valid JSON`,
		`{"any":"a"}`:                          `/any: must be an array of handles' ids, got "a"`,
		`{"any":{}}`:                           `/any: must be an array`,
		`{"any":[7,null]}`: `/any/0: must be a string, the id of a ` +
			`handle, got 7; /any/1: must be a string`,
		`{"any":["a b"]}`: `/any/0: it has the character " "`,
		`{"any":[""]}`:    `/any/0: it is empty`,
		`{"any":["a","b","a"]}`: `/any/2: is there already, at /any/0: name ` +
			`each handle once, got "a"`,
		`{"any":["a"],"all":["a"]}`: `/all/0: is there already, at /any/0: name ` +
			`each handle once`,
		`{"all":["a"],"timeout_secs":-0.5}`:   `/timeout_secs: must not be negative, got -0.5`,
		`{"all":["a"],"timeout_secs":-1e999}`: `/timeout_secs: must not be negative`,
		`{"all":["a"],"timeout_secs":31622401}`: `/timeout_secs: must be at most 31622400, ` +
			`which is 366 days: leave it out to wait as long as it takes`,
		`{"all":["a"],"timeout_secs":1e999}`: `/timeout_secs: must be at most`,
		`{"all":["a"],"timeout_secs":"5"}`: `/timeout_secs: must be a number of seconds, ` +
			`got "5"`,
		`{"all":["a"],"timeout_secs":true}`: `/timeout_secs: must be a number of seconds`,
		`{"all":["a"],"timeout":5}`: `/timeout: there is no property "timeout"; ` +
			`the properties are any, all, timeout_secs`,
		`{"al":["a"]}`: `/al: there is no property "al"; did you ` +
			`mean "all"?`,
		`{"all":` + many(1001) + `}`: `there are 1001 handles, and an await takes ` +
			`1000 at most: await the others afterwards`,
		`{"all":` + many(1000) + `,"any":["a"]}`: `there are 1001 handles`,
	} {
		_, err := ParseAwait(raw(args))
		if _, ok := errors.AsType[*misfit.Error](err); !ok {
			t.Errorf("%.80s: %T %v", args, err, err)
			continue
		}
		told(t, err, want)
	}
}

// The tool's Spec is one that an agent takes.
func TestAwaitSpec(t *testing.T) {
	if _, err := tool.NewRegistry([]tool.Tool{specOnly{}}, nil); err != nil {
		t.Error(err)
	}
}

type specOnly struct{ tool.Tool }

func (specOnly) Spec() tool.Spec { return AwaitSpec() }

// Whatever a model writes, it is an await that fits the schema, or words.
func FuzzParseAwait(f *testing.F) {
	for _, s := range []string{
		`{"any":["a"],"all":["b"],"timeout_secs":1.5}`, `{"any":["a","a"]}`, `{"all":[null]}`,
		`{"timeout_secs":-1}`, `{"all":["\ud800"]}`, `{"all":["a"],"timeout_secs":1e400}`,
	} {
		f.Add([]byte(s))
	}
	s, err := schema.Compile(AwaitSpec().Input)
	must(f, err)
	f.Fuzz(func(t *testing.T, args []byte) {
		a, err := ParseAwait(args)
		if err != nil {
			_, ok := errors.AsType[*misfit.Error](err)
			if text := err.Error(); !ok || len(text) > 4000 || !utf8.ValidString(text) {
				t.Errorf("%T, %d bytes: %.200q", err, len(text), text)
			}
			return
		}
		seen := map[string]bool{}
		for _, id := range a.IDs() {
			if seen[id] || CheckID(id) != nil {
				t.Errorf("%q is no id, or twice there", id)
			}
			seen[id] = true
		}
		if len(seen) == 0 || len(seen) > MaxAwaited || a.Timeout < 0 || a.Timeout > MaxWait {
			t.Errorf("%+v", a)
		}
		if bad := s.Validate(args); bad != nil && !strings.Contains(string(args), "null") {
			t.Errorf("the schema refuses %s: %v", args, bad)
		}
	})
}
