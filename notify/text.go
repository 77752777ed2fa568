package notify

import (
	"fmt"

	"github.com/fermata-ai/fermata/event"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// reasons are what a call waits for, as a person is told.
var reasons = map[tool.Reason]string{
	tool.ReasonExternal: "an outside job",
	tool.ReasonApproval: "an approval",
	tool.ReasonInput:    "an answer",
	tool.ReasonAgent:    "another agent",
	tool.ReasonTimer:    "a time",
	tool.ReasonRetry:    "the next try",
	tool.ReasonUnknown:  "an operator to say what became of it",
	tool.ReasonHandles:  "others that run beside it",
}

// statuses are how a call may have failed for good.
var statuses = map[event.Status]string{
	event.Failed:  "has failed",
	event.Expired: "has expired: nothing came in time",
	event.Unknown: "may have had its effect, or not: what became of it is unknown",
}

// textOf returns the sentence that tells of a notification.
func textOf(n *Notification, reason tool.Reason) string {
	text := ""
	switch call := fmt.Sprintf("A call of %s in session %s", n.Tool, n.Session); {
	case n.Call == "":
		text = runText(n)
	case n.Kind == Failed:
		text = call + " " + statuses[n.Status]
	case n.Over:
		text = call + " waited for " + reasons[reason] + ", and that is over"
	case n.Kind == Reminder:
		text = fmt.Sprintf("%s still waits for %s, until %s at the latest", call, reasons[reason],
			n.Pause.Deadline.Format("2006-01-02 15:04 MST"))
	default:
		text = call + " waits for " + reasons[reason]
	}
	if n.Why != "" {
		text += ": " + n.Why
	}
	if n.Deleted {
		text += " (the session is deleted by now)"
	}
	return text
}

func runText(n *Notification) string {
	run := "The run in session " + n.Session
	switch {
	case n.Kind == Finished:
		return run + " has finished"
	case n.Finish == event.FinishFailed:
		return run + " has failed"
	case n.Finish == event.FinishCancelled:
		return run + " was cancelled"
	}
	return fmt.Sprintf("%s has ended early, as %q", run, n.Finish)
}

// byPeople reports whether people, or operators, end pauses of that reason.
func byPeople(r tool.Reason) bool { return core.ForPeople(r) }
