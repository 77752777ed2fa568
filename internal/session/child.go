package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// A child is a session that a call of another session began, and waits for. It
// lives as any session does. Two things are its own: its head and its parent's
// are written in one commit when it is made, and its end is told its parent.
//
// No transition of one session updates another. What one has to tell another is
// an errand in its head, see outbox.go.

// ChildPrefix begins the id of each child. The rest of the id is that of the
// pause which waits for the child, so a call that was cut off finds its own. No
// caller may begin a session with such an id.
const ChildPrefix = "child:"

// MaxDepth is how many sessions a child may stand below.
const MaxDepth = 8

// Parent says whose child a session is.
type Parent struct {
	// Path leads from the root down to the parent: each step is a session, its
	// agent, and its call that made the next one.
	Path []tool.PathStep `json:"path"`
	// Left is what the parent's run had left when the child was made. The child
	// gets no more, whatever its agent's own limits are.
	Left Left `json:"left,omitzero"`
	// Limits are those of the parent's run, of which Left was left. What is used
	// beside the child since then counts, see WithinNow.
	Limits Left `json:"limits,omitzero"`
	// Schema is the hash of what the last message has to be: JSON, which is the
	// call's output. Empty, the output is that message as a string.
	Schema string `json:"schema,omitzero"`
	// Most is how many bytes the output may have, as the tool's outputs; zero,
	// in a head of before: defaultMost.
	Most int `json:"most,omitzero"`
	// Planned: the agent follows a list. Its model calls and tool calls have no
	// limit, and count for no session above.
	Planned bool `json:"planned,omitzero"`
	// Handle is the name under which the parent keeps it, if it is a handle, see
	// handle.go. Empty: the call that made it waits for it.
	Handle string `json:"handle,omitzero"`
	// Told: that the run is over stands in the outbox, or was told already.
	Told bool `json:"told,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// step is the last step of the path: the call that waits for the child.
func (p *Parent) step() tool.PathStep { return p.Path[len(p.Path)-1] }

func (p *Parent) check() error {
	if p == nil {
		return nil
	}
	if len(p.Path) == 0 || len(p.Path) > MaxDepth {
		return fmt.Errorf("it is a child %d levels deep, and there are at most %d",
			len(p.Path), MaxDepth)
	}
	for _, s := range p.Path {
		if s.Session == "" || s.Call == "" {
			return fmt.Errorf("the path to it is incomplete")
		}
	}
	return nil
}

// Root returns the id of the session at the top of the tree that this one
// belongs to: its own, if it is no child.
func (s *State) Root() string {
	if s.Parent == nil {
		return s.ID
	}
	return s.Parent.Path[0].Session
}

// Left is how much of its limits a run has left. Zero is no limit.
type Left struct {
	Turns  int `json:"turns,omitzero"`
	Calls  int `json:"calls,omitzero"`
	Tokens int `json:"tokens,omitzero"`
}

// Within returns an agent's limits for a run of the session: those of a child
// are no greater than what its parent had left.
func (s *State) Within(agent Left) Left {
	if s.Parent == nil {
		return agent
	}
	lower := func(a, b int) int {
		if a == 0 || b > 0 && b < a {
			return b
		}
		return a
	}
	l := s.Parent.Left
	return Left{
		Turns: lower(agent.Turns, l.Turns), Calls: lower(agent.Calls, l.Calls),
		Tokens: lower(agent.Tokens, l.Tokens),
	}
}

// ofTokens returns the limit of tokens alone.
func (l Left) ofTokens() Left { return Left{Tokens: l.Tokens} }

// left returns what the run has left of its limits.
func (s *State) left(l Left) (Left, error) {
	for _, of := range []struct {
		limit *int
		used  int
		what  string
	}{
		{&l.Turns, s.Run.Turns, "model calls"},
		{&l.Calls, s.Run.Calls, "tool calls"},
		{&l.Tokens, s.Run.Tokens(), "tokens"},
	} {
		if *of.limit == 0 {
			continue
		}
		if *of.limit -= of.used; *of.limit <= 0 {
			return l, fmt.Errorf("%w: the run has used up its %s", ErrUsedUp, of.what)
		}
	}
	return l, nil
}

// ErrUsedUp refuses a child for which its parent's limits leave nothing.
var ErrUsedUp = errors.New("session: nothing is left for a child")

// ErrTooDeep refuses a child that would stand below too many sessions.
var ErrTooDeep = fmt.Errorf("session: children stand at most %d sessions deep", MaxDepth)

// NewChild is a child in the making.
type NewChild struct {
	Agent   string
	Message *Entry // what it is told
	Limits  Left   // of the parent's agent
	Schema  string // see Parent.Schema
	Most    int    // see Parent.Most
	Planned bool   // see Parent.Planned
}

// ChildID returns the id of the child that a pause begins.
func ChildID(pause string) string { return ChildPrefix + pause }

// spawn makes a child for the pause that the call has just been given.
func (tx *Tx) spawn(c *Call, n *NewChild) error {
	limits := tx.Within(n.Limits)
	if n.Planned {
		limits = limits.ofTokens()
	}
	child, err := tx.newChild(ChildID(PauseID(c.ID, c.Pauses)), c, limits)
	if err != nil {
		return err
	}
	child.Agent, child.Due = n.Agent, true
	child.Parent.Schema, child.Parent.Most = n.Schema, n.Most
	child.Parent.Planned = n.Planned
	tx.writeChild(child, n.Message)
	c.Child, c.Pause.Agent = child.ID, n.Agent
	return nil
}

// newChild returns the head of a child in the making. It must not be there
// before. Limits are those of the parent's run that bound it.
func (tx *Tx) newChild(id string, c *Call, limits Left) (*State, error) {
	if tx.depth() >= MaxDepth {
		return nil, ErrTooDeep
	}
	left, err := tx.left(limits)
	if err != nil {
		return nil, err
	}
	found, err := tx.read(headKey(id), new(State))
	if err == nil && found {
		err = fmt.Errorf("%w: session %q is there, and its parent has not made it", ErrCorrupt, id)
	}
	return &State{
		// A drive that dies before its first commit is counted by this.
		Incarnation: tx.kv.incarnation(),
		Version:     newestVersion, ID: id, User: tx.User, Created: tx.Now,
		Messages: 1, Run: Run{Detached: true}, Wake: atOnce(tx.Now),
		Parent: &Parent{Path: append(slices.Clip(tx.path()), tx.stepOf(c)), Left: left,
			Limits: limits},
	}, err
}

// writeChild writes a child with its first message, in this commit.
func (tx *Tx) writeChild(child *State, first *Entry) {
	tx.appendTo(child, 0, first)
	key := headKey(child.ID)
	tx.putJSON(key, child)
	tx.only = append(tx.only, kvstore.Precondition{Key: key}) // absent
	tx.put(wakeKey(child.Agent, child.Wake, child.ID), []byte(child.User))
	tx.put(childKey(tx.ID, child.ID), nil)
	tx.Children, tx.woke = tx.Children+1, true
	tx.outdates()
}

func (s *State) path() []tool.PathStep {
	if s.Parent == nil {
		return nil
	}
	return s.Parent.Path
}

// depth is how many sessions a session stands below.
func (s *State) depth() int { return len(s.path()) }

// stepOf is the step from a session to the child of its call.
func (s *State) stepOf(c *Call) tool.PathStep {
	return tool.PathStep{Session: s.ID, Agent: s.Agent, Call: c.ID, Tool: c.Tool}
}

// IsChild reports whether an id is a child's. A session that was begun before
// such ids were a child's own may have one, too.
func IsChild(id string) bool { return strings.HasPrefix(id, ChildPrefix) }

// isChild reports whether the session is one that no caller may run.
func (s *State) isChild() bool { return s.Parent != nil }

// checkNewID refuses an id that only a child may have.
func checkNewID(id string) error {
	if IsChild(id) {
		return fmt.Errorf("%w: the session id %q begins with %q, as those of children do",
			ErrInvalidID, id, ChildPrefix)
	}
	return nil
}

// leaveChild notes that the child of a call is to be stopped: the call goes on
// without it. The child's end is still taken, for what it has used, as long as
// the run lasts.
func (tx *Tx) leaveChild(c *Call, by, why string) {
	if c.Child == "" {
		return
	}
	tx.owe(Errand{Kind: ErrandCancel, To: c.Child, Actor: by, Why: brief(why)})
	left := tx.Run.Leaving[max(0, len(tx.Run.Leaving)+1-maxLeaving):]
	// Readers of the head see the list as it was.
	tx.Run.Leaving = append(slices.Clip(left), c.Child)
	c.Child = ""
}

// maxLeaving is how many children a run remembers that it goes on without. Of
// those before, what they have used doesn't count any more.
const maxLeaving = 128

// ChildEnd is how the run of a child ended, as its parent is told.
type ChildEnd struct {
	Child, Call string // of the parent: its call
	Handle      string // its name, if it is one
	Outcome     Outcome
	Came        time.Time // of a wait handle: when it ended
	Usage       llm.Usage
	Turns       int
	Calls       int
}

// ChildEnded takes the end of a child, once: the call that waits for it goes
// on, and the run has used what the child has used. Whatever else the session
// has come to meanwhile, there is nothing to refuse. What sessions below the
// child use after its end is the child's alone.
func (tx *Tx) ChildEnded(e *ChildEnd, fits Fits) error {
	if e.Handle != "" {
		return tx.handleEnded(e)
	}
	c := tx.Call(e.Call)
	if c != nil && c.Child == e.Child && c.overdue(tx.Now) {
		if err := tx.expire(c); err != nil {
			return err
		}
	}
	waits := c != nil && c.Child == e.Child
	left := slices.Index(tx.Run.Leaving, e.Child)
	if !waits && left < 0 {
		return nil
	}
	if left >= 0 {
		tx.Run.Leaving = slices.Delete(slices.Clone(tx.Run.Leaving), left, left+1)
	}
	tx.Run.Usage = tx.Run.Usage.Add(e.Usage)
	tx.Run.Turns, tx.Run.Calls = tx.Run.Turns+e.Turns, tx.Run.Calls+e.Calls
	tx.touch()
	if !waits {
		return nil
	}
	c.Child = ""
	r := Receipt{Call: c.ID, Pause: c.Pauses, Kind: KindComplete, Actor: e.Outcome.Actor,
		Delivery: e.Child, At: tx.Now}
	outcome := e.Outcome
	if outcome.Status == event.Done {
		misfit, err := fits(Asked{Target: toolbox.Target{Tool: c.Tool, Use: c.Pause.use()},
			Call: c.ID, Pause: c.Pauses, Schema: c.Pause.Schema}, outcome.Output.JSON())
		if err != nil {
			return err
		}
		if misfit == nil {
			tx.putReceipt(r)
			tx.gotOn()
			tx.unlist(c)
			return tx.answered(c, &Answer{Pause: c.Pauses, Kind: KindComplete, Actor: r.Actor,
				Payload: tx.place(e.Outcome.Output), Delivery: e.Child, At: tx.Now})
		}
		outcome = Outcome{Status: event.Failed, Actor: outcome.Actor,
			Output: StringBlob(fmt.Sprintf("The agent's answer does not fit: %v", misfit))}
	}
	r.Kind = KindFail
	tx.putReceipt(r)
	return tx.settle(c, &outcome)
}
