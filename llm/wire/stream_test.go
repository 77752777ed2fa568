package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

// server answers after a while, and then writes pieces, each after another
// while.
type server struct {
	begins time.Duration
	kind   string
	pieces []time.Duration
	hangs  bool   // in place of the end
	first  string // what the first piece is; "": as the others
}

func (s server) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	sleep := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := sleep(s.begins); err != nil {
		return nil, err
	}
	body, w := io.Pipe()
	go func() {
		for i, after := range s.pieces {
			if err := sleep(after); err != nil {
				w.CloseWithError(err)
				return
			}
			piece := ": ping\n"
			if i == 0 && s.first != "" {
				piece = s.first
			}
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
		}
		if s.hangs {
			<-ctx.Done()
		}
		w.CloseWithError(ctx.Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {s.kind}, "X-Request-Id": {"r1"}}, Body: body}, nil
}

func TestSilentStreamsEnd(t *testing.T) {
	const sse, json = "text/event-stream; charset=utf-8", "application/json"
	message := []time.Duration{time.Minute, time.Hour, time.Hour}
	every := func(d time.Duration, n int) (all []time.Duration) {
		for range n {
			all = append(all, d)
		}
		return all
	}
	for name, c := range map[string]struct {
		server server
		idle   time.Duration
		ends   time.Duration // zero: not by silence
		id     string
	}{
		"no answer":                    {server{begins: time.Hour}, 0, 10 * time.Minute, ""},
		"no answer, by option":         {server{begins: time.Hour}, time.Minute, time.Minute, ""},
		"no first byte":                {server{kind: sse, hangs: true}, 0, 10 * time.Minute, "r1"},
		"no end":                       {server{kind: sse, pieces: every(9*time.Minute, 3), hangs: true}, 0, 37 * time.Minute, "r1"},
		"no end, of no type":           {server{pieces: every(time.Second, 1), hangs: true}, 0, 10*time.Minute + time.Second, "r1"},
		"pings for hours":              {server{kind: sse, pieces: every(9*time.Minute, 30)}, 0, 0, ""},
		"a whole message":              {server{kind: json, first: "\uFEFF\r\n {", pieces: message}, 0, 0, ""},
		"a list":                       {server{kind: "application/vnd.acme+json", first: "[", pieces: message}, 0, 0, ""},
		"an error":                     {server{kind: "application/problem+json", first: "{", pieces: message}, 0, 0, ""},
		"a message that doesn't begin": {server{kind: json, hangs: true}, 0, 10 * time.Minute, "r1"},
		"nothing but white space":      {server{kind: json, first: " \n\t", pieces: every(time.Minute, 1), hangs: true}, 0, 11 * time.Minute, "r1"},
		"events, labelled as JSON":     {server{kind: json, first: "data: {", pieces: every(time.Minute, 1), hangs: true}, 0, 11 * time.Minute, "r1"},
		"lines of JSON":                {server{kind: "application/x-ndjson", first: "{}\n", pieces: every(time.Minute, 1), hangs: true}, 0, 11 * time.Minute, "r1"},
		"JSON, labelled as events":     {server{kind: sse, first: "{", pieces: every(time.Minute, 1), hangs: true}, 0, 11 * time.Minute, "r1"},
		"silent for ever, asked":       {server{kind: sse, begins: time.Hour, pieces: every(5*time.Hour, 2)}, -1, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				_, err := read(Stream(t.Context(), "acme", c.idle), c.server, nil)
				var e *llm.Error
				switch {
				case c.ends == 0 && err != nil:
					t.Error(err)
				case c.ends == 0:
				case !errors.As(err, &e) || e.Kind != llm.ErrNetwork || !e.Retryable() || e.Provider != "acme" || e.RequestID != c.id || !strings.Contains(err.Error(), "silent"):
					t.Errorf("%#v", err)
				case time.Since(begun) != c.ends:
					t.Errorf("it ended after %v, want %v", time.Since(begun), c.ends)
				}
			})
		})
	}
}

// The reader may take longer than that for what has come, and a request for a
// whole message is not watched.
func TestOnlyWaitingForAStreamIsSilence(t *testing.T) {
	s := server{kind: "text/event-stream", pieces: []time.Duration{time.Minute, time.Minute, time.Minute}}
	synctest.Test(t, func(t *testing.T) {
		text, err := read(Stream(t.Context(), "acme", 0), s, func() { time.Sleep(time.Hour) })
		if err != nil || text != strings.Repeat(": ping\n", 3) {
			t.Errorf("%q, %v", text, err)
		}
	})
	s.begins, s.pieces = time.Hour, []time.Duration{time.Hour}
	synctest.Test(t, func(t *testing.T) {
		if _, err := read(t.Context(), s, nil); err != nil {
			t.Error(err)
		}
	})
}

// The end of the caller's context is its own error.
func TestCallersContextIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		s := server{kind: "text/event-stream", hangs: true}
		if _, err := read(Stream(ctx, "acme", 0), s, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// read reads an answer to its end, with a pause after each piece.
func read(ctx context.Context, s server, pause func()) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://acme.test", nil)
	if err != nil {
		return "", err
	}
	res, err := Client(&http.Client{Transport: s}).Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var text strings.Builder
	for p := make([]byte, 64); ; {
		n, err := res.Body.Read(p)
		text.Write(p[:n])
		if err == io.EOF {
			return text.String(), nil
		}
		if err != nil {
			return text.String(), err
		}
		if pause != nil {
			pause()
		}
	}
}
