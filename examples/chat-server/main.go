// Command chat-server is a chat in several browsers: text as the model says it,
// an approval that each of them may give, and connections that break off. It
// ends by itself: with robots in place of the browsers, and a script in place of a
// model (robots.go).
//
//	go run ./examples/chat-server
//
// With -listen the browsers are yours. Open the address in two windows, write
// "Please restart the shop.", and reload one of them in the middle:
//
//	go run ./examples/chat-server -listen 127.0.0.1:8080
//
// It prints:
//
//	user: Please restart the shop.
//	(the connection breaks off, and comes back)
//	assistant: I restart the shop as soon as a person agrees.
//	waits: Run restart?
//	restart: done
//	assistant: That is done.
//	The other browser shows the same: true
package main

import (
	"cmp"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"net"
	"net/http"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/httpapi"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

//go:embed page.html
var page []byte

var restart = tool.Must(tool.Func(tool.Spec{Name: "restart", Description: "Restart the shop."},
	func(context.Context, struct{}) (tool.Result[string], error) { return tool.Done("up"), nil }))

func main() {
	listen := flag.String("listen", "", "where to serve browsers; empty: robots come")
	flag.Parse()
	ag, err := agent.New(agent.Config{Name: "shop", Tools: []tool.Tool{restart},
		Model: model, Interceptors: interceptor.Chain{interceptor.Approval(nil)}})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()
	// The user comes from your own login. In this program, all are Ada.
	login := func(*http.Request) (runner.Actor, error) { return "ada", nil }
	api, err := httpapi.New(rn, httpapi.Config{Path: "/api/", User: login})
	check(err)
	http.Handle("/api/", api)
	http.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	go func() { _ = rn.Work(context.Background(), nil) }() // carries sessions on
	l, err := net.Listen("tcp", cmp.Or(*listen, "127.0.0.1:0"))
	check(err)
	if *listen != "" {
		fmt.Printf("http://%s/\n", l.Addr())
		check(http.Serve(l, nil))
	}
	server := &http.Server{}
	defer server.Close()
	go func() { _ = server.Serve(l) }()
	robots("http://" + l.Addr().String() + "/api/sessions")
}
