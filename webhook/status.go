package webhook

import (
	"errors"
	"net/http"

	"github.com/fermata-ai/fermata/internal/httpin"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// Status returns the HTTP status for an error of Runner.Resume, Deliver,
// Progress, Cancel, Find, Run or Send. It is for handlers written by hand:
//
//	200  nil: durable, also when it was a duplicate
//	401  not a token, or not signed
//	403  the authorizer, or the session's user, refuses it
//	404  no such session, call, pause or message, or its receipts are gone; or
//	     the call takes no event of that name
//	409  another answer came first; the call does not wait for this one, or
//	     another layer's pause does; or several calls wait under one key; or
//	     the call takes no more events
//	410  too late: the token, the pause or the session is over, or the call
//	     has its result
//	413  the body is over an http.MaxBytesReader's limit
//	422  the answer, or an id, does not fit
//	429  no more messages may wait in the session
//	500  a stored record is damaged, or the session's agent is not here
//	502  the model refuses what it is asked for, for good
//	503  try again: not known yet, driven elsewhere, or the store could not be
//	     read or written
//
// 503 is also for what Status does not know: an answer that may be good is
// better retried than dropped.
func Status(err error) int {
	if err == nil {
		return http.StatusOK
	}
	return classify(err).status
}

// kind is one of the problems that there are. Its code is the end of its type.
type kind struct {
	code   string
	status int
	title  string
}

// kinds are all problems. docs/problems.md has a chapter on each.
var kinds = []kind{
	{"broken", http.StatusBadRequest, "The body ends too early"},
	{"bad_query", http.StatusBadRequest, "The query does not fit"},
	{"no_token", http.StatusUnauthorized, "The request has no token"},
	{"bad_token", http.StatusUnauthorized, "The token is not valid"},
	{"unverified", http.StatusUnauthorized, "The request is not signed"},
	{"no_user", http.StatusUnauthorized, "No user is signed in"},
	{"not_allowed", http.StatusForbidden, "It is not allowed"},
	{"other_sender", http.StatusForbidden, "The pause is for another sender"},
	{"not_approver", http.StatusForbidden, "The pause names others as its approvers"},
	{"wrong_user", http.StatusForbidden, "The session belongs to another user"},
	{"cross_site", http.StatusForbidden, "Another site has sent the request"},
	{"no_such_path", http.StatusNotFound, "There is nothing at this path"},
	{"unknown_session", http.StatusNotFound, "There is no such session"},
	{"unknown_call", http.StatusNotFound, "There is no such call"},
	{"unknown_pause", http.StatusNotFound, "There is no such pause"},
	{"unknown_event", http.StatusNotFound, "The call takes no such event"},
	{"unknown_message", http.StatusNotFound, "There is no such message"},
	{"method", http.StatusMethodNotAllowed, "The method is not taken"},
	{"not_acceptable", http.StatusNotAcceptable, "The answer has another form"},
	{"too_slow", http.StatusRequestTimeout, "The body came too slowly"},
	{"conflict", http.StatusConflict, "Something else was accepted before"},
	{"message_conflict", http.StatusConflict, "Another message has that id"},
	{"not_paused", http.StatusConflict, "The call does not wait for this"},
	{"other_gate", http.StatusConflict, "The decision is another layer's"},
	{"pause_required", http.StatusConflict, "The call has had several pauses"},
	{"ambiguous_key", http.StatusConflict, "Several calls wait under that key"},
	{"pending", http.StatusConflict, "Calls of the session wait"},
	{"mailbox_full", http.StatusConflict, "The call takes no more events"},
	{"token_expired", http.StatusGone, "The token has expired"},
	{"deleted", http.StatusGone, "The session is deleted"},
	{"cancelled", http.StatusGone, "The call is cancelled"},
	{"expired", http.StatusGone, "The pause has expired"},
	{"settled", http.StatusGone, "The call has its result"},
	{"too_large", http.StatusRequestEntityTooLarge, "The body is too large"},
	{"unsupported", http.StatusUnsupportedMediaType, "The body has a form that is not taken"},
	{"range", http.StatusRequestedRangeNotSatisfiable, "There is no such range"},
	{"invalid", http.StatusUnprocessableEntity, "The content does not fit"},
	{"no_id", http.StatusUnprocessableEntity, "The event has no id"},
	{"too_many", http.StatusTooManyRequests, "There are too many requests"},
	{"too_many_streams", http.StatusTooManyRequests, "There are too many streams"},
	{"queue_full", http.StatusTooManyRequests, "No more messages may wait"},
	{"headers_too_large", http.StatusRequestHeaderFieldsTooLarge, "The headers are too large"},
	{"damaged", http.StatusInternalServerError, "A stored record is damaged"},
	{"unknown_agent", http.StatusInternalServerError, "The session's agent is not here"},
	{"model", http.StatusBadGateway, "The model refuses the request"},
	{"not_yet_known", http.StatusServiceUnavailable, "It is not known yet"},
	{"not_kept", http.StatusServiceUnavailable, "It is not known yet, and can't be kept"},
	{"busy", http.StatusServiceUnavailable, "The session is driven elsewhere"},
	{"closing", http.StatusServiceUnavailable, "The service is about to stop"},
	{"unavailable", http.StatusServiceUnavailable, "It could not be taken now"},
}

// classes is the table of the errors that have a problem of their own. The
// first that matches counts: a cancelled call is a settled one, too.
var classes = []struct {
	err  error
	code string
}{
	{runner.ErrBadToken, "bad_token"},
	{ErrUnverified, "unverified"},
	{runner.ErrTokenExpired, "token_expired"},
	{runner.ErrNotAllowed, "not_allowed"},
	{session.ErrWrongUser, "wrong_user"},
	{session.ErrDeleted, "deleted"},
	{session.ErrUnknownSession, "unknown_session"},
	{session.ErrUnknownCall, "unknown_call"},
	{session.ErrUnknownPause, "unknown_pause"},
	{session.ErrUnknownEvent, "unknown_event"},
	{session.ErrUnknownMessage, "unknown_message"},
	{session.ErrMailboxFull, "mailbox_full"},
	{session.ErrQueueFull, "queue_full"},
	{session.ErrResumeConflict, "conflict"},
	{session.ErrCancelled, "cancelled"},
	{session.ErrExpired, "expired"},
	{session.ErrSettled, "settled"},
	{session.ErrInvalidResumePayload, "invalid"},
	{session.ErrInvalidID, "invalid"},
	{session.ErrInvalidMessage, "invalid"},
	{runner.ErrInvalidProgress, "invalid"},
	{runner.ErrLongReason, "invalid"},
	{runner.ErrInvalidGrant, "invalid"},
	{runner.ErrInvalidRef, "invalid"},
	{session.ErrInvalidDeadline, "invalid"},
	{session.ErrPauseRequired, "pause_required"},
	{session.ErrAmbiguousKey, "ambiguous_key"},
	{session.ErrNotPaused, "not_paused"},
	{session.ErrOtherSender, "other_sender"},
	{session.ErrNotApprover, "not_approver"},
	{session.ErrOtherGate, "other_gate"},
	{session.ErrPending, "pending"},
	{session.ErrMessageConflict, "message_conflict"},
	{session.ErrNotYetKnown, "not_yet_known"},
	{session.ErrNotKept, "not_kept"},
	{session.ErrBusy, "busy"},
	{session.ErrCorrupt, "damaged"},
	{kvstore.ErrCorrupt, "damaged"},
	{runner.ErrUnknownAgent, "unknown_agent"},
}

// classify returns the problem that an error is.
func classify(err error) kind {
	if e := httpin.AsRefusal(err); e != nil {
		return kindOf(e.Code)
	}
	var limit *httpin.Limited
	if errors.As(err, &limit) {
		return kindOf("too_many")
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return kindOf(c.code)
		}
	}
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return kindOf("too_large")
	}
	var model *llm.Error
	if errors.As(err, &model) && !model.Retryable() {
		return kindOf("model")
	}
	return kindOf("unavailable")
}

// kindOf returns the problem of a code. That each code is in the table, a test
// sees.
func kindOf(code string) kind {
	for _, k := range kinds {
		if k.code == code {
			return k
		}
	}
	return kinds[len(kinds)-1]
}
