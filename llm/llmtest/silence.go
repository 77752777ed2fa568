package llmtest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

// silence holds an adapter to what it does where nothing comes: a stream that
// is silent for ten minutes ends, with an error that may pass, before its
// answer begins and in the middle of it, whatever its type says. Comments are
// life, and a message that comes at once may take its time.
func silence(t *testing.T, p Provider) {
	streamed, whole := must(t, p, "text", false), must(t, p, "text", true)
	half := places(streamed.body)[len(places(streamed.body))/2]
	end := strings.LastIndexByte(string(streamed.body[:half]), '\n') + 1
	hang := func(r *http.Request) { <-r.Context().Done() }
	for name, c := range map[string]struct {
		whole bool
		serve func(w http.ResponseWriter, r *http.Request)
		ends  time.Duration // zero: not by silence
	}{
		"before the answer": {false, func(_ http.ResponseWriter, r *http.Request) { hang(r) },
			10 * time.Minute},
		"in the middle": {false, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(9 * time.Minute)
			write(w, streamed, 0, end)
			hang(r)
		}, 19 * time.Minute},
		"in the middle, labelled as JSON": {false, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(9 * time.Minute)
			w.Header().Set("Content-Type", "application/json")
			write(w, reply{body: streamed.body}, 0, end)
			hang(r)
		}, 19 * time.Minute},
		"a whole message in place of a stream": {false,
			func(w http.ResponseWriter, _ *http.Request) {
				write(w, whole, 0, len(whole.body)/2)
				time.Sleep(time.Hour)
				write(w, whole, len(whole.body)/2, len(whole.body))
			}, 0},
		"comments for an hour": {false, func(w http.ResponseWriter, _ *http.Request) {
			write(w, streamed, 0, end)
			for range 60 {
				time.Sleep(time.Minute)
				_, _ = io.WriteString(w, ": alive\n")
				_ = http.NewResponseController(w).Flush()
			}
			write(w, streamed, end, len(streamed.body))
		}, 0},
		"a whole message after an hour": {true, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Hour)
			write(w, whole, 0, len(whole.body)/2)
			time.Sleep(time.Hour)
			write(w, whole, len(whole.body)/2, len(whole.body))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				m := adapter{p.New(t, Options{BaseURL: "http://memory.invalid", Whole: c.whole,
					Client: inMemory(t, c.serve)})}
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				_, _, err := m.collectIn(ctx, t, scenarios[0].request())
				var e *llm.Error
				switch {
				case c.ends == 0 && err != nil:
					t.Error(err)
				case c.ends == 0:
				case !errors.As(err, &e) || e.Kind != llm.ErrNetwork || !e.Retryable() ||
					e.Provider != p.Name || !strings.Contains(err.Error(), "silent"):
					t.Errorf("%v, want an error of kind %s that tells of the silence", err,
						llm.ErrNetwork)
				case time.Since(begun) != c.ends:
					t.Errorf("it ended after %v, want %v", time.Since(begun), c.ends)
				}
			})
		})
	}
}

// write sends a part of a reply, and its head before the first.
func write(w http.ResponseWriter, r reply, from, to int) {
	for name, values := range r.header {
		if name != "Content-Length" && name != "Transfer-Encoding" {
			w.Header()[name] = values
		}
	}
	_, _ = w.Write(r.body[from:to])
	_ = http.NewResponseController(w).Flush()
}

// inMemory returns the client of a server without a network, on which the time
// of a test has no hold.
func inMemory(t *testing.T, serve http.HandlerFunc) *http.Client {
	pipes := make(chan net.Conn)
	done, stop := context.WithCancel(context.Background())
	server := &http.Server{Handler: serve, BaseContext: func(net.Listener) context.Context { return done }}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener{pipes, done})
	}()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		near, far := net.Pipe()
		select {
		case pipes <- far:
			return near, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	t.Cleanup(func() {
		stop()
		transport.CloseIdleConnections()
		_ = server.Close()
		<-ended
	})
	return &http.Client{Transport: transport}
}

// listener hands out the far ends of pipes.
type listener struct {
	pipes chan net.Conn
	done  context.Context
}

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.pipes:
		return c, nil
	case <-l.done.Done():
		return nil, net.ErrClosed
	}
}

func (listener) Close() error   { return nil }
func (listener) Addr() net.Addr { return &net.IPAddr{} }
