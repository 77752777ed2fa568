package webhook

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/form"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// act is one thing that a form may do.
type act struct {
	name   string // what its button sends
	permit tool.Permit
	label  string
	will   string // what will happen; %s is the tool
}

// acts are all of them, in the order of their buttons.
var acts = []act{
	{"approve", tool.PermitLinkApprove, "Approve",
		"Approve: %s runs, with exactly what is shown here."},
	{"deny", tool.PermitLinkDeny, "Deny",
		"Deny: %s doesn't run. The agent is told so, with your reason, and goes on."},
	{"answer", tool.PermitLinkAnswer, "Send the answer",
		"Your answer goes to %s, and the agent goes on with it."},
}

// take takes what the form of the page sends. Nothing is read of what comes from
// a person who isn't signed in.
func (v *visit) take() {
	if v.user == "" {
		v.signInFirst()
	} else if sent, ok := v.receive(); ok {
		v.decide(sent)
	}
}

func (v *visit) decide(sent url.Values) {
	i := slices.IndexFunc(acts, func(a act) bool { return a.name == sent.Get("act") })
	switch {
	case i < 0 || !v.token.Allows(acts[i].permit):
		v.tell(http.StatusForbidden, "This link is for something else",
			"What was sent is nothing that this link offers.")
		return
	case v.pause.Await.Reason != "" && !v.unchanged():
		return
	case !v.mayDecide():
		v.refused(http.StatusForbidden, "Nothing was decided.")
		return
	case !v.hasTicket(sent):
		v.refused(http.StatusForbidden, "Nothing was decided: this page was too old, or your "+
			"browser keeps no cookies. Please look again, and decide once more.")
		return
	}
	answer, ok := v.answer(acts[i], sent)
	if !ok {
		return
	}
	answer.Gate, answer.Actor = v.token.Gate, v.user
	_, err := v.links.rn.Resume(v.r.Context(), v.token.Session, answer)
	v.decided(err)
}

// mayDecide reports whether the visitor is among those who decide, if the pause
// names any. The holder of a link hasn't shown who they are.
func (v *visit) mayDecide() bool {
	return len(v.pause.Await.Approvers) == 0 ||
		v.pause.Await.Approves(string(v.user)) && !v.links.config.AddresseeDecides
}

// answer returns what the form answers with. Ok is false if the form is shown
// again.
func (v *visit) answer(a act, sent url.Values) (answer runner.Resumption, ok bool) {
	why := strings.TrimSpace(strings.ReplaceAll(sent.Get("reason"), "\r\n", "\n"))
	switch a.permit {
	case tool.PermitLinkApprove:
		return runner.Approve(v.token.PauseID(), v.user, why), true
	case tool.PermitLinkDeny:
		return runner.Deny(v.token.PauseID(), v.user, why), true
	}
	if v.pause.Await.Reason == "" { // its schema isn't known any more
		v.over(http.StatusConflict)
		return answer, false
	}
	v.form = v.newForm()
	value, ok := v.form.Fill(sent)
	if !ok {
		v.offer(http.StatusUnprocessableEntity, mend)
		return answer, false
	}
	return runner.Complete(v.token.PauseID(), v.user, value), true
}

// mend asks for another try.
const mend = "Nothing was sent yet: please look at what is marked, and send it again."

// newForm returns the fields for an answer to the pause.
func (v *visit) newForm() *form.Form {
	schema := v.pause.Await.Schema
	if len(schema) == 0 && v.pause.Await.Mode == tool.ModeMessage {
		schema = []byte(`{"type":"string"}`)
	}
	return form.Of(schema)
}

// decided answers with what became of a decision. One that was taken leads back
// to the page, which tells so: to load it again sends nothing again.
func (v *visit) decided(err error) {
	var invalid *misfit.Error
	switch {
	case err == nil:
		// Relative, so that it leads to this very place, whatever the address.
		v.w.Header().Set("Location", v.text)
		v.w.WriteHeader(http.StatusSeeOther)
	case errors.As(err, &invalid) && v.form != nil:
		alert := mend
		for _, f := range v.form.Blame(invalid.Faults) {
			alert += " " + f.String() + "."
		}
		v.offer(http.StatusUnprocessableEntity, alert)
	case errors.Is(err, session.ErrInvalidResumePayload):
		v.refused(http.StatusUnprocessableEntity, "Nothing was decided: "+Detail(err)+".")
	case errors.Is(err, session.ErrResumeConflict):
		v.over(http.StatusConflict)
	case errors.Is(err, session.ErrSettled):
		v.over(http.StatusGone)
	default:
		v.fail(err)
	}
}

// refused shows the page once more, with why nothing was decided.
func (v *visit) refused(status int, why string) {
	if v.pause.Await.Reason == "" {
		v.over(http.StatusConflict)
		return
	}
	v.offer(status, why)
}
