package llmtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// reply is a recorded HTTP response.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// recorded reads a scenario's reply in one form. ok is false if there is no
// such file.
func recorded(t testing.TB, p Provider, scenario string, whole bool) (r reply, ok bool) {
	t.Helper()
	form := ".stream.http"
	if whole {
		form = ".whole.http"
	}
	for _, name := range []string{scenario + form, scenario + ".http"} {
		text, err := os.ReadFile(filepath.Join(p.Replies, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return parse(t, name, text), true
	}
	return reply{}, false
}

func parse(t testing.TB, name string, text []byte) reply {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil)
	if err != nil {
		t.Fatalf("%s is no HTTP response: %v", name, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	body = bytes.ReplaceAll(body, []byte("@@LONG@@"), []byte(longText))
	return reply{res.StatusCode, res.Header, body}
}

// must is recorded for a scenario that the provider has to have.
func must(t testing.TB, p Provider, scenario string, whole bool) reply {
	t.Helper()
	r, ok := recorded(t, p, scenario, whole)
	if !ok {
		form := "stream"
		if whole {
			form = "whole"
		}
		t.Fatalf("there is no %s, nor %s.http: record one (%s), or say in Lacks[%q] why the provider can't have it",
			filepath.Join(p.Replies, scenario+"."+form+".http"), scenario, wanted(scenario), scenario)
	}
	return r
}

// wanted says what a scenario's reply has to come to.
func wanted(name string) string {
	for _, s := range scenarios {
		switch {
		case s.name != name:
		case s.fails != nil && s.fails.id == "":
			return fmt.Sprintf("an HTTP error that becomes an *llm.Error %s, without a request id",
				s.fails.kind)
		case s.fails != nil:
			return fmt.Sprintf("an error that becomes an *llm.Error %s, with the request id %s and RetryAfter %v", s.fails.kind, s.fails.id, s.fails.after)
		case name == "long":
			return "a text that is @@LONG@@"
		default:
			say := fmt.Sprintf("it stops for %q", s.stop)
			for _, p := range s.parts {
				b, err := json.Marshal(p)
				if err != nil {
					return err.Error()
				}
				say += ", with " + string(b)
			}
			if s.broken {
				say += ", whose arguments are broken or cut off"
			}
			if s.native != "" {
				say += ", signed " + s.native
			}
			if s.usage != nil {
				say += fmt.Sprintf(", and reports %+v", *s.usage)
			}
			return say
		}
	}
	return "any"
}

// server answers with replies, one request after the other, the last one again
// and again, and keeps what it was asked.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests [][]byte
	headers  []http.Header
}

// deliver writes a reply's body.
type deliver func(w http.ResponseWriter, r *http.Request, body []byte)

func serve(t testing.TB, d deliver, replies ...reply) *server {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		n := len(s.requests)
		s.requests, s.headers = append(s.requests, body), append(s.headers, r.Header)
		s.mu.Unlock()
		answer := replies[min(n, len(replies)-1)]
		for name, values := range answer.header {
			if name != "Content-Length" && name != "Transfer-Encoding" {
				w.Header()[name] = values
			}
		}
		d(&answering{ResponseWriter: w, status: answer.status}, r, answer.body)
	}))
	t.Cleanup(s.Close)
	return s
}

// answering writes the status before the first byte of the body, so that a
// connection can be taken over.
type answering struct {
	http.ResponseWriter
	status int
	begun  bool
}

func (a *answering) Write(p []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController.
func (a *answering) FlushError() error {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

func (a *answering) begin() {
	if !a.begun {
		a.begun = true
		a.ResponseWriter.WriteHeader(a.status)
	}
}

func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// asked returns the bodies of the requests so far.
func (s *server) asked() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func atOnce(w http.ResponseWriter, _ *http.Request, body []byte) { _, _ = w.Write(body) }

// pieces writes a body in pieces that end at the given places, each in a chunk
// of its own.
func pieces(ends ...int) deliver {
	return func(w http.ResponseWriter, _ *http.Request, body []byte) {
		rc, from := http.NewResponseController(w), 0
		for _, to := range append(ends, len(body)) {
			if to <= from || to > len(body) {
				continue
			}
			if _, err := w.Write(body[from:to]); err != nil {
				return
			}
			_ = rc.Flush()
			from = to
		}
	}
}

// cutAt ends a body early: as if that were all, or by breaking the connection.
func cutAt(n int, broken bool) deliver {
	return func(w http.ResponseWriter, _ *http.Request, body []byte) {
		_, _ = w.Write(body[:n])
		_ = http.NewResponseController(w).Flush()
		if broken {
			panic(http.ErrAbortHandler)
		}
	}
}

// closed writes the beginning of a body of which nothing tells the end but that
// the connection is closed, as servers do that speak HTTP/1.0.
func closed(n int) deliver {
	return func(w http.ResponseWriter, _ *http.Request, body []byte) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		head := bytes.NewBufferString("HTTP/1.1 200 OK\r\nConnection: close\r\n")
		_ = w.Header().Write(head)
		_, _ = conn.Write(append(append(head.Bytes(), "\r\n"...), body[:n]...))
	}
}

// id returns the request's, by the header that the provider has for it.
func (r reply) id() string {
	for _, name := range []string{"x-request-id", "request-id", "x-goog-request-id"} {
		if id := r.header.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// client is one whose connections don't outlive the test.
func client(t testing.TB) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// model returns the adapter that talks to a server.
func model(t testing.TB, p Provider, s *server, whole bool) adapter {
	t.Helper()
	return adapter{p.New(t, Options{BaseURL: s.URL, Whole: whole, Client: client(t)})}
}

// longText is a line that is longer than the buffers of most readers.
var longText = strings.Repeat("a long line, ", 1<<20/13)
