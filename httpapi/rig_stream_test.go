package httpapi_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/tool"
)

// waits begins a session, and returns it with what waits in it then.
func (s *site) waits(text string) (id string, p tool.Pause) {
	s.t.Helper()
	st := s.stream(http.MethodPost, "/sessions", `{"text":"`+text+`"}`)
	defer st.close()
	end := st.until("end")
	var e struct{ Pending []tool.Pause }
	must(s.t, json.Unmarshal([]byte(end.data), &e))
	st.rest() // the server is done with it
	if len(e.Pending) != 1 {
		s.t.Fatalf("what waits is %s", end.data)
	}
	return e.Pending[0].Session, e.Pending[0]
}

// stream is server-sent events, as a client reads them.
type stream struct {
	t   *testing.T
	res *http.Response
	in  *bufio.Reader
}

// sse is one of them.
type sse struct {
	id, data, comment, retry string

	Type string `json:"type"`
}

func (s *site) stream(method, path, body string, header ...string) *stream {
	s.t.Helper()
	r := s.request(method, path, body)
	r.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := s.client().Do(r)
	must(s.t, err)
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		s.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, text)
	}
	return &stream{s.t, res, bufio.NewReader(res.Body)}
}

func (st *stream) close() { st.res.Body.Close() }

// next returns the next event; false: the stream is over.
func (st *stream) next() (e sse, ok bool) {
	for {
		line, err := st.in.ReadString('\n')
		if err != nil {
			return e, false
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			e.id = value
		case "data":
			e.data = value
			if json.Unmarshal([]byte(value), &e) != nil {
				st.t.Errorf("the data of an event is %q", value)
			}
		case "retry":
			e.retry = value
		case "":
			if line == ":" {
				e.comment = ":"
				continue
			}
			return e, true
		}
	}
}

// until returns the next event of a type.
func (st *stream) until(kind string) sse {
	st.t.Helper()
	var seen []string
	for {
		e, ok := st.next()
		if !ok {
			st.t.Fatalf("the stream is over, without %q: %v", kind, seen)
		}
		if seen = append(seen, e.data); e.Type == kind {
			return e
		}
	}
}

// rest returns the types of what still comes.
func (st *stream) rest() (types []string) {
	for {
		e, ok := st.next()
		if !ok {
			return types
		}
		if e.Type != "" {
			types = append(types, e.Type)
		}
	}
}

// session returns the id of the session that the request has begun.
func (st *stream) session() string {
	at := st.res.Header.Get("Location")
	return at[strings.LastIndexByte(at, '/')+1:]
}
