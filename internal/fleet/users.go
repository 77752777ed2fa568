package fleet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/histories"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// chat is one session, and what its user and its senders of answers were told.
type chat struct {
	w  *world
	id string
	r  *rand.Rand

	answers   map[string]answer // by call: what was acknowledged
	refused   map[string]string // by call: why an answer was refused for good
	done      map[string]bool   // what needn't be answered any more: by call or pause
	cancels   bool              // the session is cancelled in its middle
	cancelled instant           // when that was acknowledged
	began     instant
	ended     instant // when its user saw that it had
	continued int     // how often it was carried on by hand
	setAside  int     // how often that was because drives had failed
	heldBack  int     // how often because drives had died, and workers waited
	finished  bool
	paid      string   // how the user's wait handle was ended, as was acknowledged
	waits     []string // for what, when last seen
	last      string   // what the user was told last
	repeats   int
}

// answer is what was acknowledged to its sender.
type answer struct {
	operation string // the last part of the webhook's path
	body      string
	at        time.Time
}

// user has one session after the other, each to its end, until stop is closed.
func (w *world) user(stop <-chan struct{}, name string, r *rand.Rand) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		w.chat(fmt.Sprintf("%s-%d", name, n), r).run()
	}
}

func (w *world) chat(id string, r *rand.Rand) *chat {
	c := &chat{w: w, id: id, r: r, began: now(), ended: never,
		answers: map[string]answer{}, refused: map[string]string{}, done: map[string]bool{}}
	c.cancels = r.IntN(6) == 0
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions[id] = c
	return c
}

// run has the session, from its message to its end.
func (c *chat) run() {
	c.makeWait()
	first := url.Values{"session": {c.id}, "id": {"first"}, "text": {"Go."}}
	if c.r.IntN(3) == 0 { // the user leaves in the middle, perhaps before the message is taken
		c.once("/say?"+first.Encode()+"&leave="+rand.N(250*time.Millisecond).String(), "")
	}
	if status, text := c.send("/say?"+first.Encode(), ""); status != http.StatusOK &&
		status != gaveUp {
		c.w.violation("session %s: the message got %d %s", c.id, status, text)
	}
	whenToPay := c.r.IntN(60)
	for n := 0; !c.w.isOver(); n++ {
		if n == whenToPay {
			c.endWait()
		}
		c.answerByLedger()
		if n%4 == 0 && c.look() {
			return
		}
		time.Sleep(15 * time.Millisecond)
	}
}

// answerByLedger answers the jobs that bodies have begun out there.
func (c *chat) answerByLedger() {
	notes, err := c.w.ledger.all()
	must(c.w.t, err)
	for _, n := range notes {
		if n.What != entered || n.User != c.id || c.done[n.Call] {
			continue
		}
		if c.cancels && n.Session != c.id {
			continue // it ends with the session that is cancelled, and by nothing else
		}
		switch kinds[n.Tool].wait {
		case byToken:
			c.done[n.Call] = true
			c.byToken(n)
		case byEvents:
			c.done[n.Call] = true
			c.sendEvents(n)
		case byKey:
			if c.cancels && !c.hasKey(n.Call) {
				continue // it may never have one: its session ends
			}
			c.done[n.Call] = true
			body := fmt.Sprintf(`{"n":%d}`, c.r.IntN(1000))
			c.answer(n.Call, answer{body: body},
				"/key?"+url.Values{"key": {keyOf(n.Call)}, "text": {body}}.Encode())
		}
	}
}

// hasKey reports whether the job of a call is known by its key.
func (c *chat) hasKey(call string) bool {
	status, _ := c.once("/find?"+url.Values{"key": {keyOf(call)}}.Encode(), "")
	return status != http.StatusServiceUnavailable && status != gaveUp
}

// sendEvents sends a call its events, each until it is acknowledged, and
// perhaps once more.
func (c *chat) sendEvents(n note) {
	for i := range events {
		body := fmt.Sprintf(`{"name":%q,"id":"%d","payload":"part %d"}`, histories.EventName, i+1, i)
		for range 1 + c.r.IntN(2) {
			switch status, text := c.send("/hooks/"+n.Token+"/event", body, n.Session, n.Call); {
			case status == http.StatusOK, status == gaveUp:
			case c.cancels && status == http.StatusGone:
			default:
				c.w.violation("session %s: an event for a call got %d: %s %s", c.id, status, n.Call, text)
			}
		}
	}
}

func (c *chat) byToken(n note) {
	a := answer{body: fmt.Sprintf(`{"n":%d}`, c.r.IntN(1000))}
	switch c.r.IntN(8) {
	case 0:
		a.operation, a.body = "/fail", `{"message":"no such thing"}`
	case 1:
		a.operation, a.body = "/cancel", `{"reason":"no longer needed"}`
	case 2:
		c.once("/hooks/"+n.Token+"/progress", `{"message":"on its way","fraction":0.5}`,
			n.Session, n.Call)
	}
	c.answer(n.Call, a, "/hooks/"+n.Token+a.operation, n.Session, n.Call)
}

// answer delivers an answer until it is acknowledged, and then, perhaps, once
// more.
func (c *chat) answer(call string, a answer, path string, about ...string) {
	status, text := c.send(path, a.body, about...)
	switch status {
	case http.StatusOK:
		a.at = c.read(text).At
		c.answers[call] = a
	case http.StatusGone, http.StatusConflict: // the call has its result, or does not wait any more
		c.refused[call] = text
		return
	case gaveUp:
		return
	default:
		c.w.violation("session %s: the answer to a call got %d: %s %s", c.id, status, call, text)
		return
	}
	if c.r.IntN(3) > 0 {
		return
	}
	switch status, text := c.send(path, a.body, about...); {
	case status == gaveUp:
	case status != http.StatusOK || c.read(text) != reply{Duplicate: true, At: a.at}:
		c.w.violation("session %s: an answer that was accepted got, when sent again, %d %s: %s %v",
			c.id, status, text, call, a)
	default:
		c.repeats++
	}
}

func (c *chat) read(text string) (r reply) {
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		c.w.violation("session %s: what was accepted is answered by %q: %v", c.id, text, err)
	}
	return r
}

// look loads the session, and does what its user has to do. It reports whether
// the session has come to its end.
func (c *chat) look() (over bool) {
	query := "?" + url.Values{"session": {c.id}}.Encode()
	status, text := c.once("/show"+query, "")
	if status != http.StatusOK {
		return false
	}
	var t runner.Transcript
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		c.w.violation("session %s is shown as %q: %v", c.id, text, err)
		return true
	}
	var waits []string
	for _, p := range t.Pending {
		waits = append(waits, string(p.Await.Reason))
		c.settle(p)
	}
	if over = t.Finish == event.FinishStop || t.Finish == event.FinishCancelled; over {
		status, text := c.once("/below"+query, "") // nothing below it is left open
		over = status == http.StatusOK && strings.TrimSpace(text) == "0"
	}
	c.w.mu.Lock()
	c.waits, c.finished = waits, over
	if over {
		c.ended = now()
	}
	c.w.mu.Unlock()
	if c.cancels && c.cancelled == 0 && t.Turn > 1 {
		c.cancelSession(query)
	}
	// A user who sees in the list that deaths hold the session back carries it
	// on.
	if !t.Again.IsZero() && !t.Driven && c.w.isPeace() {
		c.heldBack++
		c.once("/continue"+query, "")
		return false
	}
	switch t.Finish {
	case event.FinishInterrupted, event.FinishFailed:
		if t.Driven {
			return false
		}
		c.continued++
		if t.Finish == event.FinishFailed {
			c.setAside++
		}
		c.once("/continue"+query, "")
	}
	return over
}

// settle does what a person does about a pause.
func (c *chat) settle(p tool.Pause) {
	switch {
	case p.Await.Gate != "" && !c.done[p.ID]:
		c.done[p.ID] = true
		c.answer(p.ID, answer{operation: "approve"},
			"/decide?"+url.Values{"session": {c.id}, "pause": {p.ID}}.Encode())
	case p.Await.Mode == tool.ModeMessage:
		second := url.Values{"session": {c.id}, "id": {answering}, "text": {"say three"}}
		status, text := c.once("/say?"+second.Encode(), "")
		if status == http.StatusOK {
			c.done[p.ID] = true
		} else if status != http.StatusServiceUnavailable && status != gaveUp &&
			status != http.StatusConflict && c.cancelled == 0 {
			c.w.violation("session %s: the message that answers got %d %s", c.id, status, text)
		}
	}
}

// cancelSession ends the session for good. It is refused for a moment or not at
// all.
func (c *chat) cancelSession(query string) {
	switch status, text := c.once("/cancelsession"+query, ""); status {
	case http.StatusOK:
		c.cancelled = now()
	case gaveUp, http.StatusServiceUnavailable:
	default:
		c.w.violation("session %s: to cancel it got %d %s", c.id, status, text)
		c.cancels = false
	}
}
