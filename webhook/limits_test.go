package webhook_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/webhook"
)

// sized returns an output of exactly n bytes.
func sized(n int) string {
	const frame = `{"url":""}`
	return `{"url":"` + strings.Repeat("x", n-len(frame)) + `"}`
}

// One limit from the door to the store: a body that gets in at all is kept,
// whole.
func TestBodyLimit(t *testing.T) {
	const limit = webhook.DefaultMaxBody
	s := newSite(t, siteOptions{path: boltFile(t)})
	url := s.paused()
	s.post(url, sized(limit+1)).is(t, http.StatusRequestEntityTooLarge, "too_large")
	s.send(s.request(http.MethodPost, url, chunked(sized(limit+1)))).is(t,
		http.StatusRequestEntityTooLarge, "too_large")
	s.send(s.request(http.MethodPost, url, chunked(sized(limit)))).accepted(t, false)
	s.post(url, sized(limit)).accepted(t, true)
	if end := s.carryOn(); end.Finish != event.FinishStop {
		t.Errorf("the run ended as %s", end.Finish)
	}
	if c := s.call(); c.Settled != event.Done || len(c.Output) != limit {
		t.Errorf("the call is settled as %s with %d bytes", c.Settled, len(c.Output))
	}
}

// chunked returns a body of unknown length.
func chunked(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

func TestEndlessBody(t *testing.T) {
	s := newSite(t, siteOptions{webhook: webhook.Config{MaxBody: 4 << 10}})
	token := s.paused()
	for path, want := range map[string]string{
		token:   "HTTP/1.1 413",
		"x.y.z": "HTTP/1.1 401",
	} {
		conn := s.dial("POST /hooks/"+path+" HTTP/1.1", "Transfer-Encoding: chunked")
		go func() { // until the server closes the connection
			chunk := fmt.Sprintf("%x\r\n%s\r\n", 1000, strings.Repeat(" ", 1000))
			for {
				if _, err := io.WriteString(conn, chunk); err != nil {
					return
				}
			}
		}()
		if got := firstLine(t, conn); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		conn.Close()
	}
}

// A body that is announced as too large is not even asked for.
func TestAnnouncedBody(t *testing.T) {
	s := newSite(t, siteOptions{})
	conn := s.dial("POST /hooks/"+s.paused()+" HTTP/1.1", "Content-Length: 1073741824",
		"Expect: 100-continue")
	defer conn.Close()
	if got := firstLine(t, conn); !strings.HasPrefix(got, "HTTP/1.1 413") {
		t.Errorf("got %q", got)
	}
}

func TestSlowBody(t *testing.T) {
	s := newSite(t, siteOptions{webhook: webhook.Config{ReadTimeout: 50 * time.Millisecond}})
	conn := s.dial("POST /hooks/"+s.paused()+" HTTP/1.1", "Content-Length: 100")
	defer conn.Close()
	if got := firstLine(t, conn); !strings.HasPrefix(got, "HTTP/1.1 408") {
		t.Errorf("got %q", got)
	}
}

func TestBrokenBody(t *testing.T) {
	s := newSite(t, siteOptions{})
	conn := s.dial("POST /hooks/"+s.paused()+" HTTP/1.1", "Transfer-Encoding: chunked")
	defer conn.Close()
	io.WriteString(conn, "not a chunk\r\n")
	if got := firstLine(t, conn); !strings.HasPrefix(got, "HTTP/1.1 400") {
		t.Errorf("got %q", got)
	}
}

func TestBodyTypes(t *testing.T) {
	s := newSite(t, siteOptions{})
	token := s.paused()
	with := func(name, value string) response {
		r := s.request(http.MethodPost, token, strings.NewReader(`{"url":"a"}`))
		r.Header.Set(name, value)
		return s.send(r)
	}
	for _, bad := range []string{"text/plain", "application/x-www-form-urlencoded",
		"application/json; charset=utf-16", "json", ";"} {
		with("Content-Type", bad).is(t, http.StatusUnsupportedMediaType, "unsupported")
	}
	for i, good := range []string{"application/json", "application/json; charset=UTF-8",
		"application/cloudevents+json", "Application/JSON"} {
		with("Content-Type", good).accepted(t, i > 0)
	}
	with("Content-Encoding", "identity").accepted(t, true)
}

func TestCompressedBody(t *testing.T) {
	s := newSite(t, siteOptions{})
	var body strings.Builder
	z := gzip.NewWriter(&body)
	io.WriteString(z, `{"url":"a"}`)
	must(t, z.Close())
	r := s.request(http.MethodPost, s.paused(), strings.NewReader(body.String()))
	r.Header.Set("Content-Encoding", "gzip")
	got := s.send(r)
	got.is(t, http.StatusUnsupportedMediaType, "unsupported")
	if got.header.Get("Accept-Encoding") != "identity" ||
		!strings.Contains(got.Detail, "Content-Encoding") {
		t.Errorf("the sender isn't told what is wrong: %s", got.text)
	}
}

// dial sends the head of a request over a connection of its own.
func (s *site) dial(lines ...string) net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.server.Listener.Addr().String())
	must(s.t, err)
	must(s.t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = io.WriteString(conn, strings.Join(append(lines, "Host: localhost", "", ""), "\r\n"))
	must(s.t, err)
	return conn
}

func firstLine(t *testing.T, conn net.Conn) string {
	t.Helper()
	line, err := bufio.NewReader(conn).ReadString('\n')
	must(t, err)
	return line
}
