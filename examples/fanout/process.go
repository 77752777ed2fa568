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
		fmt.Printf("%s: %s\n", ev.Result.Name, field[string](ev.Result, "status"))
	case event.End:
		p.rests <- ev.Finish
	}
}

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
			fmt.Printf("the agent at the %s: %s, %s\n", source, all[0].Status, all[0].Output)
		}
	}
}
