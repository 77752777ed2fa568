// Command progress streams a session to a browser by server-sent events: how
// far an outside job is while its call waits, and then what the model says.
//
//	go run ./examples/progress
//
// It prints:
//
//	browser sees user      "Render it."
//	browser sees waiting   "render"
//	browser sees progress  "scene 1 of 2"
//	browser sees progress  "scene 2 of 2"
//	browser sees result    "film.mp4"
//	browser sees assistant "The film is ready."
//	browser sees end       "stop"
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// render waits for an outside job.
var render = tool.Must(tool.Func(
	tool.Spec{
		Name: "render", Description: "Render the film.",
		Effect: tool.Idempotent, MayPause: true,
	},
	func(context.Context, struct{}) (tool.Result[string], error) {
		return tool.Pending[string](tool.Await{Key: "job-1"}), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("render", `{}`),
	fakellm.Says("The film is ready."))

// stream shows a session to a browser. It drives nothing: the worker does. A
// browser may come, go and come back, and several may watch.
func stream(rn *runner.Runner) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(name string, data any) {
			text, _ := json.Marshal(data)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text)
			_ = http.NewResponseController(w).Flush()
		}
		// The user's name comes from the login. The context ends when the
		// browser goes away.
		options := &runner.FollowOptions{ThroughWaits: true}
		for ev, err := range rn.Follow(r.Context(), "chat-1", "ada", options) {
			if err != nil {
				send("error", err.Error())
				return
			}
			switch ev := ev.(type) {
			case event.Message:
				if text := ev.Message.Text(); text != "" {
					send(string(ev.Message.Role), text)
				}
			case event.Pause:
				send("waiting", ev.Pause.Tool)
			case event.Progress:
				send("progress", ev.Progress.Message)
			case event.Result:
				send("result", ev.Result.Output)
			case event.End:
				send("end", ev.Finish)
			}
		}
	}
}

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ag, err := agent.New(agent.Config{Name: "studio", Model: model, Tools: []tool.Tool{render}})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()
	go rn.Work(ctx, nil) // it carries on what is answered

	for _, err := range rn.Run(ctx, "ada", "chat-1", llm.UserText("Render it."), nil) {
		check(err)
	}
	p, err := rn.Find(ctx, runner.Ref{Tool: "render", Key: "job-1"}, "farm")
	check(err)

	server := httptest.NewServer(stream(rn))
	defer server.Close()
	browser, err := http.Get(server.URL)
	check(err)
	defer browser.Body.Close()
	name := ""
	for lines := bufio.NewScanner(browser.Body); lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = n
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		fmt.Printf("browser sees %-9s %s\n", name, data)
		// In place of a render farm: it reports twice, and is done.
		switch name + " " + data {
		case `waiting "render"`:
			half := tool.Progress{Message: "scene 1 of 2", Fraction: 0.5}
			check(rn.Progress(ctx, p.Session, p.ID, "farm", half))
		case `progress "scene 1 of 2"`:
			all := tool.Progress{Message: "scene 2 of 2", Fraction: 1}
			check(rn.Progress(ctx, p.Session, p.ID, "farm", all))
		case `progress "scene 2 of 2"`:
			film := runner.Complete(p.ID, "farm", json.RawMessage(`"film.mp4"`))
			_, err := rn.Resume(ctx, p.Session, film)
			check(err)
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
