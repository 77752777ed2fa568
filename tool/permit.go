package tool

import "slices"

// Permit is one thing that the holder of a callback token may do. Each but
// PermitEvent is for the pause that the token was made for: once that pause is
// over, the token does nothing.
type Permit string

// The permits. Approving and denying are for pauses that a layer asked for,
// completing and failing for a tool's own.
const (
	PermitComplete Permit = "complete" // answer with an output
	PermitFail     Permit = "fail"     // tell that the outside job failed
	PermitProgress Permit = "progress" // tell how far the job is
	PermitCancel   Permit = "cancel"   // cancel the call
	PermitApprove  Permit = "approve"  // let the call run with the arguments that were shown
	PermitDeny     Permit = "deny"     // refuse the call
	// PermitEvent: send events to the call, whatever its pause. Call.MailToken
	// makes such a token, and it permits nothing else.
	PermitEvent Permit = "event"
)

// The permits of a link for a person, which a page stands behind. The token in
// it says what the page may offer, and for which content; who decides is found
// out by the page. A webhook takes none of them: the link alone decides nothing.
// Runner.MintToken makes such tokens, with Grant.Shown.
const (
	PermitLinkApprove Permit = "link_approve"
	PermitLinkDeny    Permit = "link_deny"
	PermitLinkAnswer  Permit = "link_answer" // complete
)

var permits = []Permit{PermitComplete, PermitFail, PermitProgress, PermitCancel,
	PermitApprove, PermitDeny, PermitEvent,
	PermitLinkApprove, PermitLinkDeny, PermitLinkAnswer}

// Known reports whether the permit is one of those above.
func (p Permit) Known() bool { return slices.Contains(permits, p) }

// Decides reports whether the permit is for the pause of a layer.
func (p Permit) Decides() bool {
	return slices.Contains(
		[]Permit{PermitApprove, PermitDeny, PermitLinkApprove, PermitLinkDeny}, p)
}

// Link reports whether the permit is for a page that a person opens by a link.
func (p Permit) Link() bool {
	return slices.Contains([]Permit{PermitLinkApprove, PermitLinkDeny, PermitLinkAnswer}, p)
}
