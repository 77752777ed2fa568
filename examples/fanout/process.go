package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/schedule"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
	"github.com/fermata-ai/fermata/webhook"
)

// process is one process: it opens the file, and a worker carries on what is due.
type process struct {
	*runner.Runner
	db     kvstore.Store
	server *httptest.Server  // takes webhooks
	rests  chan event.Finish // gets a value when the night's session rests
	gate   string            // the address that opens the gate
	stop   context.CancelFunc
	worked chan struct{} // is closed when the worker has ended
}

func open(file string) *process {
	p := &process{rests: make(chan event.Finish, 10), worked: make(chan struct{})}
	p.server = httptest.NewUnstartedServer(nil)
	var err error
	p.db, err = store.Open(file)
	check(err)
	waits, err := wait.New(wait.Config{
		Agents: []*agent.Agent{researcher("archive"), researcher("library"), researcher("museum")},
		Webhook: func(token string) string {
			p.gate = webhook.URL("http://"+p.server.Listener.Addr().String()+"/hooks", token)
			return p.gate
		},
	})
	check(err)
	leader, err := agent.New(agent.Config{
		Name: "lead", Model: lead, Tools: waits.Tools(),
		Concurrency: 1, // so that what it prints has an order
	})
	check(err)
	keeper, err := agent.New(schedule.Agent())
	check(err)
	p.Runner, err = runner.New(leader, session.NewStore(p.db, &session.Options{Now: now}),
		&runner.Options{Agents: []*agent.Agent{keeper}, Logger: slog.New(slog.DiscardHandler)})
	check(err)
	hooks, err := webhook.New(p.Runner, webhook.Config{})
	check(err)
	p.server.Config.Handler = hooks
	p.server.Start()
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() {
		defer close(p.worked)
		err := p.Work(ctx, &runner.WorkOptions{OnEvent: p.show, Poll: 20 * time.Millisecond})
		if !errors.Is(err, context.Canceled) {
			check(err)
		}
	}()
	return p
}

func (p *process) close() {
	p.stop()
	<-p.worked
	p.server.Close()
	check(p.Close())
	check(p.db.Close())
}

// show prints what happens in the session of the night.
func (p *process) show(id string, ev event.Event, err error) {
	check(err)
	if id != night {
		return
	}
	switch ev := ev.(type) {
	case event.TextDelta:
		fmt.Println("the lead says:", ev.Delta)
	case event.Result:
		fmt.Println(told(ev.Result))
	case event.End:
		p.rests <- ev.Finish
	}
}

// told tells of the result of one of the lead's calls.
func told(r llm.ToolResult) string {
	switch r.Name {
	case "execute_agent_async":
		return "an agent begins" // which one is first depends on chance
	case "wait_for_multiple":
		return "the first good answer: " + field[string](r, "status")
	case "complete_wait_handle":
		return "aborted: " + of(field[string](r, "handleId"))
	case "create_wait_handle":
		return "a gate is made"
	}
	return "the gate: " + field[string](r, "status")
}

// of names an agent by its handle, such as agent_museum_4f0c12ab.
func of(handle string) string { return "the agent at the " + strings.Split(handle, "_")[1] }

// found is a source that has answered.
func (p *process) found(source string, answer runner.Resumption) {
	_, err := p.ResumeByKey(context.Background(), runner.Ref{Tool: "search", Key: source}, answer,
		&runner.Keep{})
	check(err)
}

// ended waits until the handle of an agent has stopped, and tells how.
func (p *process) ended(source string) {
	ctx := context.Background()
	for h, err := range p.Handles(ctx, night, runner.HandleFilter{}, "ops") {
		check(err)
		if strings.HasPrefix(h.Name, "agent_"+source) {
			all, err := p.Await(ctx, night, tool.HandleWait{All: []string{h.Name}}, "ops")
			check(err)
			fmt.Printf("%s is %s: %s\n", of(h.Name), all[0].Status, all[0].Output)
		}
	}
}
