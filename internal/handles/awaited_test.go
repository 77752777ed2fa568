package handles

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/tool"
)

func TestGroup(t *testing.T) {
	q := &Question{ID: "q", Text: "Sure?", For: User}
	a := Group([]Reply{
		{ID: "r1", State: tool.HandleRunning}, {ID: "s1", State: tool.HandleStopped, Result: raw(`1`)},
		{ID: "w1", State: tool.HandleWaiting, Question: q}, {ID: "r2", State: tool.HandleRunning},
		{ID: "s2", State: tool.HandleStopped, Error: &Failure{Message: "no", Trace: []string{}}},
	})
	a.TimedOut = true
	b, err := json.Marshal(a)
	must(t, err)
	golden(t, "awaited.json", b)
	var back Awaited
	must(t, json.Unmarshal(b, &back))
	if diff := cmp.Diff(a, back); diff != "" {
		t.Error(diff)
	}
	b, err = json.Marshal(Awaited{Interrupted: true})
	if string(b) != `{"completed":[],"pending":[],"interrupted":true}` {
		t.Errorf("%s, %v", b, err)
	}
	for _, s := range []string{`{}`, `{"completed":[]}`, `{"completed":[{}],"pending":[]}`, `[]`} {
		if err := new(Awaited).UnmarshalJSON([]byte(s)); err == nil {
			t.Errorf("%s is read", s)
		}
	}
	if _, err := (Awaited{Pending: []Reply{{}}}).Within(10); err == nil {
		t.Error("a reply without an id is within its bound")
	}
}

// A result that is long is cut to what the others leave of the bound. They stay
// whole.
func TestWithin(t *testing.T) {
	long := strings.Repeat("a", 5000) + strings.Repeat("z", 5000)
	a := Group([]Reply{
		{ID: "short", State: tool.HandleStopped, Result: raw(`{"ok":true}`)},
		{ID: "long", State: tool.HandleStopped, Result: raw(`"` + long + `"`)},
	})
	cut, err := a.Within(1000)
	must(t, err)
	b, err := json.Marshal(cut)
	if err != nil || len(b) > 1000 || len(b) < 990 {
		t.Errorf("%d bytes, %v: %s", len(b), err, b)
	}
	if string(cut.Completed[0].Result) != `{"ok":true}` {
		t.Errorf("the short one has become %s", cut.Completed[0].Result)
	}
	got := string(cut.Completed[1].Result)
	if !strings.HasPrefix(got, `"aaa`) || !strings.HasSuffix(got, `zzz"`) ||
		!strings.Contains(got, "bytes left out here; fetch has it whole]") {
		t.Errorf("the long one has become %s", got)
	}
	if len(a.Completed[1].Result) != 10002 {
		t.Error("what is cut is the caller's")
	}
}

// However many there are, and whatever they hold, the reply has the length that
// it may have, and each handle stands in it as it stands.
func TestWithinAnyBound(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		var replies []Reply
		for i := range rapid.IntRange(0, 12).Draw(t, "handles") {
			replies = append(replies, anyReply(t, i))
		}
		a := Group(replies)
		before := fmt.Sprintf("%+v", values(a))
		least, err := bare(a).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		most := len(least) + 60*len(replies) + rapid.IntRange(0, 3000).Draw(t, "most")
		cut, err := a.Within(most)
		if err != nil {
			t.Fatal(err)
		}
		b, err := cut.MarshalJSON()
		if err != nil || len(b) > most {
			t.Fatalf("%d bytes of %d, %v: %s", len(b), most, err, b)
		}
		if fmt.Sprintf("%+v", values(a)) != before {
			t.Fatal("what is cut is the caller's")
		}
		if len(cut.Completed) != len(a.Completed) || len(cut.Pending) != len(a.Pending) {
			t.Fatalf("%d and %d handles", len(cut.Completed), len(cut.Pending))
		}
		for i, r := range slices.Concat(cut.Completed, cut.Pending) {
			was := slices.Concat(a.Completed, a.Pending)[i]
			if r.ID != was.ID || r.State != was.State || (r.Error == nil) != (was.Error == nil) {
				t.Fatalf("%+v has become %+v", was, r)
			}
		}
	})
}

// values returns the replies without pointers.
func values(a Awaited) (all []any) {
	for _, r := range slices.Concat(a.Completed, a.Pending) {
		all = append(all, r.ID, r.State, r.Content, string(r.Result))
		if r.Question != nil {
			all = append(all, *r.Question)
		}
		if r.Error != nil {
			all = append(all, *r.Error)
		}
	}
	return all
}

// bare returns the reply without what may be cut.
func bare(a Awaited) Awaited {
	strip := func(all []Reply) (own []Reply) {
		for _, r := range cloned(all) {
			if r.Content = ""; r.Question != nil {
				r.Question.Text, r.Question.Schema = "", nil
			}
			if r.Error != nil {
				r.Error.Message, r.Error.Trace = "", nil
			}
			if r.Result != nil {
				r.Result = raw(`""`)
			}
			own = append(own, r)
		}
		return own
	}
	a.Completed, a.Pending = strip(a.Completed), strip(a.Pending)
	return a
}

func anyReply(t *rapid.T, i int) Reply {
	r := Reply{ID: fmt.Sprint("h", i), State: tool.HandleRunning, Content: validText(t, "content")}
	switch rapid.IntRange(0, 3).Draw(t, "state") {
	case 1:
		r.State, r.Question = tool.HandleWaiting,
			&Question{ID: "q", Text: validText(t, "text"), For: Assistant}
		r.Question.Schema = raw(`{"description":"` + strings.Repeat("x", 200) + `"}`)
	case 2:
		b, _ := json.Marshal(validText(t, "result"))
		r.State, r.Result = tool.HandleStopped, b
	case 3:
		r.State, r.Error = tool.HandleStopped, &Failure{Message: validText(t, "message"),
			Trace: []string{validText(t, "line"), validText(t, "line")}}
	}
	return r
}

func validText(t *rapid.T, label string) string {
	return strings.ToValidUTF8(anyText.Draw(t, label), "\ufffd")
}

func TestLevel(t *testing.T) {
	for _, c := range []struct {
		sizes []int
		room  int
		want  int
	}{
		{[]int{10, 10}, 10, 5}, {[]int{2, 10}, 10, 8}, {[]int{10, 2}, 10, 8},
		{[]int{1, 2, 30, 40}, 13, 5}, {[]int{5}, 0, 0},
	} {
		if got := level(c.sizes, c.room); got != c.want {
			t.Errorf("%v in %d: got %d, want %d", c.sizes, c.room, got, c.want)
		}
	}
}
