package runner_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

type RefundInput struct {
	Order string `json:"order"`
	Cents int    `json:"cents" jsonschema:"minimum=1"`
}

type RefundOutput struct {
	Receipt string `json:"receipt"`
}

// Approve a refund, resumed from a webhook: the decision is delivered twice, as
// real senders do, and the money moves once.
func Example_refund() {
	refund := tool.Must(tool.Func(tool.Spec{Name: "refund", Description: "Refund an order."},
		func(ctx context.Context, in RefundInput) (tool.Result[RefundOutput], error) {
			return tool.Of(pay(in, tool.CallFrom(ctx).IdempotencyKey()))
		}))
	db, err := bolt.Open(refundPath(), nil)
	check(err)
	defer db.Close()
	ag, err := agent.New(agent.Config{Name: "shop", Model: refundModel, Tools: []tool.Tool{refund}, Interceptors: interceptor.Chain{interceptor.Approval(nil)}})
	check(err)
	rn, err := runner.New(ag, session.NewStore(db, nil), nil)
	check(err)
	http.HandleFunc("/approve", func(w http.ResponseWriter, r *http.Request) {
		p, err := rn.Find(r.Context(), runner.Ref{Pause: r.FormValue("pause")}, user)
		if err == nil {
			_, err = rn.Resume(r.Context(), p.Session, runner.Approve(p.ID, "ada", "checked the order"))
		}
		w.WriteHeader(webhook.Status(err))
	})
	show(rn.Run(context.Background(), "bob", "chat-1", llm.UserText("Please refund order 7."), nil))
	show(rn.Continue(context.Background(), "chat-1", user)) // in a service, rn.Work does this
	// Output:
	// waits: Run refund? {"order":"7","cents":500}
	// the webhook answers 200
	// the webhook answers 200
	// pays 500 cents for order 7
	// Your money is on its way.
}

var refundModel = fakellm.New(fakellm.Calls("refund", `{"order":"7","cents":500}`), fakellm.Says("Your money is on its way."))

func pay(in RefundInput, idempotencyKey string) (RefundOutput, error) {
	fmt.Printf("pays %d cents for order %s\n", in.Cents, in.Order)
	return RefundOutput{Receipt: idempotencyKey}, nil
}

// show prints what a run shows. When a call waits for an approval, it has it
// approved by the webhook, twice.
func show(events iter.Seq2[event.Event, error]) {
	var waits []tool.Pause
	for ev, err := range events {
		check(err)
		switch ev := ev.(type) {
		case event.TextDelta:
			fmt.Print(ev.Delta)
		case event.Pause:
			fmt.Println("waits:", ev.Pause.Await.Prompt, string(ev.Pause.Arguments))
		case event.End:
			waits = ev.Pending
		}
	}
	if len(waits) == 0 {
		check(os.RemoveAll(refundDir))
	}
	server := httptest.NewServer(http.DefaultServeMux)
	defer server.Close()
	for _, p := range waits {
		for range 2 {
			resp, err := http.PostForm(server.URL+"/approve", url.Values{"pause": {p.ID}})
			check(err)
			check(resp.Body.Close())
			fmt.Println("the webhook answers", resp.StatusCode)
		}
	}
}

var refundDir string

func refundPath() string {
	var err error
	refundDir, err = os.MkdirTemp("", "fermata")
	check(err)
	return filepath.Join(refundDir, "fermata.db")
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// TestRefundIsShort counts the lines of the program above: gofmt'd, non-blank,
// without comments.
func TestRefundIsShort(t *testing.T) {
	const most = 20
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "example_refund_test.go", nil, 0)
	must(t, err)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "Example_refund" {
			continue
		}
		var body strings.Builder
		must(t, format.Node(&body, fset, f.Body))
		n := 0
		for line := range strings.Lines(body.String()) {
			if strings.TrimSpace(line) != "" {
				n++
			}
		}
		if n -= 2; n > most { // without the function's own braces
			t.Errorf("the program has %d lines, at most %d are promised", n, most)
		}
		return
	}
	t.Error("there is no Example_refund")
}
