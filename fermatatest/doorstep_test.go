package fermatatest_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/notify"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// doorstep is a session's outside world, and the process that it knocks at. It
// outlives the process: its people go on until what they bring is acknowledged.
// It runs in the bubble of a synctest.
type doorstep struct {
	t      *testing.T
	shared bool // the engine is no kvstore.Exclusive
	engine *kvstore.Memory
	faults []faultkv.Fault // of the first process, the second, and so on
	struck int             // how many of them did

	mu       sync.Mutex                 // guards the rest; held over no code of the project
	process  *process                   // nil: there is none just now
	ordered  bool                       // the shop knows of the order
	pressed  bool                       // the person has pressed the button
	entries  map[string]map[string]bool // idempotency keys, by tool
	told     map[int]notify.Notification
	notified chan notify.Notification // that have links
	wrong    []string
}

// process is one life: all that is in memory.
type process struct {
	rn     *runner.Runner
	store  *session.Store
	faults *faultkv.Injector
	links  *webhook.Links
	hook   http.Handler
}

const (
	doorChat     = "chat-1"
	doorBase     = "https://agents.example.com/links"
	doorPatience = 2 * time.Hour
)

var doorSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))

func newDoorstep(t *testing.T, shared bool, faults ...faultkv.Fault) *doorstep {
	return &doorstep{t: t, shared: shared, engine: kvstore.NewMemory(), faults: faults,
		entries: map[string]map[string]bool{}, told: map[int]notify.Notification{},
		notified: make(chan notify.Notification, 100)}
}

// live has processes serve, one after the other's death, until nothing is left
// to do.
func (d *doorstep) live() {
	ctx, cancel := context.WithTimeout(d.t.Context(), doorPatience)
	defer cancel()
	var outside sync.WaitGroup
	outside.Go(func() { d.user(ctx) })
	outside.Go(func() { d.shop(ctx) })
	outside.Go(func() { d.person(ctx) })
	for !d.serve(ctx) {
		d.engine = d.engine.Reopen()
	}
	if ctx.Err() != nil {
		d.t.Errorf("it doesn't come to its end; the store has\n%s", d.dump())
	}
	cancel()
	outside.Wait()
}

// serve is one process, from its beginning to its death, or to the end of all. It
// reports whether it was the end.
func (d *doorstep) serve(ctx context.Context) (over bool) {
	p := d.open(d.faults[:min(1, len(d.faults))]...)
	d.faults = d.faults[min(1, len(d.faults)):]
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var works sync.WaitGroup
	works.Go(func() { _ = p.rn.Work(ctx, &runner.WorkOptions{SweepEvery: -1}) })
	works.Go(func() {
		_ = notify.Work(ctx, p.store, notify.Func(d.notify),
			&notify.Options{Links: p.decide, FirstWait: time.Second, Logger: quietLog})
	})
	d.set(p)
	for over = false; !over && !p.faults.Dead() && ctx.Err() == nil; {
		time.Sleep(time.Second / 4)
		over = d.content(ctx, p)
	}
	d.set(nil)
	cancel()
	works.Wait()
	if err := p.rn.Close(); err != nil {
		d.t.Errorf("the runner is closed with %v", err)
	}
	d.struck += p.faults.Struck()
	return over || ctx.Err() != nil && !p.faults.Dead()
}

var quietLog = slog.New(slog.DiscardHandler)

func (d *doorstep) open(faults ...faultkv.Fault) *process {
	p := &process{faults: faultkv.New(d.engine, faults...)}
	kv := kvstore.Store(p.faults.Store)
	if d.shared {
		kv = kvtest.Shared(kv)
	}
	p.store = session.NewStore(kv, &session.Options{Notify: &session.Notify{}})
	ag, err := agent.New(d.agent())
	d.must(err)
	p.rn, err = runner.New(ag, p.store, &runner.Options{Logger: quietLog})
	d.must(err)
	p.links, err = webhook.NewLinks(p.rn, webhook.LinksConfig{Base: doorBase, Logger: quietLog,
		User: func(*http.Request) (runner.Actor, error) { return "grace", nil }})
	d.must(err)
	shop, err := webhook.StandardWebhooks(webhook.Secrets{Sender: "shop",
		Current: webhook.Fixed(doorSecret), Logger: quietLog})
	d.must(err)
	p.hook, err = webhook.ByKey(p.rn,
		webhook.KeyConfig{Verifier: shop, Tool: "order", Key: "/order", Logger: quietLog})
	d.must(err)
	return p
}

func (d *doorstep) must(err error) {
	if err != nil {
		panic(err)
	}
}

func (d *doorstep) set(p *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.process = p
}

// knock returns the process, once there is one and some time has passed.
func (d *doorstep) knock(ctx context.Context, after time.Duration) *process {
	for ctx.Err() == nil {
		time.Sleep(after)
		d.mu.Lock()
		p := d.process
		d.mu.Unlock()
		if p != nil {
			return p
		}
	}
	return nil
}

func (d *doorstep) violation(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wrong = append(d.wrong, fmt.Sprintf(format, args...))
}

// agent asks the shop for a thing, and pays for it, in one turn: the first
// waits for the shop's webhook, the second for a person.
func (d *doorstep) agent() agent.Config {
	order := tool.Must(tool.Func(
		tool.Spec{Name: "order", Effect: tool.Idempotent, MayPause: true},
		func(ctx context.Context, _ textIn) (tool.Result[json.RawMessage], error) {
			d.enter(ctx)
			return tool.Pending[json.RawMessage](tool.Await{Key: "order-7", Sender: "shop"}), nil
		}))
	pay := tool.Must(tool.Func(tool.Spec{Name: "pay", Effect: tool.Idempotent},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			d.enter(ctx)
			return tool.Done(textOut(in)), nil
		}))
	return agent.Config{Name: "ops", Tools: []tool.Tool{order, pay},
		Model: fakellm.New(
			fakellm.Calls("order", `{"text":"a"}`).And("pay", `{"text":"b"}`),
			fakellm.Says("It is on its way."), fakellm.Says("Well."), fakellm.Says("Bye.")),
		Interceptors: interceptor.Chain{
			interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"pay"}})},
	}
}

// enter notes that a body is entered.
func (d *doorstep) enter(ctx context.Context) {
	call := tool.CallFrom(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries[call.Tool] == nil {
		d.entries[call.Tool] = map[string]bool{}
	}
	d.entries[call.Tool][call.IdempotencyKey()] = true
	switch {
	case call.Tool == "order":
		d.ordered = true
	case !d.pressed:
		d.wrong = append(d.wrong, "it pays before a person has decided")
	}
}

// content reports whether nothing is left to do, inside and outside.
func (d *doorstep) content(ctx context.Context, p *process) bool {
	s, err := p.rn.Show(ctx, doorChat, "ada")
	if err != nil || len(s.History) < 8 || s.Finish == "" {
		return false
	}
	return d.keys("Q", "N", "O", "L") == 0
}

func (d *doorstep) keys(kinds ...string) (n int) {
	for _, kind := range kinds {
		page, err := d.engine.Scan(d.t.Context(), kvstore.Range{Prefix: kvstore.Key(kind)})
		d.must(err)
		n += len(page.Entries)
	}
	return n
}

// dump lists what is in the store.
func (d *doorstep) dump() string {
	var b strings.Builder
	for number, n := range d.told {
		fmt.Fprintln(&b, number, n.Kind, n.Finish, n.Tool, n.Why)
	}
	page, err := d.engine.Scan(d.t.Context(), kvstore.Range{Limit: kvstore.MaxPage})
	d.must(err)
	for _, e := range page.Entries {
		parts, _ := kvstore.Parts(e.Key)
		fmt.Fprintf(&b, "%q %s\n", parts, e.Value)
	}
	return b.String()
}

// account is what it all came to, as text. It checks the store.
func (d *doorstep) account() string {
	p := d.open()
	defer p.rn.Close()
	var b strings.Builder
	s, err := p.rn.Show(d.t.Context(), doorChat, "ada")
	d.must(err)
	fmt.Fprintln(&b, "finish", s.Finish)
	for _, m := range s.History {
		fmt.Fprintln(&b, m.Role, m.Text())
		for _, part := range m.Parts {
			if res, is := part.(llm.ToolResult); is {
				fmt.Fprintln(&b, "  result", string(res.Output), res.Error)
			}
		}
	}
	for _, tool := range slices.Sorted(maps.Keys(d.entries)) {
		fmt.Fprintln(&b, tool, "is begun", len(d.entries[tool]), "times")
	}
	var told []string
	for _, n := range d.told {
		told = append(told, fmt.Sprint(n.Kind, " ", cmp.Or(n.Tool, string(n.Finish))))
	}
	slices.Sort(told)
	fmt.Fprintln(&b, strings.Join(told, "\n"))
	for _, wrong := range d.wrong {
		d.t.Error(wrong)
	}
	if n := d.keys("Q", "N", "O", "L", "D"); n != 0 {
		d.t.Errorf("%d keys are left", n)
	}
	for problem, err := range p.store.Check(d.t.Context()) {
		d.t.Errorf("the store: %v, %v", problem, err)
	}
	return b.String()
}
