// Command fanout has three agents research the same thing at once, each night.
// The first good answer wins, and the others are aborted. A gate that a system
// outside opens by a webhook stands before the end. In the middle the process is
// restarted: what waits is stored, and goes on.
//
//	go run ./examples/fanout
//
// It prints:
//
//	-- it is night, and a process starts
//	an agent begins
//	an agent begins
//	an agent begins
//	the run rests: paused
//	-- everything was closed, and another process starts
//	the agent at the archive is failed: "The agent's run ended (failed): model: the source has nothing."
//	the first good answer: completed
//	a gate is made
//	aborted: the agent at the library
//	the run rests: paused
//	the agent at the museum is done: "The museum has it: \"built in 1502\""
//	the agent at the library is failed: "another was first"
//	the gate: completed
//	the lead says: The report is out.
//	the run rests: stop
//	who opened the gate was told: 200 OK
//	next time: 2030-01-03 02:30:00 +0000 UTC
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/schedule"
)

// The schedule, and what it fires in its first night.
const (
	nightly = "nightly"
	night   = "nightly@2030-01-02T02:30:00Z"
)

// clock is the program's, so that the night comes at once: how far it is ahead.
// A service has none.
var clock = time.Until(time.Date(2030, 1, 1, 20, 0, 0, 0, time.UTC))

func now() time.Time { return time.Now().Add(clock) }

func main() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "fanout-")
	check(err)
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "fermata.db")

	p := open(file)
	check(schedule.New(p.Runner).Create(ctx, schedule.Schedule{
		ID: nightly, User: "ada", Cron: "30 2 * * *",
		Do: schedule.Target{Agent: "lead", Message: llm.UserText("How old is the bridge?")},
	}))
	p.close()
	clock += 7 * time.Hour
	fmt.Println("-- it is night, and a process starts")
	p = open(file)
	fmt.Println("the run rests:", <-p.rests)
	p.close()

	fmt.Println("-- everything was closed, and another process starts")
	p = open(file)
	defer p.close()
	p.found("archive", runner.Fail("", "archive", "closed on Wednesdays", false))
	p.ended("archive")
	p.found("museum", runner.Complete("", "museum", json.RawMessage(`"built in 1502"`)))
	fmt.Println("the run rests:", <-p.rests)
	for _, source := range []string{"museum", "library"} {
		p.ended(source)
	}
	res, err := http.Post(p.gate, "application/json", strings.NewReader(`"open"`))
	check(err)
	_, err = io.Copy(io.Discard, res.Body)
	check(errors.Join(err, res.Body.Close()))
	fmt.Println("the run rests:", <-p.rests)
	fmt.Println("who opened the gate was told:", res.Status)
	is, err := schedule.New(p.Runner).Show(ctx, nightly, "ada")
	check(err)
	fmt.Println("next time:", is.Next)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
