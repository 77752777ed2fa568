package lives

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

// newRunner returns a runner of the agent: six calls at once, and then one more
// that waits. Of the six, two wait for an answer, one for events, and one for
// another agent, whose one call waits for an answer.
func newRunner(store *session.Store, outside *outside) (*runner.Runner, error) {
	helper, err := agent.New(agent.Config{
		Name: "helper", Tools: []tool.Tool{outside.tool("ship", tool.Once, true)},
		Model: fakellm.New(fakellm.Calls("ship", `{}`), fakellm.Says("Shipped.")),
	})
	if err != nil {
		return nil, err
	}
	team, err := agenttool.New[in, string](helper, &agenttool.Options[in]{Name: nestedTool})
	if err != nil {
		return nil, err
	}
	ag, err := agent.New(agent.Config{
		Name: "lives", Tools: []tool.Tool{
			outside.tool("pay", tool.Once, false), outside.tool("look", tool.Idempotent, false),
			outside.tool("ship", tool.Once, true), outside.tool("batch", tool.Idempotent, true),
			outside.gather(), team,
		},
		Model: fakellm.New(
			fakellm.Calls("pay", `{}`).And("look", `{}`).And("ship", `{}`).And("batch", `{}`).
				And(eventTool, `{}`).And(nestedTool, `{}`),
			fakellm.Calls("ship", `{}`), fakellm.Says("Done.")),
	})
	if err != nil {
		return nil, err
	}
	return runner.New(ag, store, &runner.Options{Logger: slog.New(slog.DiscardHandler)})
}

const (
	callsInAll   = 7            // of a session
	callsBelow   = 1            // of the session below it
	doneByBody   = `{"n":1}`    // the output of a body that doesn't wait
	doneByEvents = `{"n":3}`    // of the one that waits for events
	doneByAgent  = `"Shipped."` // of the call that another agent works on
	eventTool    = "gather"
	nestedTool   = "team"
	events       = 3 // that come for a call of eventTool
)

type in struct{}

type out struct {
	N int `json:"n"`
}

// outside is the world beside the store, which survives every kill: what bodies
// have done in it, and which results it was shown.
type outside struct{ effects, results *os.File }

const (
	effectsFile = "effects"
	resultsFile = "results"
)

// effect is an entry of a body.
type effect struct {
	Tool, Session, Call, Key string
	User                     string // each session has its own, also of what is below it
	Token                    string // if it waits
	Once                     bool
}

// result is a result in an event.
type result struct {
	Session string
	Status  event.Status
	Result  llm.ToolResult
}

func newOutside(dir string) (*outside, error) {
	effects, err := openLedger(dir, effectsFile)
	if err != nil {
		return nil, err
	}
	results, err := openLedger(dir, resultsFile)
	return &outside{effects, results}, err
}

// tool returns a tool whose body has an effect, and takes a while, before it or
// after.
func (o *outside) tool(name string, e tool.Effect, waits bool) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: name, Effect: e, MayPause: waits},
		func(ctx context.Context, _ in) (tool.Result[out], error) {
			tell("body+")
			defer tell("body-")
			<-time.After(rand.N(2 * time.Millisecond)) // it takes its time, whatever becomes of it
			call := tool.CallFrom(ctx)
			entry := effect{Tool: name, Session: call.Session, User: call.User, Call: call.ID,
				Key: call.IdempotencyKey(), Once: e == tool.Once}
			if waits {
				entry.Token = call.Token(tool.PermitComplete, tool.PermitFail, tool.PermitProgress,
					tool.PermitCancel)
			}
			if err := enter(o.effects, entry); err != nil {
				return nil, err
			}
			// Long enough for an answer, or not.
			<-time.After(rand.N(time.Duration(1+rand.N(2)*19) * time.Millisecond))
			if waits {
				return tool.Pending[out](tool.Await{}), nil
			}
			return tool.Done(out{1}), nil
		}))
}

// gather returns a tool that waits for events. Its output is how many it was
// shown.
func (o *outside) gather() tool.Tool {
	spec := tool.Spec{Name: eventTool, Effect: tool.Idempotent, MayPause: true,
		Mailbox: []tool.MailboxEvent{{Name: "part"}}}
	return tool.Must(tool.Func(spec, func(ctx context.Context, _ in) (tool.Result[out], error) {
		tell("body+")
		defer tell("body-")
		call := tool.CallFrom(ctx)
		if call.Answer != nil {
			return tool.Done(out{len(call.Mail)}), nil
		}
		err := enter(o.effects, effect{Tool: eventTool, Session: call.Session, User: call.User,
			Call: call.ID, Key: call.IdempotencyKey(), Token: call.MailToken()})
		if err != nil {
			return nil, err
		}
		<-time.After(rand.N(5 * time.Millisecond))
		return tool.Pending[out](tool.CountOf(events, "part")), nil
	}))
}

// show keeps the results that events tell of.
func (o *outside) show(session string, ev event.Event) {
	if below, ok := ev.(event.Nested); ok {
		session, ev = below.Session, below.Event
	}
	if ev, ok := ev.(event.Result); ok {
		if err := enter(o.results, result{session, ev.Status, ev.Result}); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
	}
}

// entrySize is that of every entry of a ledger, in bytes. It divides a page: a
// kill cuts a write only between two pages.
const entrySize = 512

func openLedger(dir, name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// enter appends an entry, all of it or nothing.
func enter[T effect | result](ledger *os.File, entry T) error {
	b, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if len(b) >= entrySize {
		return fmt.Errorf("an entry of %d bytes", len(b))
	}
	_, err = ledger.Write(append(b, bytes.Repeat([]byte{'\n'}, entrySize-len(b))...))
	return err
}

// entries reads a ledger from its nth entry on.
func entries[T effect | result](dir, name string, n int) (found []T, err error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if os.IsNotExist(err) {
		return nil, nil // nothing yet
	}
	if err != nil {
		return nil, err
	}
	for at := n * entrySize; at+entrySize <= len(b); at += entrySize {
		var e T
		if err := json.Unmarshal(b[at:at+entrySize], &e); err != nil {
			return nil, fmt.Errorf("%s has %q: %w", name, b[at:at+entrySize], err)
		}
		found = append(found, e)
	}
	return found, nil
}
