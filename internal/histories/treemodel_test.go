package histories

import (
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/fermata-ai/fermata/internal/session"
)

// treeModel is a session with one call that has an agent work, and that agent's
// session with one call that asks outside, as those see it that answer, cancel
// and delete. Between operations a driver or a courier may take any step.
type treeModel struct{}

// treeState is comparable, for porcupine.
type treeState struct {
	root, leaf node
	// The sessions: whether the lower one is there, is to be ended or has been,
	// and whether one was deleted.
	made, over         bool
	rootEnds           bool   // a cancellation was asked for
	leafEnds           string // by whom that of the lower one was
	rootGone, leafGone bool
	told               bool // the upper one has taken the lower one's end, or is past it
	stop               bool // an errand that ends the lower one is on its way
}

// node is one of the two calls.
type node struct {
	status     session.CallStatus // empty: no model has asked for it
	end        string             // how it settled, and with which output
	deadline   int
	content    string // the answer, accepted
	by         string
	early      bool // it is there before its pause
	cancel     string
	cancelling bool
}

const (
	atRoot = "root"
	atLeaf = "leaf"

	rootHours = 2 // until the call expires
	leafHours = 1
)

// The ends of calls.
const (
	isDone      = "settled done "
	isFailed    = "settled failed"
	isCancelled = "settled cancelled"
	isExpired   = "settled expired"
	isGone      = "deleted"
	isUnknown   = "unknown"
)

func (treeModel) porcupine() porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{treeState{}} },
		Step: func(was, in, out any) (next []any) {
			op, came := in.(operation), out.(outcome)
			for s := range reachTree(was.(treeState), op.now) {
				for _, then := range s.do(op) {
					if then.text == came.text || came.uncertain {
						next = append(next, then.state)
					}
				}
				if came.uncertain {
					next = append(next, s)
				}
			}
			return next
		},
	}
	return model.ToModel()
}

// reachTree are the states that drivers and couriers may have brought a tree to.
func reachTree(s treeState, now int) map[treeState]bool {
	seen := map[treeState]bool{s: true}
	for from := []treeState{s}; len(from) > 0; {
		s, from = from[0], from[1:]
		for _, next := range s.goesOn(now) {
			if !seen[next] {
				seen[next] = true
				from = append(from, next)
			}
		}
	}
	return seen
}

// goesOn is what may happen by itself.
func (s treeState) goesOn(now int) (next []treeState) {
	add := func(f func(*treeState)) {
		then := s
		f(&then)
		next = append(next, then)
	}
	s.rootGoesOn(now, add)
	s.leafGoesOn(now, add)
	if s.stop && s.made { // the errand arrives
		add(func(n *treeState) { n.stop = false; n.endLeaf(byErrand) })
	}
	if s.rootGone && s.made && !s.leafGone {
		add(func(n *treeState) { n.leafGone = true })
	}
	if (s.over || s.leafGone) && !s.told {
		add((*treeState).endIsTold)
	}
	if s.over && !s.leafGone && s.leafEnds != "" && !s.told { // it was carried on before that
		add(func(n *treeState) { n.leafEnds = "agent:" + helperName; n.endIsTold() })
		add(func(n *treeState) { n.leafEnds = ""; n.endIsTold() })
	}
	return next
}

func (s treeState) rootGoesOn(now int, add func(func(*treeState))) {
	c := s.root
	switch {
	case s.rootGone:
	case c.status == "":
		add(func(n *treeState) { n.root.status = session.Requested })
	case c.status == session.Requested:
		if c.early { // its body never came to its pause
			add(func(n *treeState) { n.root.early = false; n.root.accepted() })
		}
		if !c.cancelling && !s.rootEnds {
			for at := range now + 1 {
				add(func(n *treeState) { n.begin(at + rootHours) })
			}
		}
	case c.status == session.Pending && c.deadline <= now:
		add(func(n *treeState) { n.leave(isExpired) })
	case c.status == session.Answered:
		add(func(n *treeState) { n.root.settle(isDone + c.content) })
	}
	if c.open() && (c.cancelling || s.rootEnds) && !s.rootGone {
		add(func(n *treeState) { n.leave(isCancelled) })
	}
}

func (s treeState) leafGoesOn(now int, add func(func(*treeState))) {
	c := s.leaf
	switch {
	case !s.made || s.leafGone || s.over:
		return
	case c.status == "":
		add(func(n *treeState) { n.leaf.status = session.Requested })
	case c.status == session.Requested:
		if c.early {
			add(func(n *treeState) { n.leaf.early = false; n.leaf.accepted() })
		}
		if !c.cancelling && s.leafEnds == "" {
			for at := range now + 1 {
				add(func(n *treeState) { n.leaf.pause(at + leafHours) })
			}
		}
	case c.status == session.Pending && c.deadline <= now:
		add(func(n *treeState) { n.leaf.settle(isExpired) })
	case c.status == session.Answered:
		add(func(n *treeState) { n.leaf.settle(isDone + c.content) })
	case c.status == session.Settled:
		add(func(n *treeState) { n.over = true })
	}
	if c.open() && (c.cancelling || s.leafEnds != "") {
		add(func(n *treeState) { n.leaf.settle(isCancelled) })
	}
	if c.status == "" && s.leafEnds != "" {
		add(func(n *treeState) { n.over = true })
	}
}

func (c *node) open() bool { return c.status != "" && c.status != session.Settled }

func (c *node) settle(end string) {
	c.status, c.end, c.deadline, c.early = session.Settled, end, 0, false
}

// pause has the call wait, unless its answer is there already.
func (c *node) pause(deadline int) {
	c.status, c.deadline = session.Pending, deadline
	if c.early {
		c.early = false
		c.accepted()
	}
}

// earlyEnd is how the call ends by the answer that was there before its pause.
func (c *node) earlyEnd() string {
	if c.content == failure {
		return isFailed
	}
	return isDone + c.content
}

// accepted ends the call's wait with the answer.
func (c *node) accepted() {
	if c.status, c.deadline = session.Answered, 0; c.content == failure {
		c.settle(isFailed)
	}
}

// begin has the upper call wait, which makes the lower session.
func (s *treeState) begin(deadline int) {
	s.made = true
	if s.root.pause(deadline); s.root.status != session.Pending {
		s.stop = true
	}
}

// leave ends the upper call, whatever the lower session does.
func (s *treeState) leave(end string) {
	s.root.settle(end)
	s.stop = s.made
}

// endIsTold is that the upper session takes the lower one's end.
func (s *treeState) endIsTold() {
	s.told = true
	if s.root.status != session.Pending || s.rootGone {
		return
	}
	s.root.by = "agent:" + helperName
	switch worked, done := strings.CutPrefix(s.leaf.end, isDone); {
	case s.leafGone, s.leafEnds != "":
		if !s.leafGone {
			s.root.by = s.leafEnds
		}
		s.root.content = isCancelled
		s.root.settle(isCancelled)
	default:
		if !done {
			worked = notDone
		}
		s.root.status, s.root.content = session.Answered, workedText+worked
	}
}

// What the lower session's model says last.
const (
	workedText = "worked: "
	notDone    = "error"
)

// treePossible is something that an operation may come to.
type treePossible struct {
	text  string
	state treeState
}

// do is what an operation may come to, in a state that nothing changes
// meanwhile.
func (s treeState) do(in operation) []treePossible {
	c, gone, there := &s.root, s.rootGone, true
	if in.call == atLeaf {
		c, gone, there = &s.leaf, s.leafGone, s.made
	}
	only := func(text string) []treePossible { return []treePossible{{text, s}} }
	overdue := c.status == session.Pending && c.deadline <= in.since
	switch {
	case in.name == "result" && c.status == session.Answered: // shown before it is committed
		return only(isDone + c.content)
	case in.name == "result" && c.early:
		return only(c.earlyEnd())
	case in.name == "result":
		return only(c.shows())
	case gone && in.name != "waits" && in.name != "delete":
		// Where the call's record was read after it was removed, it is unknown.
		return []treePossible{{isGone, s}, {isUnknown, s}}
	case in.name == "look":
		return only(c.shows())
	case in.name == "waits":
		return only(string(c.status))
	case !there:
		return only(isUnknown)
	case in.name == "delete":
		return s.deleted(in)
	case in.name == "end":
		return s.ended(in)
	case overdue: // it finds the expiry applied, which is another state
		return nil
	case c.status == "":
		return only(isUnknown)
	case in.name == "cancel":
		return s.cancelled(in)
	}
	text := c.answer(in)
	if in.call == atRoot && text == isAccepted && !c.early { // the call goes on without the agent
		s.stop = true
	}
	return []treePossible{{text, s}}
}

// shows is what a look at the call shows.
func (c *node) shows() string {
	switch c.status {
	case "":
		return isUnknown
	case session.Settled:
		return c.end
	}
	return string(c.status)
}

// ended is how a caller is told that the call is over.
func (c *node) ended() string { return strings.Join(strings.Fields(c.end)[:2], " ") }

// answer judges an answer, and accepts it.
func (c *node) answer(in operation) string {
	switch {
	case c.by != "" && c.content == in.content:
		return "duplicate of " + c.by
	case c.by != "":
		return "conflict with " + c.by
	case c.status == session.Settled:
		return c.ended()
	}
	c.content, c.by = in.content, in.by
	if c.early = c.status == session.Requested; !c.early {
		c.accepted()
	}
	return isAccepted
}

func (s treeState) cancelled(in operation) []treePossible {
	c := &s.root
	if in.call == atLeaf {
		c = &s.leaf
	}
	switch {
	case c.cancel != "":
		return []treePossible{{"duplicate of " + c.cancel, s}}
	case c.status == session.Settled:
		return []treePossible{{c.ended(), s}}
	}
	c.cancel, c.cancelling = in.by, true
	var all []treePossible
	if c.status != session.Pending { // that depends on whether the session is driven
		all = append(all, treePossible{isAccepted, s})
	}
	if in.call == atLeaf {
		c.settle(isCancelled)
	} else {
		s.leave(isCancelled)
	}
	return append(all, treePossible{isAccepted, s})
}

// ended is that a session is cancelled.
func (s treeState) ended(in operation) []treePossible {
	was := s
	switch {
	case in.call == atRoot:
		s.rootEnds = s.rootEnds || s.root.status != session.Settled
	default:
		s.endLeaf(in.by)
	}
	if in.call == atRoot && s.root.status == "" { // or before the model has spoken
		return []treePossible{{"ok", s}, {"ok", was}}
	}
	all := []treePossible{{"ok", s}}
	if in.call == atLeaf && s.leafEnds != "" && !s.told { // or it was carried on since
		s.leafEnds = in.by
		all = append(all, treePossible{"ok", s})
	}
	return all
}

// endLeaf ends the lower session's run, unless that is over. The first who ends
// it counts.
func (s *treeState) endLeaf(by string) {
	if !s.over && s.leafEnds == "" {
		s.leafEnds = by
	}
}

// byErrand is who ends the lower session for the upper one.
const byErrand = "errand"

func (s treeState) deleted(in operation) []treePossible {
	if in.call == atRoot {
		s.rootGone = true
	} else {
		s.leafGone = true
	}
	return []treePossible{{"ok", s}}
}
