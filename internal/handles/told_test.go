package handles

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// The guidance stands in the instructions of every model call, so it is short.
func TestGuidanceIsShort(t *testing.T) {
	const tokens = 150
	if n := len(Guidance) / 4; n > tokens {
		t.Errorf("it has some %d tokens", n)
	}
	for _, word := range []string{`"spawn"`, `"fetch"`, `"apply"`, `"abort"`, AwaitTool} {
		if !strings.Contains(Guidance, word) {
			t.Errorf("it tells nothing of %s", word)
		}
	}
}

func TestInquiry(t *testing.T) {
	open := []Open{
		{ID: "a", Tool: "shell", State: tool.HandleRunning, Elapsed: 90, Preview: "line\n"},
		{ID: "b", Tool: "git", State: tool.HandleWaiting, Elapsed: 7, Preview: strings.Repeat("x", 2000)},
	}
	got, err := Inquiry(open)
	must(t, err)
	words, list, ok := strings.Cut(got, "\n\n")
	if !ok || !strings.Contains(words, "whether to wait for it or to abort it") || len(got) > 1100 {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if want := `{"handles":[{"id":"a","tool":"shell","state":"running","elapsed_secs":90,` +
		`"output_preview":"line\n"},{"id":"b","tool":"git","state":"waiting","elapsed_secs":7,` +
		`"output_preview":"xxx`; !strings.HasPrefix(list, want) || !json.Valid([]byte(list)) {
		t.Errorf("%s", list)
	}
	if len(open[1].Preview) != 2000 {
		t.Error("what is cut is the caller's")
	}
}

func TestFates(t *testing.T) {
	s, err := schema.Compile(InquirySchema())
	must(t, err)
	const answer = `{"handles":[{"id":"b","action":"abort"},{"id":"a","action":"wait"}]}`
	must(t, s.Validate(raw(answer)))
	got, err := Fates(raw(answer), []string{"a", "b"})
	if diff := cmp.Diff(map[string]Fate{"a": ToWait, "b": ToAbort}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	got, err = Fates(raw(`{"handles":[{"id":"a","tool":"x","state":"running","elapsed_secs":1,`+
		`"output_preview":"","action":"wait"}]}`), []string{"a"})
	if err != nil || got["a"] != ToWait {
		t.Errorf("%v, %v", got, err)
	}
	for answer, want := range map[string]string{
		``:                    "it must be an object with handles, an array of objects",
		`{"handles":null}`:    "it must be an object with handles",
		`{"handles":["a"]}`:   "it must be an object with handles",
		`[]`:                  "must be an object",
		`{"handles":[],"x":}`: "it is no valid JSON",
		`{"handles":[]}`:      `/handles: the handle "tests" is missing`,
		`{"handles":[{"id":"test","action":"wait"}]}`: `/handles/0/id: must be the id of an ` +
			`open handle; ` +
			`did you mean "tests"?; these are tests, got "test"`,
		`{"handles":[{"action":"wait"}]}`: `/handles/0/id: must be the id of an open handle`,
		`{"handles":[{"id":"tests","action":"wait"},{"id":"tests","action":"wait"}]}`: `/handles/1/id: ` +
			`is there already: name each handle once`,
		`{"handles":[{"id":"tests","action":"kill"}]}`: `/handles/0/action: must be wait or ` +
			`abort, got "kill"`,
		`{"handles":[{"id":"tests"}]}`: `/handles/0/action: must be wait or abort`,
	} {
		_, err := Fates(raw(answer), []string{"tests"})
		if _, ok := errors.AsType[*misfit.Error](err); !ok {
			t.Errorf("%s: %T %v", answer, err, err)
			continue
		}
		told(t, err, want)
	}
}

func TestNotices(t *testing.T) {
	if got := Notices(nil); len(got) != 0 {
		t.Errorf("nothing happened: %+v", got)
	}
	ask := func(who Addressee) *Question { return &Question{ID: "q", Text: "Push?", For: who} }
	got := Notices([]Happening{
		{"run", "c", Reply{ID: "build", State: tool.HandleStopped, Content: "c", Result: raw(`"ok\n"`)}},
		{"run", "c", Reply{ID: "list", State: tool.HandleStopped, Result: raw(`{"n":1}`)}},
		{"run", "c", Reply{ID: "tests", State: tool.HandleStopped, Error: &Failure{Message: "exit 1"}}},
		{"run", "c", Reply{ID: "net", State: tool.HandleStopped,
			Error: &Failure{Message: "x", Transient: true}}},
		{"git", "c", Reply{ID: "add", State: tool.HandleWaiting, Question: ask(Assistant)}},
		{"git", "c", Reply{ID: "push", State: tool.HandleWaiting, Question: ask(User)}},
		{"run", "c", Reply{ID: "srv", State: tool.HandleRunning, Content: strings.Repeat("a", 2000) + "up"}},
	})
	srv := got[6].Text
	got[6].Text = ""
	if diff := cmp.Diff([]llm.Notice{
		{Handle: "build", Tool: "run", Call: "c", State: "stopped, with its result", Text: "ok\n"},
		{Handle: "list", Tool: "run", Call: "c", State: "stopped, with its result", Text: `{"n":1}`},
		{Handle: "tests", Tool: "run", Call: "c", State: "failed", Text: "exit 1"},
		{Handle: "net", Tool: "run", Call: "c",
			State: "failed; the same again may succeed", Text: "x"},
		{Handle: "add", Tool: "git", Call: "c",
			State: "waiting for your answer, to be given by its action apply", Text: "Push?"},
		{Handle: "push", Tool: "git", Call: "c",
			State: "waiting for the user, whose answer is not yours to give", Text: "Push?"},
		{Handle: "srv", Tool: "run", Call: "c", State: "running, with new output", Text: ""},
	}, got); diff != "" {
		t.Error(diff)
	}
	if width(srv) != MaxNotice || !strings.HasSuffix(srv, "aup") ||
		!strings.Contains(srv, "bytes left out here; fetch has it whole]") {
		t.Errorf("%d bytes: %s", len(srv), srv)
	}
}

// However many there are, their texts have a bound together, and the short ones
// stay whole.
func TestNoticesOfMany(t *testing.T) {
	all := []Happening{{"run", "c", Reply{ID: "short", State: tool.HandleRunning, Content: "short"}}}
	for i := range 200 {
		all = append(all, Happening{"run", "c", Reply{ID: fmt.Sprint("h", i), State: tool.HandleRunning,
			Content: strings.Repeat("y", 5000)}})
	}
	n := 0
	got := Notices(all)
	for _, notice := range got {
		n += len(notice.Text)
	}
	if len(got) != 201 || n > MaxNotices || n < MaxNotices*9/10 || got[0].Text != "short" {
		t.Errorf("%d notices, %d bytes, and the first has %q", len(got), n, got[0].Text)
	}
}
