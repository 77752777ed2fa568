package fleet

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// gaveUp stands for a status where there was none.
const gaveUp = 0

// send posts to any process that lives, again and again until it gets an answer
// that isn't "try again". What it is about, if it is for the webhook, is a
// session and a call.
func (c *chat) send(path, body string, about ...string) (status int, text string) {
	for !c.w.isOver() {
		status, text := c.once(path, body, about...)
		if status != gaveUp && status != http.StatusServiceUnavailable {
			return status, text
		}
		time.Sleep(15 * time.Millisecond)
	}
	return gaveUp, ""
}

// once posts to any process that lives, and notes the response.
func (c *chat) once(path, body string, about ...string) (status int, text string) {
	status, text = c.post(path, body, about)
	what, _, _ := strings.Cut(path, "?") // a token is not for the log
	if strings.HasPrefix(what, "/hooks/") {
		what = "/hooks/"
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.last = fmt.Sprintf("%s: %d %.300s", what, status, text)
	return status, text
}

func (c *chat) post(path, body string, about []string) (status int, text string) {
	address := c.w.address(c.r)
	if address == "" {
		return gaveUp, ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+path,
		strings.NewReader(body))
	must(c.w.t, err)
	if len(about) > 0 {
		r.Header.Set(sessionHeader, about[0])
		r.Header.Set(callHeader, about[1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return gaveUp, ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return gaveUp, ""
	}
	return res.StatusCode, string(b)
}

// address returns that of any process that lives; empty if none does.
func (w *world) address(r *rand.Rand) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range r.Perm(len(w.fleet)) {
		if a := w.fleet[n].address; a != "" {
			return a
		}
	}
	return ""
}

func (w *world) isPeace() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.peace
}

func (w *world) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}
