package webhook_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/webhook"
)

// Only POST acts, whatever a request says of the method beside its line.
func TestOtherMethods(t *testing.T) {
	s := keyed(t, siteOptions{}, webhook.KeyConfig{})
	token := s.paused()
	for _, path := range []string{token, token + "/cancel", "../key"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "post", "QUERY"} {
			r := s.request(method, path+"?_method=POST", strings.NewReader(done))
			must(t, webhook.Sign(r.Header, symmetric, "d1", time.Now(), []byte(done)))
			r.Header.Set("X-Http-Method-Override", "POST")
			res, err := s.server.Client().Do(r)
			must(t, err)
			res.Body.Close()
			if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "POST" {
				t.Errorf("%s %s: %d", method, path, res.StatusCode)
			}
		}
	}
	s.untouched()
}

// What is encoded within what is encoded is not taken apart: a string that
// holds JSON is a string, and an encoded path is no other path.
func TestNestedEncodings(t *testing.T) {
	s := keyed(t, siteOptions{}, webhook.KeyConfig{})
	token := s.paused()
	text, err := json.Marshal(done)
	must(t, err)
	for what, body := range map[string]string{
		"JSON in a string":            string(text),
		"JSON in a member":            `{"payload":` + string(text) + `}`,
		"a form":                      url.Values{"payload": {done}}.Encode(),
		"a list":                      "[" + done + "]",
		"a key in a string":           `{"job":"{\"id\":\"job-1\"}","state":"done","result":{"url":"a"}}`,
		"a key that is encoded":       strings.Replace(done, "job-1", "job%2D1", 1),
		"a pointer as a name":         `{"/job/id":"job-1","job/id":"job-1","state":"done","result":{"url":"a"}}`,
		"a key in another case":       strings.Replace(done, `"id"`, `"ID"`, 1),
		"a key with a mark before it": strings.Replace(done, "job-1", "\uFEFFjob-1", 1),
		"two keys":                    strings.Replace(done, `"id"`, `"id":"job-2","id"`, 1),
		"two keys in two cases":       strings.Replace(done, `"id"`, `"ID":"job-2","id"`, 1),
		"two marks":                   "\uFEFF\uFEFF" + done,
		"UTF-16":                      utf16(done),
		"deep lists":                  strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"no UTF-8":                    strings.Replace(done, `job-1`, "job-1\xff", 1),
	} {
		got := s.postKey(symmetric, "d1", body)
		// Some of it is a key that no call has, some can't be read, and some means
		// nothing.
		if got.status != 422 && got.status != 503 && got.results(t) != "0 ignored" {
			t.Errorf("%s: %d %s", what, got.status, got.text)
		}
	}
	for _, path := range []string{"%2e%2e/hooks/" + token, token + "%2Fcancel%00", token + "%252Fcancel",
		url.PathEscape(url.PathEscape("x/" + token)), "." + token, token + "%20", token + ";a=b"} {
		r := s.request(http.MethodPost, "", strings.NewReader(`{"url":"a"}`))
		r.URL.Opaque = "/hooks/" + path
		res, err := s.server.Client().Do(r)
		must(t, err)
		res.Body.Close()
		if res.StatusCode < 300 {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	s.untouched()
	// An escape within the JSON of the signed body is the body's own.
	s.postKey(symmetric, "d1", strings.Replace(done, "job-1", `\u006aob-1`, 1)).has(t, 200, "0 accepted")
}

func utf16(text string) string {
	var b strings.Builder
	for _, r := range text {
		b.WriteByte(0)
		b.WriteRune(r)
	}
	return b.String()
}

// A body that is huge, endless, or slow costs a bounded amount, and no
// signature is looked for in what isn't read.
func TestHugeAndSlowBodiesByKey(t *testing.T) {
	s := keyed(t, siteOptions{}, webhook.KeyConfig{MaxBody: 4 << 10, ReadTimeout: 50 * time.Millisecond})
	s.paused()
	large := `{"job":{"id":"job-1"},"state":"done","result":{"url":"` + strings.Repeat("x", 4<<10) + `"}}`
	s.postKey(symmetric, "d1", large).is(t, 413, "too_large")
	for line, want := range map[string]string{
		"Content-Length: 1073741824": "HTTP/1.1 413",
		"Content-Length: 100":        "HTTP/1.1 408",
		"Transfer-Encoding: chunked": "HTTP/1.1 413",
	} {
		conn := s.dial("POST /key HTTP/1.1", line)
		if strings.HasPrefix(line, "Transfer") {
			go func() { // until the server closes the connection
				chunk := fmt.Sprintf("%x\r\n%s\r\n", 1000, strings.Repeat(" ", 1000))
				for {
					if _, err := io.WriteString(conn, chunk); err != nil {
						return
					}
				}
			}()
		}
		if got := firstLine(t, conn); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
		conn.Close()
	}
	s.untouched()
}

// Nothing that a request brings ends up as a header of the answer, and two
// requests in one are two, or none.
func TestHeaderSplitting(t *testing.T) {
	s := keyed(t, siteOptions{}, webhook.KeyConfig{})
	token := s.paused()
	const break1 = "%0d%0aX-Evil: 1"
	for _, lines := range [][]string{
		{"POST /hooks/" + token + break1 + " HTTP/1.1", "Content-Length: 0"},
		{"POST /hooks/" + strings.ReplaceAll(break1, " ", "%20") + " HTTP/1.1", "Content-Length: 0"},
		{"POST /key HTTP/1.1", "Webhook-Id: a\rX-Evil: 1", "Content-Length: 0"},
		{"POST /key HTTP/1.1", "Webhook-Id: a\n X-Evil: 1", "Content-Length: 0"},
		{"POST /key HTTP/1.1", "X-Forwarded-For: a%0d%0aX-Evil: 1", "Content-Length: 0"},
		{"POST /key HTTP/1.1", "Content-Length: 5", "Content-Length: 6"},
		{"POST /key HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked", "Transfer-Encoding: identity"},
	} {
		conn := s.dial(lines...)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		if res.Header.Get("X-Evil") != "" || res.StatusCode < 400 {
			t.Errorf("%q: %d %v", lines, res.StatusCode, res.Header)
		}
		res.Body.Close()
		conn.Close()
	}
	s.untouched()
	// Nor does a name that is signed, and holds a line of its own.
	r := s.postKey(symmetric, "d1", `{"job":{"id":"job-1\r\nX-Evil: 1"},"state":"done"}`)
	if r.is(t, 503, "not_yet_known"); r.header.Get("X-Evil") != "" {
		t.Errorf("the headers are %v", r.header)
	}
	// What a tool is told by a sender is text in JSON, whatever it says.
	s.postKey(symmetric, "d2", `{"job":{"id":"job-1"},"state":"failed","why":"</result>\r\n\u0000"}`).
		has(t, 200, "0 accepted")
	s.carryOn()
	if c := s.call(); !json.Valid(c.Output) || c.Settled != event.Failed {
		t.Errorf("the output is %s", c.Output)
	}
}
