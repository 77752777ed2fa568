// Command approve-by-link lets a person decide in a browser, by a link that came
// in a mail. The mail is printed. It ends by itself: with a robot in place of the
// person, which opens the link and presses the button.
//
//	go run ./examples/approve-by-link
//
// With -wait the person is you. Open the link that is printed, and decide:
//
//	go run ./examples/approve-by-link -wait
//
// It prints:
//
//	To: grace
//	Subject: Run refund?
//	Please decide: (a link)
//	the browser shows: A decision is needed
//	the browser shows: Approved
//	refund pays 500 cents for order 7
//	model says: I have taken care of it.
package main

import (
	"context"
	"flag"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

type RefundInput struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

var refund = tool.Must(tool.Func(
	tool.Spec{Name: "refund", Description: "Refund an order."},
	func(_ context.Context, in RefundInput) (tool.Result[string], error) {
		fmt.Printf("refund pays %d cents for order %s\n", in.Cents, in.Order)
		return tool.Done("paid"), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("refund", `{"order":"7","cents":500}`),
	fakellm.Says("I have taken care of it."))

// login is the program's own authentication. In this one, all are Grace.
func login(*http.Request) (runner.Actor, error) { return "grace", nil }

func main() {
	wait := flag.Bool("wait", false, "wait until the link was opened in a browser")
	flag.Parse()
	ctx, end := context.WithCancel(context.Background())
	ag, err := agent.New(agent.Config{
		Name: "shop", Model: model, Tools: []tool.Tool{refund},
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
	})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()

	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	links, err := webhook.NewLinks(rn, webhook.LinksConfig{
		Base: server.URL + "/links", User: login,
	})
	check(err)
	mux.Handle("/links/", links)

	// The user asks, and the refund waits for a person. That person gets a mail.
	var link string
	for ev, err := range rn.Run(ctx, "bob", "chat-1", llm.UserText("Please refund order 7."), nil) {
		check(err)
		if ev, ok := ev.(event.Pause); ok {
			link, err = links.URL(ctx, webhook.Link{Pause: ev.Pause, Holder: "grace"}, "mailer")
			check(err)
			fmt.Println("To: grace\nSubject:", ev.Pause.Await.Prompt)
		}
	}
	if *wait {
		fmt.Println("Please decide:", link)
	} else {
		fmt.Println("Please decide: (a link)") // it is another one each time
		robot(link)
	}

	// A worker goes on once the decision is there.
	err = rn.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, err error) {
		check(err)
		switch ev := ev.(type) {
		case event.TextDelta:
			fmt.Println("model says:", ev.Delta)
		case event.End:
			end()
		}
	}})
	if ctx.Err() == nil {
		check(err)
	}
}

// robot does what a person does in a browser: it opens the link, reads, presses
// Approve, and is shown what became of that.
func robot(link string) {
	jar, err := cookiejar.New(nil)
	check(err)
	browser := &http.Client{Jar: jar}
	res, err := browser.Get(link)
	page := read(res, err)
	ticket := regexp.MustCompile(`name="ticket" value="(.*?)"`).FindStringSubmatch(page)
	res, err = browser.PostForm(link, url.Values{
		"ticket": {ticket[1]}, "act": {"approve"}, "reason": {"checked the order"},
	})
	read(res, err)
}

// read prints the heading of a page, and its first words.
func read(res *http.Response, err error) string {
	check(err)
	page, err := io.ReadAll(res.Body)
	check(err)
	check(res.Body.Close())
	heading := regexp.MustCompile(`<h1>(.*?)</h1>`).FindSubmatch(page)
	fmt.Println("the browser shows:", html.UnescapeString(string(heading[1])))
	return string(page)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
