package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/runner"
)

// slowClient takes a second for the piece that its mark stands in. Before it has
// read that one, something happens.
type slowClient struct {
	*httptest.ResponseRecorder
	mark    string
	happens func()
}

func (c *slowClient) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(c.mark)) {
		c.happens()
		<-time.After(time.Second)
	}
	return c.ResponseRecorder.Write(b)
}

// texts is a format of lines, as they are.
type texts struct{}

func (texts) frames(event.Event) ([]frame, error) { return nil, nil }
func (texts) fails(error) []frame                 { return []frame{{data: []byte("refused")}} }
func (texts) closes() []frame                     { return []frame{{data: []byte("closed")}} }

// A client that reads slowly is sent no more than the piece that is on its way
// when its user may look no longer, the handler is to stop, or the request ends:
// whether that is within a frame or between two, and with more in the queue.
func TestASlowStreamEnds(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(h *Handler, user *runner.Actor, cancel func())
		last string // what it is told
	}{
		"signed out": {func(_ *Handler, user *runner.Actor, _ func()) { *user = "" }, "data: refused\n\n"},
		"draining":   {func(h *Handler, _ *runner.Actor, _ func()) { h.Drain() }, "data: closed\n\n"},
		"gone":       {func(_ *Handler, _ *runner.Actor, cancel func()) { cancel() }, ""},
	} {
		for _, within := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				user, q := runner.Actor("ada"), newQueue()
				h := &Handler{config: Config{User: func(*http.Request) (runner.Actor, error) {
					return user, nil
				}}}
				h.config.Streams = Streams{Heartbeat: time.Hour, Reauthorize: time.Second / 2,
					Write: time.Minute}
				h.crew.begin(h.config.Streams)
				c := &slowClient{ResponseRecorder: httptest.NewRecorder(), mark: "mark", happens: func() {
					test.end(h, &user, cancel)
					q.put(item{frame: frame{data: []byte("secret")}})
				}}
				large := "mark" + strings.Repeat("x", 3*piece)
				if !within {
					large = "mark" + strings.Repeat("x", piece-len("data: mark\n\n"))
				}
				for _, text := range []string{large, "secret"} {
					q.put(item{frame: frame{data: []byte(text)}})
				}
				v := &visit{h: h, w: c, user: "ada", drives: true,
					r: httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)}
				if err := v.write(texts{}, q, ""); err != nil {
					t.Error(err)
				}
				got := c.Body.String()
				got = got[strings.Index(got, "mark"):]
				want := large + "\n\n" + test.last
				if within {
					want = large[:piece-len("data: ")]
				}
				if got != want {
					t.Errorf("%s, within %v: %d bytes are sent, which end with %q, and not %d", name, within,
						len(got), got[max(0, len(got)-40):], len(want))
				}
			})
		}
	}
}
