package session_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// What is too large for a commit is written before it, and the commit fails, or
// is made only hours after the transition began to ride. When it is made, in the
// end, a sweep has come by in between, or comes by just before it. All that is
// committed is there.
func TestLargePayloadsAreWrittenForEachUpdate(t *testing.T) {
	for name, c := range map[string]struct{ rides, fails, late bool }{
		"the commit fails":                             {fails: true},
		"the commit of what rides fails":               {fails: true, rides: true},
		"a sweep, while it is committed again":         {fails: true, late: true},
		"a sweep, while what rides is committed":       {rides: true, late: true},
		"a sweep, while what rides is committed again": {rides: true, fails: true, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kv := faultkv.New(kvstore.NewMemory())
				s := session.NewStore(kv.Store, nil)
				d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
				must(t, err)
				defer d.Release()
				must(t, d.Update(t.Context(), func(tx *session.Tx) error {
					return tx.Say(entry(t, llm.UserText("Go.")), "", "", false)
				}))
				do := asksAndPauses(t)
				var again []session.Transition
				if c.rides {
					must(t, d.Ride(t.Context(), do))
				} else {
					again = append(again, do)
				}
				if c.fails {
					kv.Before(func(c faultkv.Call) {
						if c.Bytes < 60<<10 { // the commit, after the payloads
							kv.Before(nil)
							kv.Add(faultkv.FailAt(c.Number))
						}
					})
					if err := d.Update(t.Context(), again...); !errors.Is(err, faultkv.ErrFault) {
						t.Fatalf("the commit ended with %v", err)
					}
				}
				time.Sleep(2 * time.Hour)
				sweep := func() {
					_, err := s.Sweep(t.Context(), nil)
					must(t, err)
				}
				if c.late {
					kv.Before(func(c faultkv.Call) {
						if c.Bytes < 60<<10 {
							kv.Before(nil)
							sweep()
						}
					})
				} else {
					sweep()
				}
				must(t, d.Update(t.Context(), again...))
				st, err := s.Load(t.Context(), "s")
				must(t, err)
				if _, err := s.History(t.Context(), st, 0); err != nil {
					t.Errorf("the messages: %v", err)
				}
				if _, err := s.Value(t.Context(), "s", st.Call("c1").Pause.Data); err != nil {
					t.Errorf("the pause's data: %v", err)
				}
			})
		})
	}
}

// asksAndPauses is a transition with a large message, and a pause with much
// data.
func asksAndPauses(t *testing.T) session.Transition {
	t.Helper()
	long := `"` + strings.Repeat("all work and no play ", 10_000) + `"` // 200 KB
	await, err := tool.Await{}.Normalize()
	must(t, err)
	data, err := session.NewBlob(json.RawMessage(long))
	must(t, err)
	asked := entry(t, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text{Text: long},
		llm.ToolCall{ID: "c1", Name: "job", Arguments: json.RawMessage(`{}`)}}})
	open := session.Call{ID: "c1", Tool: "job", Status: session.Requested,
		Effect: tool.Idempotent, MayPause: true}
	return func(tx *session.Tx) error {
		err := tx.Reply(asked, []session.Call{open}, session.Stopped{}, 0)
		if err == nil {
			err = tx.Pause("c1", &session.Hold{Await: await, Data: data})
		}
		return err
	}
}
