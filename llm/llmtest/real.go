package llmtest

import (
	"os"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
)

// RunReal takes an adapter to the real service, if the environment has a key for it: text, a call, and a pause. It costs a little money.
func RunReal(t *testing.T, p Provider) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			if os.Getenv("FERMATA_REAL") == "" {
				t.Skip("the real service is asked by: make test-real")
			}
			if p.Real == nil {
				t.Skip("no real service is known")
			}
			real := p.Real(t, form.whole)
			if real == nil {
				t.Skip("the environment has no key for the service")
			}
			m := adapter{real}
			t.Run("text", func(t *testing.T) {
				got, fin, err := m.collect(t, llm.Request{Messages: []llm.Message{llm.UserText("Answer with the one word: fermata")}, Limits: llm.Limits{OutputTokens: 2000}})
				check(t, err)
				if fin.Reason != llm.StopEnd || !strings.Contains(strings.ToLower(got.Text()), "fermata") || fin.Usage.Input == 0 || fin.Usage.Output == 0 {
					t.Errorf("%v, %+v", got, fin)
				}
			})
			t.Run("awkward tools", func(t *testing.T) {
				var tools []llm.ToolDef
				for _, def := range awkward(t) {
					if c, ok := m.Model.(llm.ToolChecker); ok && c.CheckTools([]llm.ToolDef{def}) == nil {
						tools = append(tools, def)
					}
				}
				_, _, err := m.collect(t, llm.Request{Messages: []llm.Message{llm.UserText("Say hello, and call no tool.")}, Tools: tools, Limits: llm.Limits{OutputTokens: 2000}})
				check(t, err)
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
