package llmtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
)

// The npm package @copilotkit/aimock speaks the wire forms of many providers.
// The Makefile's target aimock installs it here, in the root of the repository.
const aimockCLI = ".tools/node_modules/@copilotkit/aimock/dist/cli.js"

// fixtures say what the server answers to which message of the user.
const fixtures = `{"fixtures": [
	{"match": {"userMessage": "say hello"}, "response": {"content": "Hello from Tromsø ☂️, it is 7 °C, and the line is long enough for several chunks."}},
	{"match": {"userMessage": "one tool", "hasToolResult": false}, "response": {"toolCalls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]}},
	{"match": {"userMessage": "one tool", "hasToolResult": true}, "response": {"content": "It is four degrees."}},
	{"match": {"userMessage": "two tools", "hasToolResult": false}, "response": {"toolCalls": [
		{"name": "get_weather", "arguments": {"city": "Oslo"}}, {"name": "get_time", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "Bergen"}}]}},
	{"match": {"userMessage": "two tools", "hasToolResult": true}, "response": {"content": "Four degrees, at noon."}},
	{"match": {"userMessage": "too fast"}, "response": {"error": {"message": "Slow down", "type": "rate_limit_error"}, "status": 429}},
	{"match": {"userMessage": "overload"}, "response": {"error": {"message": "Overloaded", "type": "overloaded_error"}, "status": 503}},
	{"match": {"userMessage": "no key"}, "response": {"error": {"message": "Invalid key", "type": "authentication_error"}, "status": 401}}
]}`

// RunAimock takes an adapter through a server that others wrote: text, calls,
// parallel calls, pauses, and errors. path is what the adapter's BaseURL has
// after the server's address. Without the server, the test is skipped, or fails
// where CI is set.
func RunAimock(t *testing.T, p Provider, path string) {
	url := startAimock(t)
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			m := adapter{p.New(t, Options{BaseURL: url + path, Whole: form.whole,
				Client: client(t)})}
			ask := func(t *testing.T, text string) (llm.Message, llm.Finish, error) {
				t.Helper()
				return m.collect(t, llm.Request{System: "Be brief.",
					Messages: []llm.Message{llm.UserText(text)}, Tools: weatherTools})
			}
			t.Run("text", func(t *testing.T) {
				got, fin, err := ask(t, "say hello")
				if err != nil || fin.Reason != llm.StopEnd ||
					!strings.HasPrefix(got.Text(), "Hello from Tromsø ☂️, it is 7 °C") ||
					!strings.HasSuffix(got.Text(), "chunks.") {
					t.Errorf("%v, %v, %v", got, fin, err)
				}
			})
			t.Run("parallel calls", func(t *testing.T) {
				got, fin, err := ask(t, "two tools")
				check(t, err)
				// The server has it where a real model would think.
				got.Parts = slices.DeleteFunc(got.Parts, func(p llm.Part) bool {
					_, thinks := p.(llm.Reasoning)
					return thinks
				})
				scenario{stop: llm.StopToolCalls,
					parts: []llm.Part{call("get_weather", `{"city":"Oslo"}`),
						call("get_time", `{}`), call("get_weather",
							`{"city":"Bergen"}`)}}.check(t, got, fin)
			})
			for _, c := range []struct {
				text string
				want llm.ErrorKind
			}{{"too fast", llm.ErrRateLimited}, {"overload", llm.ErrOverloaded}, {"no key",
				llm.ErrAuth}} {
				t.Run(c.text, func(t *testing.T) {
					_, _, err := ask(t, c.text)
					var e *llm.Error
					if !errors.As(err, &e) || e.Kind != c.want || e.RequestID == "" {
						t.Errorf("%v, want an error of kind %s with the request's id", err, c.want)
					}
				})
			}
			for _, text := range []string{"one tool", "two tools"} {
				t.Run("pause over "+text, func(t *testing.T) { aimockPause(t, m, url, text) })
			}
		})
	}
}

// aimockPause pauses on the calls, opens the store again, resumes, and looks
// into the server's journal for what it was sent.
func aimockPause(t *testing.T, m llm.Model, url, message string) {
	path := filepath.Join(t.TempDir(), "fermata.db")
	open := func() *bolt.Store {
		db, err := bolt.Open(path, nil)
		check(t, err)
		return db
	}
	db := open()
	rn := pausing(t, db, m)
	if end := drain(t, rn.Run(t.Context(), "ada", "chat-1", llm.UserText(message),
		nil)); end.Finish != event.FinishPaused {
		t.Fatalf("the run ended as %s", end.Finish)
	}
	check(t, rn.Close())
	check(t, db.Close())
	db = open()
	defer db.Close()
	rn = pausing(t, db, m)
	defer rn.Close()
	resumeAll(t, rn)
	last := journal(t, url)
	if !strings.Contains(last, "four degrees") {
		t.Errorf("the server's last request doesn't hold the result: %s", last)
	}
}

// journal returns the newest request that the server has seen.
func journal(t testing.TB, url string) string {
	t.Helper()
	res, err := http.Get(url + "/__aimock/journal")
	check(t, err)
	defer res.Body.Close()
	var entries []struct {
		Body json.RawMessage `json:"body"`
	}
	check(t, json.NewDecoder(res.Body).Decode(&entries))
	if len(entries) == 0 {
		t.Fatal("the server's journal is empty")
	}
	return string(entries[len(entries)-1].Body)
}

// startAimock starts the server, which ends with the test, and returns its URL.
func startAimock(t testing.TB) string {
	t.Helper()
	cli := findAimock()
	node, err := exec.LookPath("node")
	if err != nil || cli == "" {
		const missing = "aimock is not here; it needs Node.js 20 or newer, and: make aimock"
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	file := filepath.Join(t.TempDir(), "fixtures.json")
	check(t, os.WriteFile(file, []byte(fixtures), 0o600))
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, node, cli, "--port", "0", "--host", "127.0.0.1", "--fixtures",
		file, "--strict", "--validate-on-load", "--chunk-size", "7")
	out, err := cmd.StdoutPipe()
	check(t, err)
	cmd.Stderr = cmd.Stdout
	check(t, cmd.Start())
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
		http.DefaultClient.CloseIdleConnections()
	})
	lines := make(chan string, 1)
	go func() {
		defer close(lines)
		address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
		s := bufio.NewScanner(out)
		for s.Scan() {
			if url := address.FindString(s.Text()); url != "" {
				lines <- url
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case url, ok := <-lines:
		if !ok {
			t.Fatal("aimock ended without saying where it listens")
		}
		return url
	case <-time.After(time.Minute):
		t.Fatal("aimock said nothing for a minute")
	}
	return ""
}

// findAimock looks for it from the test's folder upwards.
func findAimock() string {
	dir, err := os.Getwd()
	for err == nil {
		path := filepath.Join(dir, filepath.FromSlash(aimockCLI))
		if _, err := os.Stat(path); err == nil {
			return path
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return ""
}
