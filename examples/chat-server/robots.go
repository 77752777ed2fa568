package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
)

// model is a script in place of a model, about as slow as one, so that the
// example needs no key.
var model = fakellm.New(fakellm.From(func(req llm.Request) fakellm.Turn {
	t := fakellm.Says("You wrote: " + fakellm.LastUserText(req))
	if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
		t = fakellm.Says("That is done.")
	} else if strings.Contains(fakellm.LastUserText(req), "restart") {
		t = fakellm.Says("I restart the shop as soon as a person agrees.").And("restart", "{}")
	}
	return t.Chunks(2).Delay(0, 30*time.Millisecond)
}).Forever())

// robots do what people do in two browsers. One of them loses its connection
// while the model speaks.
func robots(api string) {
	var begun struct{ Session string }
	check(json.Unmarshal(post(api, `{"text":"Please restart the shop.","id":"m1"}`), &begun))
	api += "/" + begun.Session
	one, other := &robot{url: api + "/events"}, &robot{url: api + "/events"}
	over := make(chan struct{})
	go func() { other.follow(other.isDone); close(over) }()

	one.follow(func(event.Event) bool { return len(one.said) > 10 })
	one.lines = append(one.lines, "(the connection breaks off, and comes back)")
	one.follow(func(ev event.Event) bool {
		if p, ok := ev.(event.Pause); ok {
			post(api+"/pauses/"+p.Pause.ID+"/answer", `{"approved":true}`)
		}
		return one.isDone(ev)
	})
	<-over
	for _, line := range one.lines {
		fmt.Println(line)
	}
	fmt.Println("The other browser shows the same:", slices.Equal(one.messages, other.messages))
}

// robot is a browser. What it shows is what the page does.
type robot struct {
	url      string
	last     string // id of an event
	said     string // of a message that is not stored
	lines    []string
	messages []string
}

// follow shows what happens until that is enough.
func (r *robot) follow(enough func(event.Event) bool) {
	r.said = ""
	req, err := http.NewRequest("GET", r.url, nil)
	check(err)
	req.Header.Set("Last-Event-ID", r.last)
	res, err := http.DefaultClient.Do(req)
	check(err)
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			r.last = id
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			ev, err := event.Unmarshal([]byte(data))
			check(err)
			if r.show(ev); enough(ev) {
				return
			}
		}
	}
	panic("the stream ended")
}

func (r *robot) show(ev event.Event) {
	switch ev := ev.(type) {
	case event.TextDelta:
		if ev.Start {
			r.said = ""
		}
		r.said += ev.Delta
	case event.Message:
		text := ev.Message.Text()
		if ev.Message.Role == llm.RoleAssistant && !strings.HasPrefix(text, r.said) {
			panic(r.said + " is not how it begins: " + text)
		}
		if r.said = ""; text != "" {
			r.messages = append(r.messages, text)
			r.lines = append(r.lines, string(ev.Message.Role)+": "+text)
		}
	case event.Pause:
		r.lines = append(r.lines, "waits: "+ev.Pause.Await.Prompt)
	case event.Result:
		r.lines = append(r.lines, ev.Result.Name+": "+string(ev.Status))
	}
}

func (r *robot) isDone(ev event.Event) bool {
	end, ok := ev.(event.End)
	return ok && end.Finish == event.FinishStop
}

func post(url, body string) []byte {
	res, err := http.Post(url, "application/json", bytes.NewReader([]byte(body)))
	check(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	check(err)
	if res.StatusCode/100 != 2 {
		panic(string(text))
	}
	return text
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
