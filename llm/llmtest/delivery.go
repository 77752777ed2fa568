package llmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/llm"
)

// streams returns the scenarios whose streams are cut up and cut off.
func streams(p Provider) (all []scenario) {
	for _, s := range scenarios {
		if _, lacks := p.Lacks[s.name]; !lacks && s.fails == nil && s.name != "long" {
			all = append(all, s)
		}
	}
	return all
}

// chunks delivers each stream in pieces of many sizes: within lines, within
// runes, within escapes. It ends the lines in each way that the standard of
// server-sent events allows, and begins the stream with a byte order mark. The
// message is the same. A short test takes every second stream.
func chunks(t *testing.T, p Provider) {
	all := streams(p)
	for i := range testlength.EachNth(2, len(all)) {
		s := all[i]
		t.Run(s.name, func(t *testing.T) {
			answer := must(t, p, s.name, false)
			want, fin, err := model(t, p, serve(t, atOnce, answer), false).collect(t, s.request())
			if err != nil {
				t.Fatal(err)
			}
			for name, ends := range cutsOf(answer.body) {
				got, end, err := model(t, p, serve(t, pieces(ends...), answer), false).collect(t,
					s.request())
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if d := cmp.Diff(want, got); d != "" || end != fin {
					t.Fatalf("%s: it ended with %v, and the message differs (-at once +in pieces):\n%s", name, end, clip(d))
				}
			}
			for name, body := range linesOf(answer.body) {
				odd := reply{answer.status, answer.header, body}
				for how, d := range map[string]deliver{"at once": atOnce,
					"by bytes": pieces(cutsOf(body)["byte by byte"]...)} {
					got, end, err := model(t, p, serve(t, d, odd), false).collect(t, s.request())
					if d := cmp.Diff(want, got); err != nil || d != "" || end != fin {
						t.Fatalf("%s, %s: %v, it ended with %v, and the message differs (-want +got):\n%s", name, how, err, end, clip(d))
					}
				}
			}
		})
	}
}

// cutsOf are ways to cut a body up.
func cutsOf(body []byte) map[string][]int {
	all := map[string][]int{}
	every := func(n int) (ends []int) {
		for i := n; i < len(body); i += n {
			ends = append(ends, i)
		}
		return ends
	}
	all["byte by byte"], all["by seven bytes"] = every(1), every(7)
	for i := range testlength.Part(3, 3) {
		seed := uint64(i)
		r := rand.New(rand.NewPCG(seed, seed))
		var ends []int
		for at := r.IntN(40); at < len(body); at += 1 + r.IntN(80) {
			ends = append(ends, at)
		}
		all[fmt.Sprintf("at random places, seed %d", seed)] = ends
	}
	return all
}

// linesOf are other ways to write a stream down.
func linesOf(body []byte) map[string][]byte {
	lines := func(end string) []byte {
		return bytes.ReplaceAll(bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")), []byte("\n"),
			[]byte(end))
	}
	return map[string][]byte{
		"lines that end with a carriage return": lines("\r"),
		"lines that end with both":              lines("\r\n"),
		"a byte order mark":                     append([]byte("\uFEFF"), body...),
		"runes cut between bytes": bytes.ReplaceAll(bytes.ReplaceAll(body, []byte(`\ud834`),
			[]byte("\xf0\x9d")), []byte(`\udd1e`), []byte("\x84\x9e")),
	}
}

// cuts ends each stream early, before each of its lines and within each. Where
// it breaks off, by an error of the connection or by its close, which may be
// either, it is an error that passes, and never a result. Where HTTP tells that
// it has ended there, it may count if the model's own end was in it, and the
// message is whole then. A short test ends it at every fifth of these places.
func cuts(t *testing.T, p Provider) {
	for _, s := range streams(p) {
		t.Run(s.name, func(t *testing.T) {
			answer := must(t, p, s.name, false)
			whole, end, err := model(t, p, serve(t, closed(len(answer.body)), answer),
				false).collect(t, s.request())
			if err != nil {
				t.Fatalf("a whole stream, and then the connection is closed: %v", err)
			}
			all := places(answer.body)
			for i := range testlength.EachNth(5, len(all)) {
				at := all[i]
				for how, d := range map[string]deliver{"ended": cutAt(at, false),
					"broken": cutAt(at, true), "closed": closed(at)} {
					m, fin, err := model(t, p, serve(t, d, answer), false).collect(t, s.request())
					var e *llm.Error
					switch {
					case err == nil && how == "ended" && cmp.Equal(m, whole) &&
						fin.Reason == end.Reason:
					case err == nil:
						t.Fatalf("after %d of %d bytes (%s) the message counts, %v, %v; the stream was\n%s",
							at, len(answer.body), how, fin, m, clip(string(answer.body[:at])))
					case !errors.As(err, &e) || !e.Retryable() || e.Provider != p.Name &&
						e.Provider != "":
						t.Fatalf("after %d of %d bytes (%s): %#v; the stream was\n%s", at,
							len(answer.body), how, err, clip(string(answer.body[:at])))
					case how != "broken" && at > 0 && e.RequestID != answer.id():
						t.Fatalf("after %d of %d bytes (%s): the error tells of the request %q, and it was %q: %v", at, len(answer.body), how, e.RequestID, answer.id(), err)
					}
				}
			}
		})
	}
}

// places returns where a stream is cut off: nowhere behind the beginning of its
// last line that is not empty.
func places(body []byte) (all []int) {
	last := bytes.LastIndexByte(bytes.TrimRight(body, "\r\n"), '\n') + 1
	for at := 0; at < last; {
		end := bytes.IndexByte(body[at:], '\n') + at
		all = append(all, at)
		if middle := (at + end) / 2; middle > at {
			all = append(all, middle)
		}
		at = end + 1
	}
	return append(all, last, (last+len(body))/2)
}

// cancel ends a context in the middle of a stream that goes no further, and
// leaves a stream's loop. Both end the request, too.
func cancel(t *testing.T, p Provider) {
	answer := must(t, p, "text", false)
	lines := places(answer.body)
	half := lines[len(lines)/2]
	hung := func(t *testing.T) (adapter, chan struct{}) {
		gone := make(chan struct{})
		return model(t, p, serve(t, func(w http.ResponseWriter, r *http.Request, body []byte) {
			cutAt(half, false)(w, r, body)
			<-r.Context().Done()
			close(gone)
		}, answer), false), gone
	}
	req := scenarios[0].request()
	ended := func(t *testing.T, gone chan struct{}) {
		select {
		case <-gone:
		case <-time.After(30 * time.Second):
			t.Error("the request goes on, though nobody listens")
		}
	}
	t.Run("by the context", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		m, gone := hung(t)
		var last error
		for ev, err := range m.Generate(ctx, req) {
			if last != nil {
				t.Fatalf("after the error %v, the stream has %v, %v", last, ev, err)
			}
			if last = err; err == nil {
				stop()
			}
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("the error is %v, want one that is context.Canceled", last)
		}
		ended(t, gone)
	})
	t.Run("by leaving the loop", func(t *testing.T) {
		m, gone := hung(t)
		for _, err := range m.Generate(t.Context(), req) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		ended(t, gone)
	})
	for _, form := range forms {
		t.Run("before it began, "+form.name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			stop()
			srv := serve(t, atOnce, answer)
			for ev, err := range model(t, p, srv, form.whole).Generate(ctx, req) {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%v, %v", ev, err)
				}
			}
			if n := len(srv.asked()); n > 0 {
				t.Errorf("%d requests were made", n)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		srv := serve(t, atOnce, answer)
		srv.Close()
		_, _, err := model(t, p, srv, false).collect(t, req)
		var e *llm.Error
		if !errors.As(err, &e) || e.Kind != llm.ErrNetwork || !e.Retryable() {
			t.Errorf("%v, want an error of kind %s", err, llm.ErrNetwork)
		}
	})
}
