package lives

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// moment is what a child was doing when it was killed.
type moment string

const (
	inCommit moment = "in a commit"
	inBody   moment = "in a body"
	idle     moment = "while idle"
)

// world is everything but the child: users, senders of webhooks, and whoever pulls the plug.
type world struct {
	t   *testing.T
	dir string

	mu       sync.Mutex
	changed  sync.Cond
	address  string // of the child that lives; empty: none does
	held     bool   // nobody sends anything
	sessions int
	answers  map[string]answer // by call: those that were acknowledged
	refused  map[string]string // by call: why an answer was refused for good
	repeats  int               // answers that were acknowledged as duplicates
	kills    map[moment]int
}

// answer is what was acknowledged to its sender.
type answer struct{ session, operation, body string }

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), answers: map[string]answer{}, refused: map[string]string{}, kills: map[moment]int{}}
	w.changed.L = &w.mu
	return w
}

// process is one life of the child.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan string // of its output, closed at its end
}

func (w *world) start() *process {
	w.t.Helper()
	self, err := os.Executable()
	must(w.t, err)
	p := &process{cmd: exec.Command(self), lines: make(chan string, 1<<16)}
	p.cmd.Env = append(os.Environ(), childDirectory+"="+w.dir)
	p.cmd.Stderr = os.Stderr
	p.stdin, err = p.cmd.StdinPipe()
	must(w.t, err)
	output, err := p.cmd.StdoutPipe()
	must(w.t, err)
	must(w.t, p.cmd.Start())
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(output); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	first, ok := <-p.lines
	address, found := strings.CutPrefix(first, "at ")
	if !ok || !found {
		w.t.Fatalf("the child says %q", first)
	}
	w.change(func() { w.address = "http://" + address })
	return p
}

// change changes what others wait for.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.changed.Broadcast()
}

// inFlight counts what a child has begun and not ended.
type inFlight map[string]int

func (f inFlight) note(line string) {
	if what, ok := strings.CutSuffix(line, "+"); ok {
		f[what]++
	} else if what, ok := strings.CutSuffix(line, "-"); ok {
		f[what]--
	}
}

func (f inFlight) moment() moment {
	switch {
	case f["commit"] > 0:
		return inCommit
	case f["body"] > 0:
		return inBody
	}
	return idle
}

// kill lets a child live for a while, and then ends it at a moment of the wanted kind, if that comes soon.
func (w *world) kill(p *process, r *rand.Rand, want moment) {
	flying, end := inFlight{}, time.After(2*time.Second)
	grown := time.After(time.Duration(r.IntN(25)) * time.Millisecond) // a life is not always short
	mature := false
	for want != "" {
		var quiet <-chan time.Time
		if mature && want == idle && flying.moment() == idle {
			quiet = time.After(5 * time.Millisecond)
		}
		select {
		case line, ok := <-p.lines:
			if !ok {
				w.t.Fatal("the child ended by itself")
			}
			flying.note(line)
			if mature && want != idle && flying.moment() == want {
				if want == inCommit { // at its beginning, or in its middle
					time.Sleep(time.Duration(r.IntN(2)*r.IntN(400)) * time.Microsecond)
				}
				want = ""
			}
		case <-grown:
			mature = true
			if want == idle {
				w.change(func() { w.held = true })
			}
		case <-quiet:
			want = ""
		case <-end:
			want = ""
		}
	}
	w.change(func() { w.address = "" })
	must(w.t, p.cmd.Process.Kill())
	for line := range p.lines {
		flying.note(line) // all that it had written before
	}
	_ = p.cmd.Wait()
	w.change(func() { w.kills[flying.moment()]++; w.held = false })
}

// send posts to whatever child lives, again and again until it gets an answer that isn't "try again".
func (w *world) send(path, body string) (status int, answer string) {
	for {
		w.mu.Lock()
		for w.address == "" || w.held {
			w.changed.Wait()
		}
		address := w.address
		w.mu.Unlock()
		status, answer, err := post(address+path, body)
		if err == nil && status != http.StatusServiceUnavailable {
			return status, answer
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func post(url, body string) (status int, answer string, err error) {
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

// user has one session from its message to its end, and answers whatever waits in it.
func (w *world) user(id string, r *rand.Rand) {
	session := "?session=" + url.QueryEscape(id)
	if status, text := w.send("/say"+session, ""); status != http.StatusOK {
		w.t.Errorf("session %s: the message got %d %s", id, status, text)
		return
	}
	answered := map[string]bool{}
	for {
		for _, e := range w.effects(id) {
			if e.Token != "" && !answered[e.Call] {
				answered[e.Call] = true
				w.answer(e, r)
			}
		}
		status, finish := w.send("/finish"+session, "")
		if status == http.StatusOK && finish == atRest {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// answer delivers what became of an outside job: until it is acknowledged, and then, perhaps in another life, once more.
func (w *world) answer(e effect, r *rand.Rand) {
	a := answer{session: e.Session, body: fmt.Sprintf(`{"n":%d}`, r.IntN(1000))}
	switch r.IntN(8) {
	case 0:
		a.operation, a.body = "/fail", `{"message":"no such thing"}`
	case 1:
		a.operation, a.body = "/cancel", `{"reason":"no longer needed"}`
	case 2:
		w.send("/hooks/"+e.Token+"/progress", `{"message":"on its way","fraction":0.5}`)
	}
	status, text := w.send("/hooks/"+e.Token+a.operation, a.body)
	if status != http.StatusOK {
		if status == http.StatusUnauthorized || strings.Contains(text, "conflict") {
			w.t.Errorf("session %s, call %s: the answer got %d %s", e.Session, e.Call, status, text)
		}
		w.change(func() { w.refused[e.Call] = text })
		return
	}
	w.change(func() { w.answers[e.Call] = a })
	if r.IntN(2) == 0 {
		status, text = w.send("/hooks/"+e.Token+a.operation, a.body)
		if status != http.StatusOK || !strings.Contains(text, `"duplicate":true`) {
			w.t.Errorf("session %s, call %s: the answer, sent again, got %d %s", e.Session, e.Call, status, text)
		}
		w.change(func() { w.repeats++ })
	}
}

// effects reads what bodies have done out there, all or those of a session.
func (w *world) effects(session string) (found []effect) {
	b, err := os.ReadFile(filepath.Join(w.dir, effectsFile))
	if err != nil {
		return nil // nothing yet
	}
	for line := range bytes.Lines(b) {
		var e effect
		if err := json.Unmarshal(line, &e); err != nil {
			w.t.Errorf("the outside world has %q: %v", line, err)
		} else if session == "" || e.Session == session {
			found = append(found, e)
		}
	}
	return found
}

// rarest is the kind of moment of which there were fewest kills so far.
func (w *world) rarest() moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	rare := idle
	for _, m := range []moment{inCommit, inBody} {
		if w.kills[m] < w.kills[rare] {
			rare = m
		}
	}
	return rare
}

func (w *world) killed() map[moment]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.kills)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
