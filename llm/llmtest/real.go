package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
)

// RunReal takes an adapter to the real service, if the environment has a key
// for it: text, all the conversations of [Run], the awkward tools, a
// cancellation, and a pause. It costs a little money.
func RunReal(t *testing.T, p Provider) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			if os.Getenv("FERMATA_REAL") == "" {
				t.Skip("the real service is asked by: make test-real")
			}
			if p.Real == nil {
				t.Skip("no real service is known")
			}
			service := p.Real(t, form.whole)
			if service == nil {
				t.Skip("the environment has no key for the service")
			}
			m := adapter{service}
			t.Run("text", func(t *testing.T) {
				got, fin, err := m.collect(t, llm.Request{Messages: []llm.Message{llm.UserText("Answer with the one word: fermata")}, Limits: llm.Limits{OutputTokens: 2000}})
				check(t, err)
				if fin.Reason != llm.StopEnd ||
					!strings.Contains(strings.ToLower(got.Text()), "fermata") ||
					fin.Usage.Input == 0 || fin.Usage.Output == 0 {
					t.Errorf("%v, %+v", got, fin)
				}
			})
			for _, c := range conversations() {
				t.Run(c.name, func(t *testing.T) {
					// There is nothing at that URL.
					if why, ok := p.Lacks[c.name]; ok || c.name == "media_by_url" {
						t.Skip(why)
					}
					req := c.request
					req.Limits.OutputTokens = max(req.Limits.OutputTokens, 2000)
					got, _, err := m.collect(t, req)
					check(t, err)
					if c.name == "structured" && !json.Valid([]byte(got.Text())) {
						t.Errorf("%q is no JSON", got.Text())
					}
				})
			}
			t.Run("awkward tools", func(t *testing.T) {
				var tools []llm.ToolDef
				for _, def := range awkward(t) {
					if c, ok := m.Model.(llm.ToolChecker); ok &&
						c.CheckTools([]llm.ToolDef{def}) == nil {
						tools = append(tools, def)
					}
				}
				_, _, err := m.collect(t, llm.Request{Messages: []llm.Message{llm.UserText("Say hello, and call no tool.")}, Tools: tools, Limits: llm.Limits{OutputTokens: 2000}})
				check(t, err)
			})
			t.Run("cancel", func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var last error
				for _, err := range m.Generate(ctx,
					llm.Request{Messages: []llm.Message{llm.UserText("Count to a thousand.")}}) {
					last = err
					stop()
				}
				if !form.whole && !errors.Is(last, context.Canceled) {
					t.Errorf("the stream ended with %v", last)
				}
			})
			t.Run("pause", func(t *testing.T) {
				db, err := bolt.Open(t.TempDir()+"/fermata.db", nil)
				check(t, err)
				defer db.Close()
				rn := pausing(t, db, m)
				defer rn.Close()
				pauseOnce(t, rn)
				resumeAll(t, rn)
			})
		})
	}
}
