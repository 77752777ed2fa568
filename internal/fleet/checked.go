package fleet

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/internal/histories"
	"github.com/fermata-ai/fermata/tool"
)

// ofModel are the calls of a tool as the model of histories has them.
func (k kind) ofModel() histories.Call {
	c := histories.Call{Once: k.effect.NeedsClaim(), Reconcile: k.reconcile,
		Text: k.wait == byMessage, Events: events}
	if k.gated {
		c.Pauses = append(c.Pauses, histories.Gate)
	}
	switch k.wait {
	case byToken, byKey:
		return pausing(c, histories.Output)
	case byMessage:
		return pausing(c, histories.Message)
	case byTime:
		c = pausing(c, histories.Timer)
	case byEvents:
		c = pausing(c, histories.Events)
	}
	if k.permit { // it is given at any time
		c = pausing(c, histories.Timer)
	}
	return pausing(c, histories.Done)
}

func pausing(c histories.Call, kind byte) histories.Call {
	c.Pauses = append(c.Pauses, kind)
	return c
}

// checkFor is how long the history of a call may take to be checked.
const checkFor = 30 * time.Second

// histories checks the history of each call of the sessions that are over, by
// what all processes recorded and what the store has in the end.
func (a *audit) histories(recorded []operation) {
	ofCall, ofSession := map[string][]operation{}, map[string][]operation{}
	for _, o := range recorded {
		if o.Call == "" {
			ofSession[o.Session] = append(ofSession[o.Session], o)
		} else {
			ofCall[o.Call] = append(ofCall[o.Call], o)
		}
	}
	for id, c := range a.calls {
		if _, known := kinds[c.Tool]; !known || a.notBegun(c) {
			continue
		}
		mine := append(ofCall[id], a.inTheEnd(c)...)
		for _, o := range ofSession[c.chat.id] {
			if c.below && o.Name == "end" { // whatever it came to, its errand comes later
				o.To, o.Uncertain = math.MaxInt64, true
			} else if c.below {
				continue
			}
			mine = append(mine, o)
		}
		history := atMostOnce(mine)
		a.checked++
		a.operations += len(history)
		why := histories.Check(kinds[c.Tool].ofModel(), history, a.checkFor)
		if why != "" {
			a.violation("the history of %s, a call of %s in session %s: %s", id, c.Tool, c.chat.id, why)
		}
	}
}

// atMostOnce is a history without what adds nothing to it, which would make it
// long to check. An operation that may have happened, or may yet, stands in it
// once, though its sender tried again and again: what comes of them all is what
// comes of the first that happens. What was so at some moment before it was
// shown was so before it was shown again.
func atMostOnce(all []operation) (history []histories.Operation) {
	known := map[histories.Operation]bool{}
	slices.SortFunc(all, func(a, b operation) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	for _, o := range all {
		what := o.Operation
		what.From, what.To = 0, 0
		if o.Uncertain {
			what.Came, what.Begins = "", false
			o.To, o.Came = math.MaxInt64, ""
		}
		if o.Uncertain || o.From == 0 {
			if known[what] {
				continue
			}
			known[what] = true
		}
		history = append(history, o.Operation)
	}
	return history
}

// inTheEnd is what the store has of a call when all is over.
func (a *audit) inTheEnd(c *call) (all []operation) {
	came, shownOf := 0, 0
	if c.Mail != nil {
		came, shownOf = c.Mail.Count, c.Mail.Shown
	}
	at := int64(now())
	for name, text := range map[string]string{
		"call":     histories.Shows(c.Settled, ended(c.Tool, c.Output), c.Pauses, came, shownOf),
		"receipts": histories.Receipts(c.Receipts),
	} {
		op := operation{Session: c.chat.id, Call: c.Call}
		op.Name, op.From, op.To, op.Came = name, at, at, text
		all = append(all, op)
	}
	return all
}

// shownTo is what an entry of a body is shown of events.
func shownTo(mail []tool.Mail) string {
	var all []string
	for _, m := range mail {
		var content string
		_ = json.Unmarshal(m.Payload, &content)
		all = append(all, histories.Shown(m.ID, content, m.New))
	}
	return strings.Join(all, " ")
}
