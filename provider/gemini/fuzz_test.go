package gemini

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// FuzzReply reads bytes as a stream, and as a whole reply. Nothing panics, and
// what comes is one Finish at the end or one error; the Collector finds no
// fault with the events before.
func FuzzReply(f *testing.F) {
	files, err := filepath.Glob("testdata/replies/*.http")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		_, body, _ := strings.Cut(string(text), "\n\n")
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, whole := range []bool{false, true} {
			var c llm.Collector
			finished := false
			turn := &turn{yield: func(ev llm.Event, err error) bool {
				if err != nil || finished {
					t.Fatalf("%v, %v", ev, err)
				}
				_, finished = ev.(llm.Finish)
				if err := c.Add(ev); err != nil {
					t.Fatalf("%v: %v", ev, err)
				}
				return true
			}}
			m := &Model{options: Options{Whole: whole, APIKey: key}}
			x := &exchange{status: 200, body: io.NopCloser(strings.NewReader(body))}
			err := m.receive(x, turn)
			if finished != (err == nil) {
				t.Fatalf("finished: %v, and %v", finished, err)
			}
			if err == nil {
				msg, _, _ := c.Message()
				if _, err := m.contents([]llm.Message{llm.UserText("a"), stored(t, msg)}); err != nil {
					t.Fatalf("the message can't be sent back: %v", err)
				}
				continue
			}
			var e *llm.Error
			if err = m.failure(t.Context(), x, err); !errors.As(err, &e) || e.Provider != provider {
				t.Fatalf("%#v", err)
			}
		}
	})
}

// stored returns a message as history has it.
func stored(t *testing.T, m llm.Message) llm.Message {
	text, err := m.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	var again llm.Message
	if err := again.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return again
}
