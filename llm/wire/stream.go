package wire

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

// defaultIdle is how long a stream may be silent where an adapter's options say
// nothing.
const defaultIdle = 10 * time.Minute

// Stream marks the requests that are made with a context as requests for a
// stream, which [Client] ends once it has waited for idle without a byte: for
// the answer to begin, or to go on. Comments and pings are bytes, too. What
// comes in place of a stream, a message at once, may take its time once it has
// begun: it is one if its type and its first byte say so. Zero is
// ten minutes; with a negative idle, a stream may be silent for ever.
//
// Each line of the stream ends with one line feed, however it came.
//
// The time in which the reader of the stream is busy with what has come doesn't
// count.
func Stream(ctx context.Context, provider string, idle time.Duration) context.Context {
	return context.WithValue(ctx, streamKey{}, stream{provider, cmp.Or(idle, defaultIdle)})
}

type streamKey struct{}

type stream struct {
	provider string
	idle     time.Duration
}

func (s stream) silent() error {
	return &llm.Error{Kind: llm.ErrNetwork, Provider: s.provider,
		Err: fmt.Errorf("the stream was silent for %v, which is the options' Idle", s.idle)}
}

// streaming is the transport below [Client].
type streaming struct{ http.RoundTripper }

func (t streaming) RoundTrip(r *http.Request) (*http.Response, error) {
	s, marked := r.Context().Value(streamKey{}).(stream)
	if !marked {
		res, err := t.RoundTripper.RoundTrip(r)
		if err == nil {
			boundError(res)
		}
		return res, err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	w := &watched{stream: s, ctx: ctx, cancel: cancel}
	w.begin()
	res, err := t.RoundTripper.RoundTrip(r.WithContext(ctx))
	w.end()
	if err != nil {
		cancel(nil)
		return nil, w.why(err)
	}
	boundError(res)
	w.body, w.header, w.begun = res.Body, res.Header, !isJSON(res.Header)
	res.Body = struct {
		io.Reader
		io.Closer
	}{newLines(w), w}
	return res, nil
}

// isJSON reports whether an answer is labelled as one JSON value. Types such as
// application/x-ndjson are streams.
func isJSON(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return strings.HasSuffix(kind, "/json") || strings.HasSuffix(kind, "+json")
}

// watched is the body of a stream. The timer runs while a read waits.
type watched struct {
	stream
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	body   io.ReadCloser
	header http.Header
	begun  bool // its first byte has come, or doesn't matter
}

func (w *watched) begin() {
	switch {
	case w.idle < 0:
	case w.timer == nil:
		w.timer = time.AfterFunc(w.idle, func() { w.cancel(w.silent()) })
	default:
		w.timer.Reset(w.idle)
	}
}

func (w *watched) end() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// why returns the silence, if that ended the stream, in place of what came of
// it.
func (w *watched) why(err error) error {
	var silence *llm.Error
	if errors.As(context.Cause(w.ctx), &silence) {
		return Traced(silence, w.header)
	}
	return err
}

func (w *watched) Read(p []byte) (int, error) {
	w.begin()
	n, err := w.body.Read(p)
	w.end()
	w.look(p[:n])
	if err != nil && err != io.EOF {
		err = w.why(err)
	}
	return n, err
}

// look ends the watch if what is labelled as JSON begins as JSON does. Events
// may come under that label, too.
func (w *watched) look(p []byte) {
	if w.begun {
		return
	}
	if p = bytes.TrimLeft(p, " \t\r\n"+byteOrderMark); len(p) > 0 {
		w.begun = true
		if p[0] == '{' || p[0] == '[' {
			w.idle = -1
		}
	}
}

func (w *watched) Close() error {
	w.end()
	w.cancel(nil)
	return w.body.Close()
}
