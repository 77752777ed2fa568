package fermatatest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/notify"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// Who knocks at the door, and goes on until what they bring is acknowledged.

// user sends messages, one after the other.
func (d *doorstep) user(ctx context.Context) {
	for i, text := range []string{"Order it.", "How long?", "Thanks."} {
		for p := d.knock(ctx, time.Second); p != nil; p = d.knock(ctx, time.Second) {
			sent, err := p.rn.Send(ctx, "ada", doorChat, llm.UserText(text),
				&runner.SendOptions{MessageID: fmt.Sprint("m", i)})
			if err == nil && sent.ID == fmt.Sprint("m", i) {
				break
			}
		}
	}
}

// shop signs that the order is on its way, and brings it once more after it was
// accepted.
func (d *doorstep) shop(ctx context.Context) {
	body := []byte(`{"order":"order-7","state":"sent"}`)
	for accepted := 0; accepted < 2; {
		p := d.knock(ctx, 2*time.Second)
		if p == nil {
			return
		}
		d.mu.Lock()
		ordered := d.ordered
		d.mu.Unlock()
		if !ordered {
			continue
		}
		r := httptest.NewRequest("POST", "https://agents.example.com/shop", strings.NewReader(string(body)))
		d.must(webhook.Sign(r.Header, doorSecret, "evt-1", time.Now(), body))
		w := httptest.NewRecorder()
		p.hook.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusOK:
			accepted++
		case http.StatusServiceUnavailable:
		default:
			d.violation("the shop is told %d: %s", w.Code, w.Body)
		}
	}
}

// decide makes the link that a notification has.
func (p *process) decide(ctx context.Context, pause tool.Pause) ([]notify.Link, error) {
	address, err := p.links.URL(ctx, webhook.Link{Pause: pause, Holder: "grace"}, "notifier")
	if errors.Is(err, runner.ErrInvalidGrant) {
		return nil, nil
	}
	return []notify.Link{{Label: "Decide", URL: address}}, err
}

// notify takes a notification.
func (d *doorstep) notify(_ context.Context, n notify.Notification) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, again := d.told[n.Number]
	switch {
	case again && before.ID != n.ID:
		d.wrong = append(d.wrong, fmt.Sprintf("number %d has two ids", n.Number))
	case !again && n.Number != len(d.told)+1:
		d.wrong = append(d.wrong, fmt.Sprintf("number %d comes after %d", n.Number, len(d.told)))
	}
	d.told[n.Number] = n
	if len(n.Links) > 0 {
		d.notified <- n
	}
	return nil
}

var ticket = regexp.MustCompile(`name="ticket" value="(.*?)"`)

// person opens each link that comes, reads, and presses Approve, until the page
// tells that it is decided.
func (d *doorstep) person(ctx context.Context) {
	for {
		select {
		case n := <-d.notified:
			for p := d.knock(ctx, 3*time.Second); p != nil; p = d.knock(ctx, 3*time.Second) {
				if d.visit(p, n.Links[0].URL) {
					break
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// visit reports whether the pause behind a link is decided.
func (d *doorstep) visit(p *process, link string) bool {
	page := httptest.NewRecorder()
	p.links.ServeHTTP(page, httptest.NewRequest("GET", link, nil))
	form := ticket.FindStringSubmatch(page.Body.String())
	if page.Code != http.StatusOK || form == nil {
		if page.Code != http.StatusServiceUnavailable && page.Code != http.StatusOK &&
			page.Code != http.StatusGone && page.Code != http.StatusConflict {
			d.violation("the person is shown %d: %s", page.Code, page.Body)
		}
		return page.Code != http.StatusServiceUnavailable
	}
	d.mu.Lock()
	d.pressed = true
	d.mu.Unlock()
	sent := url.Values{"ticket": {form[1]}, "act": {"approve"}}
	r := httptest.NewRequest("POST", link, strings.NewReader(sent.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range page.Result().Cookies() {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	p.links.ServeHTTP(w, r)
	return w.Code == http.StatusSeeOther
}
