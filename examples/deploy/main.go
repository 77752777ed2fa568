// Command deploy is what fermata is for, in one terminal: a tool call waits for an outside job, the process that ran it exits,
// and another one takes the job's callback and carries the agent on.
//
//	go run ./examples/deploy       with a message that is given
//	go run ./examples/deploy -i    you type the message, and answer what the agent asks
//
// Four processes take part, each of them this program in another role. The parent, below, starts the others: ask runs the agent
// until a call waits, resume carries it on (processes.go), and ci is the outside world (ci.go). The agent's tools, of which deploy is
// the one that waits, are in package tools. What the processes print, and how they are started, is in package stage; what stands in
// for a model, in package standin; and for a CI server, in package ci.
package main

import (
	"context"
	"flag"
	"path/filepath"
	"time"

	"github.com/fermata-ai/fermata/examples/internal/stage"
)

var interactive = flag.Bool("i", false, "type the message yourself, and answer what the agent asks")

func main() {
	flag.Parse()
	stage.Main(15*time.Minute, parent, map[string]stage.Role{"ask": ask, "resume": resume, "ci": serveCI})
}

func parent(ctx context.Context, args []string) {
	jobs, hooks := stage.Listen(), stage.Listen()
	w := []string{filepath.Join(args[0], "fermata.db"), "http://" + jobs.Addr().String(), "http://" + hooks.Addr().String() + "/hooks"}
	message := "Deploy checkout v2.5.0 to production. How is the weather in Oslo?"
	if *interactive {
		message = "" // to be typed
	}
	stage.Step("The outside world: a CI server")
	ci := stage.Start(ctx, jobs, "ci")
	defer ci.Kill()

	stage.Step("A user asks, a tool call waits, and the process exits")
	stage.StartAtPrompt(ctx, "ask", append(w, message)...).Wait()

	stage.Step("Nobody has the agent in memory. What the file says")
	if waiting := look(ctx, w); !waiting {
		ci.End()
		return
	}

	stage.Step("Another process opens the file. The job calls back, and delivers twice")
	second := stage.Start(ctx, hooks, "resume", w...)
	defer second.Kill()
	ci.Wait() // it exits when its job is delivered

	stage.Step("The agent has gone on. What the file says")
	second.End()
}
