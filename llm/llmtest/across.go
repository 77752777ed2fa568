package llmtest

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
)

// Across pauses a session under each of the providers and resumes it under each
// other one: on the same file, opened anew. Each needs Name, New, Replies and
// Calls, and paths says what a BaseURL has after the server's address, by the
// provider's name.
func Across(t *testing.T, all []Provider, paths map[string]string) {
	for _, from := range all {
		for _, to := range all {
			t.Run("from "+from.Name+" to "+to.Name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "fermata.db")
				under := func(p Provider, scenario string,
					do func(testing.TB, *runner.Runner)) *server {
					srv := serve(t, atOnce, must(t, p, scenario, false))
					db, err := bolt.Open(path, nil)
					check(t, err)
					defer db.Close()
					rn := pausing(t, db, p.New(t,
						Options{BaseURL: srv.URL + paths[p.Name], Client: client(t)}))
					defer rn.Close()
					do(t, rn)
					return srv
				}
				first := "reasoning"
				if _, lacks := from.Lacks[first]; lacks {
					first = "parallel"
				}
				under(from, first, pauseOnce)
				body := under(to, "text", resumeAll).asked()[0]
				paired(t, to, body)
				if !strings.Contains(string(body), "four degrees") {
					t.Errorf("the request after the pause doesn't hold the result: %s", body)
				}
				if own := from.Name == to.Name; first == "reasoning" &&
					strings.Contains(string(body), signature) != own {
					t.Errorf("what %s signed is to be sent to it, and to nobody else: %s",
						from.Name, body)
				}
				// The other provider's message, a new one of the user's, and
				// back again.
				back := under(from, "text", func(t testing.TB, rn *runner.Runner) {
					if end := drain(t, rn.Run(t.Context(), "ada", "chat-1",
						llm.UserText("And tomorrow?"), nil)); end.Finish != event.FinishStop {
						t.Errorf("the run ended as %s", end.Finish)
					}
				}).asked()[0]
				paired(t, from, back)
				if !json.Valid(back) || first == "reasoning" &&
					!strings.Contains(string(back), signature) {
					t.Errorf("back under %s, the request doesn't hold what it signed: %s",
						from.Name, back)
				}
			})
		}
	}
}
