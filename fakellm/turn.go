package fakellm

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

// Turn is one message of the model, and how it comes; the zero Turn is an empty
// message. Turns are values: a method returns a changed copy, so that a turn
// may be used several times.
type Turn struct {
	pieces []piece
	events []llm.Event // in place of pieces

	ids         []string
	idsSet      bool
	chunk       int
	interleaved bool
	stop        llm.StopReason
	usage       llm.Usage

	first, between time.Duration
	hook           func(context.Context, int) error

	again  int  // how often the turn is repeated; -1: it isn't there at all
	broken bool // the stream ends before event cut, with err if that is set
	cut    int
	err    error

	from   func(llm.Request) Turn
	match  func(llm.Request) bool
	branch []Turn // not nil: a branch
}

// piece is a part of the message. A ToolCall's Arguments are text, perhaps no
// JSON.
type piece struct {
	part  llm.Part
	whole bool // comes by llm.PartDone
}

// Says returns a message of text. An empty text is no part at all: Says("") is
// an empty message.
func Says(text string) Turn { return Turn{}.Says(text) }

// Calls returns a message of one tool call. The arguments are streamed as they
// are, be they JSON or not.
func Calls(name, args string) Turn { return Turn{}.And(name, args) }

// Reasons returns a message of reasoning, to which Says or And add.
func Reasons(text string) Turn { return Turn{}.Reasons(text) }

// Events returns a stream given event by event, as it is: for what no
// well-behaved provider sends.
func Events(events ...llm.Event) Turn {
	t := Turn{}
	for _, e := range events {
		t.events = append(t.events, cloneEvent(e))
	}
	if !slices.ContainsFunc(events, isFinish) {
		t.broken, t.cut = true, len(events)
	}
	return t
}

func isFinish(e llm.Event) bool {
	_, ok := e.(llm.Finish)
	return ok
}

// Fails returns a turn that fails with err before anything comes; an
// [*llm.Error] tells whether to try again.
//
// It takes no number in the script, since no message comes of it. It stands
// before the turn that it spoils: the first such request fails, the next one,
// if all it says is the same, gets the turn that follows. With [Turn.Times] n
// requests fail, with [Turn.Forever] all. How often a request has failed is
// counted in memory: it is the one thing that a script can't take from the
// request, and another process counts anew.
func Fails(err error) Turn { return Turn{}.Breaks(0, err) }

// From computes a turn from the request, which f may read, not change. Options
// of how it comes belong to the turn that f returns; Times and Forever to this
// one.
func From(f func(llm.Request) Turn) Turn {
	t := Turn{}
	t.from = f
	return t
}

// When returns a branch of the script, for the requests that match; nil matches
// all. It stands anywhere in the script and takes no number there. The first
// branch that matches answers with turn n of its own, where n is the number of
// the assistant's messages since the last message of the user that this branch
// has given. So it begins again with each thing the user says.
//
// A branch that matches all answers whatever agent asks. Where one agent hands
// the conversation to another, the second one's branch counts the first one's
// messages as its own then, since the user has said nothing in between, and
// begins with a later turn. Agents with models of their own have that, too: let
// the second script begin with a turn that is passed over.
//
// Whose a message in the history is, is found by matching what was before it,
// with the request's own System and Tools. So match must depend on nothing but
// the request.
func When(match func(llm.Request) bool, turns ...Turn) Turn {
	t := Turn{}
	t.match, t.branch = match, slices.Clone(turns)
	if t.match == nil {
		t.match = func(llm.Request) bool { return true }
	}
	if t.branch == nil {
		t.branch = []Turn{}
	}
	return t
}

// And adds a tool call.
func (t Turn) And(name, args string) Turn {
	return t.add(llm.ToolCall{Name: name, Arguments: json.RawMessage(args)}, false)
}

// Says adds text, after what is there.
func (t Turn) Says(text string) Turn {
	if text == "" {
		return t
	}
	return t.add(llm.Text{Text: text}, false)
}

// Reasons adds reasoning, after what is there.
func (t Turn) Reasons(text string) Turn { return t.add(llm.Reasoning{Text: text}, false) }

// Part adds a part that comes whole, by [llm.PartDone]: one with a native form,
// say.
func (t Turn) Part(p llm.Part) Turn { return t.add(clonePart(p), true) }

func (t Turn) add(p llm.Part, whole bool) Turn {
	t.pieces = append(slices.Clip(t.pieces), piece{p, whole})
	return t
}

// IDs sets the provider's ids of the calls, in order; calls beyond them have
// none. They may repeat. Without this, the calls are call_0, call_1 and so on,
// the same in every turn, as some gateways have it.
func (t Turn) IDs(ids ...string) Turn {
	t.ids, t.idsSet = slices.Clone(ids), true
	return t
}

// Chunks streams text and arguments in pieces of n bytes: text is cut between
// characters, one at least, arguments anywhere. 0 is one piece each.
func (t Turn) Chunks(n int) Turn {
	t.chunk = n
	return t
}

// Interleaved streams the calls that follow one another side by side, a piece
// of each in turn.
func (t Turn) Interleaved() Turn {
	t.interleaved = true
	return t
}

// Stop sets the stop reason. Without this, it is [llm.StopToolCalls] if there
// are calls, else [llm.StopEnd].
func (t Turn) Stop(reason llm.StopReason) Turn {
	t.stop = reason
	return t
}

// Usage sets what the message is said to have cost; nothing without this.
func (t Turn) Usage(u llm.Usage) Turn {
	t.usage = u
	return t
}

// Delay waits before the first event, and before each one after it, or before
// the stream breaks off. Under testing/synctest it takes no time; see also
// [Model.Sleep].
func (t Turn) Delay(first, between time.Duration) Turn {
	t.first, t.between = first, between
	return t
}

// Hook calls f before event n, from 0, is sent, or the stream breaks off in its
// place: to block until a test lets go, say. Its error ends the stream.
func (t Turn) Hook(f func(ctx context.Context, n int) error) Turn {
	t.hook = f
	return t
}

// Cut ends the stream after n events, at the latest before its [llm.Finish]:
// the connection was lost. Like any turn that doesn't finish, it takes no
// number in the script; see [Fails].
func (t Turn) Cut(n int) Turn { return t.Breaks(n, nil) }

// Breaks is Cut with an error at the end.
func (t Turn) Breaks(n int, err error) Turn {
	t.broken, t.cut, t.err = true, max(n, 0), err
	return t
}

// Times repeats the turn: n messages in a row are this one, or, if it fails, n
// requests do.
func (t Turn) Times(n int) Turn {
	t.again = n - 1
	return t
}

func (t Turn) times() int { return max(t.again+1, 0) }

const forever = math.MaxInt

// Forever repeats the turn without end; what follows it is never reached.
func (t Turn) Forever() Turn { return t.Times(forever) }
