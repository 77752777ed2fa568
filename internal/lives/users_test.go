package lives

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/session"
)

// answer is what was acknowledged to its sender.
type answer struct {
	session   string
	operation operation
	body      string
	at        time.Time // when it was accepted, by its receipt
}

// operation is the last part of a webhook's path.
type operation string

const (
	complete operation = ""
	fail     operation = "/fail"
	cancel   operation = "/cancel"
)

// receipt is the kind that an operation leaves, and settles is how a call ends
// by it.
func (o operation) receipt() session.Kind {
	return map[operation]session.Kind{complete: session.KindComplete, fail: session.KindFail,
		cancel: session.KindCancel}[o]
}

func (o operation) settles() event.Status {
	return map[operation]event.Status{complete: event.Done, fail: event.Failed,
		cancel: event.Cancelled}[o]
}

// user has one session after the other, until stop is closed.
func (w *world) user(stop <-chan struct{}, name string, r *rand.Rand) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
			w.change(func() { w.begun++ })
			w.chat(fmt.Sprintf("%s-%d", name, n), r)
		}
	}
}

// chat has one session from its message to its end, and answers all that waits
// in it.
func (w *world) chat(id string, r *rand.Rand) {
	query := "?session=" + url.QueryEscape(id)
	if status, text := w.send("/say"+query, ""); status != http.StatusOK && status != gaveUp {
		w.violation("session %s: the message got %d %s", id, status, text)
		return
	}
	answered := map[string]bool{}
	for n := 0; ; n++ {
		for _, e := range w.effects() {
			if e.User == id && e.Token != "" && !answered[e.Call] {
				answered[e.Call] = true
				if e.Tool == eventTool {
					w.sendEvents(e, r)
				} else {
					w.answer(e, r)
				}
			}
		}
		if n%8 == 0 {
			status, finish := w.send("/finish"+query, "")
			if status == gaveUp ||
				status == http.StatusOK && event.Finish(finish) == event.FinishStop {
				return
			}
		}
		<-w.again.C
	}
}

// reply is the webhook's response.
type reply struct {
	Duplicate bool
	At        time.Time
}

// answer delivers the result of an outside job until it is acknowledged, and
// then, perhaps in another life, once more.
func (w *world) answer(e effect, r *rand.Rand) {
	a := answer{session: e.Session, body: fmt.Sprintf(`{"n":%d}`, r.IntN(1000))}
	switch r.IntN(8) {
	case 0:
		a.operation, a.body = fail, `{"message":"no such thing"}`
	case 1:
		a.operation, a.body = cancel, `{"reason":"no longer needed"}`
	case 2:
		w.send("/hooks/"+e.Token+"/progress", `{"message":"on its way","fraction":0.5}`)
	}
	switch status, text := w.send("/hooks/"+e.Token+string(a.operation), a.body); status {
	case http.StatusOK:
		a.at = w.read(text).At
		w.change(func() { w.answers[e.Call] = a })
	case http.StatusGone: // the call has its result
		w.change(func() { w.refused[e.Call] = text })
		return
	case gaveUp:
		return
	default:
		w.violation("session %s, call %s: the answer got %d %s", e.Session, e.Call, status, text)
		return
	}
	if r.IntN(2) == 0 {
		return
	}
	switch status, text := w.send("/hooks/"+e.Token+string(a.operation), a.body); {
	case status == gaveUp:
	case status != http.StatusOK || w.read(text) != reply{Duplicate: true, At: a.at}:
		w.violation("session %s, call %s: the answer, sent again, got %d %s; it was accepted at %v",
			e.Session, e.Call, status, text, a.at)
	default:
		w.change(func() { w.repeats++ })
	}
}

// sendEvents sends a call its events, each until it is acknowledged, and perhaps
// once more, in another life.
func (w *world) sendEvents(e effect, r *rand.Rand) {
	for n := range events {
		var first reply
		for again := range 1 + r.IntN(2) {
			body := fmt.Sprintf(`{"name":"part","id":"%d","payload":%d}`, n, n)
			status, text := w.send("/hooks/"+e.Token+"/event", body)
			if status == gaveUp {
				return
			}
			if status != http.StatusOK {
				w.violation("session %s, call %s: event %d got %d %s", e.Session, e.Call, n, status, text)
				return
			}
			got := w.read(text)
			if again == 0 {
				first = got
				w.change(func() { w.events++ })
			} else if !got.Duplicate || !got.At.Equal(first.At) {
				w.violation("session %s, call %s: event %d, sent again, got %s; it was accepted at %v",
					e.Session, e.Call, n, text, first.At)
			}
		}
	}
}

func (w *world) read(text string) (r reply) {
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		w.violation("the webhook says %q: %v", text, err)
	}
	return r
}

// gaveUp stands for a status where there was none until the world was over.
const gaveUp = 0

// send posts to the child that lives, again and again until it gets an answer
// that isn't "try again".
func (w *world) send(path, body string) (status int, text string) {
	for {
		w.mu.Lock()
		for w.address == "" && !w.over {
			w.changed.Wait()
		}
		address, over := w.address, w.over
		w.mu.Unlock()
		if over {
			return gaveUp, ""
		}
		status, text, err := post(address+path, body)
		if err == nil && status != http.StatusServiceUnavailable {
			return status, text
		}
		<-w.again.C
	}
}

func post(url, body string) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// effects returns all that bodies have done so far.
func (w *world) effects() []effect {
	w.mu.Lock()
	defer w.mu.Unlock()
	more, err := entries[effect](w.dir, effectsFile, len(w.seen))
	if err != nil {
		w.violations++
		w.t.Error(err)
	}
	w.seen = append(w.seen, more...)
	return w.seen
}
