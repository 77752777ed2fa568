package browser_test

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/httpapi"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// told is a model that says what the test tells it to.
type told chan llm.Event

func (c told) Generate(ctx context.Context, _ llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		for {
			select {
			case ev := <-c:
				if _, ends := ev.(llm.Finish); !yield(ev, nil) || ends {
					return
				}
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

func (c told) says(text string) { c <- llm.TextDelta{Text: text} }

// line is between browsers and a server, and can be cut.
type line struct {
	http.Handler
	mu   sync.Mutex
	cuts []context.CancelFunc
	gate chan struct{} // open: closed
}

// ServeHTTP breaks a stream off where the line is cut, and lets none through
// before it is mended.
func (l *line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/events") {
		l.Handler.ServeHTTP(w, r)
		return
	}
	ctx, cut := context.WithCancel(r.Context())
	l.mu.Lock()
	gate := l.gate
	l.cuts = append(l.cuts, cut)
	l.mu.Unlock()
	select {
	case <-gate:
	case <-r.Context().Done():
	}
	l.Handler.ServeHTTP(w, r.WithContext(ctx))
	panic(http.ErrAbortHandler)
}

// cut cuts it, until mend.
func (l *line) cut() (mend func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gate := make(chan struct{})
	l.gate = gate
	for _, cut := range l.cuts {
		cut()
	}
	l.cuts = nil
	return func() { close(gate) }
}

// A chat in two browsers, over the page of the example: the text streams, the
// connections break off while the model goes on, and one of them approves a
// call. Nothing is lost, and nothing is shown twice.
func TestAChatInTwoBrowsers(t *testing.T) {
	b := start(t)
	page, err := os.ReadFile("../../examples/chat-server/page.html")
	must(t, err)
	model := make(told)
	restart := tool.Must(tool.Func(tool.Spec{Name: "restart", Description: "Restart the shop."},
		func(context.Context, struct{}) (tool.Result[string], error) { return tool.Done("up"), nil }))
	ag, err := agent.New(agent.Config{Name: "shop", Model: model, Tools: []tool.Tool{restart},
		Interceptors: interceptor.Chain{interceptor.Approval(nil)}})
	must(t, err)
	rn, err := runner.New(ag, session.NewStore(kvstore.NewMemory(), nil), nil)
	must(t, err)
	t.Cleanup(func() { must(t, rn.Close()) })
	api, err := httpapi.New(rn, httpapi.Config{Path: "/api/",
		User:    func(*http.Request) (runner.Actor, error) { return "ada", nil },
		Streams: httpapi.Streams{Retry: 100 * time.Millisecond}})
	must(t, err)
	mux := http.NewServeMux()
	mux.Handle("/api/", api)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	open := make(chan struct{})
	close(open)
	between := &line{Handler: mux, gate: open}
	server := httptest.NewServer(between)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = rn.Work(ctx, nil) })
	t.Cleanup(func() { stop(); work.Wait() })

	write := func(tab context.Context, text string) {
		b.do(tab, chromedp.SendKeys(chromedp.ID("text"), text), chromedp.Click(chromedp.CSS("form button")))
	}
	one, two := b.ctx, b.tab()
	b.do(one, chromedp.Navigate(server.URL+"/"))
	write(one, "Please restart the shop.")
	b.logs(one, "Please restart the shop.")
	b.do(two, chromedp.Navigate(asks[string](b, one, "location.href")))
	both := func(want ...string) {
		t.Helper()
		b.logs(one, want...)
		b.logs(two, want...)
	}
	both("Please restart the shop.")
	model.says("I restart")
	both("Please restart the shop.", "I restart")
	mend := between.cut()
	model.says(" the shop")
	mend()
	both("Please restart the shop.", "I restart the shop")
	mend = between.cut()
	model.says(".")
	model <- llm.PartDone{Part: llm.ToolCall{Name: "restart", Arguments: json.RawMessage("{}")}}
	model <- llm.Finish{Reason: llm.StopToolCalls}
	mend()
	asked := "Run restart? ApproveDeny"
	both("Please restart the shop.", "I restart the shop.", asked)
	b.do(two, chromedp.Click(chromedp.CSS(".pause button")))
	both("Please restart the shop.", "I restart the shop.", "restart: done")
	model.says("That is")
	both("Please restart the shop.", "I restart the shop.", "restart: done", "That is")
	mend = between.cut()
	model.says(" done.")
	model <- llm.Finish{Reason: llm.StopEnd}
	write(two, "Thanks.")
	model.says("Any time.")
	mend()
	model <- llm.Finish{Reason: llm.StopEnd}
	both("Please restart the shop.", "I restart the shop.", "restart: done", "That is done.",
		"Thanks.", "Any time.")
}

// logs waits until the chat shows these paragraphs, and no others.
func (b *browser) logs(tab context.Context, want ...string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(tab, 20*time.Second)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	var got string
	for {
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](
			"Array.from(document.querySelectorAll('#log > *'), e => e.textContent).join('\\n')"))
		if err == nil {
			got = text
		}
		if got == strings.Join(want, "\n") {
			return
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("it shows\n%s\nand not\n%s", got, strings.Join(want, "\n"))
		case <-look.C:
		}
	}
}
