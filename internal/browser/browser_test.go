package browser_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// browser is a Chromium with a profile of its own.
type browser struct {
	t   *testing.T
	ctx context.Context // of its first tab

	mu     sync.Mutex
	blames []string // what it has complained of
}

// start starts a browser, and ends it with the test.
func start(t *testing.T) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if at, err := exec.LookPath(name); err == nil && path == "" {
			path = at
		}
	}
	if path == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no Chromium, and the tests of pages need one")
		}
		t.Skip("there is no Chromium: on Debian, apt-get install chromium")
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()),
		chromedp.Headless, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		// It looks for nothing but this machine.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"),
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses one to root
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	b := &browser{t: t}
	b.ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b.watch(b.ctx)
	return b
}

// tab opens another tab.
func (b *browser) tab() context.Context {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	b.watch(ctx)
	return ctx
}

// watch collects what the browser complains of in a tab.
func (b *browser) watch(tab context.Context) {
	b.t.Helper()
	must(b.t, chromedp.Listen(tab, func(ev any) {
		if e, ok := ev.(*cdplog.EventEntryAdded); ok {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.blames = append(b.blames, e.Entry.Text)
		}
	}))
	_, err := chromedp.Call(tab, cdplog.Enable, cdp.Empty{})
	must(b.t, err)
}

// blamed returns what it has complained of that has a word.
func (b *browser) blamed(word string) (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.blames {
		if strings.Contains(text, word) {
			all = append(all, text)
		}
	}
	return all
}

// step is one thing that is done in a tab.
type step = chromedp.Action[chromedp.Void]

func (b *browser) do(tab context.Context, steps ...step) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(tab, 20*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// asks returns what a script says of the page. Policies don't bind it.
func asks[T any](b *browser, tab context.Context, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(tab, chromedp.Evaluate[T](script))
	must(b.t, err)
	return v
}

// shows waits until the page's heading is as wanted, and checks its text. While a
// tab goes from one page to the next, it can't be asked.
func (b *browser) shows(tab context.Context, heading string, texts ...string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(tab, 20*time.Second)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	var page string
	for !strings.HasPrefix(page, heading+"\n") {
		select {
		case <-ctx.Done():
			b.t.Fatalf("it doesn't show %q, but\n%s", heading, page)
		case <-look.C:
		}
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](
			"document.readyState === 'complete' ? document.body.innerText : ''"))
		if err == nil {
			page = text
		}
	}
	for _, text := range texts {
		if !strings.Contains(page, text) {
			b.t.Errorf("the page doesn't have %q:\n%s", text, page)
		}
	}
}

// site has an agent, the pages of its links, and a login.
type site struct {
	*httptest.Server
	t     *testing.T
	rn    *runner.Runner
	links *webhook.Links
}

// newSite serves the pages of an agent with one tool. A person signs in at
// /login?as=NAME.
func newSite(t *testing.T, of tool.Tool, model llm.Model, layers ...interceptor.Layer) *site {
	t.Helper()
	ag, err := agent.New(agent.Config{Name: "shop", Model: model, Tools: []tool.Tool{of},
		Interceptors: layers})
	must(t, err)
	s := &site{t: t}
	s.rn, err = runner.New(ag, session.NewStore(kvstore.NewMemory(), nil), nil)
	must(t, err)
	t.Cleanup(func() { must(t, s.rn.Close()) })
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "login", Value: r.FormValue("as"), Path: "/",
			HttpOnly: true, SameSite: http.SameSiteLaxMode})
		_, _ = w.Write([]byte("<h1>Hello</h1>"))
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	s.links, err = webhook.NewLinks(s.rn, webhook.LinksConfig{Base: s.URL + "/links",
		User: func(r *http.Request) (runner.Actor, error) {
			c, err := r.Cookie("login")
			if err != nil {
				return "", webhook.ErrNoUser
			}
			return runner.Actor(c.Value), nil
		}})
	must(t, err)
	mux.Handle("/links/", s.links)
	return s
}

// link says something to the agent, and makes a link for what waits then.
func (s *site) link() (address string, p tool.Pause) {
	s.t.Helper()
	for _, err := range s.rn.Run(s.t.Context(), "ada", "chat-1", llm.UserText("Go."), nil) {
		must(s.t, err)
	}
	for p, err := range s.rn.Pending(s.t.Context(), session.PauseFilter{}, "mailer") {
		must(s.t, err)
		address, err = s.links.URL(s.t.Context(), webhook.Link{Pause: p}, "mailer")
		must(s.t, err)
		return address, p
	}
	s.t.Fatal("nothing waits")
	return "", p
}

// receipts returns what was accepted for a call.
func (s *site) receipts(p tool.Pause) []session.Receipt {
	s.t.Helper()
	call, err := s.rn.Call(s.t.Context(), p.Session, p.Call, "ada")
	must(s.t, err)
	return call.Receipts
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
