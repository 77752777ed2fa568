package session

import (
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/tool"
)

// What the model reads of a call that has no result of its own. Each text tells
// whether the work was begun: the model must not have to guess that.

// Begun reports whether the call's body has been entered, as far as the head
// tells. An entry of which an operator has stated that it did not happen is
// none. If the tool needs no claim, a body may run although Begun reports
// false.
func (c *Call) Begun() bool {
	return !c.waitsToBegin() && (c.Attempt > 0 && !c.undone() || c.Answer != nil || c.Tried != nil ||
		c.Pause != nil && c.Pause.Gate == "")
}

// GivenUp returns how a handle ends whose run was given up while its call was
// open: after drives that died, say. A body that may have been entered has an
// unknown outcome.
func (c *Call) GivenUp() event.Status {
	if c.Begun() || c.mayRun() {
		return event.Unknown
	}
	return event.Failed
}

// begun returns the sentence about that in a result. Certain: no body of the
// call runs, or ran, that the head doesn't show.
func (c *Call) begun(certain bool) string {
	switch {
	case c.Begun():
		return "The work had begun" + c.andEffects() + "." + c.calledOff()
	case certain, c.Effect.NeedsClaim(), c.Status == Pending:
		return "The tool was not run."
	}
	return "The work may have begun." // some drive had it, and nothing tells how far it got
}

func expiredOutcome(c *Call) *Outcome {
	why := "The call waited for an answer until its deadline, and none came."
	if c.Pause.Gate != "" {
		why = "Nobody approved the call before its deadline."
	}
	return &Outcome{Status: event.Expired,
		Output: StringBlob("Expired. " + why + " " + c.begun(false)), Actor: byDeadline,
		Cause: tool.CauseExpired, Came: c.deadline()}
}

// unheardOutcome is how a call ends whose outside job was not heard of in time.
func unheardOutcome(c *Call) *Outcome {
	why := fmt.Sprintf("nothing was heard of the outside job for %v", c.Pause.Beat.every())
	return &Outcome{Status: event.Failed, Output: StringBlob(FailureText(why, true)),
		Actor: byDeadline, Cause: tool.CauseExpired, Why: why}
}

// CancelledOutcome is how a call ends that is cancelled. Why may be empty.
// Certain: no body of the call runs, or ran, that the head doesn't show.
func CancelledOutcome(c *Call, by, why string, certain bool) *Outcome {
	return &Outcome{Status: event.Cancelled,
		Output: StringBlob(reasoned("Cancelled", why) + " " + c.begun(certain)), Actor: by,
		Cause: tool.CauseCancelled, Why: why}
}

// GivenUpOutcome is how a call ends whose body was told to end and did not.
func GivenUpOutcome(c *Call, by, why string) *Outcome {
	begun := *c
	begun.Attempt = max(begun.Attempt, 1)
	o := CancelledOutcome(&begun, by, why, false)
	if c.Effect.NeedsClaim() {
		o.Status = event.Unknown
		o.Output = StringBlob(reasoned("Cancelled", why) +
			" The tool did not stop, and its outcome is unknown: check before you try again.")
	}
	return o
}

// LostOutcome is how a call of the session ends whose body a crash has cut off.
// Of a handle the process is told: what runs there may be a program itself.
func (s *State) LostOutcome() *Outcome {
	what := "The program stopped while this call was running. "
	if s.isHandle() {
		what = "Its process died while it was running. "
	}
	return &Outcome{Status: event.Unknown,
		Output: StringBlob(what +
			"Its outcome is unknown: it may have had its effect, in full or in part, or none. " +
			"Check before you try again.")}
}

// supersededOutcome is how a call ends that waited for a person, or for its
// tool, while the user said something else.
func supersededOutcome(c *Call, by string) *Outcome {
	why := "the user sent another message instead of an answer."
	if c.Parked != nil {
		why = "the user sent another message while the call waited for its tool, which is gone."
		if c.Answer != nil {
			why += " What had been answered was not used."
		}
	}
	return &Outcome{Status: event.Denied, Actor: by, Cause: tool.CauseSuperseded,
		Output: StringBlob("Denied: " + why + " " + c.begun(false))}
}

// goneOutcome is how a parked call ends whose tool did not come back in time.
func goneOutcome(c *Call) *Outcome {
	o := c.withoutTool(byDeadline, "")
	text := fmt.Sprintf("The tool %s is gone, and did not come back in time. ", c.Tool)
	if o.Status == event.Unknown {
		text += "It was running before, and its outcome is unknown: it may have had its effect. " +
			"Check before you do the same by other means."
	} else {
		o.Status = event.Failed
		text += c.begun(false)
	}
	o.Output = StringBlob(text)
	return o
}

// withoutTool is how a parked call ends that is cancelled. One that was claimed
// may have had its effect, and only its tool could tell.
func (c *Call) withoutTool(by, why string) *Outcome {
	if c.Status != Running {
		return CancelledOutcome(c, by, why, false)
	}
	return &Outcome{Status: event.Unknown, Actor: by,
		Output: StringBlob(reasoned("Cancelled", why) +
			" The call was running when the program stopped, and its outcome is unknown: " +
			"check before you try again.")}
}

// calledOff returns the sentence about what a call that ends while it waits had
// begun, if its tool can call that off, or an agent works for it.
func (c *Call) calledOff() string {
	switch {
	case c.Pause == nil:
		return ""
	case c.Pause.Undo != nil:
		return " What it began is now called off."
	case c.Child != "" && c.Pause.Agent != "":
		return " The agent is now stopped, and what its tools had begun is called off where they " +
			"can do that."
	}
	return ""
}

// andEffects returns the words about what work that had begun may have left. A
// read-only tool leaves nothing.
func (c *Call) andEffects() string {
	if c.Effect == tool.ReadOnly {
		return ""
	}
	return ", and may have had effects"
}

// BegunText adds to a reason for not going on with a call that its work had
// begun.
func BegunText(c *Call, why string) string {
	return why + " (This is about going on with the call. Its work had begun before" +
		c.andEffects() + ".)"
}

// DeniedText is what the model reads of a call that was denied. If the call had
// begun, the text doesn't claim that nothing was run.
func DeniedText(c *Call, reason string) string {
	if !c.Begun() {
		return tool.Denied(reason).Error()
	}
	s := "The call was refused, and does not go on. Its work had begun before" + c.andEffects() +
		". Do not try again unless you are told to."
	if reason != "" {
		s += " Reason: " + reason
	}
	return s
}

// OutdatedText is what the model reads of a call that had begun and can't go
// on, since its tool was changed meanwhile. The call was right when the model
// asked for it, so the text doesn't tell the model to try again.
func OutdatedText(c *Call, r *tool.Refusal) string {
	why := fmt.Sprintf("%s was changed since", c.Tool)
	if r.Err != nil {
		why = fmt.Sprintf("its arguments do not fit %s any more, which was changed since: %v",
			c.Tool, r.Err)
	}
	s := "The call can't go on: " + sentence(why) + " Its work had begun before" +
		c.andEffects() + "."
	if c.Effect == tool.ReadOnly {
		return s
	}
	return s + " Find out what became of it before you do anything like it again."
}

// failed is how a call ends whose outside job failed.
func failed(a *Answer) *Outcome {
	return &Outcome{Status: event.Failed, Output: a.Payload, Actor: a.Actor}
}

// FailureText is what the model reads of a failed outside job.
func FailureText(why string, retryable bool) string {
	s := reasoned("Failed", why)
	if retryable {
		s += " This may pass; it can be tried again."
	}
	return s
}

// brief cuts an error's text to what may stand in a head.
func brief(why string) string {
	const most = 1000 // bytes
	if len(why) <= most {
		return why
	}
	return strings.ToValidUTF8(excerpt.Head(why, most), "") + " " + excerpt.Mark
}

// reasoned returns what and why as one sentence. Why may be empty.
func reasoned(what, why string) string {
	if why == "" {
		return what + "."
	}
	return fmt.Sprintf("%s: %s", what, sentence(why))
}

// sentence ends s, which is not empty, with a full stop.
func sentence(s string) string {
	switch s[len(s)-1] {
	case '.', '!', '?':
		return s
	}
	return s + "."
}
