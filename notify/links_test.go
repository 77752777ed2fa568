package notify_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/notify"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// A link of package webhook that was sent with a notification opens the page of
// its pause. No store and no log has it.
func TestLinksOfNotificationsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, false)
		r.paused()
		pages, err := webhook.NewLinks(r.Runner, webhook.LinksConfig{
			Base: "https://agents.example.com/links",
			User: func(*http.Request) (runner.Actor, error) { return "boss", nil },
		})
		must(t, err)
		var to outside
		r.work(time.Second, &to, &notify.Options{
			Links: func(ctx context.Context, p tool.Pause) ([]notify.Link, error) {
				url, err := pages.URL(ctx, webhook.Link{Pause: p, Holder: "boss"}, "notifier")
				if errors.Is(err, runner.ErrInvalidGrant) {
					return nil, nil
				}
				return []notify.Link{{Label: "Decide", URL: url}}, err
			}})
		if len(to.all) != 2 || len(to.all[1].Links) != 1 {
			t.Fatalf("sent are %+v", to.all)
		}
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequest("GET", to.all[1].Links[0].URL, nil))
		if page := w.Body.String(); w.Code != http.StatusOK ||
			!strings.Contains(page, "Refund &lt;500&gt; cents?") || !strings.Contains(page, "<form") {
			t.Errorf("the page is %d\n%s", w.Code, page)
		}
	})
}

// A store that can't be read here and now for a link is no failure of the
// notification: it stays due, however long that takes.
func TestLinksThatCannotBeMadeHere(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.paused()
		var to outside
		unread := session.ErrNewerVersion
		o := &notify.Options{Tries: 2, Links: func(context.Context, tool.Pause) ([]notify.Link, error) {
			return nil, unread
		}}
		r.work(time.Hour, &to, o)
		unread = session.ErrNoAnswer
		r.work(time.Hour, &to, o)
		for d, err := range notify.DeadLetters(t.Context(), r.store, "") {
			t.Errorf("there is the dead letter %+v, %v", d, err)
		}
		unread = nil
		r.work(time.Second, &to, o)
		if len(to.all) != 2 {
			t.Errorf("sent are %+v", to.all)
		}
	})
}
