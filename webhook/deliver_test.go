package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

func TestCompleteIsAcceptedOnce(t *testing.T) {
	s := newSite(t, siteOptions{})
	url := s.paused()

	first := s.post(url, `{"url": "https://example.com"}`)
	first.accepted(t, false)
	if first.Call == "" || first.Pause != first.Call+".1" {
		t.Errorf("the answer names call %q and pause %q", first.Call, first.Pause)
	}
	s.post(url, ` {"url":"https://example.com"} `).accepted(t, true)
	s.post(url, `{"url": "https://other.example.com"}`).is(t, http.StatusConflict, "conflict")
	s.post(url+"/fail", `{"message": "no"}`).is(t, http.StatusConflict, "conflict")

	if end := s.carryOn(); end.Finish != event.FinishStop {
		t.Errorf("the run ended as %s", end.Finish)
	}
	s.post(url, `{"url":"https://example.com"}`).accepted(t, true)
	conflict := s.post(url, `{"url":"https://other.example.com"}`)
	conflict.is(t, http.StatusConflict, "conflict")
	if !strings.Contains(conflict.Detail, "answered before, with complete at") ||
		strings.Contains(conflict.Detail, "by webhook") {
		t.Errorf("a conflict says not what came first, or by whom: %s", conflict.Detail)
	}
	if c := s.call(); string(c.Output) != `{"url":"https://example.com"}` || len(c.Receipts) != 1 {
		t.Errorf("the call has output %s and %d receipts", c.Output, len(c.Receipts))
	}
}

func TestTwoDeliveriesAtOnce(t *testing.T) {
	for _, test := range []struct {
		name   string
		body   func(i int) string
		status int // of those that are not first
	}{
		{"equal ones are one and duplicates", func(int) string {
			return `{"url":"a"}`
		}, http.StatusOK},
		{"different ones are one and conflicts", func(i int) string {
			return fmt.Sprintf(`{"url":"%d"}`, i)
		}, http.StatusConflict},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, siteOptions{path: boltFile(t)})
			url := s.paused()
			const senders = 16
			got := make([]response, senders)
			var wg sync.WaitGroup
			for i := range senders {
				wg.Go(func() { got[i] = s.post(url, test.body(i)) })
			}
			wg.Wait()
			accepted := 0
			for _, r := range got {
				if r.status == http.StatusOK && !r.Duplicate {
					accepted++
				} else if r.status != test.status {
					t.Errorf("got %d %s", r.status, r.text)
				}
			}
			if accepted != 1 || len(s.call().Receipts) != 1 {
				t.Errorf("%d were accepted, and %d receipts are stored",
					accepted, len(s.call().Receipts))
			}
		})
	}
}

func TestRedeliveryAfterRestart(t *testing.T) {
	s := newSite(t, siteOptions{path: boltFile(t)})
	url := s.paused()
	s.restart()
	s.post(url, `{"url":"a"}`).accepted(t, false)
	s.restart()
	s.post(url, `{"url":"a"}`).accepted(t, true)
	s.carryOn()
	s.restart()
	s.post(url, `{"url":"a"}`).accepted(t, true)
	s.post(url, `{"url":"b"}`).is(t, http.StatusConflict, "conflict")
}

func TestFail(t *testing.T) {
	s := newSite(t, siteOptions{})
	url := s.paused()
	s.post(url+"/fail", `{"message": "the disk is full", "retryable": true}`).accepted(t, false)
	s.post(url+"/fail", `{"retryable": true, "message": "the disk is full"}`).accepted(t, true)
	s.post(url+"/fail", `{"message": "the disk is full"}`).is(t, http.StatusConflict, "conflict")
	if end := s.carryOn(); end.Finish != event.FinishStop {
		t.Errorf("the run ended as %s", end.Finish)
	}
	c := s.call()
	if c.Settled != event.Failed || !strings.Contains(string(c.Output), "the disk is full") {
		t.Errorf("the call is settled as %s: %s", c.Settled, c.Output)
	}
}

func TestFailWithoutBody(t *testing.T) {
	s := newSite(t, siteOptions{})
	s.post(s.paused()+"/fail", "").accepted(t, false)
	if c := s.call(); c.Settled != event.Failed {
		t.Errorf("the call is %s, settled as %q", c.Status, c.Settled)
	}
}

func TestCancel(t *testing.T) {
	s := newSite(t, siteOptions{})
	url := s.paused()
	s.post(url+"/cancel", `{"reason": "wrong branch"}`).accepted(t, false)
	s.post(url+"/cancel", "").accepted(t, true)
	s.post(url, `{"url":"a"}`).is(t, http.StatusGone, "cancelled")
	s.post(url+"/progress", `{"fraction": 0.5}`).is(t, http.StatusGone, "cancelled")
	c := s.call()
	if c.Settled != event.Cancelled || !strings.Contains(string(c.Output), "wrong branch") ||
		c.Actor != "webhook" {
		t.Errorf("the call is settled as %q by %q: %s", c.Settled, c.Actor, c.Output)
	}
}

func TestProgress(t *testing.T) {
	s := newSite(t, siteOptions{})
	url := s.paused()
	r := s.post(url+"/progress",
		`{"message": "half-way", "fraction": 0.5, "data": {"step": 9007199254740993}}`)
	r.accepted(t, false)
	transcript, err := s.rn.Show(t.Context(), chat, "ada")
	must(t, err)
	p := transcript.Pending[0].Progress
	if p == nil || p.Message != "half-way" || p.Fraction != 0.5 ||
		string(p.Data) != `{"step":9007199254740993}` {
		t.Errorf("the progress is %+v", p)
	}
	for _, body := range []string{`{"fraction": 1.5}`, `{"fraction": "half"}`,
		`{"percent": 50}`, `[]`, ``} {
		s.post(url+"/progress", body).is(t, http.StatusUnprocessableEntity, "invalid")
	}
	big := `{"message": "` + strings.Repeat("x", 17<<10) + `"}`
	s.post(url+"/progress", big).is(t, http.StatusUnprocessableEntity, "invalid_progress")

	s.post(url, `{"url":"a"}`).accepted(t, false)
	s.carryOn()
	s.post(url+"/progress", `{"fraction": 0.9}`).is(t, http.StatusGone, "settled")
	s.post(url+"/cancel", `{}`).is(t, http.StatusGone, "settled")
}

func TestInvalidPayloadNamesTheFields(t *testing.T) {
	s := newSite(t, siteOptions{})
	url := s.paused()
	r := s.post(url, `{"url": 7, "extra": true}`)
	r.is(t, http.StatusUnprocessableEntity, "invalid")
	paths := ""
	for _, f := range r.Faults {
		paths += f.Path + " "
	}
	if !strings.Contains(paths, "/url") || !strings.Contains(r.Detail, "url") {
		t.Errorf("the faults don't name the field: %s", r.text)
	}
	for _, body := range []string{"", "nope", `{"url":"a"} {}`, "null", `{"url":"a","url":"b"}`} {
		s.post(url, body).is(t, http.StatusUnprocessableEntity, "invalid")
	}
	r = s.post(url+"/fail", `{"retriable": true}`)
	r.is(t, http.StatusUnprocessableEntity, "invalid")
	if len(r.Faults) == 0 {
		t.Errorf("a misspelt member is no fault: %s", r.text)
	}
	s.post(url, `{"url":"a"}`).accepted(t, false) // nothing was recorded
}

func TestARefusalIsShorterThanWhatItRefuses(t *testing.T) {
	s := newSite(t, siteOptions{})
	url := s.paused()
	body := `{"` + strings.Repeat("k", 900<<10) + `":1}`
	for _, path := range []string{url, url + "/fail", url + "/cancel", url + "/progress"} {
		r := s.post(path, body)
		r.is(t, http.StatusUnprocessableEntity, "invalid")
		if len(r.text) > 4<<10 {
			t.Errorf("a body of %d bytes is refused in %d", len(body), len(r.text))
		}
	}
}

// The outside system may be faster than the commit of the pause. Its answer is
// kept, and the call never waits.
func TestAnswerBeforeThePause(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent, tool.ReadOnly} {
		t.Run("effect "+string(effect), func(t *testing.T) {
			s := newSite(t,
				siteOptions{path: boltFile(t), effect: effect, body: func(s *site, token string) {
					s.post(token+"/progress", `{"fraction": 0.1}`).accepted(t, false)
					s.post(token, `{"url": 1}`).is(t, http.StatusUnprocessableEntity, "invalid")
					s.post(token, `{"url":"early"}`).accepted(t, false)
					s.post(token, `{"url":"early"}`).accepted(t, true)
					s.post(token, `{"url":"late"}`).is(t, http.StatusConflict, "conflict")
				}})
			if end := s.run(); end.Finish != event.FinishStop {
				t.Fatalf("the run ended as %s", end.Finish)
			}
			if c := s.call(); string(c.Output) != `{"url":"early"}` || len(s.tokens) != 1 {
				t.Errorf("the body was entered %d times, and the output is %s",
					len(s.tokens), c.Output)
			}
			s.post(s.tokens[0], `{"url":"early"}`).accepted(t, true)
		})
	}
}

// The answer comes while the pause is on its way to the disk.
func TestAnswerDuringThePauseCommit(t *testing.T) {
	var commits *faultkv.Injector
	var armed atomic.Bool
	s := newSite(t, siteOptions{
		wrap: func(kv kvstore.Store) kvstore.Store {
			commits = faultkv.New(kv)
			return commits.Store
		},
		body: func(*site, string) { armed.Store(true) },
	})
	commits.Before(func(faultkv.Call) {
		if armed.CompareAndSwap(true, false) {
			s.post(s.tokens[0], `{"url":"early"}`).accepted(t, false)
		}
	})
	if end := s.run(); end.Finish != event.FinishStop {
		t.Fatalf("the run ended as %s", end.Finish)
	}
	if c := s.call(); string(c.Output) != `{"url":"early"}` {
		t.Errorf("the output is %s", c.Output)
	}
}

// One call's answer is taken while another call of the turn still runs, and the
// model is asked when both have their results.
func TestAnswerWhileASiblingRuns(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	slow := tool.Must(tool.Func(tool.Spec{Name: "slow"},
		func(context.Context, struct{}) (tool.Result[int], error) {
			close(entered)
			<-leave
			return tool.Done(1), nil
		}))
	s := newSite(t, siteOptions{
		tools: []tool.Tool{slow},
		model: fakellm.New(fakellm.Calls("job", `{"name":"build"}`).And("slow", `{}`),
			fakellm.Says("Built.")),
		body: func(s *site, token string) {
			<-entered
			s.post(token, `{"url":"early"}`).accepted(t, false)
			close(leave)
		},
	})
	if end := s.run(); end.Finish != event.FinishStop {
		t.Fatalf("the run ended as %s", end.Finish)
	}
	if c := s.call(); string(c.Output) != `{"url":"early"}` {
		t.Errorf("the output is %s", c.Output)
	}
}

func TestFailureBeforeThePause(t *testing.T) {
	s := newSite(t, siteOptions{body: func(s *site, token string) {
		s.post(token+"/fail", `{"message": "no such branch"}`).accepted(t, false)
	}})
	if end := s.run(); end.Finish != event.FinishStop {
		t.Fatalf("the run ended as %s", end.Finish)
	}
	if c := s.call(); c.Settled != event.Failed ||
		!strings.Contains(string(c.Output), "no such branch") {
		t.Errorf("the call is settled as %q: %s", c.Settled, c.Output)
	}
}

func TestTokenInTheHeader(t *testing.T) {
	s := newSite(t, siteOptions{})
	token := s.paused()
	// Progress first: the answer ends the pause.
	for _, to := range [][2]string{{"progress", `{"fraction":0.5}`}, {"", `{"url":"a"}`}} {
		r := s.request(http.MethodPost, to[0], strings.NewReader(to[1]))
		r.Header.Set("Authorization", "bearer "+token)
		s.send(r).accepted(t, false)
	}
	r := s.request(http.MethodPost, token, strings.NewReader(`{"url":"a"}`))
	r.Header.Set("Authorization", "Basic c2VuZGVyOnB3")
	s.send(r).accepted(t, true) // the token in the path counts
}

func TestURL(t *testing.T) {
	for _, base := range []string{"https://example.com/hooks", "https://example.com/hooks/"} {
		if got := webhook.URL(base, "f1.a.b"); got != "https://example.com/hooks/f1.a.b" {
			t.Errorf("URL(%q) = %q", base, got)
		}
	}
}

func TestMountedElsewhere(t *testing.T) {
	s := newSite(t, siteOptions{webhook: webhook.Config{Path: "/ops/callbacks", Actor: "ci"}})
	token := s.paused()
	s.post(token, `{"url":"a"}`).is(t, http.StatusNotFound, "no_such_path")
	r := s.request(http.MethodPost, "", strings.NewReader(`{"url":"a"}`))
	r.URL.Path = "/ops/callbacks/" + token
	s.send(r).accepted(t, false)
	s.carryOn()
	if c := s.call(); c.Receipts[0].Actor != "ci" || c.Receipts[0].Kind != session.KindComplete {
		t.Errorf("the receipt is %+v", c.Receipts[0])
	}
}

// The handler responds before the model is asked with the answer.
func TestTheModelIsNotWaitedFor(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	model := fakellm.New(fakellm.Calls("job", `{"name":"build"}`),
		fakellm.From(func(req llm.Request) fakellm.Turn {
			close(asked)
			<-answer
			return fakellm.Says("Built.")
		}))
	s := newSite(t, siteOptions{model: model})
	url := s.paused()
	ended := s.work()
	s.post(url, `{"url":"a"}`).accepted(t, false)
	<-asked
	s.post(url, `{"url":"a"}`).accepted(t, true) // and while the model thinks
	close(answer)
	if end := <-ended; end.Finish != event.FinishStop {
		t.Errorf("the run ended as %s", end.Finish)
	}
}

// A reason stands in the session's head, and so is short.
func TestLongReason(t *testing.T) {
	long := `{"reason": "` + strings.Repeat("x", 100<<10) + `"}`
	s := newSite(t, siteOptions{body: func(s *site, token string) {
		s.post(token+"/cancel", long).is(t, http.StatusUnprocessableEntity, "invalid_reason")
		s.post(token+"/cancel", `{"reason": "wrong branch"}`).accepted(t, false)
	}})
	s.run()
	if c := s.call(); c.Settled != event.Cancelled {
		t.Errorf("the call is settled as %q", c.Settled)
	}
}

// Some systems put a byte order mark before the body.
func TestByteOrderMark(t *testing.T) {
	const mark = "\uFEFF"
	s := newSite(t, siteOptions{})
	url := s.paused()
	s.post(url, mark).is(t, http.StatusUnprocessableEntity, "invalid")
	s.post(url, mark+mark+`{"url":"a"}`).is(t, http.StatusUnprocessableEntity, "invalid")
	s.post(url+"/progress", mark+`{"fraction":0.5}`).accepted(t, false)
	s.post(url, mark+`{"url":"a"}`).accepted(t, false)
	s.post(url, `{"url":"a"}`).accepted(t, true)

	other := newSite(t, siteOptions{})
	other.post(other.paused()+"/fail", mark+`{"message":"no"}`).accepted(t, false)
}
